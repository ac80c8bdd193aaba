"""Sections of a page as data, which any front end can render."""

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
    """A heading in the page's own words."""

    title: str
    level: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A quote in a contribution that was looked up in the sources."""

    start: int
    end: int
    """Its place in the text, without its quotation marks."""
    source: str | None
    """The source that has it; None for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A complete contribution."""

    name: str
    about: str
    text: str
    flag: Flag | None = None
    """What is wrong with it; `FLAGS` says it in words."""
    quotes: tuple[Quoted, ...] = ()
    """Its quotes from the sources of a debate."""
    does: str = ""
    """What it is in a cross-examination, such as "asks Ben"; empty for an argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A text behind a label."""

    label: str
    text: str
    tone: Tone = "plain"
    speaker: str | None = None
    """Whose colour the label has."""
    edge: bool = False
    """Whether it is at the left edge, as a statement of the page itself."""
    summary: str | None = None
    """Its text without details, for a page that folds these."""
    short: bool = False
    """Whether a narrow page may cut it; reports have it whole."""
    exact: bool = False
    """Whether it is code, which HTML has as it was written."""
    apart: Literal["paragraphs", "heading"] | None = None
    """How a page in HTML sets it without its label: in paragraphs, or as the heading of the round that it opens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A statement of a role, with what else it says behind labels."""

    label: str
    text: str
    facts: tuple[Fact, ...] = ()
    remark: str | None = None
    """What the page adds in its own words."""
    opens: bool = False
    """Whether it opens a round, and speaks to those who come after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How one answer of a judge divides the whole between the sides."""

    order: tuple[str, ...]
    """Names of the sides in the order in which the judge read them."""
    values: tuple[float, ...]
    """The share of each side, in the order of the sides in `Ballots`."""
    model: str | None = None
    """The judging model, where several were asked."""

    @property
    def winner(self) -> int | None:
        """Index of the side with the largest share; None for a tie."""
        largest = max(self.values)
        return self.values.index(largest) if self.values.count(largest) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballots:
    """What a judge saw and answered, view by view."""

    sides: tuple[str, ...]
    """Names of the sides as they were declared."""
    rows: tuple[Shares, ...]
    total: tuple[float, ...]
    """The share of each side in all of them."""
    remark: str
    """What they come to, in a sentence."""

    are_votes: bool = False
    """True if each ballot only names a winner or none, so that there are no shares to draw."""

    @property
    def tally(self) -> str:
        """Number of ballots for the leading side, or the share of each side if the judge gave shares.

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
    """A result, in a frame."""

    title: str
    facts: tuple[Fact, ...]
    lead: str = ""
    """The label of the fact that is the result itself."""
    winner: str | None = None
    """The name of the speaker who has won, if one has."""
    ballots: Ballots | None = None
    """For a page that can draw them; the facts have them in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A synthesizer's output: text, or JSON data."""

    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A remark of the page itself on what comes before it."""

    text: str


# Sections of a live view alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaking:
    """Somebody has the floor; pieces of its text follow."""

    name: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputHeading:
    """The output begins; pieces of its text follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of text, as the model writes it."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a streamed text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """Who is at work now, and how far the run is; shown until the next one."""

    who: str
    """A sentence such as "The judge is weighing the arguments"."""
    since: float
    """When that began, by the clock of the live view."""
    facts: tuple[str, ...] = ()
    """What else is known, the most important first: the turn, tokens and cost so far."""
    model: str = ""
    """The model that is asked; "" for several."""


Section: TypeAlias = Heading | Entry | Fact | Group | Card | Output | Remark
"""One part of a page. Whoever prints sections ends with `assert_never`, so that a new kind cannot vanish silently."""
LiveSection: TypeAlias = Section | Speaking | OutputHeading | Piece | Ending | Working
"""One part of a live view whose text only grows."""


# Sections of reports alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Figures or runs, each in a row; its first column names them."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    """What a page calls it that has several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """What figures come to, point by point."""

    items: tuple[str, ...]
    lead: str = ""
    """The sentence above them."""


ReportSection: TypeAlias = Heading | Fact | Table | Points
"""One part of the report of an evaluation or a batch."""


# Sections that all patterns have

FLAGS: Mapping[Flag, str] = {
    "cut_off": "the answer was cut off; it counts up to its last full sentence",
    "empty": "no text",
}
"""What is wrong with a contribution, in words."""
_RECOVERIES: Mapping[Recovery, str] = {
    "skipped": "the turn is skipped",
    "stand_in": "a stand-in argues",
    "declared_order": "all speak in declared order",
    "no_verdict": "there is no verdict",
    "no_output": "there is no output",
    "no_report": "the round has no report",
    "drawn": "the next speaker is drawn at random",
    "cut_off": "the argument ends there",
    "empty": "it has no argument",
    "unheard": "its side was not heard",
    "not_counted": "that winner does not count",
    "next_step": "the next step follows",
    "earlier_answer": "the answer of an earlier step stands",
}
"""Recovery from a role's failure, in words."""


def step_fact(step: EscalationStep) -> Fact:
    """A step of an escalation that has ended."""
    return Fact(label=f"Step {step.name}", text=f"{step_cost(step)}: {step.reason or 'goes on'}", tone="dim")


def step_cost(step: EscalationStep) -> str:
    """Calls and tokens of a step and of its check, in words."""
    tokens = None if step.tokens is None or step.check_tokens is None else step.tokens + step.check_tokens
    return counted(step.calls + step.check_calls, "call") + ("" if tokens is None else f", {tokens:,} tokens")


def round_heading(number: int, max_rounds: int | None, phase: str | None = None) -> Heading:
    """The heading of a round, with its phase in a debate with phases."""
    title = f"Round {number}" if max_rounds is None else f"Round {number} of {max_rounds}"
    return Heading(title=title if phase is None else f"{title}: {phase}")


def doing(kind: str | None, to: str | None) -> str:
    """What an entry or a turn of a cross-examination is, in words; empty for an argument.

    >>> doing("question", "Ben"), doing(None, None)
    ('asks Ben', '')
    """
    return "" if kind not in _VERBS or to is None else f"{_VERBS[kind]} {to}"


_VERBS = {"question": "asks", "answer": "answers"}


def role_failed(role: str, name: str, why: str, recovery: Recovery) -> Fact:
    """A role's failure, with its recovery."""
    what = {"unheard": "was not heard", "not_counted": "named no side", "empty": "said nothing"}.get(recovery, "failed")
    label = f"{role.capitalize()} {name} {what}"
    unread = "the answer could not be read" if why.startswith(UNREADABLE) else None
    summary = unread and f"{unread}; {_RECOVERIES[recovery]}"
    return Fact(label=label, text=f"{why}; {_RECOVERIES[recovery]}", summary=summary, tone="warning")


INCOMPLETE = "Incomplete"
"""Label of the line about missing participants."""


def incomplete_fact(failures: Iterable[ProviderFailure | RoleFailed]) -> Fact | None:
    """Line about missing participants, above a result; None if nobody is missing."""
    found = list(failures)
    line = missing_line(found)
    if line is None:
        return None
    summary = "; ".join(what for what, _ in missing_speakers(found))
    text = line.removeprefix(f"{INCOMPLETE}: ")
    return Fact(label=INCOMPLETE, text=text, summary=summary, tone="warning", edge=True)


def failures(found: Iterable[ProviderFailure]) -> Iterator[Fact]:
    """What a run went on without, but for flags of contributions, which are shown with these."""
    return (role_failed(each.role, each.name, each.error, each.instead) for each in found if each.instead not in FLAGS)
