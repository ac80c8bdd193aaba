"""Content of a run's page and report: the speakers, the contributions by round, and the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard, assert_never
from unicodedata import category

from markupsafe import Markup

from flowdebate.evaluation.readers import Votes
from flowdebate.service.runs import to_datetime
from flowdebate.service.state import RunState
from flowdebate.ui.document import Document
from flowdebate.ui.sections import INCOMPLETE, Card, Entry, Fact, Group, Heading, Output, Remark, Section
from flowdebate.ui.steps import StepState
from flowdebate.web.prose import Span, is_marked, prose
from flowdebate.web.run.record import Board, Call, Trace, board_of, trace_of

_MARKS = 5
"""Number of distinct marks for speakers; the sixth speaker gets the first mark again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """A speaker, shown with the same mark on every page."""

    name: str
    about: str
    number: int
    """0-based index of the speaker."""

    @property
    def side(self) -> int:
        """1-based index of the speaker's mark."""
        return self.number % _MARKS + 1

    @property
    def shares_mark(self) -> bool:
        """Return whether an earlier speaker has the same mark."""
        return self.number >= _MARKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A contribution on the page."""

    number: int
    """1-based index of the turn."""
    entry: Entry
    party: Party | None
    call: Call | None
    """Call to a model or person that produced the turn; None if there was none or it is unknown."""
    citations: tuple[Citation, ...] = ()

    @property
    def html(self) -> Markup:
        """The contribution's text as HTML, with quotes highlighted."""
        return prose(self.entry.text, [citation.span for citation in self.citations])

    @property
    def is_marked(self) -> bool:
        """Return whether the text contains Markdown formatting that would be lost when copying from the page."""
        return is_marked(self.entry.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Part of a run's page under a heading of its own, usually a round."""

    number: int
    title: str
    notes: tuple[Group, ...] = ()
    """Notes by the moderator, shown at the start of the round."""
    parts: tuple[Turn | Fact | Group | Remark, ...] = ()

    @property
    def angle(self) -> str | None:
        """The moderator's question for this round."""
        return next((fact.text for note in self.notes for fact in note.facts if fact.apart == "heading"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Everything shown on a run's page."""

    document: Document
    question: str
    status: str
    kicker: tuple[str, ...]
    parties: tuple[Party, ...]
    card: Card | None
    outputs: tuple[Output, ...]
    missing: Fact | None
    """Line about participants missing from the result."""
    rounds: tuple[Round, ...]
    trace: Trace
    board: Board
    votes: Votes | None = None
    """Votes cast by readers before they saw the verdict."""

    @classmethod
    def of(
        cls,
        document: Document,
        *,
        details: RunState | None = None,
        steps: Sequence[StepState] = (),
        events: Sequence[object] = (),
        votes: Votes | None = None,
        sections: Iterable[Section] | None = None,
    ) -> Sheet:
        """Build the sheet for a document, including what is known from the run's stored data and replayed events.

        If given, `sections` replace the document's own.
        """
        parties = parties_of(document)
        trace = trace_of(steps, events, parties)
        sections = list(document.sections() if sections is None else sections)
        start = None if details is None else f"{to_datetime(details.created_at):%-d %B %Y}"
        length = None if document.seconds is None else duration(document.seconds)
        return cls(
            document=document,
            question=document.subject,
            status=document.status if details is None else details.status,
            kicker=tuple(filter(None, (document.title, start, document.ending, length))),
            parties=tuple(parties.values()),
            card=next((section for section in sections if isinstance(section, Card)), None),
            outputs=tuple(section for section in sections if isinstance(section, Output)),
            missing=next((section for section in reversed(sections) if _is_mark(section)), None),
            rounds=tuple(_rounds(sections, parties, trace)),
            trace=trace,
            board=board_of(events, parties),
            votes=votes,
        )

    @property
    def judging(self) -> list[Fact]:
        """Facts about the judging, including the document's notes and the readers' votes."""
        notes = (note.partition(": ") for note in self.document.notes)
        facts = [*self.document.judging(), *(Fact(label=label, text=text) for label, _, text in notes)]
        if (votes := self.votes) is not None and votes.readers:
            text = f"{votes.readers:,}, with no side ahead"
            if (leader := votes.leader) is not None:
                names = {getattr(speaker, "stance", None): speaker.name for speaker in self.document.speakers}
                text = f"{votes.sides[leader]:,} of {votes.readers:,} for {names.get(leader, leader)}"
            facts.append(Fact(label="Readers who voted blind", text=text))
        return facts

    @property
    def gist(self) -> str:
        """The result in the judge's words or, before there is a result, the names of the speakers."""
        card = self.card
        text = "" if card is None else next((fact.text for fact in card.facts if fact.label == card.lead), "")
        return " ".join(text.split()) or ", ".join(party.name for party in self.parties)

    @property
    def citations(self) -> list[Citation]:
        """All quotes in the contributions, checked against the sources."""
        turns = [part for sheet_round in self.rounds for part in sheet_round.parts if isinstance(part, Turn)]
        return [citation for turn in turns for citation in turn.citations]

    @property
    def names(self) -> dict[str, Party]:
        return {party.name: party for party in self.parties}


def parties_of(document: Document) -> dict[str, Party]:
    """Return the speakers keyed by name."""
    return {
        speaker.name: Party(name=speaker.name, about=speaker.about, number=number)
        for number, speaker in enumerate(document.speakers)
    }


def duration(seconds: float) -> str:
    """Format a duration, given in seconds, in words.

    >>> duration(0.01), duration(0.4), duration(57.2), duration(1000)
    ('under 0.1 seconds', '0.4 seconds', '57 seconds', '17 minutes')
    """
    if seconds < _MIN_SECONDS:
        return f"under {_MIN_SECONDS} seconds"
    if seconds < _FEW:
        return f"{seconds:.1f} seconds"
    return f"{seconds:.0f} seconds" if seconds < _MINUTES else f"{seconds / 60:.0f} minutes"


_MIN_SECONDS, _FEW, _MINUTES = 0.1, 10, 180


def _rounds(sections: Iterable[Section], parties: dict[str, Party], trace: Trace) -> Iterable[Round]:  # noqa: C901 - a case for each kind
    """Split the sections into rounds at their headings, omitting the result because it is shown elsewhere."""
    title, parts, number, turns, quotes = "", list[Entry | Fact | Group | Remark](), 0, 0, 0
    calls: dict[str, list[Call]] = {}  # Keyed by name, including roles that have turns but are not parties.

    def finished() -> Round:
        nonlocal turns, quotes
        notes = [open_part for open_part in parts if isinstance(open_part, Group) and open_part.opens]
        shown_parts: list[Turn | Fact | Group | Remark] = []
        for part in parts:
            match part:
                case Entry():
                    turns += 1
                    unshown = calls.setdefault(part.name, [*trace.calls_of(part.name)])
                    party, call = parties.get(part.name), _take_call(unshown, part.text)
                    cited = citations_in(part, party, after=quotes)
                    quotes += len(cited)
                    shown_parts.append(Turn(number=turns, entry=part, party=party, call=call, citations=cited))
                case Fact() | Group() | Remark():
                    if part not in notes:
                        shown_parts.append(part)
                case _:
                    assert_never(part)
        return Round(number=number, title=title, notes=tuple(notes), parts=tuple(shown_parts))

    for section in sections:
        if isinstance(section, Heading):
            if parts or title:
                yield finished()
            title, parts, number = section.title, [], number + 1
        # The result is shown above the rounds.
        elif not isinstance(section, (Card, Output)) and not _is_mark(section):
            parts.append(section)
    if parts or title:
        yield finished()


def _is_mark(section: Section) -> TypeGuard[Fact]:
    """Return whether a section is the line about missing participants."""
    return isinstance(section, Fact) and section.label == INCOMPLETE


def _take_call(calls: list[Call], text: str) -> Call | None:
    """Remove and return the first call whose answer matches `text`; return None if there is none.

    Structured answers do not contain the displayed text. So if all of the speaker's answers are structured, the first
    turn's calls are removed, and the last of these calls is returned.
    """
    for call in calls:
        # A turn may be cut off after its last full sentence, or contain a line added to the model's text.
        if call.text.strip() and (call.text.strip() in text or text in call.text):
            calls.remove(call)
            return call
    if not calls or not all(call.is_data for call in calls):
        return None
    turn = f"{calls[0].place.rpartition('/')[0]}/"
    *_, last = (call for call in calls if call.place.startswith(turn))
    calls[:] = [call for call in calls if not call.place.startswith(turn)]
    return last


# Quotes in contributions

_QUOTATION = frozenset({"Pi", "Pf", "Ps", "Pe"})
"""Unicode categories of opening and closing quotation marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A quote in a contribution, checked against the sources."""

    number: int
    """1-based index of the quote."""
    name: str
    party: Party | None
    start: int
    end: int
    """End of the quote in the contribution's text, including quotation marks."""
    text: str
    source: str | None
    """Name of the source that contains the quote; None if no source does."""

    @property
    def span(self) -> Span:
        """Span of the quote in the contribution, including a link to the quote's entry in the list of quotes."""
        label = f"Quote {self.number}, {'found' if self.source else 'not found'}"
        link = Markup('<a class="ref" href="#quote-{0}" aria-label="{1}">{0}</a>').format(self.number, label)
        return Span(self.start, self.end, "q", "" if self.source else "unfound", link)


def citations_in(entry: Entry, party: Party | None, *, after: int) -> tuple[Citation, ...]:
    """Return the quotes in a contribution, numbered from `after` + 1; quotes inside other quotes are left out."""
    citations: list[Citation] = []
    for quote in sorted(entry.quotes, key=lambda citation: (citation.start, -citation.end)):
        start, end = quote.start, quote.end
        around = (entry.text[start - 1 : start], entry.text[end : end + 1])
        if all(char and (category(char) in _QUOTATION or char in "\"'\uff02") for char in around):
            start, end = start - 1, end + 1
        if 0 <= start < end <= len(entry.text) and (not citations or start >= citations[-1].end):
            citations.append(
                Citation(
                    number=after + len(citations) + 1,
                    name=entry.name,
                    party=party,
                    start=start,
                    end=end,
                    text=entry.text[quote.start : quote.end],
                    source=quote.source,
                )
            )
    return tuple(citations)


def public_sections(sections: Iterable[Section]) -> Iterator[Section]:
    """Remove warnings, including those in groups, because the error messages in them may contain server addresses."""
    for section in sections:
        if isinstance(section, Group):
            yield replace(section, facts=tuple(fact for fact in section.facts if fact.tone != "warning"))
        elif not isinstance(section, Fact) or section.tone != "warning":
            yield section
