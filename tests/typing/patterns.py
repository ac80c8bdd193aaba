"""Types of pattern outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

from pydantic import BaseModel

from flowdebate import (
    ConsensusOutput,
    CouncilOutput,
    Debater,
    DebateRawOutput,
    DeliberationOutput,
    HandoffOutput,
    Persona,
    ReviewRawOutput,
    RoundRobinOutput,
    SynthesizerOptions,
    consensus,
    council,
    debate,
    deliberation,
    generator,
    handoff,
    review,
    round_robin,
    stop,
)
from flowdebate.runs.result import RunHandle, RunResult

if TYPE_CHECKING:
    from flowdebate.runs.context import Context

SIDES = [Debater("a", "for"), Debater("b", "against")]
PEOPLE = [Persona("a"), Persona("b")]


class Plan(BaseModel):
    """A deliverable."""

    steps: list[str]


async def check_a_debate_has_the_type_of_its_schema() -> None:
    """Without a schema, the type is text. Without a synthesizer, it is the raw output."""
    planned = debate(name="a", debaters=SIDES, output_schema=Plan, max_rounds=1)
    assert_type(await planned.run("?"), RunResult[Plan, DebateRawOutput])
    assert_type(planned.start("?"), RunHandle[Plan, DebateRawOutput])
    assert_type((await planned.resume("id")).output, Plan)
    assert_type(debate(name="a", debaters=SIDES).run_sync("?").output, str)
    assert_type(debate(name="a", debaters=SIDES, synthesizer=False).run_sync("?").output, DebateRawOutput)
    block = generator(name="own", output_schema=Plan)
    assert_type(debate(name="a", debaters=SIDES, synthesizer=block).run_sync("?").output, Plan)
    assert_type(debate(name="a", debaters=SIDES, output_schema={"type": "object"}).run_sync("?").output, Any)
    assert_type(debate(name="a", debaters=SIDES, synthesizer=str, output_schema=Plan).run_sync("?").output, Plan)


def check_the_raw_output_has_its_type_with_every_synthesizer() -> None:
    """A handle has no raw output until the run ends."""
    block = generator(name="own", output_schema=Plan)
    assert_type(debate(name="a", debaters=SIDES).run_sync("?").raw, DebateRawOutput)
    assert_type(debate(name="a", debaters=SIDES, synthesizer=True).run_sync("?").raw, DebateRawOutput)
    assert_type(debate(name="a", debaters=SIDES, synthesizer=False).run_sync("?").raw, DebateRawOutput)
    assert_type(debate(name="a", debaters=SIDES, synthesizer=block).run_sync("?").raw, DebateRawOutput)
    assert_type(debate(name="a", debaters=SIDES, synthesizer=str).run_sync("?").raw, DebateRawOutput)
    assert_type(debate(name="a", debaters=SIDES, synthesizer=SynthesizerOptions()).run_sync("?").raw, DebateRawOutput)
    assert_type(debate(name="a", debaters=SIDES, output_schema=Plan).run_sync("?").raw, DebateRawOutput)
    assert_type(debate(name="a", debaters=SIDES, output_schema={"type": "object"}).run_sync("?").raw, DebateRawOutput)
    assert_type(debate(name="a", debaters=SIDES).map(len).run_sync("?").raw, DebateRawOutput)
    assert_type(debate(name="a", debaters=SIDES).start("?").raw, DebateRawOutput | None)
    assert_type(round_robin(name="a", debaters=PEOPLE).run_sync("?").raw, RoundRobinOutput)
    assert_type(round_robin(name="a", debaters=PEOPLE, synthesizer=False).run_sync("?").raw, RoundRobinOutput)
    assert_type(round_robin(name="a", debaters=PEOPLE, synthesizer=block).run_sync("?").raw, RoundRobinOutput)
    assert_type(round_robin(name="a", debaters=PEOPLE, synthesizer=str).run_sync("?").raw, RoundRobinOutput)
    assert_type(round_robin(name="a", debaters=PEOPLE, output_schema=Plan).run_sync("?").raw, RoundRobinOutput)
    assert_type(council(name="a", members=PEOPLE).run_sync("?").raw, CouncilOutput)
    assert_type(council(name="a", members=PEOPLE, output_schema=Plan).run_sync("?").raw, CouncilOutput)
    assert_type(council(name="a", members=PEOPLE, output_schema={"type": "object"}).run_sync("?").raw, CouncilOutput)
    assert_type(deliberation(name="a", debaters=PEOPLE).run_sync("?").raw, DeliberationOutput)
    assert_type(handoff(name="a", debaters=PEOPLE).run_sync("?").raw, HandoffOutput)
    assert_type(consensus(name="a", agents=PEOPLE).run_sync("?").raw, ConsensusOutput)
    assert_type(review(name="a", reviewers=PEOPLE).run_sync("?").raw, ReviewRawOutput)


async def check_stored_runs_and_batches_are_typed() -> None:
    pattern = debate(name="a", debaters=SIDES)
    assert_type((await pattern.resume("id")).raw, DebateRawOutput)
    assert_type((await pattern.fork("id")).raw, DebateRawOutput)
    assert_type((await pattern.continue_run("id")).raw, DebateRawOutput)
    assert_type(pattern.batch_sync(["?"])[0].unwrap().raw, DebateRawOutput)


def check_conditions_compose_with_functions_on_either_side() -> None:
    async def later(ctx: Context) -> bool:
        return ctx.elapsed > 1

    assert_type(stop.tokens(5) | stop.seconds(1.5) & ~stop.rounds(2), stop.Condition)
    assert_type(later | stop.rounds(2), stop.Condition)
    assert_type(stop.rounds(2) & later, stop.Condition)
    assert_type(stop.when(later, name="late") & stop.flag("enough"), stop.Condition)
    for ends in (stop.parse("converged(0.9)"), later, None):
        debate(name="a", debaters=SIDES, terminate_when=ends)
        round_robin(name="a", debaters=PEOPLE, terminate_when=lambda ctx: ctx.usage.calls > 4)
        handoff(name="a", debaters=PEOPLE, terminate_when=ends)
        consensus(name="a", agents=PEOPLE, terminate_when=ends)


def check_other_patterns_have_their_output_types() -> None:
    assert_type(round_robin(name="a", debaters=PEOPLE, output_schema=Plan).run_sync("?").output, Plan)
    assert_type(round_robin(name="a", debaters=PEOPLE).run_sync("?").output, str)
    assert_type(round_robin(name="a", debaters=PEOPLE, synthesizer=False).run_sync("?").output, RoundRobinOutput)
    assert_type(deliberation(name="a", debaters=PEOPLE).run_sync("?").output, DeliberationOutput)
    assert_type(handoff(name="a", debaters=PEOPLE).run_sync("?").output, HandoffOutput)
    assert_type(consensus(name="a", agents=PEOPLE).run_sync("?").output, ConsensusOutput)
    assert_type(council(name="a", members=PEOPLE, output_schema=Plan).run_sync("?").output, Plan)
    assert_type(council(name="a", members=PEOPLE, review="none").run_sync("?").output, CouncilOutput)
    assert_type(council(name="a", members=PEOPLE, output_schema={"type": "object"}).run_sync("?").output, Any)
