"""The Markdown report: untrusted text never becomes markup."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from markdown_it import MarkdownIt

from flowdebate import DebateContributionEntry, DebateModeratorDecision, DebateRawOutput, DebateVerdict
from flowdebate.patterns.debate.document import DebateDocument
from flowdebate.ui.document import Side, Tokens
from flowdebate.ui.markdown import escaped, quoted, report
from flowdebate.ui.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

MARKS = st.text(st.sampled_from("\\`*_[]()<>#!-=+~|&:.1 \n\tax\"'{}$@/^"), max_size=60)
TRAPS = st.sampled_from(
    [
        "# heading",
        "text\n===",
        "text\n---",
        "<script>alert(1)</script>",
        "<!-- gone",
        "![x](http://evil.example/x.png)",
        "[x](javascript:alert(1))",
        "[x]: http://evil.example\n\n[x]",
        "<http://evil.example>",
        "https://evil.example www.evil.example a@evil.example",
        "```\n# heading",
        "    # code",
        "| a |\n|---|\n| b |",
        "a\n:-\nb",
        "1. one\n2) two",
        "&lt;b&gt;",
        "\\<b>",
        "***",
        "\x1b[2J\u2028# heading\r# heading\x0b",
        "[^1]\n\n[^1]: note",
        "- [ ] task",
    ]
)
FOREIGN = st.lists(MARKS | TRAPS | st.text(max_size=20), max_size=4).map("\n".join)
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
OWN = {"heading_open", "paragraph_open", "blockquote_open", "bullet_list_open", "list_item_open", "fence", "inline"}


def build_document(text: str, *, output: Any = None) -> DebateDocument:
    """Build a moderated debate with all untrusted text set to `text`."""
    return DebateDocument(
        status="failed",
        error=text,
        debaters=[Side(name=text, stance=text, role=text), Side(name="b", stance=text)],
        max_rounds=2,
        raw=DebateRawOutput(
            rounds=1,
            question=text,
            transcript=[DebateContributionEntry(round=1, agent_name=text, stance=text, text=text)],
            verdict=DebateVerdict(verdict=text, winner=text, reasoning=text),
            moderator_decisions=[
                DebateModeratorDecision(round=1, next_speakers=[text], briefing=text, new_angle=text, done=True)
            ],
            stop_reason="moderator_done",
        ),
        output=output,
        usage=Tokens(calls=3, prompt_tokens=1234),
        seconds=1.25,
        seed=7,
    )


def list_tokens(text: str) -> Iterator[Token]:
    """Return all tokens of a page, including inline ones."""
    for token in MARKDOWN.parse(text):
        yield token
        yield from token.children or ()


def list_headings(text: str) -> list[str]:
    """Return the text of each heading."""
    tokens = MARKDOWN.parse(text)
    return [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]


@given(FOREIGN, FOREIGN)
@example("a\n===\n<b>", "x")
def test_untrusted_text_never_becomes_markup(text: str, output: str) -> None:
    page = report(build_document(text, output=output))
    assert list_headings(page) == ["Debate", "Positions", "Round 1 of 2", "Verdict", "Summary", "Usage"]
    kinds = {token.type for token in list_tokens(page) if token.nesting >= 0}
    assert kinds <= OWN | {"text", "softbreak", "text_special", "strong_open"}


@given(FOREIGN)
def test_quote_shows_its_text_unchanged(text: str) -> None:
    visible_text = "".join(
        token.content for token in list_tokens(quoted(text)) if token.type in ("text", "text_special")
    )
    assert "".join(visible_text.split()) == "".join(printable(text).split())


@given(FOREIGN)
def test_inline_text_is_shown_unchanged_on_one_line(text: str) -> None:
    tokens = list(list_tokens(f"- **x**: {escaped(text)}"))
    assert [token.type for token in tokens if token.nesting == 1] == [
        "bullet_list_open",
        "list_item_open",
        "paragraph_open",
        "strong_open",
    ]


@given(FOREIGN)
def test_structured_output_stays_in_its_fence(text: str) -> None:
    page = report(build_document("x", output={"a": text, text: ["`" * 7]}))
    assert list_headings(page)[-1] == "Usage"
    assert [token.info for token in list_tokens(page) if token.type == "fence"] == ["json"]


@pytest.mark.parametrize("text", ["https://evil.example", "www.evil.example", "a@evil.example", "HTTP://EVIL.EXAMPLE"])
def test_bare_urls_are_not_links_on_github(text: str) -> None:
    """GitHub turns bare addresses into links, so they are escaped."""
    assert "\\" in escaped(text)


def test_report_matches_its_snapshot() -> None:
    assert report(build_document("Cap *them*.")) == snapshot("""\
# Debate

> Cap \\*them\\*.

## Positions

- **Cap \\*them\\*.**: Cap \\*them\\*. (Cap \\*them\\*.)
- **b**: Cap \\*them\\*.

## Round 1 of 2

**Moderator calls on**: Cap \\*them\\*.

**Briefing**

> Cap \\*them\\*.

**Angle**

> Cap \\*them\\*.

This round is the last.

**Cap \\*them\\*.**

> Cap \\*them\\*.

## Verdict

- **Winner**: Cap \\*them\\*., b (Cap \\*them\\*.)

**Verdict**

> Cap \\*them\\*.

**Reasoning**

> Cap \\*them\\*.

## Usage

- Status: failed
- Error: Cap \\*them\\*.
- Rounds: 1, ended by the moderator
- Tokens: prompt 1,234, completion unknown
- Calls: 3
- Time: 1.2 s
- Seed: 7
""")
