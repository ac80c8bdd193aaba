"""Phases of a debate: the purpose of each round, and cross-examinations between sides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from flowdebate._util.option_types import check_option
from flowdebate._util.validation import check_count
from flowdebate.blocks.base import Outline
from flowdebate.chassis.rounds import RoundOfTurns, Wave, waves_of
from flowdebate.chassis.spec import Loop
from flowdebate.chassis.state import TurnOrder, entries_of, state_of
from flowdebate.chassis.turn import Turn
from flowdebate.errors import ConfigurationError
from flowdebate.prompts import Length, check_length
from flowdebate.runs.context import Context

from .schemas import PHASE_NAME, DebateState, DebateTurn

if TYPE_CHECKING:
    from .options import DebateOptions

AIMS: Mapping[str, str] = {
    "closing": "Explain why your position still stands after everything that has been said. Do not raise new points.",
}
"""Default tasks for phases with common names."""
_MAX_AIM_LENGTH = 2_000  # maximum length of a phase's aim in characters; every prompt in the phase contains it
_MAX_PHASES = 100  # maximum number of phases


@dataclass(frozen=True, slots=True)
class Phase:
    """One or more rounds with a common purpose: `Phase("rebuttal", rounds=2)`.

    Raises ConfigurationError for invalid values.
    """

    name: str
    """Name of the phase, as shown in prompts and on pages."""
    rounds: int = field(default=1, kw_only=True)
    asks: Literal["pairs"] | None = field(default=None, kw_only=True)
    """"pairs" for a cross-examination, None otherwise.

    In a cross-examination, each speaker questions a debater from another side, who answers immediately; each exchange
    takes two turns. In later rounds of the phase, the question goes to a different debater if there are several.
    """
    speakers: Sequence[int] = field(default=(), kw_only=True)
    """Roster positions, starting at 1, of the debaters who speak (or ask) in this phase; if empty, all debaters speak.

    They speak in the order listed. A moderator's choice of speakers takes precedence.
    """
    aim: str | None = field(default=None, kw_only=True)
    """Task for the debaters.

    The default is the standard task for a phase of this name, such as "closing", or else the usual task for a round.
    """
    length: Length | None = field(default=None, kw_only=True)
    """Length of a turn; by default, "short" in a cross-examination and the debate's length in other phases."""
    turn_order: TurnOrder | None = field(default=None, kw_only=True)
    """Turn order, or None for the debate's order."""

    def __post_init__(self) -> None:
        location = "Phase"
        if not isinstance(self.name, str) or re.match(PHASE_NAME, self.name) is None or "\n" in self.name:
            raise ConfigurationError(location, "name", self.name, "must be 1 to 60 letters, digits, spaces or hyphens")
        location = f"Phase {self.name!r}"
        check_count(location, maximum=1_000, rounds=self.rounds)
        if self.asks not in (None, "pairs"):
            raise ConfigurationError(location, "asks", self.asks, choices=["pairs"])
        places = tuple(self.speakers) if isinstance(self.speakers, (list, tuple)) else None
        if places is None or len(places) > _MAX_PHASES or not all(type(place) is int and place > 0 for place in places):
            problem = f"must contain at most {_MAX_PHASES} positions on the roster, counted from 1"
            raise ConfigurationError(location, "speakers", self.speakers, problem)
        object.__setattr__(self, "speakers", places)
        is_aim = isinstance(self.aim, str) and self.aim.strip() and len(self.aim) <= _MAX_AIM_LENGTH
        if self.aim is not None and not is_aim:
            raise ConfigurationError(
                location, "aim", self.aim, f"must be non-blank text of at most {_MAX_AIM_LENGTH:,} characters"
            )
        check_length(location, self.length)
        if self.turn_order is not None:
            check_option(TurnOrder, "turn_order", self.turn_order, location=location, optional=False)

    @property
    def turn_length(self) -> Length | None:
        """Length of turns in this phase, or None for the debate's length."""
        return "short" if self.length is None and self.asks else self.length

    @property
    def turns(self) -> int:
        """Number of turns in a round for each speaker; a question and its answer count as two."""
        return 2 if self.asks else 1

    def __str__(self) -> str:
        rounds = "" if self.rounds == 1 else f" ({self.rounds} rounds)"
        return f"{self.name}{rounds}"


PhaseLike: TypeAlias = "Phase | str | Mapping[str, Any]"
"""A phase, its name, or a dict of its fields."""


def check_phases(value: object, *, location: str, members: int) -> tuple[Phase, ...]:
    """Validate the phases of a debate with `members` debaters; None means no phases.

    Raises ConfigurationError, with the index of the phase, if a phase is invalid.
    """
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence) or not 0 < len(value) <= _MAX_PHASES:
        raise ConfigurationError(location, "phases", value, f"must contain 1 to {_MAX_PHASES} phases")
    names = {item.name for item in fields(Phase)}
    phases: list[Phase] = []
    for index, phase_value in enumerate(value):
        place = f"phases[{index}]"
        if isinstance(phase_value, Mapping) and "name" in phase_value and names >= phase_value.keys():
            try:
                phase = Phase(**phase_value)
            except ConfigurationError as error:
                raise error.moved(location, f"{place}.{error.field}") from None
        elif isinstance(phase_value, (str, Phase)):
            phase = phase_value if isinstance(phase_value, Phase) else Phase(phase_value)
        else:
            problem = f"must be a Phase, the name of a phase, or a dict with the keys {', '.join(sorted(names))}"
            raise ConfigurationError(location, place, phase_value, problem)
        if any(speaker > members for speaker in phase.speakers):
            problem = f"must contain positions on the roster, from 1 to {members}"
            raise ConfigurationError(location, f"{place}.speakers", list(phase.speakers), problem)
        phases.append(phase)
    return tuple(phases)


class PhasedTurns(RoundOfTurns):
    """Turns of one round in a debate with phases, in the order that the phase requires.

    In a cross-examination, they come in pairs.

    A debater due to be questioned always gets a turn. If there is no question because the asker's provider failed, the
    debater argues instead.
    """

    def __init__(
        self,
        loop: Loop[DebateOptions],
        turns: Mapping[str, Turn],
        *,
        speakers: Callable[[Context], Sequence[str]] | None,
    ) -> None:
        order, reverse = loop.turn_order, loop.reverse
        super().__init__(f"{loop.name}-turns", turns, turn_order=order, speakers=speakers, reverse=reverse)
        self.phases: tuple[Phase, ...] = loop.options.phases

    def plan(self, names: Sequence[str], ctx: Context) -> tuple[TurnOrder, list[Wave]]:
        state = state_of(ctx, DebateState)
        phase, roster = state.phase, list(self.turns)
        if phase is None:
            return super().plan(names, ctx)
        turn_order = phase.turn_order or self.turn_order
        if phase.speakers and self._speakers is None:
            names = [roster[place - 1] for place in phase.speakers]
        order = self.in_order(names, turn_order, ctx)
        if phase.asks is None:
            waves = waves_of(order) if turn_order == "simultaneous" else [[name] for name in order]
            return turn_order, [dict.fromkeys(wave) for wave in waves]
        number = state.round_of_phase
        pairs = [(name, choose_addressee(name, state.stances, number)) for name in order]
        together: list[dict[str, str]] = []
        for asker, answerer in pairs:
            wave = next((one for one in together if asker not in one and answerer not in one.values()), None)
            if wave is None or turn_order != "simultaneous":
                together.append(wave := {})
            wave[asker] = answerer
        planned: list[Wave] = []
        for wave in together:
            planned.append({asker: ("question", answerer) for asker, answerer in wave.items()})
            planned.append({answerer: ("answer", asker) for asker, answerer in wave.items()})
        return turn_order, planned

    def open(self, wave: Wave, ctx: Context) -> None:
        """Assign a purpose to each turn in `wave` before the turns start."""
        state = state_of(ctx, DebateState)
        phase = state.phase
        if phase is None:
            return
        assignments: dict[str, DebateTurn] = {}
        for name, duty in wave.items():
            turn = DebateTurn(question=state.question, phase=phase.name, aim=phase.aim or AIMS.get(phase.name))
            if duty is not None:
                kind, other = duty
                turn_fields: dict[str, Any] = {"kind": kind, "to": other, "to_stance": state.stances[other]}
                put = None if kind == "question" else question_to(name, other, state.round, ctx)
                if kind == "question" or put is not None:
                    turn = turn.model_copy(update={**turn_fields, "question_to_answer": put})
            assignments[name] = turn
        ctx.scope.handle.update(assignments=assignments)

    def outline(self) -> Outline:
        return replace(super().outline(), text=f"{self.name} ({'; '.join(map(str, self.phases))})")


def choose_addressee(name: str, stances: Mapping[str, str], number: int) -> str:
    """Choose the debater for `name` to question in round `number` of a cross-examination.

    Each round moves on to the next debater on another side, and members of a team question different opponents.

    >>> sides = {"a": "tea", "b": "coffee", "c": "water"}
    >>> [choose_addressee("a", sides, number) for number in (1, 2, 3)], choose_addressee("c", sides, 1)
    (['b', 'c', 'b'], 'a')
    """
    roster = list(stances)
    place = roster.index(name)
    after = [*roster[place + 1 :], *roster[:place]]
    opponents = [name_after for name_after in after if stances[name_after] != stances[name]] or after
    team = [
        name_in_team for name_in_team in roster if stances[name_in_team] == stances[name]
    ]  # members of a team question different opponents
    return opponents[(team.index(name) + number - 1) % len(opponents)]


def question_to(name: str, asker: str, number: int, ctx: Context) -> str | None:
    """Return the last question `asker` put to `name` in a round, or None if there is none."""
    for entry in reversed(entries_of(ctx)):
        if entry.round != number:
            break
        if (entry.kind, entry.agent_name, entry.to) == ("question", asker, name):
            return None if entry.flag == "empty" else str(entry.text)
    return None
