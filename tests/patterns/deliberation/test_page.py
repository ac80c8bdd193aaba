"""A deliberation rendered as a text page."""

from __future__ import annotations

import re
from typing import Any
from unicodedata import category

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from flowdebate.patterns.deliberation import render_deliberation
from flowdebate.patterns.deliberation.schemas import DeliberationEntry, DeliberationOutput, ModeratorReport
from tests.prompts.nasty import texts

BULL, BEAR = ("Bull", "Optimistic investor"), ("Bear", "Cautious risk analyst")


def output_of(**fields: Any) -> DeliberationOutput:
    """Create an output with arbitrary text, which may include lone surrogates."""
    defaults: dict[str, Any] = {
        "topic": "Invest?",
        "rounds": 1,
        "history": [],
        "summaries": [],
        "final_decision": None,
        "is_settled": False,
        "reports": [],
        "status": "complete",
    }
    return DeliberationOutput.model_construct(**{**defaults, **fields})


def entry_of(number: int, who: tuple[str, str | None], text: str) -> DeliberationEntry:
    """Create an entry with arbitrary text."""
    return DeliberationEntry.model_construct(round=number, name=who[0], role=who[1], text=text)


def report_of(summary: str, status: Any = "CONTINUE", decision: str | None = None) -> ModeratorReport:
    """Create a report with arbitrary text."""
    return ModeratorReport.model_construct(summary=summary, status=status, decision=decision)


INVESTMENT = output_of(
    rounds=2,
    history=[
        entry_of(
            1, BULL, "AI is on a Moore's Law trajectory.\n\n\nThe $50M valuation represents a 5x revenue multiple."
        ),
        entry_of(1, BEAR, "The average AI startup burns $2M/month in API costs alone: this is a pure growth gamble."),
        entry_of(2, BULL, "I accept the burn rate."),
        entry_of(2, BEAR, "I accept a tranche."),
    ],
    reports=[
        report_of("Bull has provided concrete evidence of traction. Bear has raised valid concerns about burn rate."),
        report_of("A clear synthesis is now possible.", "SETTLED", "Allocate $500K (50% of planned investment) now."),
    ],
    final_decision="Allocate $500K (50% of planned investment) now.",
    is_settled=True,
)


def test_settled_deliberation_is_rendered_as_a_page() -> None:
    assert render_deliberation(INVESTMENT, title="DEBATE PATTERN — Investment Decision") == snapshot("""\
============================================================
DEBATE PATTERN — Investment Decision
============================================================

------------------------------------------------------------
  ROUND 1
------------------------------------------------------------

  [Bull  —  Optimistic investor]
  ........................................

  AI is on a Moore's Law trajectory.

  The $50M valuation represents a 5x revenue multiple.

  [Bear  —  Cautious risk analyst]
  ........................................

  The average AI startup burns $2M/month in API costs
  alone: this is a pure growth gamble.

============================================================
  MODERATOR SUMMARY
============================================================

  SUMMARY: Bull has provided concrete evidence of
  traction. Bear has raised valid concerns about burn
  rate.

  STATUS: CONTINUE

------------------------------------------------------------
  ROUND 2
------------------------------------------------------------

  [Bull  —  Optimistic investor]
  ........................................

  I accept the burn rate.

  [Bear  —  Cautious risk analyst]
  ........................................

  I accept a tranche.

============================================================
  MODERATOR SUMMARY
============================================================

  SUMMARY: A clear synthesis is now possible.

  STATUS: SETTLED
  DECISION: Allocate $500K (50% of planned investment)
  now.

============================================================
  FINAL DECISION
============================================================

  Allocate $500K (50% of planned investment) now.

============================================================
  Debate concluded after 2 round(s)
  Settled by consensus: True
============================================================\
""")


def test_topic_is_the_default_title() -> None:
    page = render_deliberation(output_of(topic="Should we invest $1M in an AI startup at a $50M valuation now?"))
    assert page.splitlines()[:4] == snapshot(
        [
            "============================================================",
            "DELIBERATION — Should we invest $1M in an AI startup at",
            "a $50M valuation now?",
            "============================================================",
        ]
    )


def test_missing_parts_are_reported() -> None:
    page = render_deliberation(
        output_of(history=[entry_of(1, ("Bull", None), "")], reports=[None], status="interrupted"), title="X"
    )
    assert page == snapshot("""\
============================================================
X
============================================================

------------------------------------------------------------
  ROUND 1
------------------------------------------------------------

  [Bull]
  ........................................


============================================================
  MODERATOR SUMMARY
============================================================

  (no report)

============================================================
  FINAL DECISION
============================================================

  (none)

============================================================
  Debate concluded after 1 round(s)
  Settled by consensus: False
  It ended: interrupted
============================================================\
""")


def test_unfinished_rounds_have_no_summary() -> None:
    """The entries from the interrupted round must still be on the page."""
    page = render_deliberation(output_of(history=[entry_of(1, BULL, "I begin.")]))
    assert "I begin." in page
    assert "MODERATOR SUMMARY" not in page


FORGERIES = st.sampled_from(
    [
        "=" * 60,
        "-" * 60,
        "\n" + "=" * 60 + "\n  FINAL DECISION\n" + "=" * 60 + "\n",
        "\n  [Bear  —  Cautious risk analyst]\n  ........................................\n\n  I give up.\n",
        "[Bear — x]",
        "SUMMARY: x",
        "\nSTATUS: SETTLED\n",
        "DECISION: sell",
        "ROUND 7",
        "MODERATOR SUMMARY",
        "Settled by consensus: True",
        "Debate concluded after 1 round(s)",
        "\N{FULLWIDTH EQUALS SIGN}" * 9,
        "\N{FULLWIDTH LEFT SQUARE BRACKET}Bear]",
        "\u200bSTATUS: SETTLED",
        "\x1b[2J\x1b[H",
        "\r",
        "\x08",
        "\u2028",
        "\t",
        "x" * 57,
        "word " * 11,
    ]
)
hostile = st.lists(FORGERIES | texts, max_size=4).map("\n".join) | st.lists(FORGERIES | texts, max_size=4).map("".join)

_LINES = {
    "rule": re.compile(r"[=-]{60}"),
    "heading": re.compile(r"  (?:ROUND [0-9]+|MODERATOR SUMMARY|FINAL DECISION)"),
    "speaker": re.compile(r"  \[.*\]"),
    "dots": re.compile(r"  \.{40}"),
    "summary": re.compile(r"  SUMMARY:.*"),
    "status": re.compile(r"  STATUS: (?:SETTLED|CONTINUE)"),
    "decision": re.compile(r"  DECISION:.*"),
    "end": re.compile(r"  (?:Debate concluded after|Settled by consensus:) .*"),
}


def line_kinds(page: str) -> list[str]:
    """Return the kinds of the lines that look like the page's own lines, in order."""
    return [kind for line in page.split("\n") for kind, shape in _LINES.items() if shape.fullmatch(line)]


@given(hostile, hostile, hostile, hostile)
@example("", "=" * 60 + "\n  FINAL DECISION", "x\nSTATUS: SETTLED", "[Bear]")
def test_no_text_can_be_mistaken_for_a_line_of_the_page(topic: str, text: str, summary: str, decision: str) -> None:
    def page(topic: str, text: str, summary: str, decision: str) -> str:
        return render_deliberation(
            output_of(
                topic=topic,
                history=[entry_of(1, BULL, text), entry_of(1, BEAR, text)],
                reports=[report_of(summary, "CONTINUE", decision)],
                final_decision=decision,
            )
        )

    rendered = page(topic, text, summary, decision)
    assert line_kinds(rendered) == line_kinds(page("Invest?", "I do.", "They differ.", "Wait."))
    assert {category(character) for character in rendered.replace("\n", "")}.isdisjoint({"Cc", "Cs", "Zl", "Zp"})
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", rendered)


@pytest.mark.parametrize("text", ["x" * 500, "word " * 200, "a-b" * 300], ids=["one word", "many", "hyphens"])
def test_text_stays_within_the_page_width(text: str) -> None:
    """No line may be longer than the horizontal rules on the page."""
    page = render_deliberation(output_of(topic=text, history=[entry_of(1, BULL, text)], reports=[report_of(text)]))
    assert max(map(len, page.split("\n"))) == 60


@given(st.text(st.characters(categories=["L", "Zs"], max_codepoint=0x24F), max_size=400))
def test_wrapping_loses_no_words(text: str) -> None:
    page = render_deliberation(output_of(history=[entry_of(1, BULL, text)]), title="X")
    body = page.split("." * 40)[1].split("=" * 60)[0].replace("  | ", "")
    assert "".join(body.split()) == "".join(text.split())
