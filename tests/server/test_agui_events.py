"""Translation of runs to AG-UI events, which must form a valid sequence and contain the complete debate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from flowdebate import debate, generator, human
from flowdebate.chassis.roster import Debater
from flowdebate.models.base import ModelResponse, Usage
from flowdebate.resources.tasks import TaskChanged
from flowdebate.runs.events import BlockAnswered, CallRetried, RunStarted, TextDelta
from flowdebate.server.protocols.agui import AgUi
from flowdebate.service import channel
from flowdebate.service.channel import Update
from flowdebate.testing import ScriptedModel, ToolCall
from tests.server.agui_client import AgUiClient
from tests.server.runs import Followed, Play, any_play, carry_out, debate_plays, make_streaming

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SIDES = [Debater("pro", "cap rents"), Debater("con", "free rents")]
VERDICT = {"reasoning": "It was answered.", "winner": "cap rents", "verdict": "Cap them."}


@pytest.fixture(autouse=True, scope="module")
def unbuffered() -> Iterator[None]:
    """Send text to readers immediately."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel, "_PACE", 0)
        yield


def replay_run(runs: Sequence[Followed]) -> list[AgUiClient]:
    """Return the client's view of each AG-UI run in one flowdebate run. Later views include the conversation so far."""
    clients: list[AgUiClient] = []
    calls = 0
    for number, run in enumerate(runs):
        before = clients[-1] if clients else None
        client = AgUiClient(run_id=f"run-{number}", before=before)
        ui = AgUi(
            thread_id="thread",
            run_id=f"run-{number}",
            state=client.state,
            messages=client.history(),
        )
        ui.earlier_calls = calls
        events = [*ui.start(run.details)]
        for update in run.updates:
            events += ui.translate(update)
        clients.append(client.read([*events, *ui.finish(run.details)]))
        calls = 0 if run.details.usage is None else run.details.usage.calls
    return clients


def single_view(block: Any, model: Any, **play: Any) -> AgUiClient:
    """Return the client's view of a single run."""
    (client,) = replay_run(carry_out(Play(block=block, model=model, **play)))
    return client


def final_tasks(run: Followed) -> dict[str, dict[str, Any]]:
    """Return the task boards at the end of a run."""
    boards: dict[str, dict[str, Any]] = {}
    for update in run.updates:
        if isinstance(change := update.event, TaskChanged):
            boards.setdefault(change.collection_id, {})[change.task.id] = change.task.to_wire()
    return boards


def test_debate_appears_as_a_conversation_between_its_debaters() -> None:
    model = ScriptedModel("Homes first.", "Supply first.", VERDICT, "Cap them, then build.")
    client = single_view(debate(name="rent", debaters=SIDES, max_rounds=1), model)
    assert client.said() == [
        ("pro", "Homes first."),
        ("con", "Supply first."),
        ("rent-synthesizer", "Cap them, then build."),
    ]
    first = next(iter(client.messages.values()))
    assert first["about"] | {"path": ""} == {
        "block": "rent-debater-pro",
        "path": "",
        "round": 1,
        "stance": "cap rents",
    }
    assert client.steps == ["round 1"]
    kinds = [activity["activityType"] for activity in client.activities.values()]
    assert kinds == ["flowdebate.rounds_ended", "flowdebate.judge_view_made", "flowdebate.verdict_reached"]
    assert client.finished is not None
    assert client.finished["outcome"] == {"type": "success"}
    assert client.finished["result"]["document"]["raw"]["verdict"]["winner"] == "cap rents"


@given(debate_plays(hostile=True))
def test_any_debate_produces_a_valid_event_sequence(play: Play) -> None:
    """Whatever the models and blocks do, everything that starts also ends, and the run finishes exactly once."""
    runs = carry_out(play)
    (client,) = replay_run(runs)
    assert client.state["flowdebate"]["tasks"] == final_tasks(runs[0])


@given(any_play())
def test_any_pattern_produces_a_valid_event_sequence(play: Play) -> None:
    """Runs may fail, reach a limit, be cancelled, or wait for humans and be resumed."""
    runs = carry_out(play)
    clients = replay_run(runs)
    for run, client in zip(runs, clients, strict=True):
        assert client.finished is not None
        outcome = {
            "complete": "success",
            "degraded": "success",
            "no_verdict": "success",
            "awaiting": "interrupt",
            "interrupted": "cancelled",
            "limit": "cancelled",
        }.get(run.details.status)
        assert (client.finished.get("outcome") or {}).get("type") == outcome
        assert (client.finished["type"] == "RUN_ERROR") == (run.details.status == "failed")
    assert clients[-1].state["flowdebate"]["tasks"] == final_tasks(runs[-1])


@given(debate_plays(hostile=False))
def test_messages_match_the_transcript(play: Play) -> None:
    """Each valid text is sent once, under its speaker's name, whether a model or a function produced it."""
    runs = carry_out(play)
    (client,) = replay_run(runs)
    document = runs[0].details.document
    assert document is not None
    spoken = sorted(
        (message["name"], message["content"].strip())
        for message in client.messages.values()
        if "round" in message["about"] and "void" not in message["about"]
    )
    recorded = [(entry.agent_name, entry.text.strip()) for entry in document.raw.transcript if entry.text]
    assert spoken == sorted(recorded)


def test_text_written_for_the_other_side_is_removed_from_a_message() -> None:
    """The streamed text is marked as void.

    The speaker's own words are sent again, exactly as they appear in the transcript.
    """
    sides = [Debater("ann", "for"), Debater("ben", "against")]
    block = debate(name="it", debaters=sides, max_rounds=1, synthesizer=False)
    verdict = {"reasoning": "Both are short.", "winner": None, "verdict": "Undecided."}
    model = make_streaming(ScriptedModel("It was counted.\n\n[against] I was wrong.", "It was not.", verdict), 4)
    (client,) = replay_run(carry_out(Play(block=block, model=model)))
    spoken = [message["content"].strip() for message in client.messages.values() if "void" not in message["about"]]
    assert "It was counted." in spoken
    assert not [text for text in spoken if "I was wrong." in text]


@given(any_play())
def test_reset_replays_the_run(play: Play) -> None:
    run = carry_out(play)[0]
    client = AgUiClient()
    ui = AgUi(thread_id="thread", run_id="run")
    middle = len(run.updates) // 2
    events = [*ui.start(run.details)]
    for update in [*run.updates[:middle], Update("reset"), *run.updates]:
        events += ui.translate(update)
    client.read([*events, *ui.finish(run.details)])
    (plain,) = replay_run([run])
    assert client.said() == plain.said()
    assert client.state == plain.state
    assert client.activities.keys() == plain.activities.keys()


def test_text_from_a_failed_attempt_is_void() -> None:
    path = "poet"
    events = [
        Update("event", RunStarted(run_id="r", block="poet", seed=1, path=path)),
        Update("text", TextDelta(block="poet", text="They", path=path)),
        Update(
            "event", CallRetried(block="poet", model="m", attempt=2, error="E", message="it broke", wait=0, path=path)
        ),
        Update("text", TextDelta(block="poet", text="Rivers ", path=path)),
        Update("text", TextDelta(block="poet", text="run.", path=path), start=7),
        Update("event", BlockAnswered(block="poet", output="Rivers run.", path=path)),
    ]
    run = carry_out(Play(block=generator(name="poet"), model=ScriptedModel("Rivers run.")))[0]
    (client,) = replay_run([Followed(updates=events, details=run.details)])
    assert [(message["content"], message["about"].get("void")) for message in client.messages.values()] == [
        ("They", "it broke"),
        ("Rivers run.", None),
    ]
    assert [name for name, _ in client.custom] == ["flowdebate.call_retried"]


def test_human_turn_interrupts_the_run_and_the_answer_resumes_it() -> None:
    """The interrupt contains everything that the human needs.

    The resumed run sends only new events and counts only its own calls.
    """
    block = debate(
        name="rent",
        debaters=[SIDES[0], Debater("con", "free rents", block=human(name="ann"))],
        max_rounds=1,
        synthesizer=False,
    )
    usage = Usage(calls=1, prompt_tokens=10, cached_tokens=0, completion_tokens=2)
    model = ScriptedModel(ModelResponse(text="Homes first.", usage=usage), ModelResponse(data=VERDICT, usage=usage))
    runs = carry_out(Play(block=block, model=model, answers=("Supply first.",)))
    first, second = replay_run(runs)
    assert first.finished is not None
    (interrupt,) = first.finished["outcome"]["interrupts"]
    assert interrupt["id"] == runs[0].details.pending[0].place
    assert interrupt["reason"] == "human_input"
    assert "Homes first." in interrupt["message"]
    assert "responseSchema" not in interrupt
    assert second.finished is not None
    assert second.finished["outcome"] == {"type": "success"}
    assert second.said() == [("pro", "Homes first."), ("con", "Supply first.")]
    for client in (first, second):
        assert client.finished is not None
        assert client.finished["usage"] == [
            {"model": "scripted", "inputTokens": 10, "outputTokens": 2, "totalTokens": 12, "cachedInputTokens": 0}
        ]
    assert second.activities.keys() >= {key for key in second.activities if "verdict_reached" in key} != set()


def test_human_judge_request_includes_a_schema() -> None:
    """A front end can build a form from the schema."""
    block = debate(name="rent", debaters=SIDES, max_rounds=1, judge=human(name="judy"), synthesizer=False)
    client = single_view(block, ScriptedModel("Homes first.", "Supply first."))
    assert client.finished is not None
    (interrupt,) = client.finished["outcome"]["interrupts"]
    assert set(interrupt["responseSchema"]["properties"]) >= {"winner", "reasoning"}


def test_tool_calls_are_attributed_to_their_caller() -> None:
    def look_up(year: int) -> str:
        """Look up a figure."""
        return f"{year}: 12 %"

    calls = [ToolCall(id="1", name="look_up", arguments='{"year": 2024}')]
    block = debate(
        name="rent",
        debaters=[Debater("pro", "cap rents", block=generator(name="ann", tools=[look_up])), SIDES[1]],
        max_rounds=1,
        synthesizer=False,
    )
    client = single_view(block, ScriptedModel(calls, "Rents rose by 12%.", "Supply first.", VERDICT))
    assert list(client.calls.values()) == [{"name": "look_up", "arguments": '{"year": 2024}', "result": "2024: 12 %"}]
    assert client.said()[0] == ("pro", "Rents rose by 12%.")


@pytest.mark.parametrize(
    ("state", "remaining"),
    [({"mine": 1, "flowdebate": 2}, {"mine": 1}), ([1], {}), (None, {})],
    ids=["an object", "another value", "none"],
)
def test_application_state_keys_are_preserved(state: object, remaining: dict[str, Any]) -> None:
    """The library's own keys are kept separately under `flowdebate`."""
    run = carry_out(Play(block=generator(name="poet"), model=ScriptedModel("Rivers run.")))[0]
    ui = AgUi(thread_id="thread", run_id="run", state=state)
    client = AgUiClient().read([*ui.start(run.details), *ui.finish(run.details)])
    namespace = client.state.pop("flowdebate")
    assert client.state == remaining
    assert namespace == {
        "runId": run.details.run_id,
        "pattern": "it",
        "question": "Should rents be capped?",
        "tasks": {},
    }
