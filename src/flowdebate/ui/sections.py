"""Sections of a page, as data that any front end can render."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from flowdebate._text import counted
from flowdebate.chassis.state import UNREADABLE, missing_line, missing_speakers

if TYPE_CHECKING:
    from flowdebate.chassis.state import EscalationStep, Flag, ProviderFailure, Recovery, RoleFailed


Tone: TypeAlias = Literal["plain", "dim", "strong", "good", "warning"]
"""Emphasis of a fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A heading from the page itself."""

    title: str
    level: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A quote in a contribution, checked against the sources."""

    start: int
    end: int
    """End position in the text, excluding quotation marks."""
    source: str | None
    """Source that contains the quote; None if no source does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A complete contribution."""

    name: str
    about: str
    text: str
    flag: Flag | None = None
    """Problem with the contribution, as described in `FLAGS`."""
    quotes: tuple[Quoted, ...] = ()
    """Quotes from the debate's sources."""
    does: str = ""
    """Action in a cross-examination, such as "asks Ben"; empty for an argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A piece of information with a label."""

    label: str
    text: str
    tone: Tone = "plain"
    speaker: str | None = None
    """Speaker whose color is used for the label."""
    edge: bool = False
    """True for a statement by the page itself, aligned with the left edge."""
    summary: str | None = None
    """The text without its details, for a page that collapses them."""
    short: bool = False
    """True if a narrow page may truncate the text; reports show it in full."""
    exact: bool = False
    """True for code, which HTML pages show verbatim."""
    apart: Literal["paragraphs", "heading"] | None = None
    """Form in which HTML shows the text without its label: as paragraphs, or as the heading of a new round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A statement by a role, with labeled details."""

    label: str
    text: str
    facts: tuple[Fact, ...] = ()
    remark: str | None = None
    """Remark from the page itself."""
    opens: bool = False
    """True if the group opens a round and addresses its speakers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The sides' shares in one of a judge's answers."""

    order: tuple[str, ...]
    """Names of the sides in the order seen by the judge."""
    values: tuple[float, ...]
    """Each side's share, in the order of the sides in `Ballots`."""
    model: str | None = None
    """The judge's model, if several models judged."""

    @property
    def winner(self) -> int | None:
        """Index of the side with the largest share; None for a tie."""
        largest = max(self.values)
        return self.values.index(largest) if self.values.count(largest) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballots:
    """A judge's answers, with one row per answer."""

    sides: tuple[str, ...]
    """Names of the sides, in declared order."""
    rows: tuple[Shares, ...]
    total: tuple[float, ...]
    """Each side's share across all ballots."""
    remark: str
    """Conclusion to draw from the ballots, in one sentence."""

    are_votes: bool = False
    """True if the ballots merely name a winner, so there are no shares to draw."""

    @property
    def tally(self) -> str:
        """Number of ballots for the leading side, or each side's share if the judge assigned shares.

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
    """A result shown in a frame."""

    title: str
    facts: tuple[Fact, ...]
    lead: str = ""
    """Label of the fact that states the actual result."""
    winner: str | None = None
    """Name of the winning speaker, if there is one."""
    ballots: Ballots | None = None
    """Ballots for pages that can draw them; the facts describe them in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A synthesizer's output: text, or JSON data."""

    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A remark by the page about the preceding section."""

    text: str


# Sections specific to live views


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaking:
    """The start of a speaker's text, followed by the text in chunks."""

    name: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputHeading:
    """The start of the output, followed by its text in chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A chunk of text that the model is still writing."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of streamed text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """The run's current work and progress, shown until the next update."""

    who: str
    """Sentence about the current work, such as "The judge is weighing the arguments"."""
    since: float
    """Start of the work according to the live view's clock."""
    facts: tuple[str, ...] = ()
    """Further facts, most important first: the turn, and the tokens and cost so far."""
    model: str = ""
    """Model being called; "" if several models are being called."""


Section: TypeAlias = Heading | Entry | Fact | Group | Card | Output | Remark
"""Part of a page. Code that renders sections ends with `assert_never`, so a new kind cannot be
silently dropped.
"""
LiveSection: TypeAlias = Section | Speaking | OutputHeading | Piece | Ending | Working
"""Part of a live view with append-only text."""


# Sections specific to reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Table of figures or runs; the first column names the rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    """Title of the table on a page with several tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """List of conclusions drawn from the figures."""

    items: tuple[str, ...]
    lead: str = ""
    """Sentence above the list."""


ReportSection: TypeAlias = Heading | Fact | Table | Points
"""Part of the report on an evaluation or a batch."""


# Sections common to all patterns

FLAGS: Mapping[Flag, str] = {
    "cut_off": "the answer was cut off; it counts up to its last full sentence",
    "empty": "no text",
}
"""Descriptions of what can be wrong with a contribution."""
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
"""Descriptions of how a run recovers when a role fails."""


def step_fact(step: EscalationStep) -> Fact:
    """Render a finished step of an escalation as a fact."""
    return Fact(label=f"Step {step.name}", text=f"{step_cost(step)}: {step.reason or 'continues'}", tone="dim")


def step_cost(step: EscalationStep) -> str:
    """Describe the calls and tokens used by a step and by its check."""
    tokens = None if step.tokens is None or step.check_tokens is None else step.tokens + step.check_tokens
    return counted(step.calls + step.check_calls, "call") + ("" if tokens is None else f", {tokens:,} tokens")


def round_heading(number: int, max_rounds: int | None, phase: str | None = None) -> Heading:
    """Build a round's heading, with its phase if the debate has phases."""
    title = f"Round {number}" if max_rounds is None else f"Round {number} of {max_rounds}"
    return Heading(title=title if phase is None else f"{title}: {phase}")


def doing(kind: str | None, to: str | None) -> str:
    """Describe an entry or a turn in a cross-examination; return "" for an argument.

    >>> doing("question", "Ben"), doing(None, None)
    ('asks Ben', '')
    """
    return "" if kind not in _VERBS or to is None else f"{_VERBS[kind]} {to}"


_VERBS = {"question": "asks", "answer": "answers"}


def role_failed(role: str, name: str, why: str, recovery: Recovery) -> Fact:
    """Describe how a role failed and how the run recovered."""
    what = {"unheard": "was not heard", "not_counted": "named no side", "empty": "said nothing"}.get(recovery, "failed")
    label = f"{role.capitalize()} {name} {what}"
    unread = "the answer could not be read" if why.startswith(UNREADABLE) else None
    summary = unread and f"{unread}; {_RECOVERIES[recovery]}"
    return Fact(label=label, text=f"{why}; {_RECOVERIES[recovery]}", summary=summary, tone="warning")


INCOMPLETE = "Incomplete"
"""Label of the line about missing participants."""


def incomplete_fact(failures: Iterable[ProviderFailure | RoleFailed]) -> Fact | None:
    """Build the line about missing participants above a result; return None if nobody is missing."""
    failure_list = list(failures)
    line = missing_line(failure_list)
    if line is None:
        return None
    summary = "; ".join(what for what, _ in missing_speakers(failure_list))
    text = line.removeprefix(f"{INCOMPLETE}: ")
    return Fact(label=INCOMPLETE, text=text, summary=summary, tone="warning", edge=True)


def failures(losses: Iterable[ProviderFailure]) -> Iterator[Fact]:
    """Describe a run's failures, except those shown with the affected contributions."""
    return (role_failed(loss.role, loss.name, loss.error, loss.instead) for loss in losses if loss.instead not in FLAGS)
