"""Memory across runs: an owner's later debates see findings from earlier ones and weight votes accordingly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.measures import vote_weight
from flowdebate.runs.limits import Limits
from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.store.export import export_run, import_runs
from flowdebate.store.memory import MemoryStore
from tests.patterns.consensus.debates import Call, model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from flowdebate.store.archive import StoredArchive

pytestmark = pytest.mark.anyio

TASK = "How can rents be affordable?"
AGENTS = [{"name": name} for name in ("ann", "bob", "cy")]
SHORT = {"agents": AGENTS, "max_rounds": 1}
VOTES = {"ann": "ann", "bob": "ann", "cy": "cy"}


def answer_vote(call: Call) -> Any:
    """Answer a request for a vote: ann and bob vote for ann, while cy votes for itself and gives a reason."""
    if call.phase != "vote":
        return None
    return {"reasoning": f"{call.agent} says so.", "choice": VOTES[call.agent], "confidence": 0.9}


def phase_prompts(calls: list[Call], phase: str = "proposal") -> list[str]:
    """Return the prompts sent to the agents in a phase."""
    return [call.prompt for call in calls if call.phase == phase]


@pytest.fixture
async def make_service() -> AsyncIterator[Service]:
    """Create a service with an in-memory store and agents that vote for ann or for themselves."""
    async with Service(store=MemoryStore(), model=model(answer_vote)) as service:
        yield service


async def finish_debate(
    make_service: Any, task: str = TASK, *, labels: Any = None, limits: Any = None, **options: Any
) -> Any:
    """Run a debate to its end."""
    run = await make_service.begin(
        "consensus", task, options={**SHORT, **options}, seed=1, labels=labels, limits=limits
    )
    return await make_service.wait(run.run_id)


async def archived_tasks(archive: StoredArchive) -> list[str]:
    """Return the tasks of the debates in an archive."""
    return [past.task for past in await archive.debates()]


async def test_later_debate_sees_earlier_findings_and_dissent() -> None:
    calls: list[Call] = []
    async with Service(store=MemoryStore(), model=model(answer_vote, calls=calls)) as service:
        first = await finish_debate(service)
        assert not any("earlier debate" in prompt for prompt in phase_prompts(calls))
        calls.clear()
        second = await finish_debate(service, "Are rents affordable in cities?")
        assert [past.id for past in second.document.raw.context.past_debates] == [f"{first.run_id}:consensus"]
        for prompt in phase_prompts(calls):
            assert f"an earlier debate about: {TASK}" in prompt
            assert "agreement on ann has idea number 1, quite another one." in prompt
            assert "a dissenting vote in it: cy says so." in prompt
            assert "turned out" not in prompt
        await service.archive().correct(f"{first.run_id}:consensus", wrong="ann")
        calls.clear()
        await finish_debate(service, "Which rents are affordable?")
        assert all("turned out to be wrong" in prompt for prompt in phase_prompts(calls))


async def test_votes_are_weighted_by_recorded_outcomes(make_service: Service) -> None:
    """Without any history, each vote has a weight of 1.

    Confident errors lower the weight, and correct votes raise it.
    """
    first = await finish_debate(make_service, voting="weighted")
    assert first.document.raw.tally.weights == {"ann": 2.0, "bob": 0.0, "cy": 1.0}
    await make_service.archive().correct(f"{first.run_id}:consensus", right="cy")
    second = await finish_debate(make_service, "Are rents affordable?", voting="weighted")
    weights = second.document.raw.tally.weights
    assert weights["ann"] < 2 * vote_weight(1516, 0.5) < 2.1
    assert weights["cy"] > 1.0


async def test_every_owner_has_a_separate_archive(make_service: Service) -> None:
    """Nobody sees findings from other owners' debates, whatever the owners are called."""
    ann, ben = OwnedService(make_service, "ann"), OwnedService(make_service, "ben\n" + "x" * 300)
    await finish_debate(ann)
    await finish_debate(make_service)
    result = await finish_debate(ben, "Are rents affordable?")
    assert result.document.raw.context.past_debates == []
    assert await archived_tasks(ann.archive()) == await archived_tasks(make_service.archive()) == [TASK]
    assert await archived_tasks(ben.archive()) == ["Are rents affordable?"]
    await ben.delete(result.run_id)
    assert await archived_tasks(ben.archive()) == []
    assert await archived_tasks(ann.archive()) == [TASK]


async def test_run_can_skip_the_archive(make_service: Service) -> None:
    """A run that skips the archive reads no entries from it and adds none to it."""
    await finish_debate(make_service)
    without = await finish_debate(make_service, "Are rents affordable?", archive=False)
    assert {source.source: source.reason for source in without.document.raw.context.skipped}[
        "history"
    ] == "there is no archive"
    assert await archived_tasks(make_service.archive()) == [TASK]


async def test_deleted_run_is_removed_from_the_archive(make_service: Service) -> None:
    first = await finish_debate(make_service)
    await finish_debate(make_service, "Are trams affordable?")
    assert (await make_service.archive().ratings.of(["ann"]))["ann"].debates == 2
    await make_service.delete(first.run_id)
    assert await archived_tasks(make_service.archive()) == ["Are trams affordable?"]
    assert (await make_service.archive().ratings.of(["ann"]))["ann"].debates == 1
    for part in ("debates", "patterns", "positions", "votes", "personas"):
        documents = await make_service.store.documents(f"archive/default/{part}")
        assert documents[f"{first.run_id}:consensus"] == "null"


# recorded archive reads


async def change_archive(make_service: Service, run_id: str) -> None:
    """Change every entry in the archive."""
    await make_service.archive().correct(f"{run_id}:consensus", right="cy", answer="Forget all rents.")
    await finish_debate(make_service, "Are rents affordable in rents?")


async def test_resumed_run_sees_the_same_archived_context() -> None:
    """Later corrections and deletions do not affect the resumed run."""
    calls: list[Call] = []
    async with Service(store=MemoryStore(), model=model(answer_vote, calls=calls)) as service:
        first = await finish_debate(service, "Rents?")
        suspended = await finish_debate(service, voting="weighted", limits=Limits(calls=5))
        assert suspended.status == "limit"
        await change_archive(service, first.run_id)
        await service.delete(first.run_id)
        calls.clear()
        await service.resume(suspended.run_id, limits=Limits(calls=50))
        finished: Any = await service.wait(suspended.run_id)
        assert finished.status == "complete"
        assert [past.task for past in finished.document.raw.context.past_debates] == ["Rents?"]
        assert "idea number 1" in finished.document.raw.context.past_debates[0].answer
        assert calls
        assert all("Forget all rents" not in call.prompt and "Rents?" in call.prompt for call in calls)
        assert finished.document.raw.tally.weights["cy"] < 1.0  # weighted by ratings, not by the later outcome


async def test_fork_sees_the_archived_context_of_its_parent() -> None:
    calls: list[Call] = []
    async with Service(store=MemoryStore(), model=model(answer_vote, calls=calls)) as service:
        first = await finish_debate(service, "Rents?")
        parent = await finish_debate(service, voting="weighted")
        await change_archive(service, first.run_id)
        calls.clear()
        step = next(step.key for step in await service.store.steps(parent.run_id) if "vote-cy" in step.key)
        ballot = {"reasoning": "Mine.", "choice": "cy", "confidence": 0.2}
        forked = await service.fork(parent.run_id, edits={step: ballot})
        finished: Any = await service.wait(forked.run_id)
        assert calls == []
        assert finished.document.raw.context == parent.document.raw.context
        assert finished.document.raw.tally.weights == parent.document.raw.tally.weights
        assert finished.document.raw.ballots[2].confidence == 0.2


async def test_imported_run_changes_no_archive(make_service: Service) -> None:
    """The author of an imported file must not be able to influence later debates."""
    suspended = await finish_debate(make_service, limits=Limits(calls=5))
    lines = [line async for line in export_run(make_service.store, suspended.run_id)]
    async with Service(store=MemoryStore(), model=model(answer_vote)) as other:
        await finish_debate(other, "Are rents affordable?")
        await import_runs(other.store, [line.encode() for line in lines])
        await other.resume(suspended.run_id, limits=Limits(calls=50))
        finished: Any = await other.wait(suspended.run_id)
        assert finished.status == "complete"
        assert finished.document.raw.context.past_debates == []
        assert await archived_tasks(other.archive()) == ["Are rents affordable?"]


async def test_viewing_a_run_does_not_modify_archives() -> None:
    """Viewing an unfinished run replays it, which must not write to the archive."""
    store = MemoryStore()
    async with Service(store=store, model=model(answer_vote)) as service:
        suspended = await finish_debate(service, limits=Limits(calls=5))
    async with Service(store=store, model=model(answer_vote)) as service:
        before = [dict(await store.documents(f"archive/default/{part}")) for part in ("debates", "ratings")]
        details: Any = await service.run(suspended.run_id)
        assert details.document is not None
        assert before == [dict(await store.documents(f"archive/default/{part}")) for part in ("debates", "ratings")]
