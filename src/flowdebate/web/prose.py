"""Markdown written by models and people, rendered on all pages as the same safe subset of HTML.

Paragraphs, emphasis, code, quotes, lists, tasks, tables and formulas are supported, and headings become bold lines.
HTML is shown as text. Links and images are replaced with their text and URL, so there is nothing to click or load. No
text is ever hidden: a block that would lose a word in rendering is shown as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING
from unicodedata import bidirectional

from markupsafe import Markup, escape

from flowdebate.ui.text import printable
from flowdebate.web.formulas import RULE, as_mathml, find_formula

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


_RULES = ("autolink", "backticks", "blockquote", "code", "emphasis", "escape", "fence", "heading", "hr", "image")
_MORE_RULES = ("link", "list", "newline", "strikethrough", "table")
_MAX_LENGTH = 100_000
"""Maximum number of characters to render; longer text is shown as written, because parsing it may take a second."""
_DEEPEST = 20
"""Maximum nesting depth of lists and quotes; the parser drops anything nested more deeply."""
_SPECIAL = re.compile(r"[\\`*_\[<~|$]|^[ \t]*(?:[-+#>=]|\d+[.)])|^(?: {4}| {0,3}\t)", re.MULTILINE)
"""Pattern matching special characters; text that contains none consists of plain paragraphs."""
_LETTERS = re.compile(r"[^\W_]+")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_TASK = re.compile(r"\[([ xX])\] (.*)", re.DOTALL)
"""Pattern matching the text of a task list item."""
_INDENTED = re.compile(r"\n[ \t]*")
"""Pattern matching a line break and any indentation after it; the parser, too, drops such indentation."""
_HTML = {
    "paragraph_open": "<p>",
    "paragraph_close": "</p>",
    "heading_open": '<p class="head">',  # not a heading element, because it is not part of the page's outline
    "heading_close": "</p>",
    "blockquote_open": "<blockquote>",
    "blockquote_close": "</blockquote>",
    "bullet_list_open": "<ul>",
    "bullet_list_close": "</ul>",
    "ordered_list_open": "<ol>",
    "ordered_list_close": "</ol>",
    "list_item_close": "</li>",
    "table_open": '<div class="table" tabindex="0"><table>',
    "table_close": "</table></div>",
    "thead_open": "<thead>",
    "thead_close": "</thead>",
    "tbody_open": "<tbody>",
    "tbody_close": "</tbody>",
    "tr_open": "<tr>",
    "tr_close": "</tr>",
    "th_open": '<th scope="col">',
    "th_close": "</th>",
    "td_open": "<td>",
    "td_close": "</td>",
    "hr": "<hr>",
    "softbreak": "<br>",  # preserves the author's line breaks
    "hardbreak": "<br>",
    "em_open": "<em>",
    "em_close": "</em>",
    "strong_open": "<strong>",
    "strong_close": "</strong>",
    "s_open": "<s>",
    "s_close": "</s>",
}
"""HTML for each parser token; list items, code and links are rendered by `_Writer`."""

_CONTAINERS = frozenset({"blockquote_open", "bullet_list_open", "ordered_list_open", "table_open"})
_DIRECTED = _CONTAINERS | {"paragraph_open", "heading_open", "list_item_open", "th_open", "td_open"}

# Placeholders for span boundaries while text is being parsed. They are punctuation, because a letter next to `**` would
# change its meaning.
_MARK, _BEGINS, _ENDS = "\U0001da87", "\U0001da88", "\U0001da89"
_MARKED = re.compile(f"{_MARK}(\\d+)([{_BEGINS}{_ENDS}])")
_UNMARKED = str.maketrans(dict.fromkeys((_MARK, _BEGINS, _ENDS), "\ufffd"))
_MARGIN = re.compile(r"[ \t]*(?:(?:[-+*]|#{1,6}|\d{1,9}[.)])[ \t]+|>[ \t]*|\|[ \t]*)*")
"""Pattern matching indentation and the markers of lists, headings, quotes and tables at the start of a line."""
_RULE = re.compile(r"[ \t>]*(?:`{3,}|~{3,}|\|?[ \t]*:?-+[-:| \t]*$|(?:[*_-][ \t]*){3,}$)", re.MULTILINE)
"""Pattern matching a line without text, such as a rule or a code fence."""


@dataclass(frozen=True, slots=True)
class Span:
    """A section of text to highlight; spans may begin and end anywhere in the Markdown, but must not overlap."""

    start: int
    end: int
    tag: str
    """Name of the HTML element enclosing the span, such as `q`."""
    kind: str = ""
    """CSS class of the enclosing element."""
    after: Markup = Markup("")  # noqa: RUF009 - it is frozen
    """HTML inserted after the span."""


def prose(text: str, spans: Sequence[Span] = ()) -> Markup:
    r"""Render `text` as HTML, with one element per block.

    >>> print(prose("Count **drivers**.\n\n- first\n- <b>then</b>"))
    <p>Count <strong>drivers</strong>.</p>
    <ul><li>first</li><li>&lt;b&gt;then&lt;/b&gt;</li></ul>
    """
    return _prose(text, tuple(spans))


@lru_cache(maxsize=1024)  # Cached because pages are rendered on every request, but most contributions stay the same.
def _prose(text: str, spans: tuple[Span, ...]) -> Markup:
    if spans:
        text = _with_marks(text.translate(_UNMARKED), spans)
    text = _plain(text)
    return Markup("\n").join(html for _, html in _blocks(text, spans, parsed=len(text) <= _MAX_LENGTH))


def inline(text: str) -> Markup:
    r"""Render `text` as inline HTML, with emphasis and code.

    >>> print(inline("*Two* of `n`\n# no heading"))
    <em>Two</em> of <code>n</code><br># no heading
    """
    return _prose_in_line(text)


@lru_cache(maxsize=1024)
def _prose_in_line(text: str) -> Markup:
    text = _plain(text)
    if len(text) <= _MAX_LENGTH and is_marked(text):
        writer = _Writer(())
        writer.write(_parser().parseInline(text))
        if writer.is_whole(text):
            return writer.take()
    return escape(text).replace("\n", Markup("<br>"))


def is_marked(text: str) -> bool:
    """Return whether `text` may contain anything other than plain paragraphs."""
    return _SPECIAL.search(text) is not None


def _plain(text: str) -> str:
    """Clean `text`: normalize line endings to newlines, and escape control and invisible characters.

    Trailing spaces are removed too, because the parser would not treat a line of Unicode spaces as blank.
    """
    return "\n".join(map(str.rstrip, printable("\n".join(text.splitlines())).split("\n")))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("zero", {"maxNesting": _DEEPEST}).enable([*_RULES, *_MORE_RULES])
    parser.inline.ruler.before("escape", RULE, find_formula)
    # Links are never followed, so their URLs are shown as written.
    for name, function in (("validateLink", lambda _: True), ("normalizeLink", str), ("normalizeLinkText", str)):
        setattr(parser, name, function)
    return parser


def _blocks(text: str, spans: Sequence[Span], *, parsed: bool, grows: bool = False) -> Iterator[tuple[int, Markup]]:
    """Split text into blocks; for each block, yield the index of its first line and its HTML.

    If the text `grows`, the last block may still be incomplete.
    """
    if not parsed or not is_marked(text):
        yield from _paragraphs(text, spans)
        return
    groups: list[list[Token]] = []
    for token in _parser().parse(text):
        if token.level == 0 and token.nesting >= 0:
            groups.append([])
        groups[-1].append(token)
    if not groups:
        return
    if grows and (last := groups[-1]):
        _close(last)
    lines = text.split("\n")
    begins = [0, *((group[0].map or [0])[0] for group in groups[1:]), len(lines)]
    writer, directed = _Writer(spans), _RIGHT_TO_LEFT.search(text) is not None
    for group, (begin, end) in zip(groups, pairwise(begins), strict=True):
        source = "\n".join(lines[begin:end])
        inside = writer.inside
        writer.write_block(group, directed=directed)
        if (grows and group is groups[-1]) or writer.is_whole(source):
            yield begin, writer.take()
            continue
        writer.take()
        writer.inside = inside
        writer.write_plain(source)
        yield begin, writer.take()


def _paragraphs(text: str, spans: Sequence[Span]) -> Iterator[tuple[int, Markup]]:
    writer, paragraph, begin = _Writer(spans), list[str](), 0
    for number, line in enumerate([*text.split("\n"), ""]):
        if line.strip():
            begin = begin if paragraph else number
            paragraph.append(line)
        elif paragraph:
            writer.write_plain("\n".join(paragraph))
            yield begin, writer.take()
            paragraph = []


class _Writer:
    """Renderer that turns parser tokens into HTML, and records the text visible to readers."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._pieces: list[str] = []
        self._read: list[str] = []
        self._starts_item = False
        self._directed = False
        self.inside: Span | None = None

    def write_block(self, tokens: Sequence[Token], *, directed: bool) -> None:
        """Render a block's tokens; if `directed` is set, derive each part's writing direction from its own text."""
        self._directed = directed
        if directed:
            for index, token in enumerate(tokens):
                # When determining the direction of text, browsers ignore nested elements that have their own direction.
                if token.type in _CONTAINERS or (token.type == "list_item_open" and not tokens[index + 1].hidden):
                    token.attrSet("dir", _direction(tokens[index:]) or "ltr")
                # elements containing only numbers keep the direction of their table or list
                elif token.type in _DIRECTED:
                    token.attrSet("dir", "auto" if _direction(tokens[index : index + 3]) else "")
        self.write(tokens)
        self._directed = False

    def write(self, tokens: Iterable[Token]) -> None:  # noqa: C901, PLR0912 - a case for each kind
        """Render the tokens of a block or of a line."""
        links: list[Token] = []
        for token in tokens:
            if self._starts_item and token.type not in ("list_item_open", "paragraph_open", "inline", "text"):
                self._starts_item = False
            match token.type:
                case "inline":
                    self.write(token.children or ())
                case "text" if self._starts_item and (task := _TASK.match(token.content)):
                    self._task(task)
                case "text" | "text_special":
                    self._text(token.content)
                case kind if kind == RULE:
                    self._formula(token)
                case "code_inline":
                    self._enclosed("<code>", token.content, "</code>")
                case "fence" | "code_block":
                    self._pieces.append('<pre tabindex="0">')
                    if info := token.info.strip():  # the language name is visible in the plain text as well
                        self._enclosed("<small>", info, "</small>\n")
                    self._enclosed("<code>", token.content.rstrip("\n"), "</code></pre>")
                case "list_item_open":
                    item = f'<li value="{int(token.info)}">' if token.info else "<li>"
                    self._pieces.append(self._directed_tag(item, token))
                    self._read.append(token.info)
                    self._starts_item = True
                case "link_open":
                    links.append(token)
                case "link_close":
                    self._address(links.pop(), "href", is_told=token.info == "auto")
                case "image":
                    self.write(token.children or ())
                    self._address(token, "src")
                case "th_open" | "td_open" if "right" in str(token.attrs):  # right-aligned numbers
                    self._pieces.append(self._directed_tag(_HTML[token.type].replace(">", ' class="num">'), token))
                case "strong_open" | "strong_close" if token.markup == "__":  # an identifier in code, such as __init__
                    self._text("__")
                case _ if not token.hidden:  # hidden tokens are paragraphs in a list without blank lines
                    self._pieces.append(self._directed_tag(_HTML[token.type], token))
                case _:
                    pass

    def _directed_tag(self, tag: str, token: Token) -> str:
        direction = token.attrGet("dir") if self._directed else None
        return tag.replace(">", f' dir="{direction}">', 1) if direction else tag

    def write_plain(self, text: str) -> None:
        """Render a block's source unchanged."""
        self._pieces.append('<p dir="auto">' if _RIGHT_TO_LEFT.search(text) else "<p>")
        for number, line in enumerate(filter(None, _INDENTED.split(text.strip()))):
            self._pieces.append("<br>" if number else "")
            self._text(line)
        self._pieces.append("</p>")

    def take(self) -> Markup:
        """Return the HTML written since the previous call."""
        pieces, self._pieces, self._read = self._pieces, [], []
        return Markup("".join(pieces))  # noqa: S704 - each is one of `_HTML`, or escaped

    def is_whole(self, source: str) -> bool:
        """Return whether all readable text in `source` has been rendered."""
        return _letters("".join(self._read)) == _letters(_MARKED.sub("", source))

    def _task(self, task: re.Match[str]) -> None:
        """Render a task as a checked or unchecked box followed by its text."""
        self._starts_item = False
        done = task[1] != " "
        box, word = ("☑", "done") if done else ("☐", "open")
        self._pieces.append(f'<span class="task" role="img" aria-label="{word}">{box}</span> ')
        self._read.append(task[1])
        self._text(task[2])

    def _formula(self, token: Token) -> None:
        """Render a formula, or show it as written if it cannot be parsed or contains the start or end of a span."""
        html = (
            None if self._spans and _MARKED.search(token.markup) else as_mathml(token.content, block=bool(token.info))
        )
        if html is None:
            self._text(token.markup)
            return
        self._read.append(token.content)
        self._pieces.append(html)

    def _enclosed(self, before: str, text: str, after: str) -> None:
        self._pieces.append(before)
        self._text(text)
        self._pieces.append(after)

    def _address(self, token: Token, name: str, *, is_told: bool = False) -> None:
        """Render the URL and title of a link or an image after its text."""
        title = token.attrGet("title")
        words = str(token.attrGet(name) or "") + (f' "{title}"' if title else "")
        if not is_told:
            self._text(f" ({words})")

    def _text(self, text: str) -> None:
        if not self._spans:
            self._read.append(text)
            self._pieces.append(escape(text))
            return
        end = 0
        for match in [*_MARKED.finditer(text), None]:
            part = text[end : None if match is None else match.start()]
            span = self.inside
            self._read.append(part)
            if part:
                kind = f' class="{span.kind}"' if span is not None and span.kind else ""
                self._pieces.append(f"<{span.tag}{kind}>{escape(part)}</{span.tag}>" if span else escape(part))
            if match is None:
                return
            end, marked = match.end(), self._spans[int(match[1])]
            self.inside = marked if match[2] == _BEGINS else None
            self._pieces.append("" if self.inside else marked.after)


def _direction(tokens: Iterable[Token]) -> str:
    """Return "ltr" or "rtl", depending on the first letter that has a writing direction; "" if there is none."""
    for token in tokens:
        for letter in token.content if token.type == "inline" else "":
            if (kind := bidirectional(letter)) in ("L", "R", "AL"):
                return "ltr" if kind == "L" else "rtl"
    return ""


def _letters(text: str) -> str:
    return "".join(_LETTERS.findall(text))


# Spans


def _with_marks(text: str, spans: Sequence[Span]) -> str:
    """Insert marks where each span in `text` begins and ends."""
    pieces, end = list[str](), 0
    for number, span in enumerate(spans):
        for place, mark in ((_marked_at(text, span.start), _BEGINS), (_marked_at(text, span.end), _ENDS)):
            pieces += [text[end:place], f"{_MARK}{number}{mark}"]
            end = place
    return "".join([*pieces, text[end:]])


def _marked_at(text: str, at: int) -> int:
    """Return the position for a mark at `at`, moved past any list, quote or table marker and past any rule."""
    begin = text.rfind("\n", 0, at) + 1
    while (rule := _RULE.match(text, begin)) is not None and rule.end() < len(text):
        begin = at = text.find("\n", rule.end()) + 1 or len(text)
    margin = _MARGIN.match(text, begin)
    return max(at, begin if margin is None else margin.end())


# Growing text

_ALWAYS = 50
"""Divisor for deciding when to render an open block again. The block is rendered whenever it has grown by a fiftieth,
so the total cost stays proportional to its length.
"""
_INLINE = re.compile(r"\\.|`+|\*{1,3}|~~", re.DOTALL)
_UNDECIDED = re.compile(r"(?:^|\n)[ \t]*(?:[-+*`#>|~=]+|\d+[.)]?)[ \t]*\Z|(?:(?<=\s)|^)[*`~]+\Z")
"""Pattern matching the end of growing text if its meaning may still change when more text follows."""


_LINK = re.compile(r"!?\[([^\[\]]*)\]\(([^()]*)\Z")


class GrowingProse:
    """Text still being written; finished blocks are rendered only once, and the rest is rendered again as it grows.

    A block is finished once the start of the next block is final. An incomplete line is not final: `***` is a rule, but
    `***so***` continues the previous paragraph. Later text never changes a finished block, because the subset has no
    reference definitions.
    """

    def __init__(self) -> None:
        self._text = ""
        self._start = 0
        """Offset of the first block that may still change."""
        self._settled = 0
        """Total length of the plain text in all finished blocks."""
        self._parsed = True
        """False once the text is too long for the parser."""
        self._done: list[Markup] = []
        self._open: list[Markup] = []
        self.kept: int = 0
        """Number of blocks unchanged by the last update."""
        self._shown = 0
        """Number of rendered characters."""

    def grow(self, text: str) -> bool:
        """Set the text written so far, and return whether it has changed enough to be shown again."""
        if not text.startswith(self._text):  # the answer was requested again
            self.__init__()  # type: ignore[misc]
        self._text = text
        if len(text) - self._shown <= (self._shown - self._start) // _ALWAYS:
            return False
        self._shown = len(text)
        if text.lstrip()[:1] == "{":  # JSON is not shown
            return True
        tail = text[self._start :]
        plain = _plain(tail)
        if self._parsed and self._settled + len(plain) > _MAX_LENGTH:
            self._start, self._settled, self._parsed, self._done = 0, 0, False, []
            tail, plain = text, _plain(text)
        blocks = list(_blocks(plain, (), parsed=self._parsed, grows=True))
        lines = plain.split("\n")
        open_from = max((at for at, (line, _) in enumerate(blocks) if at and _is_final_start(lines, line)), default=0)
        self.kept = len(self._done)
        self._done += [html for _, html in blocks[:open_from]]
        self._open = [html for _, html in blocks[open_from:]]
        if open_from:
            line, _ = blocks[open_from]
            self._start += len("".join(tail.splitlines(keepends=True)[:line]))
            self._settled += sum(map(len, lines[:line])) + line
        return True

    @property
    def news(self) -> list[Markup]:
        """Return the blocks that may be new or changed; all other blocks come before them."""
        return [*self._done[self.kept :], *self._open]

    @property
    def blocks(self) -> list[Markup]:
        return [*self._done, *self._open]


def _is_final_start(lines: Sequence[str], line: int) -> bool:
    """Return whether a block is certain to start at `line`, no matter what text follows."""
    # The last line may be incomplete, and a second line may turn the first into a table header.
    if line + 2 < len(lines):
        return True
    # After a blank line, a punctuation mark or a number may still turn out to begin an item of the preceding list.
    return not lines[line - 1] and lines[line].lstrip(" ")[:1].isalpha()


def _close(group: Sequence[Token]) -> None:
    """Close any open emphasis and code in a block's last line, making the block look as it would when finished."""
    token = next((token_ for token_ in reversed(group) if token_.type in ("inline", "fence", "code_block")), None)
    if token is None or token.type != "inline":
        return
    content, opened = _LINK.sub(r"\1 (\2", _UNDECIDED.sub("", token.content)), list[str]()
    for match in _INLINE.finditer(content):
        mark, code = match[0], opened and opened[-1][0] == "`"
        if opened and mark == opened[-1]:
            opened.pop()
        # the text ends with half of a closing mark, such as one asterisk of `**`
        elif opened and match.end() == len(content) and opened[-1].startswith(mark):
            content = content[: match.start()]
        elif mark[0] != "\\" and not code and content[match.end() : match.end() + 1].strip():
            opened.append(mark)
    content += "".join(reversed(opened))
    if content != token.content:
        token.children = []
        _parser().inline.parse(content, _parser(), {}, token.children)
