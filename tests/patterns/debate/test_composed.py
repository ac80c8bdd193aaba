"""Debates as steps in larger pipelines, and concurrent debates."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, create_debate_transcript, debate, handler, sequencer
from flowdebate.testing import FunctionModel
from tests.patterns.debates import QUESTION, SIDES, VERDICT, by_role, decision, moderated

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio


def echo_model() -> FunctionModel:
    """Create a model that repeats the question in its arguments and lets other calls run first."""

    async def answer(request: ModelRequest) -> Any:
        prompt = "\n".join(str(message["content"]) for message in request.messages)
        question = prompt.split("Question: ")[1].split("\n")[0]
        await asyncio.sleep(0)
        if request.block.endswith("-moderator"):
            return decision("ben", "anna", briefing=f"briefed on {question}")
        if request.output is not None:
            return {**VERDICT, "verdict": f"found on {question}"}
        arguments = {line for line in prompt.splitlines() if line.startswith(("[for] ", "[against] "))}
        assert all(line.endswith(f" on {question}") for line in arguments if " on " in line)
        return f"argued on {question}"

    return FunctionModel(answer)


def _check(raw: DebateRawOutput, question: str) -> None:
    assert raw.question == question
    assert [entry.text for entry in raw.transcript] == [f"argued on {question}"] * 4
    assert raw.found.verdict == f"found on {question}"


async def test_moderated_debates_can_run_concurrently() -> None:
    rent = debate(name="rent", debaters=SIDES, synthesizer=False, **moderated())
    results = await asyncio.gather(*[rent.run(f"Q{number}?", model=echo_model()) for number in range(50)])
    for number, result in enumerate(results):
        _check(result.output, f"Q{number}?")
        assert {entry.briefing for entry in result.output.moderator_decisions} == {f"briefed on Q{number}?"}


async def test_debates_can_run_in_a_parallel_step() -> None:
    short = debate(name="short", debaters=SIDES, max_rounds=1, synthesizer=False)
    long = debate(name="long", debaters=SIDES, max_rounds=3, synthesizer=False)
    parallel = sequencer(name="both").parallel({"short": short, "long": long})
    result = await parallel.run(QUESTION, model=echo_model())
    assert {key: raw.rounds for key, raw in result.output.items()} == {"short": 1, "long": 3}
    assert {trail.collection_id: trail.count() for trail in result.task_collections} == {"short": 2, "long": 6}


@pytest.mark.parametrize("limit", [None, 1, 2])
async def test_for_each_runs_one_moderated_debate_per_question(limit: int | None) -> None:
    rent = debate(name="rent", debaters=SIDES, synthesizer=False, **moderated())
    several = sequencer(name="several").for_each(rent, max_concurrency=limit)
    questions = [f"Q{number}?" for number in range(4)]
    result = await several.run(questions, model=echo_model())
    for raw, question in zip(result.output, questions, strict=True):
        _check(raw, question)


async def test_debates_can_repeat_until_a_condition_holds() -> None:
    """`do_while` passes the synthesizer's text back as the next question until the text consists of a single word."""
    questions: list[str] = []

    def shorten(raw: DebateRawOutput) -> str:
        questions.append(raw.question)
        return raw.question.split(" ", 1)[1]

    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=shorten)
    loop = sequencer(name="loop").do_while(rent, lambda question: " " in question, max_iterations=9)
    result = await loop.run("one two three four", model=by_role())
    assert result.output == "four"
    assert questions == ["one two three four", "two three four", "three four"]
    assert len(result.task_collections) == 3


async def test_failed_debates_can_be_rescued() -> None:
    def fail(value: object) -> str:
        raise LookupError("nothing")

    rent = debate(name="rent", debaters=[Debater("anna", "for", block=fail), SIDES[1]])
    pipeline = sequencer(name="safe").then(rent).rescue(lambda error: f"failed: {error}", on=LookupError)
    assert (await pipeline.run(QUESTION, model=by_role())).output == "failed: nothing"


async def test_surrounding_steps_see_the_output_and_the_session() -> None:
    def open_session(question: str, ctx: Context) -> str:
        ctx.session.state["rounds"] = 1
        return question

    rent = debate(
        name="rent",
        debaters=SIDES,
        max_rounds=4,
        synthesizer=False,
        terminate_when=lambda ctx: ctx.sequencer.state.round >= ctx.session.state["rounds"],
    )
    pipeline = sequencer(name="all").then(open_session).then(rent).map(lambda raw: raw.rounds)
    assert (await pipeline.run(QUESTION, model=by_role())).output == 1


async def test_debates_do_not_change_the_pipeline_state() -> None:
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    outer = sequencer(name="outer", state=lambda: {"kept": True}).then(rent).then(_state)
    assert (await outer.run(QUESTION, model=by_role())).output == {"kept": True}


@handler(name="state")
def _state(value: object, ctx: Context) -> Any:
    return ctx.sequencer.state


async def test_pattern_is_reusable_after_a_failure() -> None:
    rent = debate(name="rent", debaters=SIDES, synthesizer=False, transcript=create_debate_transcript())
    failing = FunctionModel(lambda request: 1)  # type: ignore[arg-type,return-value]
    with pytest.raises(Exception, match="the reply must be text"):
        await rent.run(QUESTION, model=failing)
    _check((await rent.run(QUESTION, model=echo_model())).output, QUESTION)


async def test_run_sync_works_inside_a_running_event_loop() -> None:
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    assert rent.run_sync(QUESTION, model=by_role()).output.rounds == 1


async def test_run_records_belong_to_the_outer_debate() -> None:
    """A debate that fills a debater's role must not replace the `transcript` and `tasks` of the outer debate."""
    inner = debate(name="inner", debaters=SIDES, max_rounds=1, synthesizer=lambda raw: raw.transcript[0].text)
    outer = debate(
        name="outer",
        debaters=[Debater("team", "for", block=inner), Debater("lone", "against")],
        max_rounds=1,
        synthesizer=False,
    )
    result = await outer.run("Q?", model=by_role())
    assert result.tasks.collection_id == "outer"
    assert [entry.agent_name for entry in result.transcript.entries] == ["team", "lone"]
    assert [trail.collection_id for trail in result.task_collections] == ["outer", "inner"]
