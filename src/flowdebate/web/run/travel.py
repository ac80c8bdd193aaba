"""Views of a run at a given step, of the run's forks, and of two runs side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, groupby, zip_longest
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from flowdebate.web.prose import Span, prose
from flowdebate.web.run.sheet import Round, Sheet, Turn

if TYPE_CHECKING:
    from markupsafe import Markup

    from flowdebate.service.state import RunState
    from flowdebate.web.run.record import Call


_MAX_NAMED = 16
"""Maximum number of steps for which names are shown below the slider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A run as it stood at one of its steps."""

    call: Call
    steps: tuple[Call, ...]
    """All steps of the run."""
    round: str
    """Title of the step's round; "" for a step outside any round."""
    rounds: tuple[Round, ...]
    """Contributions made before the step, grouped by round."""

    @property
    def before(self) -> int:
        """Number of answers that a fork from this step can reuse."""
        return self.call.number - 1

    @property
    def after(self) -> int:
        """Number of answers recorded after this step."""
        return len(self.steps) - self.call.number

    @property
    def turns(self) -> int:
        """Number of contributions made before this step."""
        return sum(isinstance(part, Turn) for round_ in self.rounds for part in round_.parts)

    @property
    def is_crowded(self) -> bool:
        """Return whether there are too many steps to show their names below the slider."""
        return len(self.steps) > _MAX_NAMED


def moment_at(sheet: Sheet, number: int) -> Moment | None:
    """Return the run as of step `number`, or as of the last step if there are fewer.

    Return None for a run without steps.
    """
    calls = sheet.trace.calls
    if not calls:
        return None
    call = calls[min(number, len(calls)) - 1]
    its = (sheet_round.title for sheet_round in sheet.rounds for turn in _turns(sheet_round) if turn.call == call)
    return Moment(call=call, steps=calls, round=next(its, ""), rounds=tuple(_until(sheet.rounds, call)))


def _turns(part: Round) -> Iterator[Turn]:
    return (entry for entry in part.parts if isinstance(entry, Turn))


def _until(rounds: Iterable[Round], call: Call) -> Iterator[Round]:
    """Yield the rounds before `call`; turns whose call is unknown are treated like the turns before them."""
    for sheet_round in rounds:
        later = [turn for turn in _turns(sheet_round) if turn.call is not None and turn.call.number >= call.number]
        if not later:
            if any(_turns(sheet_round)):
                yield sheet_round
            continue
        parts = sheet_round.parts[: sheet_round.parts.index(later[0])]
        at_once = [turn for turn in _turns(sheet_round) if turn.call is not None and turn.call.number < call.number]
        parts = (*parts, *(turn for turn in at_once if turn not in parts))
        if parts:
            yield replace(sheet_round, parts=parts)
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkLine:
    """An entry in the list of a run's forks."""

    run: RunState
    step: int | None
    """Number of the first step that was deliberately changed; None if the fork changed options instead."""
    changed: str
    sheet: Sheet | None
    """The fork's sheet; None if the fork has no document."""


def fork_line(
    run: RunState, *, at: str | None, edited: Sequence[str], steps: Mapping[str, Call], sheet: Sheet | None
) -> ForkLine:
    """Build the list entry for a fork; `steps` are the steps of its parent run, keyed by path."""
    changed = sorted((steps[place] for place in edited if place in steps), key=lambda call: call.number)
    first = steps.get(at or "")
    words = [f"{', '.join(dict.fromkeys(call.who for call in changed))} changed"] if changed else []
    words += [f"{first.who} asked again"] if first is not None else []
    numbers = [call.number for call in (*changed, *([first] if first is not None else []))]
    return ForkLine(run=run, step=min(numbers, default=None), changed="; ".join(words) or "other options", sheet=sheet)


# Comparison of two runs

_PASS = re.compile(r"\[\d+\]")
"""Pattern that matches the number of a round, or of any other loop iteration, in a path."""
_WORD = re.compile(r"\s*\S+|\s+\Z")
_MARGIN = re.compile(r"(\A\s+|\n\s*)")
# A comparison takes time proportional to the product of the two lengths.
_MAX_COMPARED = 4_000_000
"""Maximum number of word pairs considered when comparing two texts; longer texts are not compared."""
_ALIKE = 0.4
"""Minimum share of common words needed to show one text as an edited version of the other."""
Kind: TypeAlias = Literal["same", "del", "ins"]
_ORIGINS = {"asked": "asked again", "reused": "reused", "edited": "changed by hand"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text from a comparison."""

    kind: Kind
    """Origin of the piece: both texts, only the first, or only the second."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A step of one of the two runs being compared."""

    call: Call
    pieces: tuple[Piece, ...]
    """Text of the step, split into pieces to show how it differs from the other run's text."""
    label: str
    """Origin of the step's answer if this run is a fork of the other one; "" if it is not."""

    @property
    def html(self) -> Markup:
        """The text as HTML, with the differences highlighted."""
        ends = [0, *accumulate(len(piece.text) for piece in self.pieces)]
        places = zip(ends, ends[1:], self.pieces, strict=False)
        spans = [Span(start, end, kind.kind) for start, end, kind in places if kind.kind != "same"]
        return prose("".join(span.text for span in self.pieces), spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A step that differs between two runs, or exists in only one of them."""

    one: Side | None
    other: Side | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Same:
    """Consecutive steps with the same content in both runs."""

    first: int
    last: int
    """Number of the last step, as counted in the first run."""
    names: tuple[str, ...]
    """Names of the speakers in the steps, without duplicates."""
    reused: bool
    """True if one run is a fork of the other and reused the steps."""


def changes(one: str, other: str) -> list[Piece]:
    """Compute the changes from one text to another, word by word.

    Without the insertions, the pieces make up the first text; without the deletions, they make up the second. If the
    texts are too long to compare, the second replaces the first entirely.

    >>> [(piece.kind, piece.text) for piece in changes("Buses are slow.", "Buses are never slow.")]
    [('same', 'Buses are'), ('ins', ' never'), ('same', ' slow.')]
    """
    before, after = _WORD.findall(one), _WORD.findall(other)
    if one == other:
        return [Piece("same", one)] if one else []
    if len(before) * len(after) > _MAX_COMPARED:
        return _pieces(("del", one), ("ins", other))
    changes_found: list[tuple[Kind, str]] = []
    # `autojunk` would ignore all frequent words, such as "the", in text of 200 or more words.
    for _, start, end, begin, stop in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        removed, right = "".join(before[start:end]), "".join(after[begin:stop])
        changes_found += [("same", removed)] if removed == right else [("del", removed), ("ins", right)]
    return _pieces(*changes_found)


def _pieces(*pieces: tuple[Kind, str]) -> list[Piece]:
    return [Piece(kind, text) for kind, text in pieces if text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A run's steps, and the rounds in which its turns were taken."""

    calls: Sequence[Call]
    rounds: Sequence[Round] = ()

    @classmethod
    def of(cls, sheet: Sheet | None) -> Self:
        """Build the run's history; it is empty if the run has no document."""
        return cls(calls=()) if sheet is None else cls(calls=sheet.trace.calls, rounds=sheet.rounds)

    @property
    def positions(self) -> dict[tuple[str, ...], Call]:
        """Index the steps by keys that match across runs.

        A turn's key is its round and number; any other step's key is its round, role and number.
        """
        turns = {
            turn.call.number: ("turn", str(at), str(number))
            for at, part in enumerate(self.rounds)
            for number, turn in enumerate(_turns(part))
            if turn.call is not None
        }
        seen = Counter[tuple[str, str]]()
        positions: dict[tuple[str, ...], Call] = {}
        for call in self.calls:
            passes = "".join(_PASS.findall(call.place))
            who = call.who if call.party is None else f"speaker {call.party.number}"
            seen[passes, who] += 1
            positions[turns.get(call.number, (passes, who, str(seen[passes, who])))] = call
        return positions


def compare(one: Course, other: Course, *, fork: Literal["one", "other"] | None) -> list[Pair | Same]:
    """Pair the steps of two runs by round and turn rather than by name.

    `fork` says which of the runs, if any, is the fork. Steps found only in the run `other` are placed after the step
    that precedes them there. If the runs have no steps in common, every step is shown.
    """
    pairs: list[Pair | Same] = []
    for same, group in groupby(_pair_steps(one.positions, other.positions), key=lambda pair: _are_equal(*pair)):
        if same:
            steps = [(first, second) for first, second in group if first is not None and second is not None]
            calls = [first for first, _ in steps]
            shared = Same(
                first=calls[0].number,
                last=calls[-1].number,
                names=tuple(dict.fromkeys(call.who for call in calls)),
                reused=fork is not None
                and all((second if fork == "other" else first).origin == "reused" for first, second in steps),
            )
            pairs.append(shared)
        else:
            pairs += [_pair(first, second, fork) for first, second in group]
    return pairs


def _pair_steps(
    one: Mapping[tuple[str, ...], Call], other: Mapping[tuple[str, ...], Call]
) -> Iterator[tuple[Call | None, Call | None]]:
    """Pair the steps of the two runs, in the order of the first run."""
    if one.keys().isdisjoint(other):
        yield from zip_longest(one.values(), other.values())
        return
    # steps that exist only in the other run, keyed by the preceding common step
    after: dict[tuple[str, ...], list[Call]] = {}
    last: tuple[str, ...] = ()
    for position, call in other.items():
        if position in one:
            last = position
        else:
            after.setdefault(last, []).append(call)
    for call in after.get((), ()):
        yield None, call
    for position, call in one.items():
        yield call, other.get(position)
        for extra in after.get(position, ()):
            yield None, extra


def _are_equal(one: Call | None, other: Call | None) -> bool:
    return (
        one is not None and other is not None and one.text == other.text and "edited" not in (one.origin, other.origin)
    )


def _pair(one: Call | None, other: Call | None, fork: str | None) -> Pair:
    pieces = None if one is None or other is None else changes(one.text, other.text)
    if pieces is not None and "edited" not in (one and one.origin, other and other.origin):
        same = sum(len(piece.text) for piece in pieces if piece.kind == "same")
        total = same + sum(len(piece.text) for piece in pieces) or 1
        if 2 * same / total < _ALIKE:
            pieces = None
    return Pair(
        one=None if one is None else _side(one, pieces, "ins", label=fork == "one"),
        other=None if other is None else _side(other, pieces, "del", label=fork == "other"),
    )


def _side(call: Call, pieces: Sequence[Piece] | None, without: Kind, *, label: bool) -> Side:
    pieces_shown = (
        [Piece("same", call.text)] if pieces is None else [piece for piece in pieces if piece.kind != without]
    )
    # Leading spaces and line breaks become separate pieces, because changes to them are irrelevant.
    parts = ((piece.kind, text) for piece in pieces_shown for text in _MARGIN.split(piece.text) if text)
    return Side(
        call=call,
        pieces=tuple(Piece("same" if text.isspace() else kind, text) for kind, text in parts),
        label=_ORIGINS.get(call.origin, "") if label else "",
    )
