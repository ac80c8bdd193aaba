"""Debates that fail or are cancelled: their exceptions and the records they leave."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, DebateTranscriptState, FailurePolicy, debate
from flowdebate.errors import FlowDebateError, ModelTimeout, ReadOnly, SchemaViolation, ScriptError
from flowdebate.resources.tasks import TaskChanged
from flowdebate.runs.events import ModelCalled, RunFinished
from flowdebate.testing import FunctionModel, ScriptedModel
from flowdebate.testing.cases import Sabotage
from tests.patterns.debates import QUESTION, SIDES, VERDICT, events, script

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio


class Unspeakable(Exception):
    """An application exception whose message cannot be read."""

    def __str__(self) -> str:
        raise Sabotage("__str__")


def _raising_block(error: BaseException) -> Any:
    def block(value: object, ctx: Context) -> Any:
        raise error

    return block


@pytest.mark.parametrize("role", ["debater", "judge", "moderator", "synthesizer", "terminate_when"])
async def test_application_exceptions_are_raised_unchanged(role: str) -> None:
    failure = KeyError("mine")
    options: dict[str, Any] = {"debaters": SIDES}
    if role == "debater":
        options["debaters"] = [Debater("anna", "for", block=_raising_block(failure)), SIDES[1]]
    elif role == "terminate_when":
        options[role] = lambda ctx: _raising_block(failure)(None, ctx)
    else:
        options[role] = _raising_block(failure)
    model = FunctionModel(lambda request: VERDICT if request.output else "said")
    with pytest.raises(KeyError) as caught:
        await debate(name="rent", **options).run(QUESTION, model=model)
    assert caught.value is failure
    assert any("rent" in note for note in failure.__notes__)


async def test_exceptions_without_a_message_are_raised_unchanged() -> None:
    """The exception's `__str__` raises another exception, so the audit trail records only the type."""
    failure = Unspeakable()
    rent = debate(name="rent", debaters=[Debater("anna", "for", block=_raising_block(failure)), SIDES[1]])
    handle = rent.start(QUESTION, model=ScriptedModel())
    with pytest.raises(Unspeakable) as caught:
        await handle
    assert caught.value is failure
    (task,) = handle.tasks.list()
    assert task.status == "errored"
    assert "Unspeakable" in str(task.error)


async def test_model_exceptions_are_raised_unchanged() -> None:
    """A custom model may raise any exception. Only the library's own errors name the model and the block."""
    failure = OSError("no route")
    with pytest.raises(OSError, match="no route") as caught:
        await debate(name="rent", debaters=SIDES).run(QUESTION, model=ScriptedModel(failure))
    assert caught.value is failure
    timeout = ModelTimeout(3)
    with pytest.raises(ModelTimeout) as late:
        await debate(name="rent", debaters=SIDES).run(QUESTION, model=ScriptedModel("A", timeout))
    assert (late.value.block, late.value.model) == ("rent-debater-ben", "scripted")


async def test_failed_debates_keep_the_arguments_made_so_far() -> None:
    rent = debate(name="rent", debaters=SIDES, failures=FailurePolicy(on_failure="fail"))
    handle = rent.start(QUESTION, model=script("A1", "B1", "A2", "B2", verdict={"verdict": "?"}))
    with pytest.raises(SchemaViolation) as caught:
        await handle
    assert caught.value.block == "rent-judge"
    assert [entry.text for entry in handle.transcript.entries] == ["A1", "B1", "A2", "B2"]
    assert [task.output for task in handle.tasks.list(status="completed")] == ["A1", "B1", "A2", "B2"]
    assert handle.status == "failed"
    assert handle.usage.calls == 5
    assert handle.raw is not None
    assert (handle.raw.status, handle.raw.verdict, len(handle.raw.transcript)) == ("failed", None, 4)
    assert caught.value.run is not None
    assert caught.value.run.raw == handle.raw
    last = handle.events[-1]
    assert isinstance(last, RunFinished)
    assert last.error is not None
    assert last.error.startswith("SchemaViolation: ")


async def test_failed_turns_do_not_erase_earlier_turns() -> None:
    handle = debate(name="rent", debaters=SIDES).start(QUESTION, model=ScriptedModel("A1", "B1"))
    with pytest.raises(ScriptError):
        await handle
    assert [entry.text for entry in handle.transcript.entries] == ["A1", "B1"]
    assert [task.status for task in handle.tasks.list()] == ["completed", "completed", "errored"]
    assert "ScriptError" in str(handle.tasks.list()[-1].error)


async def test_session_keeps_the_transcript_of_a_failed_debate() -> None:
    rent = debate(name="rent", debaters=SIDES)
    handle = rent.start(QUESTION, model=ScriptedModel("A1"))
    with pytest.raises(ScriptError):
        await handle
    state = handle.session.resources["transcript"]
    assert isinstance(state, DebateTranscriptState)
    assert [entry.text for entry in state.entries] == ["A1"]


async def test_cancelling_a_debate_ends_it_at_once_and_cancels_the_task() -> None:
    speaking = asyncio.Event()
    interrupted: list[str] = []

    async def answer(request: ModelRequest) -> str:
        if request.block.endswith("anna"):
            return "A1"
        speaking.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            interrupted.append(request.block)
            raise
        raise AssertionError

    handle = debate(name="rent", debaters=SIDES).start(QUESTION, model=FunctionModel(answer))
    await speaking.wait()
    assert [task.status for task in handle.tasks.list()] == ["completed", "in_progress"]
    handle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handle
    assert interrupted == ["rent-debater-ben"]
    assert handle.status == "interrupted"
    assert [task.status for task in handle.tasks.list()] == ["completed", "cancelled"]
    assert [entry.text for entry in handle.transcript.entries] == ["A1"]
    assert [event.change for event in events(handle, TaskChanged)][-1] == "cancelled"
    assert events(handle, ModelCalled)[-1].error is not None


async def test_cancelling_the_caller_cancels_the_debate() -> None:
    """If the task that awaits `pattern.run(…)` is cancelled, no model call may keep running."""
    speaking = asyncio.Event()
    interrupted: list[str] = []

    async def answer(request: ModelRequest) -> str:
        speaking.set()
        try:
            await asyncio.Event().wait()
        finally:
            interrupted.append(request.block)
        raise AssertionError

    task = asyncio.create_task(debate(name="rent", debaters=SIDES).run(QUESTION, model=FunctionModel(answer)))
    await speaking.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert interrupted == ["rent-debater-anna"]


async def test_blocks_ending_their_own_task_do_not_hide_exceptions() -> None:
    """A debater can access the run's audit trail and may end its own task before raising an exception."""
    failure = ValueError("after the fact")

    def meddle(value: object, ctx: Context) -> str:
        (task,) = ctx.resources.audit.list(status="in_progress")
        with pytest.raises(ReadOnly):
            ctx.resources.audit.complete(task.id, "mine")
        raise failure

    with pytest.raises(ValueError, match="after the fact") as caught:
        await debate(name="rent", debaters=[Debater("anna", "for", block=meddle), SIDES[1]]).run(
            QUESTION, model=ScriptedModel()
        )
    assert caught.value is failure


async def test_library_errors_have_one_base_class() -> None:
    """`except FlowDebateError` must catch every error that the library raises."""
    with pytest.raises(FlowDebateError):
        await debate(name="rent", debaters=SIDES).run(QUESTION, model=ScriptedModel())
