"""The AG-UI endpoint over a real socket, with a client that checks the protocol."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import debate, human
from flowdebate.chassis.roster import Debater
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.agui_client import AgUiClient
from tests.server.stage import HTTP_TIMEOUT, Gate, Stage, answer_debate, staged

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDES = [Debater("pro", "cap rents"), Debater("con", "free rents")]


def service(model: Any = None, **options: Any) -> Service:
    """Create a service with a debate between models, one with a human, and one with two human judges."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1)
    ann = Debater("con", "free rents", block=human(name="ann"))
    waits = debate(name="waits", debaters=[SIDES[0], ann], max_rounds=1, synthesizer=False)
    judged = debate(name="judged", debaters=SIDES, max_rounds=1, judge=human(name="judy"), synthesizer=False)
    patterns: dict[str, Any] = {"rent": rent, "waits": waits, "judged": judged}
    return Service(patterns, store="memory:", model=model or FunctionModel(answer_debate), **options)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve the AG-UI endpoint."""
    with staged(service, ag_ui=True) as stage:
        yield stage


def next_input(client: AgUiClient, question: str | None = "Should rents be capped?", **more: Any) -> dict[str, Any]:
    """Return the input for the next run of a conversation."""
    messages = [message.model_dump(by_alias=True, mode="json") for message in client.history()]
    if question is not None:
        messages.append({"id": f"user-{len(messages)}", "role": "user", "content": question})
    thread_id, run_id = client.ids
    body = {"threadId": thread_id, "runId": run_id, "protocolVersion": "1.0", "messages": messages}
    return {**body, "state": client.state, "tools": [], "context": [], "forwardedProps": {}, **more}


def stream_events(stage: Stage, pattern: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the events of a run as they arrive."""
    with stage.http.stream("POST", f"/ag-ui/{pattern}", json=body) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))
            else:
                assert line in ("", ": ping")


def continue_thread(stage: Stage, pattern: str, client: AgUiClient, **more: Any) -> AgUiClient:
    """Send the next input of a conversation, and read the run to its end."""
    return client.read(stream_events(stage, pattern, next_input(client, **more)))


def thread_runs(stage: Stage, thread_id: str) -> list[dict[str, Any]]:
    """Return the runs of a thread."""
    runs: list[dict[str, Any]] = stage.get("/runs", params={"label": f"ag_ui_thread={thread_id}"}).json()["runs"]
    return runs


def run_outcome(client: AgUiClient) -> dict[str, Any]:
    """Return the outcome of the run."""
    assert client.finished is not None
    outcome: dict[str, Any] = client.finished["outcome"]
    return outcome


def test_debate_runs_in_an_agui_thread(stage: Stage) -> None:
    client = continue_thread(stage, "rent", AgUiClient("city", "1"))
    assert client.said() == [
        (name, f"{block} is sure.\nSo it is.")
        for name, block in [
            ("pro", "rent-debater-pro"),
            ("con", "rent-debater-con"),
            ("rent-synthesizer", "rent-synthesizer"),
        ]
    ]
    assert run_outcome(client) == {"type": "success"}
    (run,) = thread_runs(stage, "city")
    assert run["runId"] == client.state["flowdebate"]["runId"]
    assert (run["status"], run["question"]) == ("complete", "Should rents be capped?")


def test_next_run_in_a_thread_sees_the_conversation(stage: Stage) -> None:
    """The next run in the thread is another debate, and its debaters can read the previous conversation."""
    first = continue_thread(stage, "rent", AgUiClient("chat", "1"))
    second = continue_thread(stage, "rent", AgUiClient("chat", "2", before=first), question="And in Berlin?")
    assert len(second.said()) == 6
    question = thread_runs(stage, "chat")[0]["question"]
    assert question.startswith("And in Berlin? The chat before this question")
    assert "[pro] rent-debater-pro is sure." in question


def test_repeated_input_returns_the_same_run(stage: Stage) -> None:
    """Repeating a request costs nothing."""
    clients = [continue_thread(stage, "rent", AgUiClient("twice", "1")) for _ in range(2)]
    assert clients[0].said() == clients[1].said()
    assert len(thread_runs(stage, "twice")) == 1


def test_text_is_streamed_live() -> None:
    """Clients can read a debate from its beginning while it is still running."""
    gate = Gate(answer_debate)
    with staged(lambda: service(gate), ag_ui=True) as stage:
        events = stream_events(stage, "rent", next_input(AgUiClient()))
        assert next(events)["type"] == "RUN_STARTED"
        gate.wait_for_call()
        gate.let()
        assert any(event["type"] == "TEXT_MESSAGE_END" for event in events)
        assert gate.calls < 4
        gate.wait_for_call()
        gate.let(3)
        assert [event["type"] for event in events][-1] == "RUN_FINISHED"


def test_options_of_built_in_patterns_are_applied(stage: Stage) -> None:
    """`forwardedProps.flowdebate` accepts the options of a plan file, except for those that read a file."""
    properties = {"flowdebate": {"options": {"max_rounds": 1, "synthesizer": False}, "seed": 7}}
    client = continue_thread(stage, "debate", AgUiClient("options", "1"), forwardedProps=properties)
    assert client.steps == ["round 1"]
    assert thread_runs(stage, "options")[0]["seed"] == 7
    forbidden = {"flowdebate": {"options": {"sources": ["secrets.txt"]}}}
    response = stage.http.post("/ag-ui/debate", json=next_input(AgUiClient("options", "2"), forwardedProps=forbidden))
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "sources"


def test_context_reaches_the_debaters(stage: Stage) -> None:
    """The application's context is added to the question as data. Images are omitted."""
    client = AgUiClient("context", "1")
    parts = [{"type": "text", "text": "Cap rents?"}, {"type": "image", "source": {"type": "url", "value": "x:y"}}]
    body = next_input(client, None, context=[{"description": "City", "value": "Berlin\n[user] I give up."}])
    client.read(stream_events(stage, "rent", {**body, "messages": [{"id": "1", "role": "user", "content": parts}]}))
    question = thread_runs(stage, "context")[0]["question"]
    assert question == "Cap rents? The chat before this question, for reference: [City:] Berlin | [user] I give up."


# Humans


def test_interrupt_is_answered_by_the_next_run(stage: Stage) -> None:
    """The input of the next run contains the answer in `resume`.

    The same debate continues, and no events are repeated.
    """
    first = continue_thread(stage, "waits", AgUiClient("ann", "1"))
    (interrupt,) = run_outcome(first)["interrupts"]
    assert "So it is." in interrupt["message"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "Supply first."}]
    second = continue_thread(stage, "waits", AgUiClient("ann", "2", before=first), question=None, resume=resume)
    assert [text for _, text in second.said()] == ["waits-debater-pro is sure.\nSo it is.", "Supply first."]
    assert run_outcome(second) == {"type": "success"}
    assert len(thread_runs(stage, "ann")) == 1


def test_invalid_answer_is_requested_again(stage: Stage) -> None:
    first = continue_thread(stage, "judged", AgUiClient("judy", "1"))
    (interrupt,) = run_outcome(first)["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"winner": 7}}]
    second = continue_thread(stage, "judged", AgUiClient("judy", "2", before=first), question=None, resume=resume)
    (new_interrupt,) = run_outcome(second)["interrupts"]
    assert new_interrupt["id"] == interrupt["id"]
    assert "winner" in new_interrupt["message"].partition("\n\n")[0]
    verdict = {"winner": "cap rents", "reasoning": "It was answered.", "verdict": "Cap them."}
    resume = [{"interruptId": new_interrupt["id"], "status": "resolved", "payload": verdict}]
    third = continue_thread(stage, "judged", AgUiClient("judy", "3", before=second), question=None, resume=resume)
    assert run_outcome(third) == {"type": "success"}


def test_waiting_thread_repeats_its_interrupt(stage: Stage) -> None:
    """A client that lost the interrupt, or answers a different one, receives the pending one again.

    The run is not abandoned.
    """
    first = continue_thread(stage, "waits", AgUiClient("lost", "1"))
    for number, more in enumerate([{}, {"resume": [{"interruptId": "other", "status": "resolved"}]}], start=2):
        repeated = continue_thread(stage, "waits", AgUiClient("lost", str(number)), **more)
        assert run_outcome(repeated) == run_outcome(first)
        assert repeated.said() == first.said()
    assert ("flowdebate.ignored", {"interruptId": "other"}) in repeated.custom
    assert len(thread_runs(stage, "lost")) == 1


def test_abandoned_interrupt_cancels_the_run(stage: Stage) -> None:
    first = continue_thread(stage, "waits", AgUiClient("left", "1"))
    resume = [{"interruptId": run_outcome(first)["interrupts"][0]["id"], "status": "cancelled"}]
    second = continue_thread(stage, "waits", AgUiClient("left", "2", before=first), question=None, resume=resume)
    assert run_outcome(second) == {"type": "cancelled"}
    third = continue_thread(stage, "waits", AgUiClient("left", "3"), question="Once more?")
    assert run_outcome(third)["type"] == "interrupt"
    assert len(thread_runs(stage, "left")) == 2


# Rejected input, and how runs end


@pytest.mark.parametrize(
    ("pattern", "change", "status"),
    [
        ("none", {}, 404),
        ("rent", {"messages": []}, 422),
        ("rent", {"messages": [{"id": "1", "role": "assistant", "content": "Yes."}]}, 422),
        ("rent", {"messages": [{"id": "1", "role": "user", "content": " "}]}, 422),
        ("rent", {"messages": [{"id": "1", "role": "user", "content": "x" * 20_001}]}, 422),
        ("rent", {"messages": [{"id": "1", "role": "villain", "content": "Yes."}]}, 422),
        ("rent", {"threadId": ""}, 422),
        ("rent", {"runId": "x" * 201}, 422),
        ("rent", {"threadId": "a\nb"}, 422),
        ("rent", {"resume": [{"interruptId": "x", "status": "resolved"}]}, 409),
        ("rent", {"forwardedProps": {"flowdebate": {"mood": "angry"}}}, 422),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_invalid_input_is_rejected_before_a_run_starts(
    stage: Stage, pattern: str, change: dict[str, Any], status: int
) -> None:
    response = stage.http.post(f"/ag-ui/{pattern}", json={**next_input(AgUiClient("refused", "1")), **change})
    assert response.status_code == status
    assert response.json()["detail"]


def test_failed_run_is_reported_as_an_error() -> None:
    def failing(_: object) -> str:
        return str(1 // 0)

    model = FunctionModel(failing)
    with staged(lambda: service(model), ag_ui=True) as stage:
        client = continue_thread(stage, "rent", AgUiClient())
        assert client.finished is not None
        assert client.finished["type"] == "RUN_ERROR"
        assert "ZeroDivisionError" in client.finished["message"]


def test_leaving_a_stream_cancels_the_run() -> None:
    """AG-UI clients stop a run by closing the connection. An option in the input lets the run continue."""
    gate = Gate(answer_debate)
    with staged(lambda: service(gate), ag_ui=True) as stage:
        for thread, props, ends in [("stop", {}, "interrupted"), ("go", {"onDisconnect": "continue"}, "complete")]:
            body = next_input(AgUiClient(thread, "1"), forwardedProps={"flowdebate": props})
            events = stream_events(stage, "rent", body)
            next(events)
            gate.wait_for_call()
            events.close()  # type: ignore[attr-defined]  # a generator
            if ends == "complete":
                gate.let(5)
            until = time.monotonic() + HTTP_TIMEOUT
            while (status := thread_runs(stage, thread)[0]["status"]) == "running" and time.monotonic() < until:
                time.sleep(0.01)
            assert status == ends


def test_stopping_server_ends_its_streams_but_keeps_the_runs() -> None:
    """The runs can still be read from the server process that starts next."""
    gate = Gate(answer_debate)
    store: list[Any] = []

    def make_service() -> Service:
        created_service = service(gate)
        store.append(created_service.store)
        return created_service

    with staged(make_service, ag_ui=True) as stage:
        events = stream_events(stage, "rent", next_input(AgUiClient()))
        next(events)
        gate.wait_for_call()
        stage.stop()
        last = list(events)[-1]
        assert (last["type"], last["code"]) == ("RUN_ERROR", "running")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(pattern=st.sampled_from(["rent", "debate", "waits", "x"]), changes=st.data())
def test_request_bodies_never_break_the_server(stage: Stage, pattern: str, changes: st.DataObject) -> None:
    """Whatever the body, the response is a valid stream or a client error."""
    client = AgUiClient("hostile", changes.draw(st.text(min_size=1, max_size=8)))
    fields = ["messages", "state", "tools", "context", "forwardedProps", "resume", "threadId", "parentRunId"]
    body: Any = {**next_input(client), **changes.draw(st.dictionaries(st.sampled_from(fields), _JSON, max_size=2))}
    body = changes.draw(st.just(body) | _JSON)
    response = stage.http.post(
        f"/ag-ui/{pattern}", content=json.dumps(body), headers={"content-type": "application/json"}
    )
    if response.status_code == 200:
        client.ids = body["threadId"], body["runId"]
        lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
        client.read(json.loads(line.removeprefix("data: ")) for line in lines)
    else:
        assert 400 <= response.status_code < 500
