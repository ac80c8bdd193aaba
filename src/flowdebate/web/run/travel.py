"""A run at one of its steps: what had been said until then, what comes after it, and the forks of the run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flowdebate.web.run.sheet import Sheet, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from flowdebate.service.state import RunState
    from flowdebate.web.run.record import Call
    from flowdebate.web.run.sheet import Round


_MOST_NAMED = 16
"""Steps up to which each of them has room for a name below the slider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A run at one of its steps."""

    call: Call
    steps: tuple[Call, ...]
    """All of them."""
    round: str
    """The title of the round in which the step was taken; "" for one outside of all rounds."""
    said: tuple[Round, ...]
    """What had been said before."""

    @property
    def before(self) -> int:
        """Answers that a fork from here may reuse."""
        return self.call.number - 1

    @property
    def after(self) -> int:
        """Answers that came later."""
        return len(self.steps) - self.call.number

    @property
    def turns(self) -> int:
        """Contributions that had been made before."""
        return sum(isinstance(part, Turn) for each in self.said for part in each.parts)

    @property
    def is_crowded(self) -> bool:
        """Whether there are too many steps to name each of them below the slider."""
        return len(self.steps) > _MOST_NAMED


def moment_at(sheet: Sheet, number: int) -> Moment | None:
    """The run at this step, or at its last one where it has fewer; None for a run without any."""
    calls = sheet.trace.calls
    if not calls:
        return None
    call = calls[min(number, len(calls)) - 1]
    its = (each.title for each in sheet.rounds for turn in _turns(each) if turn.call == call)
    return Moment(call=call, steps=calls, round=next(its, ""), said=tuple(_until(sheet.rounds, call)))


def _turns(part: Round) -> Iterator[Turn]:
    return (each for each in part.parts if isinstance(each, Turn))


def _until(rounds: Iterable[Round], call: Call) -> Iterator[Round]:
    """The rounds as far as they had come before `call`: turns whose own call is not known go with those before them."""
    for each in rounds:
        later = [turn for turn in _turns(each) if turn.call is not None and turn.call.number >= call.number]
        if not later:
            if any(_turns(each)):
                yield each
            continue
        parts = each.parts[: each.parts.index(later[0])]
        at_once = [turn for turn in _turns(each) if turn.call is not None and turn.call.number < call.number]
        parts = (*parts, *(turn for turn in at_once if turn not in parts))
        if parts:
            yield replace(each, parts=parts)
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkLine:
    """A fork in the list of forks."""

    run: RunState
    step: int | None
    """The number of its first step that differs by choice; None where other options were given."""
    changed: str
    sheet: Sheet | None
    """Its own sheet; None where it has no document."""


def fork_line(
    run: RunState, *, at: str | None, edited: Sequence[str], steps: Mapping[str, Call], sheet: Sheet | None
) -> ForkLine:
    """The line of a fork; `steps` are those of its parent, by place."""
    changed = sorted((steps[place] for place in edited if place in steps), key=lambda call: call.number)
    first = steps.get(at or "")
    words = [f"{', '.join(dict.fromkeys(call.who for call in changed))} changed"] if changed else []
    words += [f"{first.who} asked again"] if first is not None else []
    numbers = [call.number for call in (*changed, *([first] if first is not None else []))]
    return ForkLine(run=run, step=min(numbers, default=None), changed="; ".join(words) or "other options", sheet=sheet)
