"""Store conformance: runs and their owners."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from flowdebate.errors import RunConflict, RunExists, RunNotFound
from flowdebate.store.base import StoredRun
from flowdebate.testing.store.fixtures import StoreStage, alone, header, opened, raises, writes

if TYPE_CHECKING:
    from flowdebate.testing.store.fixtures import MakeStore

__all__ = ("OwningTests",)


class OwningTests(StoreStage):
    """One owner at a time; a run of a dead process can be resumed."""

    @alone
    async def test_a_new_run_is_there_whole(self, make: MakeStore) -> None:
        """It is running, owned, without steps or outcome, and its header is what was given."""
        given = header(
            "r",
            seed=2**80,
            question="Straße?",
            input={"a": [1, 2.5, None, True, "ü\x00"]},
            session={"state": {}},
            labels={"team": "red"},
            plan={"kind": "debate"},
        )
        async with opened(make) as store:
            before = time.time()
            await store.create(given)
            run = await store.run("r")
            assert run == StoredRun(header=given, status="running", updated_at=run.updated_at, steps=0, owned=True)
            assert before <= run.updated_at <= time.time()
            assert list(await store.steps("r")) == []

    @alone
    async def test_an_id_is_taken_once(self, make: MakeStore) -> None:
        """Raises RunExists, and leaves the first as it is."""
        async with opened(make) as store:
            await store.create(header("r", block="first"))
            await raises(RunExists, store.create(header("r", block="second")), names="r")
            run = await store.run("r")
            assert run.header.block == "first"
            await raises(RunExists, store.add(run, []), names="r")

    @alone
    async def test_what_is_not_there_is_not_found(self, make: MakeStore) -> None:
        """Raises RunNotFound with the id, whatever is asked of it; there is nothing to be released."""
        async with opened(make) as store:
            await store.create(header("other"))
            for call in (store.run, store.steps, store.take, store.delete):
                await raises(RunNotFound, call("r"), names="r")
            for writing in writes(store, "r"):
                await raises(RunNotFound, writing(), names="r")
            await store.release("r")

    @alone
    async def test_only_the_owner_writes(self, make: MakeStore) -> None:
        """A run that was finished or released is written by nobody, until it is taken again."""
        async with opened(make) as store:
            await store.create(header("finished"))
            await store.finish("finished", "failed", None)
            await store.create(header("released"))
            await store.intend("released", "k", "call", None)
            await store.release("released")
            await store.release("released")
            for run_id in ("finished", "released"):
                before = await store.run(run_id)
                for writing in writes(store, run_id):
                    await raises(RunConflict, writing(), names=run_id)
                assert await store.run(run_id) == before
            await store.take("released")
            assert await store.intend("released", "k", "call", None) == 2

    @alone
    async def test_a_run_is_released_as_it_is(self, make: MakeStore) -> None:
        """Nothing but its owner changes."""
        async with opened(make) as store:
            await store.create(header("r"))
            await store.commit("r", "k", "call", "{}", 1.0)
            before = await store.run("r"), await store.steps("r")
            await store.release("r")
            assert (replace(await store.run("r"), owned=True), await store.steps("r")) == before

    @alone
    async def test_a_finished_run_has_its_outcome_and_no_owner(self, make: MakeStore) -> None:
        """And can be taken, finished again, and forgotten."""
        outcome = {"output": {"text": "ü\x00\ud800"}, "seconds": 1.5, "error": None}
        async with opened(make) as store:
            await store.create(header("r"))
            await store.finish("r", "interrupted", outcome)
            run = await store.run("r")
            assert (run.status, run.outcome, run.owned) == ("interrupted", outcome, False)
            taken = await store.take("r")
            assert (taken.status, taken.outcome, taken.recoveries) == ("interrupted", outcome, 0)
            assert (await store.run("r")).status == "running"
            await store.finish("r", "complete", None)
            run = await store.run("r")
            assert (run.status, run.outcome, run.owned) == ("complete", None, False)

    @alone
    async def test_a_run_is_taken_once(self, make: MakeStore) -> None:
        """Of many who try at the same time, one has it; the others get RunConflict."""
        async with opened(make) as store:
            await store.create(header("r"))
            await raises(RunConflict, store.take("r"), names="r")
            await store.release("r")
            tries = await asyncio.gather(*(store.take("r") for _ in range(10)), return_exceptions=True)
            assert [type(result) for result in tries].count(RunConflict) == 9
            assert sum(isinstance(result, StoredRun) for result in tries) == 1

    @alone
    async def test_recoveries_are_counted_until_it_gets_further(self, make: MakeStore) -> None:
        """A run that is taken while running was left by the dead; a step that is committed sets the count back."""
        async with opened(make) as store:
            await store.create(header("r"))
            for count in (1, 2, 3):
                await store.release("r")
                taken = await store.take("r")
                assert (taken.recoveries, (await store.run("r")).recoveries) == (count, count)
                await store.intend("r", "k", "call", None)
            await store.commit("r", "k", "call", "{}", 1.0)
            assert (await store.run("r")).recoveries == 0

    @alone
    async def test_another_object_is_somebody_else(self, make: MakeStore) -> None:
        """It sees the run, and may neither take, write, forget nor release it, until it is released."""
        self.need_two()
        async with opened(make) as one, opened(make) as other:
            await one.create(header("r"))
            await one.commit("r", "k", "call", "1", 1.0)
            assert await other.run("r") == await one.run("r")
            assert [run.owned for run in await other.runs()] == [True]
            for call in (lambda: other.take("r"), lambda: other.delete("r"), *writes(other, "r")):
                await raises(RunConflict, call(), names="r")
            await raises(RunExists, other.create(header("r")), names="r")
            await other.release("r")
            await one.intend("r", "k2", "call", None)
            await one.release("r")
            await other.take("r")
            for writing in writes(one, "r"):
                await raises(RunConflict, writing(), names="r")
            assert [row.key for row in await one.steps("r")] == ["k", "k2"]

    @alone
    async def test_what_was_left_can_be_taken_and_carried_on(self, make: MakeStore) -> None:
        """An object that is closed owns nothing any more: another finds all that it wrote, and takes the run."""
        self.need_two()
        async with opened(make) as one:
            await one.create(header("r"))
            await one.commit("r", "a", "call", "1", 1.0)
            await one.intend("r", "b", "effect", "hash")
            await one.fail("r", "b", "it broke")
            await one.put("c", "k", "1")
        async with opened(make) as other:
            assert not (await other.run("r")).owned
            taken = await self.taken(other, "r")
            assert (taken.status, taken.steps, taken.recoveries) == ("running", 1, 1)
            assert [(row.key, row.body, row.failures) for row in await other.steps("r")] == [
                ("a", "1", ()),
                ("b", None, ("it broke",)),
            ]
            assert await other.documents("c") == {"k": "1"}
            assert await other.intend("r", "b", "effect", "hash") == 2
