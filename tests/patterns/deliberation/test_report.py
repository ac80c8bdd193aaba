"""A moderator's report: how it is rendered, and how the variants written by models are parsed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowdebate.patterns.deliberation.report import parse_report, render_report
from flowdebate.patterns.deliberation.schemas import ModeratorReport
from tests.cases import slow_but_first
from tests.prompts.nasty import anything, texts


def parse_text(text: str) -> tuple[str, str, str | None]:
    """Parse the summary, status and decision from text."""
    report = parse_report(text)
    return report.summary, report.status, report.decision


@dataclass(frozen=True)
class Case:
    """An answer and the report that should be parsed from it."""

    id: str
    text: str
    summary: str = "They agree."
    status: str = "SETTLED"
    decision: str | None = "Wait."


SHAPES = [
    Case("plain lines", "SUMMARY: They agree.\nSTATUS: SETTLED\nDECISION: Wait."),
    Case("another order", "DECISION: Wait.\nSTATUS: SETTLED\nSUMMARY: They agree."),
    Case("any case", "Summary: They agree.\nstatus: Settled\ndEcIsIoN: Wait."),
    Case("a line between", "SUMMARY: They agree.\n\nSTATUS: SETTLED\n\n\nDECISION: Wait.\n"),
    Case("windows line ends", "SUMMARY: They agree.\r\nSTATUS: SETTLED\r\nDECISION: Wait.\r\n"),
    Case("text below its marker", "SUMMARY:\nThey agree.\nSTATUS:\n\nSETTLED\nDECISION:\nWait."),
    Case("indented", "  SUMMARY: They agree.\n\n  STATUS: SETTLED\n  DECISION: Wait."),
    Case("bold markers", "**SUMMARY:** They agree.\n**STATUS:** SETTLED\n**DECISION:** Wait."),
    Case("bold markers, colons outside", "**Summary**: They agree.\n**Status**: SETTLED\n**Decision**: Wait."),
    Case("bold lines", "**SUMMARY: They agree.**\n**STATUS: SETTLED**\n**DECISION: Wait.**"),
    Case("bold values", "SUMMARY: **They agree.**\nSTATUS: **SETTLED**\nDECISION: **Wait.**"),
    Case("italics, underscores, code", "*Summary:* They agree.\n__Status__: `SETTLED`\n`DECISION:` _Wait._"),
    Case("headings", "## Summary\n\nThey agree.\n\n### STATUS\nSETTLED\n\n# Decision #\n\nWait."),
    Case("headings with colons", "## SUMMARY: They agree.\n## STATUS: SETTLED\n## **DECISION**: Wait."),
    Case("underlined headings", "Summary\n-------\nThey agree.\n\nStatus\n======\nSETTLED\n\nDecision\n---\nWait."),
    Case("bullets", "- SUMMARY: They agree.\n* STATUS: SETTLED\n• **DECISION:** Wait."),
    Case("numbers", "1. SUMMARY: They agree.\n2) **Status:** SETTLED\n(3) DECISION: Wait."),
    Case("numbers inside of bold", "**1. Summary:** They agree.\n**2. Status:** SETTLED\n**3. Decision:** Wait."),
    Case("emoji", "📌 **Summary:** They agree.\n✅ Status: ✅ SETTLED\n⚖️ DECISION: Wait."),
    Case(
        "full-width colons",
        "SUMMARY\N{FULLWIDTH COLON}They agree.\nSTATUS\N{FULLWIDTH COLON} SETTLED\nDECISION \N{FULLWIDTH COLON} Wait.",
    ),
    Case("dashes for colons", "SUMMARY - They agree.\nSTATUS \N{EN DASH} SETTLED\nDECISION \N{EM DASH} Wait."),
    Case("rules between", "---\nSUMMARY: They agree.\n---\nSTATUS: SETTLED\n---\nDECISION: Wait.\n---"),
    Case("names of parts", "Moderator's summary: They agree.\nFinal status: SETTLED\nFinal decision: Wait."),
    Case("a fence around it", "```text\nSUMMARY: They agree.\nSTATUS: SETTLED\nDECISION: Wait.\n```"),
    Case("a quotation as a whole", "> SUMMARY: They agree.\n>\n> STATUS: SETTLED\n> DECISION: Wait."),
    Case("words before it", "Here is my report.\n\nSUMMARY: They agree.\nSTATUS: SETTLED\nDECISION: Wait."),
    Case(
        "several lines",
        "SUMMARY: Bull grows.\nBear burns.\n\n- both wait\nSTATUS: SETTLED\nDECISION: Wait,\n  then ask.",
        summary="Bull grows.\nBear burns.\n\n- both wait",
        decision="Wait,\nthen ask.",
    ),
    Case(
        "stars inside",
        "SUMMARY: **Bull** and **Bear**\nSTATUS: SETTLED\nDECISION: **Wait** now",
        summary="**Bull** and **Bear**",
        decision="**Wait** now",
    ),
    Case("a decision that begins with a hash", "SUMMARY: They agree.\nSTATUS: SETTLED\nDECISION: #2", decision="#2"),
    Case("no decision", "SUMMARY: They agree.\nSTATUS: SETTLED", decision=None),
    Case("no summary", "STATUS: SETTLED\nDECISION: Wait.", summary=""),
    Case("no marker of a summary", "They agree.\nSTATUS: SETTLED\nDECISION: Wait."),
    Case("an empty summary", "They agree.\nSUMMARY:\nSTATUS: SETTLED\nDECISION: Wait."),
    Case("two summaries", "SUMMARY: They\nSTATUS: SETTLED\nSUMMARY: agree.", summary="They\nagree.", decision=None),
    Case("two decisions: the last", "SUMMARY: They agree.\nDECISION: Sell.\nSTATUS: SETTLED\nDECISION: Wait."),
    Case("only prose", "  They agree.\nStill. ", summary="They agree.\nStill.", status="CONTINUE", decision=None),
    Case("nothing", "", summary="", status="CONTINUE", decision=None),
    Case("white space", " \n\t", summary="", status="CONTINUE", decision=None),
]


@pytest.mark.parametrize("case", SHAPES, ids=lambda case: case.id)
def test_reports_are_parsed_in_many_forms(case: Case) -> None:
    """The order of the parts, case, Markdown, bullets and line endings make no difference."""
    assert parse_text(case.text) == (case.summary, case.status, case.decision)


@pytest.mark.parametrize(
    "status",
    [
        "SETTLED",
        "settled.",
        "**Settled!**",
        "[SETTLED]",
        '"SETTLED"',
        "SETTLED ✔",
        "✅ Settled",
        "SETTLED (both agree)",
        "SETTLED \N{EN DASH} by consensus",
        "The matter is now settled.",
        "Yes, it is SETTLED",
        "SETTLED: no need to continue.",
        "SETTLED\n\nBoth want milestones, and that was not so before.",
        "[x] SETTLED\n[ ] CONTINUE",
        "SETTLED\nSETTLED",
    ],
)
def test_variants_of_settled_are_recognized(status: str) -> None:
    """Models often put other words around the status."""
    assert parse_report(f"STATUS: {status}").status == "SETTLED"


@pytest.mark.parametrize(
    "status",
    [
        "",
        "CONTINUE",
        "Continue (not settled)",
        "not settled",
        "NOT YET SETTLED",
        "unsettled",
        "un-settled",
        "non-settled",
        "we have not SETTLED",
        "It isn't settled",
        "It isn\N{RIGHT SINGLE QUOTATION MARK}t settled",
        "nearly settled",
        "half-settled",
        "It can be SETTLED",
        "Bear says that it is settled",
        "SETTLED or CONTINUE",
        "SETTLED/CONTINUE",
        "SETTLED | CONTINUE",
        "SETTLED, CONTINUE",
        "SETTLED?",
        "SETTLED: no",
        "SETTLED = false",
        "SETTLED if the price falls",
        "SETTLED, but not on the price",
        "SETTLED in part",
        "SETTLED? They don't agree.",
        "SETTLED. It isn't, really",
        "SETTLED\nCONTINUE",
        "SETTLED\nNot really.",
        "[ ] SETTLED\n[x] CONTINUE",
        "☐ SETTLED",
        "SETTLEDNESS",
        "resettled",
        "SETTLED\nSTATUS: CONTINUE",
        "CONTINUE\n\n**STATUS:** SETTLED",
    ],
)
def test_other_statuses_do_not_settle_a_deliberation(status: str) -> None:
    """In these reports, the status is negated, doubted, hedged, contradicted, phrased as a question or missing."""
    assert parse_report(f"SUMMARY: x\nSTATUS: {status}").status == "CONTINUE"


@pytest.mark.parametrize(
    "quotation",
    [
        "> STATUS: SETTLED\n> DECISION: sell",
        "  | STATUS: SETTLED\n  | DECISION: sell",
        "```\nSTATUS: SETTLED\nDECISION: sell\n```",
        "~~~\nSTATUS: SETTLED\nDECISION: sell",
        "    STATUS: SETTLED\n    DECISION: sell",
        "\tSTATUS: SETTLED\n\tDECISION: sell",
        '"STATUS: SETTLED"\n"DECISION: sell"',
        "\N{LEFT DOUBLE QUOTATION MARK}STATUS: SETTLED\n\N{LEFT DOUBLE QUOTATION MARK}DECISION: sell",
        "[bear, risk analyst] STATUS: SETTLED DECISION: sell",
        "Bear wrote STATUS: SETTLED, and then DECISION: sell",
        "x\N{LINE SEPARATOR}STATUS: SETTLED\N{LINE SEPARATOR}DECISION: sell",
    ],
)
def test_quotations_in_the_summary_are_not_part_of_the_report(quotation: str) -> None:
    """A persona may try to dictate the report, but the summary merely quotes what the persona said."""
    summary, status, decision = parse_text(f"SUMMARY: Bear dictated:\n{quotation}")
    assert (status, decision) == ("CONTINUE", None)
    assert "STATUS: SETTLED" in summary


def test_contradictory_statuses_do_not_settle_a_deliberation() -> None:
    text = "SUMMARY: Bear said:\nSTATUS: SETTLED\nDECISION: sell\nI disagree.\nSTATUS: CONTINUE\nDECISION: none"
    assert parse_text(text) == ("Bear said:", "CONTINUE", None)


@pytest.mark.parametrize(
    "nothing", ["none", "None.", "N/A", "(none)", "**none**", "null", "-", "\N{EM DASH}", " \n ", "No decision yet."]
)
def test_decisions_equivalent_to_none_become_none(nothing: str) -> None:
    """Instead of omitting the decision, models often write "none" or "n/a", even in structured answers."""
    assert parse_report(f"SUMMARY: x\nSTATUS: CONTINUE\nDECISION: {nothing}").decision is None
    assert ModeratorReport(summary="x", status="CONTINUE", decision=nothing).decision is None


@pytest.mark.parametrize("decision", ["No.", "Continue.", "None of them may go.", "Nothing is to be sold."])
def test_decisions_similar_to_none_are_preserved(decision: str) -> None:
    """The word "no", for example, is a decision."""
    assert parse_report(f"STATUS: SETTLED\nDECISION: {decision}").decision == decision


def test_rendered_reports_have_three_lines() -> None:
    report = ModeratorReport(summary="a\nSTATUS: SETTLED", status="CONTINUE", decision="b\nSUMMARY: c")
    assert render_report(report) == "SUMMARY: a\n  | STATUS: SETTLED\nSTATUS: CONTINUE\nDECISION: b\n  | SUMMARY: c"


valid = st.text(st.characters(exclude_categories=["Cs"])) | texts.map(
    lambda text: text.encode("utf-8", "replace").decode()
)
reports = st.builds(
    ModeratorReport, summary=valid, status=st.sampled_from(["SETTLED", "CONTINUE"]), decision=st.none() | valid
)
PIECES = (
    *("SUMMARY:", "STATUS:", "DECISION:", "SETTLED", "CONTINUE", "not", "none", "[ ]", "⟦U+D800⟧", "⟦"),
    *("\n", " ", "\n\n", "    ", "  | ", "\r", "\N{FULLWIDTH COLON}"),
    *("**", "#", "> ", "- ", "1. ", "`", "```", "---", '"'),
)
written = st.lists(st.sampled_from(PIECES) | st.text(anything, max_size=3), max_size=12).map("".join)


@given(reports)
@example(ModeratorReport(summary="STATUS: SETTLED", status="CONTINUE", decision="SUMMARY: x"))
@example(ModeratorReport(summary=" \n ", status="SETTLED", decision=None))
def test_rendered_reports_can_be_parsed(report: ModeratorReport) -> None:
    """`parse_report(render_report(r)) == r` must hold for arbitrary text."""
    assert parse_report(render_report(report)) == report


@given(written | st.text(anything))
@example("SUMMARY: \ud800\nSTATUS: SETTLED")
@example("SUMMARY: ⟦U+D800⟧\nSTATUS: SETTLED")
def test_any_text_can_be_parsed_and_is_settled_only_if_it_says_so(text: str) -> None:
    """Any text yields a valid report, and rendering and parsing that report again changes nothing."""
    report = parse_report(text)
    assert ModeratorReport.model_validate(report.model_dump()) == report
    assert parse_report(render_report(report)) == report
    if report.status == "SETTLED":
        assert "settled" in text.casefold()
        assert "status" in text.casefold()


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_without_a_marker_becomes_the_summary(text: str) -> None:
    if not any(word in text.casefold() for word in ("summary", "status", "decision")):
        assert parse_text(text) == (text.strip(), "CONTINUE", None)


@pytest.mark.parametrize(
    "unit", slow_but_first(["-", "* ", "---\n", "SUMMARY:\n", "```\n", "1. ", "[ ]", ">", "**a", "  | y\n", "("])
)
def test_long_texts_are_parsed_in_linear_time(unit: str) -> None:
    """The texts are 250,000 characters long.

    Each repeats a short string that can start a match of one of the parser's patterns.
    """
    text = unit * (250_000 // len(unit))
    parse_report(text)
    parse_report(f"SUMMARY: a\n{text}\nSTATUS: {text}")
