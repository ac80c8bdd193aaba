"""Queued runs of a service, executed by workers and controlled by every process with access to the store."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from flowdebate import Limits
from flowdebate.errors import BudgetReached, ConfigurationError, RunConflict, RunExists
from flowdebate.runs.events import BlockAnswered, CallStarted, RunFinished
from flowdebate.server import create_app
from flowdebate.server.app import serve
from flowdebate.service.service import Service
from flowdebate.store import MemoryStore
from tests.server.stage import Frame, read_frames
from tests.service.test_service import kinds_and_paths, read_updates
from tests.workers.conftest import poll_until
from tests.workers.fleet import RemoteModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from flowdebate.service.channel import Update
    from flowdebate.workers import Workers
    from tests.workers.conftest import Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

QUESTION = "How should we get to work?"
CALLS = 5
"""Number of calls in each debate of the fleet."""
TOKEN = "a-token-of-these-tests"  # noqa: S105 - it opens nothing else


def make_service(workers: Workers, **options: Any) -> Service:
    """Create a service that executes none of the fleet's runs."""
    return Service(workers=workers, poll=0.05, **options)


def texts_by_path(updates: list[Update]) -> list[tuple[str, Any]]:
    """Return the path and the text of each contribution."""
    return [(update.event.path, update.event.output) for update in updates if isinstance(update.event, BlockAnswered)]


async def undisturbed_updates(fleet: Fleet, workers: Workers, seed: int) -> list[Update]:
    """Return the updates of an undisturbed run, and clear the record of its model requests."""
    pattern, store = workers.patterns["city"], MemoryStore()
    await pattern.run(QUESTION, model=RemoteModel(fleet.models.port), store=store, seed=seed, run_id="alone")
    fleet.models.requests.clear()
    async with Service({"city": pattern}, store=store) as service:
        return await read_updates(service.follow("alone"))


async def test_worker_executes_a_run_started_by_the_service(fleet: Fleet) -> None:
    """The worker is a separate process, yet clients of the service receive all events of the run."""
    workers = fleet.workers()
    expected = await undisturbed_updates(fleet, workers, seed=3)
    async with make_service(workers) as service:
        run = await service.begin("city", QUESTION, seed=3, labels={"for": "tests"})
        assert (run.status, run.here, run.pattern, run.labels) == ("queued", False, "city", {"for": "tests"})
        reader = asyncio.ensure_future(read_updates(service.follow(run.run_id)))
        worker = fleet.process()
        updates = await reader
        finished = await service.wait(run.run_id)
    assert kinds_and_paths(updates) == kinds_and_paths(expected)
    assert texts_by_path(updates) == texts_by_path(expected)
    assert updates[-1].kind == "end"
    assert isinstance(updates[-2].event, RunFinished)
    assert (finished.status, finished.steps) == ("complete", CALLS)
    assert finished.document is not None
    assert finished.document.raw.verdict.verdict == "Build trams."
    assert {request.process for request in fleet.models.requests} == {worker.pid}


async def test_run_is_taken_over_from_a_killed_worker_without_losing_text(fleet: Fleet) -> None:
    workers = fleet.workers()
    expected = await undisturbed_updates(fleet, workers, seed=5)
    fleet.models.seconds = 0.2
    async with make_service(workers) as service:
        run = await service.begin("city", QUESTION, seed=5)
        reader = asyncio.ensure_future(read_updates(service.follow(run.run_id)))
        victim = fleet.process()
        await fleet.models.until(3)
        first_updates = [update async for update in read_until_call(service, run.run_id)]
        victim.kill()
        stored_requests = {row.request for row in await service.store.steps(run.run_id) if row.body is not None}
        async with fleet.working(fleet.workers()):
            updates = await reader
            mark = [update.mark for update in first_updates if update.mark is not None][-1]
            rest = await read_updates(service.follow(run.run_id, after=mark))
        assert (await service.run(run.run_id)).status == "complete"
    assert texts_by_path(updates) == texts_by_path(expected)
    assert kinds_and_paths(updates) == kinds_and_paths(expected)
    assert kinds_and_paths(rest) == kinds_and_paths(expected)[len(kinds_and_paths(first_updates)) :]
    counts = Counter(request.digest for request in fleet.models.requests)
    assert len(stored_requests) >= 2
    assert {counts[str(digest)] for digest in stored_requests} == {1}
    assert CALLS <= counts.total() <= CALLS + 1


async def read_until_call(service: Service, run_id: str) -> AsyncIterator[Update]:
    """Return the updates for a reader that leaves during the call in progress."""
    async for update in service.follow(run_id):
        if isinstance(update.event, CallStarted):
            return
        yield update


async def test_cancellation_reaches_the_worker(fleet: Fleet) -> None:
    workers = fleet.workers()
    async with make_service(workers) as service, fleet.working(fleet.workers()):
        fleet.models.answering.clear()
        fleet.models.free = 2
        run = await service.begin("city", QUESTION)
        await fleet.models.until(3)
        reader = asyncio.ensure_future(read_updates(service.follow(run.run_id)))
        await service.cancel(run.run_id)
        assert [update.kind for update in await reader][-1] == "end"
        stopped = await service.wait(run.run_id)
        assert (stopped.status, stopped.steps) == ("interrupted", 2)
        assert (await service.cancel(run.run_id)).status == "interrupted"
        fleet.models.answering.set()
        assert (await service.resume(run.run_id)).status in ("queued", "running")
        updates = await read_updates(service.follow(run.run_id))
        assert (await service.resume(run.run_id)).status == "complete"
    assert isinstance(updates[-2].event, RunFinished)
    assert len(fleet.models.requests) == CALLS + 1


async def test_stopping_run_cannot_be_resumed(fleet: Fleet) -> None:
    """A run that is being cancelled stays with its worker until the worker has stopped.

    Resuming it before then raises RunConflict.
    """
    workers = fleet.workers()
    fleet.models.answering.clear()
    async with make_service(workers) as service, fleet.working(fleet.workers(poll=0.5)):
        run = await service.begin("city", QUESTION)
        await fleet.models.until(1)
        await service.resume(run.run_id)  # the run is already in progress
        await service.cancel(run.run_id)
        with pytest.raises(RunConflict):
            await service.resume(run.run_id)
        assert (await service.wait(run.run_id)).status == "interrupted"


async def test_queued_run_is_cancelled_before_a_worker_takes_it(fleet: Fleet) -> None:
    async with make_service(fleet.workers()) as service:
        run = await service.begin("city", QUESTION)
        reader = asyncio.ensure_future(read_updates(service.follow(run.run_id)))
        assert (await service.cancel(run.run_id)).status == "interrupted"
        assert [update.kind for update in await reader][-1] == "end"
        async with fleet.working(fleet.workers()):
            await asyncio.sleep(0.2)
        assert (await service.run(run.run_id)).status == "interrupted"
    assert fleet.models.requests == []


async def test_worker_continues_after_a_human_answers_through_the_service(fleet: Fleet) -> None:
    """No worker is occupied while the run waits, and the answer is used unchanged."""
    async with make_service(fleet.workers()) as service, fleet.working(fleet.workers()):
        run = await service.begin("mixed", QUESTION)
        waiting = await service.wait(run.run_id)
        assert (waiting.status, [request.block for request in waiting.pending]) == ("awaiting", ["ann"])
        assert (await service.answer(run.run_id, "By tram.")).status in ("queued", "running")
        finished = await service.wait(run.run_id)
        assert finished.status == "complete"
        assert finished.document is not None
        assert finished.document.raw.transcript[0].text == "By tram."
        other = await service.begin("mixed", QUESTION)
        assert (await service.wait(other.run_id)).status == "awaiting"
        assert (await service.cancel(other.run_id)).status == "interrupted"
    assert len(fleet.models.requests) == 2


async def test_services_sharing_a_store_control_the_same_runs(fleet: Fleet) -> None:
    """Each service can list, follow, cancel and resume the other's runs. Starting a run again returns the same run."""
    async with make_service(fleet.workers()) as first, make_service(fleet.workers()) as second:
        run = await first.begin("city", QUESTION, run_id=f"{fleet.given['name']}-both", seed=2)
        assert run.run_id in {summary.run_id for summary in (await second.runs(status="queued")).runs}
        assert (await second.begin("city", QUESTION, run_id=run.run_id, seed=2)).created_at == run.created_at
        with pytest.raises(RunExists):
            await second.begin("city", "Why?", run_id=run.run_id, seed=2)
        await second.cancel(run.run_id)
        assert (await first.wait(run.run_id)).status == "interrupted"
        await second.resume(run.run_id)
        readers = [asyncio.ensure_future(read_updates(reader.follow(run.run_id))) for reader in (first, second)]
        async with fleet.working(fleet.workers()):
            one, other = await asyncio.gather(*readers)
        assert kinds_and_paths(one) == kinds_and_paths(other)
        assert texts_by_path(one) == texts_by_path(other)
        assert (await first.run(run.run_id)).document == (await second.run(run.run_id)).document
    assert len(fleet.models.requests) == CALLS


async def test_service_limits_apply_to_queued_runs(fleet: Fleet) -> None:
    """The caller can lower the limits. A limit that cannot be stored is rejected."""
    workers = fleet.workers(limits=Limits(calls=4))
    async with (
        make_service(workers, limits=Limits(calls=3)) as service,
        fleet.working(fleet.workers(limits=Limits(calls=4))),
    ):
        for limits, calls in ((None, 3), (Limits(calls=2), 2), (Limits(calls=50), 3)):
            run = await service.begin("city", QUESTION, limits=limits)
            updates = await read_updates(service.follow(run.run_id))
            finished = await service.wait(run.run_id)
            assert (finished.status, finished.usage and finished.usage.calls) == ("limit", calls)
            assert len(texts_by_path(updates)) == calls
        longer = await workers.submit("city", QUESTION)
        finished = await service.wait(longer)
        assert (finished.status, finished.usage and finished.usage.calls) == ("limit", 4)
        with pytest.raises(ConfigurationError, match="cost"):
            await service.begin("city", QUESTION, limits=Limits(cost=1.0, prices=lambda *_: 1.0))


async def test_options_unsupported_by_workers_are_rejected(fleet: Fleet) -> None:
    """Workers resume queued runs with their own configuration, so these options would have no effect."""
    async with make_service(fleet.workers()) as service:
        run = await service.begin("city", QUESTION)
        await service.cancel(run.run_id)
        for options in ({"limits": Limits(calls=9)}, {"allow_changes": True}, {"on_uncertain": "raise"}):
            with pytest.raises(ConfigurationError, match="workers"):
                await service.resume(run.run_id, **options)
        assert (await service.run(run.run_id)).status == "interrupted"


async def test_service_reports_why_workers_reject_a_run(fleet: Fleet) -> None:
    """If the only worker lacks the run's pattern, waiting for the run returns the status "rejected"."""
    without = fleet.workers(patterns={"other": fleet.workers().patterns["mixed"]})
    async with make_service(fleet.workers()) as service, fleet.working(without):
        run = await service.begin("city", QUESTION)

        async def rejected() -> bool:
            return "must include city" in ((await service.run(run.run_id)).problem or "")

        await poll_until(rejected)
        assert (await service.wait(run.run_id)).status == "rejected"


async def test_abandoned_run_without_a_worker_is_not_awaited(fleet: Fleet) -> None:
    async with make_service(fleet.workers()) as service, make_service(fleet.workers()) as other:
        block, model = service.patterns["city"], RemoteModel(fleet.models.port)
        fleet.models.answering.clear()
        handle = block.start(QUESTION, model=model, store=other.store)
        await fleet.models.until(1)
        await other.store.release(handle.run_id)
        assert (await service.wait(handle.run_id)).status == "left_behind"
        assert [update.kind for update in await read_updates(service.follow(handle.run_id))][-1] == "end"
        handle.cancel()
        await handle.wait()


async def test_forks_of_queued_runs_are_executed_by_workers(fleet: Fleet) -> None:
    async with make_service(fleet.workers()) as service, fleet.working(fleet.workers()):
        run = await service.begin("city", QUESTION, seed=4)
        assert (await service.wait(run.run_id)).status == "complete"
        copy = await service.fork(run.run_id, labels={"for": "tests"})
        assert (copy.status, copy.here, copy.parent, copy.labels) == ("queued", False, run.run_id, {"for": "tests"})
        finished = await service.wait(copy.run_id)
        assert finished.fork is not None
        assert (finished.status, finished.seed, finished.fork.reused, finished.fork.asked) == ("complete", 4, CALLS, 0)
        assert len(fleet.models.requests) == CALLS
        place = "city/round[2]/city-turn-bob/city-debater-bob"
        edited = await service.fork(run.run_id, edits={place: "I agree."}, fork_id=f"{run.run_id}-edited")
        updates = await read_updates(service.follow(edited.run_id))
        finished = await service.wait(edited.run_id)
        assert finished.fork is not None
        assert (finished.fork.reused, finished.fork.edited, finished.fork.asked) == (3, (place,), 1)
        assert ("I agree.") in [text for _, text in texts_by_path(updates)]
        assert {request.process for request in fleet.models.requests} == {os.getpid()}
        assert len(fleet.models.requests) == CALLS + 1
        with pytest.raises(RunExists):
            await service.fork(run.run_id, fork_id=edited.run_id)
        for wrong in ({"edits": {"nowhere": "x"}}, {"at": "nowhere"}, {"options": {"max_rounds": 3}}):
            with pytest.raises(ConfigurationError):
                await service.fork(run.run_id, **wrong)


# Over HTTP


@asynccontextmanager
async def serve_http(service: Service) -> AsyncIterator[httpx2.AsyncClient]:
    """Run a server on a free port and yield a client for it."""
    started: asyncio.Future[tuple[str, Any]] = asyncio.get_running_loop().create_future()
    app = create_app(service, token=TOKEN)
    serving = asyncio.ensure_future(serve(app, port=0, started=lambda *address: started.set_result(address)))
    url, server = await started
    headers = {"authorization": f"Bearer {TOKEN}"}
    try:
        async with httpx2.AsyncClient(
            base_url=f"{url}api/v1", headers=headers, trust_env=False, verify=False, timeout=30
        ) as http:
            yield http
    finally:
        server.should_exit = True
        await serving


async def test_queued_run_can_be_started_followed_and_cancelled_over_http(fleet: Fleet) -> None:
    fleet.models.answering.clear()
    fleet.models.free = 1
    async with serve_http(make_service(fleet.workers())) as http, fleet.working(fleet.workers()):
        begun = await http.post("/runs", json={"pattern": "city", "question": QUESTION})
        assert (begun.status_code, begun.json()["status"]) == (201, "queued")
        path = f"/runs/{begun.json()['runId']}"
        await fleet.models.until(2)
        first: list[Frame] = []
        async for frame in frames(http, path):
            if frame.event == "turn_finished":
                assert (await http.post(f"{path}/cancel")).status_code == 202
            first.append(frame)
        assert [frame.event for frame in first][-2:] == ["run_finished", "end"]
        assert (await http.get(path)).json()["status"] == "interrupted"
        fleet.models.answering.set()
        assert (await http.post(f"{path}/resume")).status_code == 202
        last = [frame.id for frame in first if frame.id is not None][-1]
        rest = [frame async for frame in frames(http, path, **{"last-event-id": last})]
        assert [frame.event for frame in rest][-2:] == ["run_finished", "end"]
        speakers = [frame.data["agentName"] for frame in (*first, *rest) if frame.event == "turn_finished"]
        assert speakers == ["ann", "bob", "ann", "bob"]
        assert (await http.get(f"{path}?wait=5")).json()["document"]["raw"]["verdict"]["winner"] == "trams"
    assert len(fleet.models.requests) == CALLS + 1


async def frames(http: httpx2.AsyncClient, path: str, **headers: str) -> AsyncIterator[Frame]:
    """Return the server-sent events of a run."""
    async with http.stream("GET", f"{path}/events", headers=headers) as response:
        lines: list[str] = []
        async for line in response.aiter_lines():
            lines.append(line)
            if not line:
                for frame in read_frames(iter(lines)):
                    yield frame
                lines.clear()


async def test_workers_respect_each_owners_budget(fleet: Fleet) -> None:
    """With PostgreSQL, all processes share the budget.

    Other owners are unaffected. The response with status 429 names the budget and says when it will be renewed.
    """
    workers = fleet.workers(owner_budget=Limits(calls=CALLS + 1))
    ann, bob = ({"owner": f"{name} {workers.name}"} for name in ("ann", "bob"))
    async with serve_http(make_service(workers)) as http, fleet.working(workers):

        async def begin(labels: dict[str, str]) -> httpx2.Response:
            return await http.post("/runs", json={"pattern": "city", "question": QUESTION, "labels": labels})

        for labels, expected in ((ann, "complete"), (ann, "limit"), (bob, "complete")):
            run_id = (await begin(labels)).json()["runId"]
            assert (await http.get(f"/runs/{run_id}?wait=30")).json()["status"] == expected
        response = await begin(ann)
        assert response.status_code == 429
        assert (
            f"{ann['owner']!r} is exhausted: {CALLS + 1} of {CALLS + 1} calls used; it resets at "
            in response.json()["detail"]
        )
        assert 0 < int(response.headers["retry-after"]) <= 86_400
    assert len(fleet.models.requests) == 2 * CALLS + 1


async def test_workers_and_their_service_share_a_budget(fleet: Fleet) -> None:
    """Calls made by workers count toward the budget, and the service starts nothing once it is used up."""
    workers = fleet.workers(budget=Limits(calls=CALLS + 2))
    async with make_service(workers) as service, fleet.working(workers):
        one = await service.begin("city", QUESTION)
        assert (await service.wait(one.run_id, 30)).status == "complete"
        two = await service.begin("city", QUESTION)
        assert (await service.wait(two.run_id, 30)).status == "limit"
        assert [budget.used for budget in await service.budgets()] == [CALLS + 2]
        with pytest.raises(BudgetReached):
            await service.begin("city", QUESTION)
        with pytest.raises(BudgetReached):
            await service.resume(two.run_id)
    assert len(fleet.models.requests) == CALLS + 2
