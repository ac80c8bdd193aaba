"""Markdown on pages: a small subset that executes, hides and loads nothing."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowdebate.web import prose as module
from flowdebate.web.prose import GrowingProse, Span, inline, prose

PARTS = (
    *("a", "b c", "7", " ", "    ", "\n", "\n\n", "\n\n", "\t", "\r", "\r\n", "\u2028", "\x00", "\u202e", "é", "👍"),
    *("\xa0", "\u3000", "\x0b", "\x85", "\u200d", "\n\xa0\n", "  \n", "\n   ", "\n    x", "\n\tx", "\\\n"),
    *("*", "**", "_", "~~", "`", "```\n", "\n```py x\n", "\n~~~~\n", "# ", "\n## ", "\n#", ">", "\n> "),
    *("- ", "\n- ", "\n  - ", "\n+", "\n-", "\n*", "1. ", "\n2", "\n12) ", ". ", "\n* * *", "\n***", "\n- - -"),
    *("\n---\n", "\n>> - ", "|", "\na|b", "\n-|-", "\n| a |", "\n|---", "\n|:-:|\n", "\n| a | b |\n|---|:-:|\n| c |"),
    *("===", "\n===\n", "\\", "&amp;", "&#60;", "<b>", "</p>", "\n<div>\n", "<!-- x -->", "\n<!--"),
    *("<https://x.example>", "<me@x.example>", "[", "](", ")", "![", "](javascript:alert(1))"),
    *("$", "$$", "\\(", "\\)", "\\[", "\\]", "x^2", "\\frac{a}", "\\text{<b>}", "- [ ] ", "\n- [x] a", "\n1. [X] "),
    *("[r]", "[r]: data:x 'T'\n", "\n[r]: x\n'T", "[^1]", "\n[^1]: x"),
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=30).map("".join)
TAGS = {
    *("p", "br", "hr", "ul", "ol", "li", "blockquote", "pre", "code", "small", "em", "strong", "s", "div"),
    *("table", "thead", "tbody", "tr", "th", "td", "span"),
    *(
        "math",
        "semantics",
        "annotation",
        "mrow",
        "mi",
        "mn",
        "mo",
        "mtext",
        "mspace",
        "mfrac",
        "msup",
        "msub",
        "msubsup",
        "msqrt",
    ),
}
ATTRIBUTES = {
    "p": [{}, {"class": "head"}],
    "pre": [{"tabindex": "0"}],
    "div": [{"class": "table", "tabindex": "0"}],
    "th": [{"scope": "col"}],
    "td": [{}, {"class": "num"}],
    "span": [{"class": "task", "role": "img", "aria-label": word} for word in ("open", "done")],
    "math": [{}, {"display": "block"}],
    "annotation": [{"encoding": "application/x-tex"}],
    "mo": [{}, *({"stretchy": value} for value in ("true", "false"))],
    "mspace": [{}, {"width": "0.167em"}],
}
SUBSET = {
    *((tag,) for tag in TAGS),
    *((tag, *sorted(name)) for tag, names in ATTRIBUTES.items() for name in names),
    ("li", "value"),
}
"""Permitted elements, with the names of their attributes."""
VOID = {"br", "hr"}
END = "\n\nThat is all."
TABLE = (
    '<div class="table" tabindex="0"><table><thead><tr><th scope="col" class="num">a</th></tr></thead>'
    '<tbody><tr><td class="num">1</td></tr></tbody></table></div>'
)


class Page(HTMLParser):
    """Elements of an HTML fragment, and its letters, including the numbers of list items."""

    def __init__(self, html: str, *, marks: str = "") -> None:
        super().__init__()
        self.open: list[str] = []
        self.blocks = 0
        self.read = ""
        self.marked = ""
        self._marks = marks
        self.feed(str(html))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag != self._marks:
            assert tag in TAGS
            assert attributes.pop("dir", "auto") in ("auto", "ltr", "rtl")
            if tag == "li" and attributes:
                assert set(attributes) == {"value"}
                self.read += attributes["value"] or ""
            else:
                assert attributes in ATTRIBUTES.get(tag, [{}])
        if attributes.get("aria-label") == "done":  # written as [x] in the text
            self.read += "x"
        self.blocks += not self.open
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "math" in self.open and "annotation" not in self.open:  # the drawn formula is also present as text
            return
        self.read += data.replace("X", "x")
        if self._marks in self.open:
            self.marked += data


def visible_letters(text: str) -> str:
    """Return the letters and digits in the text as pages show it, where a task mark may be x or X."""
    return re.sub(r"[\W_]", "", module._plain(text)).replace("X", "x")


@given(TEXTS)
def test_html_uses_only_the_subset_and_hides_no_text(text: str) -> None:
    for html in (prose(text), inline(text)):
        assert re.sub(r"[\W_]", "", Page(html).read) == visible_letters(text)


@given(TEXTS, st.lists(st.integers(0, 200), max_size=6, unique=True).map(sorted))
def test_marks_cover_exactly_the_words_of_their_spans(text: str, places: list[int]) -> None:
    """A span can start and end anywhere in the Markdown, and the rest does not change."""
    places = [point for point in places if point <= len(text)]
    spans = [Span(start, end, "ins") for start, end in zip(places[::2], places[1::2], strict=False)]
    page = Page(prose(text, spans), marks="ins")
    assert re.sub(r"[\W_]", "", page.read) == visible_letters(text)
    if "\\" not in text and "&" not in text and text.isprintable():
        cut = "".join(text[span.start : span.end] for span in spans)
        assert len(re.sub(r"[\W_]", "", page.marked)) <= len(visible_letters(cut))


def grow_text(pieces: list[str]) -> list[str]:
    """Grow a text piece by piece, and join its blocks as a browser does."""
    growing, blocks, text = GrowingProse(), list[str](), ""
    for piece in pieces:
        text += piece
        if growing.grow(text):
            blocks = [*blocks[: growing.kept], *growing.news]
            complete = GrowingProse()
            complete.grow(text)
            assert blocks[:-1] == complete.blocks[:-1]  # the undecided end of the last block may be missing
        assert blocks == growing.blocks
        for block in blocks:
            assert Page(block).blocks == 1
    return blocks


@given(st.lists(TEXTS, max_size=5))
@example(["[r]: data:x 'T'\n***", "a"])  # a rule can turn out to continue a paragraph
@example(["a\nb|c\n-|-", "x"])  # a table can turn out to continue a paragraph
@example(["* a\n\n* * *", "b"])  # a rule can turn out to be an item of the preceding list
@example(["1. a\n\n2", ". b"])  # a paragraph can turn out to be an item of the preceding list
@example(["*a*\n\nb\n\xa0\nc"])  # non-ASCII whitespace
@example(["*a*\n\nb\n\u3000c"])
@example(["a\r", "\n# b"])
def test_growing_text_ends_up_complete(pieces: list[str]) -> None:
    text = "".join(pieces)
    if not text.lstrip().startswith("{"):
        assert "\n".join(grow_text([*pieces, END])) == prose(text + END)


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_text_growing_one_character_at_a_time_ends_up_complete(text: str) -> None:
    """Each additional character may change how the last line has to be rendered."""
    assert "\n".join(grow_text([*text, END])) == prose(text + END)


@given(st.text("ab .,:;!?()\n\t'\"\xa0\u3000\r\v\x1f\u2028", max_size=60))
def test_plain_text_is_the_same_with_and_without_the_parser(text: str) -> None:
    """Most contributions contain no Markdown, so they skip the parser."""
    plain = module._plain(text)
    if not module.is_marked(plain):
        writer = module._Writer(())
        writer.write(module._parser().parse(plain))
        assert prose(text).replace("\n", "") == writer.take()


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("pkg/__init__.py: **so**", "<p>pkg/__init__.py: <strong>so</strong></p>"),
        ("**half** of `it`\nSo *it* is.", "<p><strong>half</strong> of <code>it</code><br>So <em>it</em> is.</p>"),
        ("# Rents\n\nThey rise.", '<p class="head">Rents</p>\n<p>They rise.</p>'),
        ("3. third\n5. fifth", '<ol><li value="3">third</li><li value="5">fifth</li></ol>'),
        ("> one\n> two", "<blockquote><p>one<br>two</p></blockquote>"),
        ('[the survey](https://x.example "May")', "<p>the survey (https://x.example &#34;May&#34;)</p>"),
        ("![a chart](https://x.example/a.png)", "<p>a chart (https://x.example/a.png)</p>"),
        ("<https://x.example>", "<p>https://x.example</p>"),
        ("```py hidden\nx < 1\n```", '<pre tabindex="0"><small>py hidden</small>\n<code>x &lt; 1</code></pre>'),
        ("| a |\n|--:|\n| 1 |", TABLE),
        ("| a |\n|---|\n| 1 | left out |", "<p>| a |<br>|---|<br>| 1 | left out |</p>"),
        (">" * 90 + " deep", f"<p>{'&gt;' * 90} deep</p>"),
        ("[x]: https://x.example 'T'", "<p>[x]: https://x.example &#39;T&#39;</p>"),
    ],
)  # fmt: skip
def test_subset_is_rendered_as_specified(text: str, html: str) -> None:
    assert prose(text) == html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**bo", "<p><strong>bo</strong></p>"),
        ("so **bold*", "<p>so <strong>bold</strong></p>"),
        ("a `co", "<p>a <code>co</code></p>"),
        ("Points:\n-", "<p>Points:</p>"),
        ("the [survey](https://x.exa", "<p>the survey (https://x.exa</p>"),
        ("- a\n- **b", "<ul><li>a</li><li><strong>b</strong></li></ul>"),
        ("```\nx **", '<pre tabindex="0"><code>x **</code></pre>'),
    ],
)
def test_growing_text_is_shown_in_its_final_form(text: str, html: str) -> None:
    """Unclosed Markdown is closed provisionally, so that no raw marker appears even briefly."""
    growing = GrowingProse()
    assert growing.grow(text)
    assert growing.blocks == [html]


def test_text_that_starts_differently_replaces_the_earlier_text() -> None:
    growing = GrowingProse()
    assert growing.grow("One.\n\nTwo.")
    assert growing.grow("Other")
    assert (growing.kept, growing.news) == (0, ["<p>Other</p>"])
    data = GrowingProse()
    assert data.grow('{"a": "**b')
    assert data.blocks == []


def test_text_that_outgrows_the_parser_becomes_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the text is too long, blocks that were already rendered as Markdown become plain text."""
    monkeypatch.setattr(module, "_MAX_LENGTH", 1_000)
    paragraph = "So *it* is.\n\n"
    text = paragraph * (module._MAX_LENGTH // len(paragraph))
    assert "<em>" in "\n".join(grow_text([text]))
    assert "\n".join(grow_text([text, paragraph, paragraph])) == prose(text + paragraph * 2)


def test_finished_blocks_are_not_sent_again() -> None:
    """Only the last paragraphs are sent again, since the next line can still change them."""
    for begin, maximum in (("So", 2), ("**So**", 3)):
        growing, text = GrowingProse(), ""
        for _ in range(50):
            for piece in ("\n\n", begin, " it", " is."):
                text += piece
                growing.grow(text)
                assert len(growing.news) <= maximum
        assert len(growing.blocks) == 50


def test_long_block_is_not_rendered_again_for_each_word() -> None:
    """Streaming a list of three hundred lines takes at most a few dozen times as long as rendering it once."""
    growing, times, text = GrowingProse(), 0, ""
    for number in range(300):
        text += f"- line {number}\n"
        times += growing.grow(text)
    assert times < 150


def test_formulas_and_tasks_are_rendered() -> None:
    html = prose("So $x_1$ and $$\\frac{a}{b}$$, \\(y\\) or \\[z\\].\n\n- [ ] open\n- [x] *done*")
    assert html.count("<math>") == html.count('<math display="block">') == 2
    assert "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac>" in html
    assert '<li><span class="task" role="img" aria-label="open">☐</span> open</li>' in html
    assert '<li><span class="task" role="img" aria-label="done">☑</span> <em>done</em></li>' in html
    for text in ("It is $5 or $6, US$7.", "$HOME and $PATH", "`$x$`", "$\\frac$", "$\\phantom{x}$", f"${'x' * 1001}$"):
        assert "<math" not in prose(text)


@pytest.mark.parametrize(
    "latex",
    [
        "\\text{<img src=x onerror=alert(1)>}",
        "\\href{javascript:alert(1)}{x}",
        "\\style{color:red}{x}",
        "\\text{&lt;b&gt;}",
    ],
)
def test_formula_has_no_foreign_elements(latex: str) -> None:
    """The formula's text is kept, while URLs and styles are removed."""
    html = prose(f"Look: ${latex}$")
    drawn = html.partition("<annotation")[0]
    assert "<math>" in html
    assert not re.search("<img|<b>|href|style=|javascript", drawn)
    Page(html)


@pytest.mark.parametrize("piece", ["$", "\\(", "\\[", "$a ", "$a$ ", "$$a", "{", "$\\sqrt"])
def test_hostile_formulas_are_rendered_quickly(piece: str) -> None:
    """Text full of opening delimiters takes no longer than ordinary text of the same length."""
    start = time.process_time()
    prose(piece * (100_000 // len(piece)))
    assert time.process_time() - start < 5
