"""Store conformance: steps, and when they are durable."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from flowdebate.store.base import StepRow
from flowdebate.testing.store.fixtures import NASTY, StoreStage, alone, header, opened

if TYPE_CHECKING:
    from flowdebate.store.base import Store
    from flowdebate.testing.store.fixtures import MakeStore

__all__ = ("StepTests",)


class StepTests(StoreStage):
    """Nothing that was written is lost, doubled or changed."""

    @alone
    async def test_a_step_is_an_intention_and_what_came_of_it(self, make: MakeStore) -> None:
        """Attempts are numbered from 1, failures are in order, and what is finished has its place and time."""
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
    async def test_what_was_kept_first_stands(self, make: MakeStore) -> None:
        """Another commit of the same key changes nothing, whoever was quicker."""
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
    async def test_steps_stand_in_their_order(self, make: MakeStore) -> None:
        """The finished ones as they were finished, then the open ones by key."""
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
    async def test_a_deleted_run_leaves_nothing_to_one_of_its_name(self, make: MakeStore) -> None:
        """Whether that is begun, or comes from another store."""
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
    async def test_any_text_is_kept_as_it_is(self, make: MakeStore) -> None:
        """Ids, keys, hashes, bodies, failures, labels, questions, documents: none is changed, or mixed up."""
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
        """Fifty runs of ten steps each, all together."""

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
        """However often it is cancelled; and what is written after it comes after it."""
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

    def test_it_is_used_from_one_event_loop_after_the_other(self, make: MakeStore) -> None:
        """As `run_sync` does, which makes a loop for each run."""
        store = make()
        asyncio.run(store.create(header("r")))
        for number in (1, 2, 3):
            assert asyncio.run(store.intend("r", "k", "call", None)) == number
        asyncio.run(store.close())
