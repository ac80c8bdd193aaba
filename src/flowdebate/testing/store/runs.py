"""Store conformance: runs, their owners, and when their steps are durable."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from flowdebate.errors import RunConflict, RunExists, RunNotFound
from flowdebate.store.base import StepRow, StoredRun
from flowdebate.testing.store.fixtures import NASTY, StoreStage, alone, header, opened, raises, writes

if TYPE_CHECKING:
    from flowdebate.store.base import Store
    from flowdebate.testing.store.fixtures import MakeStore


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
            foreign=True,
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
    async def test_an_unknown_run_is_not_found(self, make: MakeStore) -> None:
        """Every operation raises RunNotFound with the id, except `release`."""
        async with opened(make) as store:
            await store.create(header("other"))
            for call in (store.run, store.steps, store.take, store.delete):
                await raises(RunNotFound, call("r"), names="r")
            for writing in writes(store, "r"):
                await raises(RunNotFound, writing(), names="r")
            await store.release("r")

    @alone
    async def test_only_the_owner_writes(self, make: MakeStore) -> None:
        """A finished or released run cannot be written until it is taken again."""
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
        """It can be taken and finished again."""
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
        """Of many concurrent attempts one succeeds; the others raise RunConflict."""
        async with opened(make) as store:
            await store.create(header("r"))
            await raises(RunConflict, store.take("r"), names="r")
            await store.release("r")
            tries = await asyncio.gather(*(store.take("r") for _ in range(10)), return_exceptions=True)
            assert [type(result) for result in tries].count(RunConflict) == 9
            assert sum(isinstance(result, StoredRun) for result in tries) == 1

    @alone
    async def test_recoveries_are_counted_until_there_is_progress(self, make: MakeStore) -> None:
        """Taking a running run is a recovery from a crash; a committed step resets the count."""
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
    async def test_another_object_is_another_owner(self, make: MakeStore) -> None:
        """It can read the run, but neither take, write, delete nor release it until its owner releases it."""
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
    async def test_an_abandoned_run_can_be_taken_and_resumed(self, make: MakeStore) -> None:
        """A closed object owns nothing: another one finds everything that it wrote, and takes the run."""
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


class StepTests(StoreStage):
    """No write is lost, repeated or changed."""

    @alone
    async def test_a_step_is_an_intent_and_its_result(self, make: MakeStore) -> None:
        """Attempts are numbered from 1, failures are in order, and a finished step has a sequence number and a time."""
        async with opened(make) as store:
            await store.create(header("r"))
            assert await store.intend("r", "k", "call", "hash") == 1
            assert list(await store.steps("r")) == [StepRow(key="k", kind="call", request="hash")]
            await store.fail("r", "k", "first")
            assert await store.intend("r", "k", "call", "hash2") == 2
            await store.fail("r", "k", "first")
            open_one = StepRow(key="k", kind="call", request="hash2", attempts=2, failures=("first", "first"))
            assert list(await store.steps("r")) == [open_one]
            assert (await store.run("r")).steps == 0
            await store.commit("r", "k", "call", '{"a": 1}', 12.25)
            assert list(await store.steps("r")) == [replace(open_one, seq=1, at=12.25, body='{"a": 1}')]
            run = await store.run("r")
            assert run.steps == 1
            assert abs(run.updated_at - time.time()) < 60

    @alone
    async def test_the_first_commit_wins(self, make: MakeStore) -> None:
        """Another commit of the same key changes nothing, also at the same time."""
        async with opened(make) as store:
            await store.create(header("r"))
            await store.commit("r", "k", "call", "1", 1.0)
            before = await store.run("r"), await store.steps("r")
            await store.commit("r", "k", "loss", "2", 2.0)
            assert (await store.run("r"), await store.steps("r")) == before
            await asyncio.gather(*(store.commit("r", "at once", "call", str(n), 1.0) for n in range(10)))
            assert (await store.run("r")).steps == 2
            assert [(row.key, row.seq) for row in await store.steps("r")] == [("k", 1), ("at once", 2)]

    @alone
    async def test_steps_are_in_order(self, make: MakeStore) -> None:
        """Finished ones in the order of their commits, then open ones by key."""
        async with opened(make) as store:
            await store.create(header("r"))
            for key in ("z", "B", "a", "é", "\U0001f469", "\uffff", "C"):
                await store.intend("r", key, "call", None)
            for key in ("z", "C"):
                await store.commit("r", key, "call", "0", 1.0)
            rows = await store.steps("r")
            assert [row.key for row in rows] == ["z", "C", "B", "a", "é", "\uffff", "\U0001f469"]
            assert [row.seq for row in rows] == [1, 2, None, None, None, None, None]

    @alone
    async def test_a_deleted_run_leaves_nothing_to_another_with_its_id(self, make: MakeStore) -> None:
        """Neither to a new run nor to one that is added from another store."""
        async with opened(make) as store:
            for again in range(3):
                await store.create(header("r"))
                assert list(await store.steps("r")) == []
                assert await store.intend("r", "open", "call", None) == 1
                await store.fail("r", "failed", "no")
                await store.commit("r", f"done {again}", "call", "1", 1.0)
                copy = await store.run("r")
                await store.release("r")
                await store.delete("r")
                await store.add(replace(copy, owned=False, steps=0), [])
                await store.take("r")
                assert list(await store.steps("r")) == []
                await store.finish("r", "complete", None)
                await store.delete("r")

    @alone
    async def test_any_text_is_stored_unchanged(self, make: MakeStore) -> None:
        """Ids, keys, hashes, bodies, failures, labels, questions and documents are neither changed nor confused."""
        async with opened(make) as store:
            for text in NASTY:
                await store.create(header(text, block=text, question=text, labels={text: text}, plan={text: text}))
                await store.intend(text, text, "call", text)
                await store.fail(text, text, text)
                for key in NASTY:
                    await store.commit(text, key, "effect", key, 1.0)
                assert await store.put(text, text, text)
            for text in NASTY:
                run = await store.run(text)
                assert (run.header.run_id, run.header.labels, run.steps) == (text, {text: text}, len(NASTY))
                rows = {row.key: row for row in await store.steps(text)}
                assert {key: row.body for key, row in rows.items()} == dict(zip(NASTY, NASTY, strict=True))
                assert (rows[text].request, rows[text].failures) == (text, (text,))
                assert [run.header.run_id for run in await store.runs(labels={text: text})] == [text]
                assert [run.header.run_id for run in await store.runs(block=text)] == [text]
                assert await store.documents(text) == {text: text}
                assert await store.put(text, text, "new", expected=text)
                await store.finish(text, "complete", {text: text})
                await store.delete(text)
            assert list(await store.runs()) == []

    @alone
    async def test_many_at_once_lose_nothing(self, make: MakeStore) -> None:
        """Fifty runs of ten steps each, all at once."""

        async def one(store: Store, run_id: str) -> None:
            await store.create(header(run_id))
            await asyncio.gather(*(step(store, run_id, f"k{n}") for n in range(10)))
            await store.finish(run_id, "complete", {"id": run_id})

        async def step(store: Store, run_id: str, key: str) -> None:
            assert await store.intend(run_id, key, "call", key) == 1
            await store.commit(run_id, key, "call", f"{run_id} {key}", 1.0)

        async with opened(make) as store:
            names = [f"r{n}" for n in range(50)]
            await asyncio.gather(*(one(store, name) for name in names))
            for run in await store.runs():
                rows = await store.steps(run.header.run_id)
                assert [row.seq for row in rows] == list(range(1, 11))
                assert {row.body for row in rows} == {f"{run.header.run_id} k{n}" for n in range(10)}
                assert run.outcome == {"id": run.header.run_id}
            assert {run.header.run_id for run in await store.runs()} == set(names)

    @alone
    async def test_a_write_whose_caller_is_cancelled_is_written(self, make: MakeStore) -> None:
        """However often it is cancelled; and later writes come after it."""
        async with opened(make) as store:
            await store.create(header("r"))
            tasks = [asyncio.create_task(store.commit("r", f"k{n}", "call", "{}", 1.0)) for n in range(30)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
                task.cancel()
            await store.finish("r", "interrupted", None)
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
            assert [row.key for row in await store.steps("r")] == [f"k{n}" for n in range(30)]

    def test_it_can_be_used_from_several_event_loops_in_turn(self, make: MakeStore) -> None:
        """As `run_sync` does, which creates a loop for each run."""
        store = make()
        asyncio.run(store.create(header("r")))
        for number in (1, 2, 3):
            assert asyncio.run(store.intend("r", "k", "call", None)) == number
        asyncio.run(store.close())
