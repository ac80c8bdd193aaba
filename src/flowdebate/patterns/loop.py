"""The loop that `debate()` and `round_robin()` share: an opening, then rounds of turns, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.handler import as_block
from flowdebate.blocks.human.prompt import render_who, with_answer_schema
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.models.resolve import KeptModel, check_model
from flowdebate.patterns import checks
from flowdebate.patterns.failures import OnFailure, StandIn, WithFallback, is_provider_failure
from flowdebate.patterns.recording import audit_resources, create_init_transcript
from flowdebate.patterns.rounds import accept, another_round, begin, end_of_turns, increment_round
from flowdebate.patterns.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.handler import Function, Handler
    from flowdebate.models.base import Model
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.roster import Debater, Persona
    from flowdebate.patterns.state import PatternInput, PatternState
    from flowdebate.resources.resource import StateResource
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "Loop",
    "PatternSpec",
    "checked_loop",
    "in_declared_order",
)


@dataclass(frozen=True, kw_only=True)
class PatternSpec:
    """What each pattern fills the loop in with."""

    takes: type[PatternInput]
    """What it is given, and what it hands to those who speak."""
    state: Callable[[], PatternState]
    """Makes what it keeps while it goes on."""
    raw: Callable[[Context, RunStatus], object]
    """What it came to, whatever its end."""
    ends: Callable[[Any], str | None]
    """Why it ends by itself after a round, told by its state; None if it goes on."""
    heard: Callable[[Any], str]
    """Whose voice an entry of its transcript is, for the quorum."""
    speaker: str
    """What stands in the names of the blocks that speak: `{name}-{speaker}-{member}`."""
    round: str = "round"
    """What a pass of the loop is called in the paths of blocks."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """The options by which rounds go, checked, and the parts that are made of them."""

    name: str
    where: str
    max_rounds: int
    terminate_when: Function | None
    transcript: StateResource[Any]
    owns_transcript: bool
    collection_id: str
    model: ModelChoice
    """For all blocks inside that name none."""
    on_failure: OnFailure
    quorum: int
    turn_timeout: float | None
    round_timeout: float | None
    terms: PatternSpec

    @property
    def goes_on(self) -> bool:
        """Whether the pattern goes on without what a provider loses."""
        return self.on_failure != "fail"

    def rounds(self, hold: Callable[[Sequencer[Any, Any]], Sequencer[Any, Any]]) -> Sequencer[Any, Any]:
        """The opening, and rounds until there is a reason to end; `hold` adds the steps of a round."""
        increment = increment_round(self.name, self.max_rounds, self.round_timeout)
        return hold(self._opening().tap(increment)).loop_back(
            increment.name,
            when=another_round(self.terms.ends, self.terminate_when, quorum=self.quorum, heard=self.terms.heard),
            max_iterations=self.max_rounds,
            label=self.terms.round,
        )

    def _opening(self) -> Sequencer[Any, Any]:
        resources = audit_resources(self.transcript, self.collection_id)
        owned = [resource for key, resource in resources.items() if key != "transcript" or self.owns_transcript]
        return (
            sequencer(
                name=self.name,
                state=self.terms.state,
                owns=owned,
                isolates=() if self.owns_transcript else (self.transcript,),
                accepts=accept(self.where, self.terms.takes),
                model=self.model,
            )
            .tap(create_init_transcript(name=self.name, transcript=self.transcript, collection_id=self.collection_id))
            .tap(begin(self.name, self.terms.raw))
        )

    def turn(
        self,
        member: Debater | Persona,
        *,
        default: Callable[[str, Model | str | None], Block[Any, Any]],
        record: Block[Any, Any],
        stance: str | None = None,
    ) -> Turn:
        """A turn of `member`: its own block, or the one that `default(name, model)` makes; then `record`."""
        stand_in = self.on_failure if isinstance(self.on_failure, StandIn) else None
        return Turn(
            f"{self.name}-turn-{member.name}",
            agent_name=member.name,
            stance=stance,
            asks=self._asks,
            debater=default(self.name, member.model) if member.block is None else self._own(member),
            record=record,
            stand_in=None if stand_in is None else default(f"{self.name}-stand-in", KeptModel(stand_in.model)),
            skips=self.goes_on,
            timeout=self.turn_timeout,
        )

    def _own(self, member: Debater | Persona) -> Block[Any, Any]:
        name = f"{self.name}-{self.terms.speaker}-{member.name}"
        block = as_block(member.block, name=name, where=self.where, field=f"block of {member.name!r}")
        who = render_who(member.name, stance=getattr(member, "stance", None), role=member.role)
        return with_answer_schema(block, who=who)

    def _asks(self, state: PatternState) -> PatternInput:
        (field,) = self.terms.takes.model_fields
        return self.terms.takes(**{field: state.question})

    def end_of_turns(self) -> Handler[Any, None]:
        """A tap behind a round's turns, where something is made of them before the round is over."""
        return end_of_turns(self.name, quorum=self.quorum, heard=self.terms.heard)

    def guarded(self, seat: Block[Any, Any], recover: Callable[[Exception, Any, Context], object]) -> Block[Any, Any]:
        """`seat` with its deadline; what `recover` gives takes the place of what a provider loses, if it goes on."""
        if not self.goes_on and self.turn_timeout is None:
            return seat
        losses = is_provider_failure if self.goes_on else _never
        return WithFallback(seat, recover=recover, losses=losses, timeout=self.turn_timeout)


def checked_loop(  # noqa: PLR0913 - the options that the patterns have in common
    *,
    name: str,
    where: str,
    max_rounds: int,
    terminate_when: Function | None,
    transcript: StateResource[Any] | None,
    create_transcript: Callable[[], StateResource[Any]],
    model: ModelChoice,
    collection_id: str | None,
    on_failure: OnFailure,
    quorum: int,
    turn_timeout: float | None,
    round_timeout: float | None,
    terms: PatternSpec,
) -> Loop:
    """The loop that a pattern's options ask for; ConfigurationError for what cannot be.

    Without a `transcript` it has one of its own, and without a `collection_id` its trail has the pattern's name.
    """
    checks.check_rounds(max_rounds, where=where)
    checks.check_transcript(transcript, create_transcript, where=where)
    checks.check_predicate(terminate_when, where=where)
    check_model(model, where=where)
    checks.check_failure_options(
        where, on_failure=on_failure, quorum=quorum, turn_timeout=turn_timeout, round_timeout=round_timeout
    )
    if collection_id is not None:
        checks.check_name(collection_id, where=where, field="collection_id")
    return Loop(
        name=name,
        where=where,
        max_rounds=max_rounds,
        terminate_when=terminate_when,
        transcript=create_transcript() if transcript is None else transcript,
        owns_transcript=transcript is None,
        collection_id=name if collection_id is None else collection_id,
        model=model,
        on_failure=on_failure,
        quorum=quorum,
        turn_timeout=turn_timeout,
        round_timeout=round_timeout,
        terms=terms,
    )


def in_declared_order(pipeline: Sequencer[Any, Any], turns: Iterable[Block[Any, Any]]) -> Sequencer[Any, Any]:
    """`pipeline`, longer by `turns`, one after the other: later ones are shown what was said in the earlier ones."""
    for turn in turns:
        pipeline = pipeline.tap(turn)
    return pipeline


def _never(_: BaseException) -> bool:
    return False
