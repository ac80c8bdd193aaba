"""Server-sent events: complete, resumable, bounded, and ending with the run or the server."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import httpx2
import pytest
from jsonschema import Draft202012Validator

from flowdebate import handler
from flowdebate.events import BaseEvent, event_schema
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import Frame, Gate, Stage, answer_debate, read_frames, staged

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.runs.context import Context


def test_readers_follow_a_run_from_its_first_event_to_its_end(stage: Stage) -> None:
    frames = stage.frames(f"/runs/{stage.begin()}/events")
    kinds = [frame.event for frame in frames]
    assert (kinds[0], kinds[-2:]) == ("run_started", ["run_finished", "end"])
    assert kinds.count("turn_finished") == 2
    ids = [frame.id for frame in frames if frame.id]
    assert len(ids) == len(set(ids)) == len(frames) - kinds.count("text_delta") - kinds.count("call_started") - 2
    schema = Draft202012Validator(event_schema())
    for frame in frames[:-1]:
        assert frame.data["kind"] == frame.event
        if frame.event != "text_delta":
            schema.validate(frame.data)


@dataclass(slots=True, kw_only=True)
class ApplicationEvent(BaseEvent):
    """Event defined by an application."""

    kind: ClassVar[str] = "odd\nid: 7"
    share: float


def test_application_events_have_type_custom() -> None:
    """Each event that a block emits is sent as one frame of type "custom", even if it has a type of its own."""

    def work(value: Any, ctx: Context) -> str:
        ctx.emit(ApplicationEvent(share=0.5))
        ctx.emit({"kind": "run_finished"})
        ctx.emit(object())
        return "done"

    with staged(lambda: Service({"work": handler(work, name="work")}, store="memory:")) as stage:
        run_id = stage.begin(pattern="work", options=None)
        frames = [frame for frame in stage.frames(f"/runs/{run_id}/events") if frame.event == "custom"]
    assert [frame.data["name"] for frame in frames] == ["ApplicationEvent", "dict", "object"]
    assert (frames[0].data["value"], frames[1].data["value"]) == ({"share": 0.5}, {"kind": "run_finished"})


def test_text_is_streamed_live(gated: Stage, gate: Gate) -> None:
    """Each piece of text comes with its offset, so that readers can detect gaps.

    Joined together, the pieces are the text of the turn.
    """
    run_id = gated.begin()
    gate.wait_for_call()
    frames = gated.follow(f"/runs/{run_id}/events")
    for frame in frames:
        if frame.event == "call_started":
            break
    gate.let()
    text = ""
    for frame in frames:
        if frame.event == "text_delta":
            assert (frame.id, frame.data["from"]) == (None, len(text))
            text += frame.data["text"]
        elif frame.event == "block_answered":
            assert frame.data["output"] == text
            break
    gate.let(3)
    assert list(frames)[-1].event == "end"


def test_text_can_be_omitted(gated: Stage, gate: Gate) -> None:
    run_id = gated.begin()
    gate.wait_for_call()
    gate.let(4)
    assert "text_delta" not in {frame.event for frame in gated.frames(f"/runs/{run_id}/events?text=0")}


def test_returning_reader_gets_exactly_the_remaining_events(stage: Stage) -> None:
    """A reader may pass the id of any event, either in the Last-Event-ID header or as `?after=`."""
    run_id = stage.finished()
    frames = [frame for frame in stage.frames(f"/runs/{run_id}/events") if frame.event != "text_delta"]
    for index, frame in enumerate(frames):
        if frame.id is not None and index % 3 == 0:
            assert stage.frames(f"/runs/{run_id}/events", last_event_id=frame.id) == frames[index + 1 :]
            assert stage.frames(f"/runs/{run_id}/events?after={frame.id}") == frames[index + 1 :]


@pytest.mark.parametrize("mark", ["1-000000000000", "nothing", "%00", "9" * 400, "é"])
def test_unknown_id_causes_a_reset(stage: Stage, mark: str) -> None:
    """`reset` tells the client to discard everything, since all events are about to be sent again."""
    run_id = stage.finished()
    frames = [frame for frame in stage.frames(f"/runs/{run_id}/events") if frame.event != "text_delta"]
    replay = stage.frames(f"/runs/{run_id}/events?after={mark}")
    assert [replay[0].event, *replay[1:]] == ["reset", *frames]


def test_dropped_connection_loses_nothing(gated: Stage, gate: Gate) -> None:
    """The run continues while its reader is disconnected.

    The reader then reconnects with the id of the last event it received.
    """
    run_id = gated.begin()
    gate.wait_for_call()
    frames: list[Frame] = []
    for frame in gated.follow(f"/runs/{run_id}/events"):
        frames.append(frame)
        if frame.event == "call_started":
            break  # closes the connection
    gate.let(4)
    last = next(frame.id for frame in reversed(frames) if frame.id)
    rest = gated.frames(f"/runs/{run_id}/events", last_event_id=last)
    received = [frame for frame in [*frames, *rest] if frame.id or frame.event in ("run_finished", "end")]
    complete = [
        frame for frame in gated.frames(f"/runs/{run_id}/events") if frame.id or frame.event in ("run_finished", "end")
    ]
    assert received == complete


def test_another_process_streams_events_from_the_journal(tmp_path: Path) -> None:
    """A server that does not execute the run itself streams it from the store, with the same ids."""
    store = str(tmp_path / "runs.sqlite3")

    def recorded(stage: Stage, **headers: str) -> list[tuple[str, str | None]]:
        frames = stage.frames(f"/runs/{run_id}/events", **headers)
        return [(frame.event, frame.id) for frame in frames if frame.id]

    with staged(lambda: Service(store=store, model=FunctionModel(answer_debate))) as first:
        run_id = first.finished()
        live = recorded(first)
    with staged(lambda: Service(store=store, model=FunctionModel(answer_debate))) as second:
        assert recorded(second) == live
        assert recorded(second, last_event_id=str(live[-2][1])) == live[-1:]


def test_several_runs_can_share_a_connection(stage: Stage) -> None:
    """Each event from `/events?runs=a,b` names its run, and its id contains the positions in both runs."""
    ids = [stage.finished(runId=name) for name in ("a", "b")]
    frames = [frame for frame in stage.frames(f"/events?runs={','.join(ids)}") if frame.event != "text_delta"]
    for run_id in ids:
        alone = [frame.event for frame in stage.frames(f"/runs/{run_id}/events") if frame.event != "text_delta"]
        assert [frame.event for frame in frames if frame.data["runId"] == run_id] == alone
    middle = len(frames) // 2
    mark = next(frame.id for frame in reversed(frames[:middle]) if frame.id)
    rest = stage.frames(f"/events?runs={','.join(ids)}", last_event_id=mark)
    prefix = frames[: next(index for index, frame in enumerate(frames) if frame.id == mark) + 1]
    for run_id in ids:
        expected = [
            frame.event
            for frame in [*prefix, *rest]
            if frame.data["runId"] == run_id and frame.event not in ("run_finished", "end")
        ]
        assert expected == [
            frame.event
            for frame in frames
            if frame.data["runId"] == run_id and frame.event not in ("run_finished", "end")
        ]
    assert [frame.event for frame in stage.frames("/events?runs=a,b", last_event_id="x")].count("reset") == 2


@pytest.mark.parametrize("runs", ["", ",", ",".join(f"r{number}" for number in range(21))])
def test_connection_can_follow_twenty_runs(stage: Stage, runs: str) -> None:
    assert stage.get(f"/events?runs={runs}").status_code == 422


def test_unknown_runs_cannot_be_followed(stage: Stage) -> None:
    """The server responds with 404 before it sends any event."""
    assert stage.get("/runs/nothing/events").status_code == 404
    assert stage.get(f"/events?runs={stage.finished()},nothing").status_code == 404


def test_quiet_stream_sends_heartbeats(gate: Gate) -> None:
    with staged(lambda: Service(store="memory:", model=gate), ping=0.05) as stage:
        run_id = stage.begin()
        with stage.http.stream("GET", f"/api/v1/runs/{run_id}/events") as response:
            lines = response.iter_lines()
            assert next(lines) == "retry: 1000"
            assert next(line for line in lines if line.startswith(":")) == ": ping"


def test_number_of_readers_is_limited(gate: Gate) -> None:
    """The 65th reader is rejected with a Retry-After header. A slot becomes free once another reader leaves."""
    with staged(lambda: Service(store="memory:", model=gate)) as stage:
        run_id = stage.begin()
        open_ones = []
        for _ in range(64):
            stream = stage.http.stream("GET", f"/api/v1/runs/{run_id}/events")
            lines = stream.__enter__().iter_lines()
            next(lines)
            open_ones.append((stream, lines))
        rejection = stage.get(f"/runs/{run_id}/events")
        assert rejection.status_code == 429
        assert rejection.headers["retry-after"] == "5"
        assert stage.get(f"/events?runs={run_id}").status_code == 429
        open_ones.pop()[0].__exit__(None, None, None)
        for _ in range(200):  # wait until the server has noticed
            with stage.http.stream("GET", f"/api/v1/runs/{run_id}/events") as response:
                if response.status_code == 200:
                    break
            time.sleep(0.02)
        else:
            pytest.fail("the reader's place is not free again")
        for stream, _ in open_ones:
            stream.__exit__(None, None, None)


def test_server_with_readers_can_stop(gate: Gate) -> None:
    """Readers are disconnected first, so they do not delay the shutdown."""
    with staged(lambda: Service(store="memory:", model=gate)) as stage:
        run_id = stage.begin()
        gate.wait_for_call()
        frames: list[Frame] = []

        waiting = threading.Semaphore(0)

        def follow() -> None:
            url, headers = f"{stage.url}/api/v1/runs/{run_id}/events", stage.http.headers
            with httpx2.stream("GET", url, headers=headers, timeout=30, trust_env=False) as response:
                for frame in read_frames(response.iter_lines()):
                    frames.append(frame)
                    if frame.event == "call_started":
                        waiting.release()

        readers = [threading.Thread(target=follow, daemon=True) for _ in range(5)]
        for reader in readers:
            reader.start()
        for _ in readers:
            assert waiting.acquire(timeout=30)
        stage.stop()
        for reader in readers:
            reader.join(30)
            assert not reader.is_alive()
    assert "end" not in {frame.event for frame in frames}  # without an end event, browsers reconnect
