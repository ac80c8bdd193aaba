"""Page sections as data, which any front end can render."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from flowdebate._text import counted
from flowdebate.chassis.state import UNREADABLE, missing_line, missing_speakers

if TYPE_CHECKING:
    from flowdebate.chassis.state import EscalationStep, Flag, ProviderFailure, Recovery, RoleFailed


Tone: TypeAlias = Literal["plain", "dim", "strong", "good", "warning"]
"""Emphasis given to a fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A heading written by the page itself, not by a model or user."""

    title: str
    level: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A quote found in a contribution and checked against the sources."""

    start: int
    end: int
    """Offset in the contribution's text at which the quote ends, excluding quotation marks."""
    source: str | None
    """Name of the source that contains the quote; None if it is not in any source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A complete contribution as shown on a page."""

    name: str
    about: str
    text: str
    flag: Flag | None = None
    """Problem with the contribution, as a key of `FLAGS`."""
    quotes: tuple[Quoted, ...] = ()
    """Quotes in the contribution, checked against the debate's sources."""
    does: str = ""
    """Speaker's action in a cross-examination, such as "asks Ben"; empty for an argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A piece of information, shown next to its label."""

    label: str
    text: str
    tone: Tone = "plain"
    speaker: str | None = None
    """Name of the speaker in whose color the label is shown."""
    edge: bool = False
    """True if the statement comes from the page itself and is therefore aligned with the left edge."""
    summary: str | None = None
    """Text without its details, for pages that show the details only on request."""
    short: bool = False
    """True if the text may be truncated on a narrow page; reports show it in full."""
    exact: bool = False
    """True for code, which HTML pages show unchanged."""
    apart: Literal["paragraphs", "heading"] | None = None
    """HTML layout for text shown without its label: as paragraphs, or as the heading of a new round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A role's statement and its details, shown as labeled facts."""

    label: str
    text: str
    facts: tuple[Fact, ...] = ()
    remark: str | None = None
    """Note about the statement, added by the page."""
    opens: bool = False
    """True if the group opens a round by addressing the round's speakers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Each side's share of the points or votes in one answer from a judge."""

    order: tuple[str, ...]
    """Names of the sides, in the order seen by the judge."""
    values: tuple[float, ...]
    """Each side's share, in the same order as the sides in `Ballots`."""
    model: str | None = None
    """Model that gave the answer; None if there was only one model."""

    @property
    def winner(self) -> int | None:
        """Index of the side with the largest share; None for a tie."""
        largest = max(self.values)
        return self.values.index(largest) if self.values.count(largest) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballots:
    """A judge's answers as a table, with one row per answer."""

    sides: tuple[str, ...]
    """Names of the sides, in the order in which they were declared."""
    rows: tuple[Shares, ...]
    total: tuple[float, ...]
    """Each side's share of the points or votes, across all ballots."""
    remark: str
    """One-sentence conclusion drawn from the ballots."""

    are_votes: bool = False
    """True if each ballot only names a winner, so there are no shares to draw."""

    @property
    def tally(self) -> str:
        """Text stating how many ballots the leading side received or, if the judge assigned shares, each side's share.

        If the ballots are tied, the text states the number for each side.

        >>> one = Shares(order=("a", "b"), values=(1.0, 0.0))
        >>> Ballots(sides=("a", "b"), rows=(one,), total=(1.0, 0.0), remark="", are_votes=True).tally
        '1 of 1 ballot'
        """
        if not self.are_votes:
            return " : ".join(f"{100 * share:.0f}" for share in self.total)
        counts = [sum(row.winner == side for row in self.rows) for side in range(len(self.sides))]
        largest = max(counts)
        first = str(largest) if counts.count(largest) == 1 else " : ".join(map(str, counts))
        return f"{first} of {len(self.rows)} {'ballot' if len(self.rows) == 1 else 'ballots'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A framed box containing a result."""

    title: str
    facts: tuple[Fact, ...]
    lead: str = ""
    """Label of the fact that states the result itself."""
    winner: str | None = None
    """Name of the winning speaker; None if there is none."""
    ballots: Ballots | None = None
    """Ballots for pages that can draw them; the facts describe the same ballots in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A synthesizer's output, either text or JSON data."""

    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """The page's own remark about the preceding section."""

    text: str


# Sections specific to live views


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaking:
    """Start of a speaker's text; the text follows in chunks."""

    name: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputHeading:
    """Start of the output; its text follows in chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A chunk of text from a model that is still writing."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of streamed text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """Current work and progress of a run, shown until the next update."""

    who: str
    """Sentence describing the current work, such as "The judge is weighing the arguments"."""
    since: float
    """Time at which the work started, according to the live view's clock."""
    facts: tuple[str, ...] = ()
    """Further facts, most important first: the turn, and the tokens and money spent so far."""
    model: str = ""
    """Name of the model being called; "" if there are several."""


Section: TypeAlias = Heading | Entry | Fact | Group | Card | Output | Remark
"""Section of a page. Code that renders sections ends with `assert_never` so that new kinds of sections are not silently
dropped.
"""
LiveSection: TypeAlias = Section | Speaking | OutputHeading | Piece | Ending | Working
"""Section of a live view; text is only ever appended to it."""


# Sections specific to reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Table of figures or runs; the first column contains the row labels."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    """Title of the table, for pages with several tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """List of conclusions drawn from the figures."""

    items: tuple[str, ...]
    lead: str = ""
    """Sentence introducing the list."""


ReportSection: TypeAlias = Heading | Fact | Table | Points
"""Section in a report on an evaluation or a batch."""


# Sections common to all patterns

FLAGS: Mapping[Flag, str] = {
    "cut_off": "the answer was cut off; it counts up to its last full sentence",
    "empty": "no text",
}
"""Descriptions of the problems that a contribution can have."""
_RECOVERIES: Mapping[Recovery, str] = {
    "skipped": "the turn is skipped",
    "stand_in": "a fallback model argues",
    "declared_order": "all speak in declared order",
    "no_verdict": "there is no verdict",
    "no_output": "there is no output",
    "no_report": "the round has no report",
    "drawn": "the next speaker is drawn at random",
    "cut_off": "the argument ends there",
    "empty": "it has no argument",
    "unheard": "its side did not speak",
    "not_counted": "that winner does not count",
    "next_step": "the next step follows",
    "earlier_answer": "the answer of an earlier step counts",
}
"""Descriptions of how a run recovers from a role's failure."""


def step_fact(step: EscalationStep) -> Fact:
    """Build the fact that describes a finished step of an escalation."""
    return Fact(label=f"Step {step.name}", text=f"{step_cost(step)}: {step.reason or 'continues'}", tone="dim")


def step_cost(step: EscalationStep) -> str:
    """State how many calls and tokens were used by a step and by the check after it."""
    tokens = None if step.tokens is None or step.check_tokens is None else step.tokens + step.check_tokens
    return counted(step.calls + step.check_calls, "call") + ("" if tokens is None else f", {tokens:,} tokens")


def round_heading(number: int, max_rounds: int | None, phase: str | None = None) -> Heading:
    """Build a round's heading, including its phase if there are phases."""
    title = f"Round {number}" if max_rounds is None else f"Round {number} of {max_rounds}"
    return Heading(title=title if phase is None else f"{title}: {phase}")


def doing(kind: str | None, to: str | None) -> str:
    """Describe the speaker's action in a cross-examination; return "" for an argument.

    >>> doing("question", "Ben"), doing(None, None)
    ('asks Ben', '')
    """
    return "" if kind not in _VERBS or to is None else f"{_VERBS[kind]} {to}"


_VERBS = {"question": "asks", "answer": "answers"}


def role_failed(role: str, name: str, why: str, recovery: Recovery) -> Fact:
    """Describe how a role failed, and how the run recovered from the failure."""
    what = {"unheard": "was not heard", "not_counted": "named no side", "empty": "said nothing"}.get(recovery, "failed")
    label = f"{role.capitalize()} {name} {what}"
    unread = "the answer could not be read" if why.startswith(UNREADABLE) else None
    summary = unread and f"{unread}; {_RECOVERIES[recovery]}"
    return Fact(label=label, text=f"{why}; {_RECOVERIES[recovery]}", summary=summary, tone="warning")


INCOMPLETE = "Incomplete"
"""Label for the line about missing participants."""


def incomplete_fact(failures: Iterable[ProviderFailure | RoleFailed]) -> Fact | None:
    """Build the line about missing participants to show above a result; return None if nobody is missing."""
    failure_list = list(failures)
    line = missing_line(failure_list)
    if line is None:
        return None
    summary = "; ".join(what for what, _ in missing_speakers(failure_list))
    text = line.removeprefix(f"{INCOMPLETE}: ")
    return Fact(label=INCOMPLETE, text=text, summary=summary, tone="warning", edge=True)


def failures(losses: Iterable[ProviderFailure]) -> Iterator[Fact]:
    """Describe a run's failures, except those shown next to the affected contributions."""
    return (role_failed(loss.role, loss.name, loss.error, loss.instead) for loss in losses if loss.instead not in FLAGS)
