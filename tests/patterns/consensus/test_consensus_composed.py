"""Consensus debates as steps in larger pipelines, and concurrent debates."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate, sequencer
from flowdebate.errors import NoProposals, ProviderFailed
from flowdebate.patterns.consensus.events import DebateEnded, DebateStarted, wire_events
from flowdebate.testing import FunctionModel
from tests.patterns.debates import VERDICT, events

from .debates import TASK, THREE, Call, answer_of, call_of, model, plan

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest
    from flowdebate.patterns.consensus.schemas import ConsensusOutput

pytestmark = pytest.mark.anyio


def echo_model() -> FunctionModel:
    """Create a model that repeats the task in its answers and lets other calls run first."""

    async def echo(call: Call) -> Any:
        task = call.prompt.split("Task: ")[1].split("\n")[0]
        await asyncio.sleep(0)
        proposals = [line for line in call.prompt.splitlines() if line.startswith("[") and "] on [" not in line]
        assert all(f"on {task}." in line for line in proposals)
        reply = answer_of(call)
        text = f"{call.agent} on {task}."
        revised = {"proposal": text, "position": task, "enough": False}
        return {"proposal": text, "revision": revised}.get(call.phase, reply)

    return model(echo)


def _check(output: ConsensusOutput, task: str) -> None:
    assert output.task == task
    assert [proposal.text for proposal in output.final_proposals] == [f"{name} on {task}." for name in THREE]
    assert {proposal.position for proposal in output.final_proposals} == {task}
    assert (output.answer, output.status) == (f"ann on {task}.", "complete")


@pytest.mark.parametrize("limit", [None, 1, 2])
async def test_for_each_runs_one_debate_per_task(limit: int | None) -> None:
    """Debates that run concurrently must not share sequence numbers."""
    several = sequencer(name="several").for_each(plan(max_rounds=1), max_concurrency=limit)
    tasks = [f"Q{number}?" for number in range(4)]
    result = await several.run(tasks, model=echo_model())
    for output, task in zip(result.output, tasks, strict=True):
        _check(output, task)
    assert [trail.count("completed") for trail in result.task_collections] == [15] * 4
    wire = list(wire_events(result.events))
    for path in {event["path"] for event in wire}:
        sequences = [event["sequence"] for event in wire if event["path"] == path]
        assert sequences == list(range(1, len(wire) // 4 + 1))
    assert len(events(result, DebateStarted)) == len(events(result, DebateEnded)) == 4


async def test_next_step_receives_the_debate_output() -> None:
    first, second = plan(max_rounds=1), plan(max_rounds=1, name="again")
    pipeline = sequencer(name="all").then(first).map(lambda output: output.answer).then(second)
    result = await pipeline.run("Q?", model=echo_model())
    _check(result.output, "ann on Q?.")
    assert [trail.collection_id for trail in result.task_collections] == ["plan", "again"]
    assert result.raw == result.output


async def test_debates_can_run_in_a_parallel_step() -> None:
    parallel = sequencer(name="both").parallel(
        {"short": plan(max_rounds=1), "long": plan(max_rounds=2, convergence=None)}
    )
    result = await parallel.run("Q?", model=echo_model())
    assert {key: len(output.rounds) for key, output in result.output.items()} == {"short": 1, "long": 2}


async def test_consensus_can_act_as_a_debater() -> None:
    """The answer that the agents agree on becomes the debater's argument in the outer debate."""
    team = sequencer(name="team").then(plan(max_rounds=1)).map(lambda output: output.answer)

    def answer(request: ModelRequest) -> Any:
        if request.block.startswith("plan-"):
            return answer_of(call_of(request))
        return VERDICT if request.block.endswith("-judge") else "I am alone."

    outer = debate(
        name="rent",
        debaters=[Debater("team", "for", block=team), Debater("lone", "against")],
        max_rounds=2,
        synthesizer=False,
    )
    result = await outer.run("Should rents be capped?", model=FunctionModel(answer))
    entries = [(entry.agent_name, entry.text) for entry in result.output.transcript]
    agreed = "ann has idea number 1, quite another one."
    assert entries == [("team", agreed), ("lone", "I am alone.")] * 2
    assert result.tasks.collection_id == "rent"
    assert [trail.collection_id for trail in result.task_collections] == ["rent", "plan", "plan"]
    assert result.raw.verdict is not None
    assert {event.task for event in events(result, DebateStarted)} == {"Should rents be capped?"}


async def test_no_proposals_error_can_be_rescued() -> None:
    """`NoProposals` is an ordinary exception, so a rescue step can catch it."""
    failing = model(lambda call: ProviderFailed("down"))
    pipeline = sequencer(name="safe").then(plan()).rescue(lambda error: len(error.failures), on=NoProposals)
    assert (await pipeline.run(TASK, model=failing)).output == 3


async def test_debates_can_act_as_agents() -> None:
    inner = plan(("di", "ed"), max_rounds=1, name="plan")
    idea = (
        sequencer(name="idea").map(lambda request: f"Propose: {request.task}").then(inner).map(lambda out: out.answer)
    )

    def alone(request: Any) -> Any:
        return {"critique": {}, "revision": "As before.", "vote": "team"}[request.kind]

    team = sequencer(name="team").branch((lambda request: request.kind == "proposal", idea), otherwise=alone)

    def answer(call: Call) -> Any:
        choice = "di" if call.agent in ("di", "ed") else "team"
        return {**answer_of(call), "choice": choice} if call.phase == "vote" else None

    outer = plan(agents=[{"name": "team", "block": team}, {"name": "bob"}], max_rounds=1, name="outer")
    result = await outer.run(TASK, model=model(answer))
    assert result.output.proposals[0].text == "di has idea number 1, quite another one."
    assert result.output.winner == "team"
    assert result.raw == result.output


async def test_pattern_is_reusable_after_a_failure() -> None:
    pattern = plan(max_rounds=1)
    with pytest.raises(NoProposals):
        await pattern.run("Q?", model=model(lambda call: ProviderFailed("down")))
    _check((await pattern.run("Q?", model=echo_model())).output, "Q?")
