"""Store conformance: listing, deleting, importing, and archives."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ConfigurationError, RunConflict, RunNotFound, StoreError
from flowdebate.store.base import StepRow, Store, StoredRun
from flowdebate.testing.store.fixtures import StoreStage, alone, header, opened, raises

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from flowdebate.testing.store.fixtures import MakeStore


class ListTests(StoreStage):
    """Lists, whole runs, documents, and closing."""

    @alone
    async def test_runs_are_listed_newest_first(self, make: MakeStore) -> None:
        """By their start, whatever was written since; at most `limit`."""
        async with opened(make) as store:
            for name, at in (("b", 2.0), ("c", 3.0), ("a", 1.0)):
                await store.create(header(name, created_at=at))
            await store.commit("a", "k", "call", "1", 9.0)
            assert [run.header.run_id for run in await store.runs()] == ["c", "b", "a"]
            assert [run.header.run_id for run in await store.runs(limit=2)] == ["c", "b"]
            assert list(await store.runs(limit=0)) == []
            assert list(await store.runs()) == [await store.run(name) for name in "cba"]

    @alone
    async def test_runs_are_found_by_all_filters(self, make: MakeStore) -> None:
        """Status, block, text in any case, labels: each alone, and together."""
        async with opened(make) as store:
            await store.create(header("a", block="x", question="Die Straße, 100%_\\?", labels={"t": "1", "u": "2"}))
            await store.create(
                header(
                    "b",
                    block="x",
                    question="ÉCOLE İ \N{GREEK CAPITAL LETTER SIGMA}\N{GREEK SMALL LETTER FINAL SIGMA}",
                    labels={"t": "1"},
                )
            )
            await store.create(header("c", block="y", question="a\x00b \ud800", labels={"t": "2"}))
            await store.finish("b", "complete", None)
            cases: list[tuple[dict[str, Any], str]] = [
                ({}, "cba"),
                ({"status": "complete"}, "b"),
                ({"status": "failed"}, ""),
                ({"block": "x"}, "ba"),
                ({"block": "X"}, ""),
                ({"text": "STRASSE"}, "a"),
                ({"text": "école"}, "b"),
                ({"text": "\N{GREEK SMALL LETTER SIGMA}" * 2}, "b"),
                ({"text": "i\u0307"}, "b"),
                ({"text": "ss"}, "a"),
                ({"text": "0%_\\"}, "a"),
                ({"text": "s%e"}, ""),
                ({"text": "A\x00B"}, "c"),
                ({"text": "0"}, "a"),
                ({"text": "\ud800"}, "c"),
                ({"text": ""}, "cba"),
                ({"labels": {"t": "1"}}, "ba"),
                ({"labels": {"t": "1", "u": "2"}}, "a"),
                ({"labels": {"1": "t"}}, ""),
                ({"labels": {}}, "cba"),
                ({"labels": {"t": "1"}, "block": "x", "status": "running", "text": "die", "limit": 5}, "a"),
            ]
            for asked, expected in cases:
                found = "".join(run.header.run_id for run in await store.runs(**asked))
                assert found == expected, asked

    @alone
    async def test_runs_are_found_by_the_beginning_of_their_id(self, make: MakeStore) -> None:
        """Exactly, in any script, and with any signs that databases use in patterns."""
        ids = ("ab", "abc", "aBc", "a%c", "a_c", "b", "xab", "ä1", "a\x00", "a\x00b", "\ud800x", "ab\U0010ffff!", "\\a")
        async with opened(make) as store:
            for run_id in ids:
                await store.create(header(run_id))
            for prefix in ("", "a", "ab", "aB", "a%", "a_", "ä", "a\x00", "\ud800", "ab\U0010ffff", "\\", "abcd", *ids):
                found = {run.header.run_id for run in await store.runs(prefix=prefix)}
                assert found == {run_id for run_id in ids if run_id.startswith(prefix)}, repr(prefix)
            assert [run.header.run_id for run in await store.runs(prefix="a", limit=1)] == ["ab\U0010ffff!"]

    @alone
    async def test_the_pages_of_a_list_are_the_list(self, make: MakeStore) -> None:
        """With every filter and any size of a page, also where several runs have one time or strange ids."""
        filters: list[dict[str, Any]] = [
            {},
            {"status": "complete"},
            {"block": "x"},
            {"text": "CARS"},
            {"labels": {"t": "1"}},
            {"prefix": "\x00"},
            {"labels": {"t": "1"}, "block": "x", "status": "running", "text": "cars"},
            {"status": "failed"},
        ]
        async with opened(make) as store:
            for number, name in enumerate(("b", "a", "\x00", "\ud800", "ä", "", "c", "B", "\U0001f469")):
                given = {"block": "xy"[number % 2], "labels": {"t": str(number % 3)}}
                await store.create(header(name, created_at=float(number // 4), **given))
                if number % 4 == 1:
                    await store.finish(name, "complete", None)
            for asked in filters:
                whole = list(await store.runs(**asked))
                for size in (1, 2, 3, 4, 9, 10):
                    before = None
                    for begin in range(0, len(whole) + 1, size):
                        page = list(await store.runs(**asked, limit=size, before=before))
                        assert page == whole[begin : begin + size], (asked, size, begin)
                        before = page[-1].position if page else None

    @alone
    async def test_a_list_is_read_while_runs_come_and_go(self, make: MakeStore) -> None:
        """No run is listed twice, and none is skipped that was there from the beginning and still is."""
        async with opened(make) as store:
            for number in range(10, 20):
                await _old(store, f"r{number}", float(number))
            await _old(store, "r16, too", 16.0)
            first = await store.runs(limit=4)
            assert [run.header.run_id for run in first] == ["r19", "r18", "r17", "r16"]
            await store.create(header("newest", created_at=30.0))
            await _old(store, "between those listed", 17.5)
            await _old(store, "r15a", 15.0)
            for listed_last_or_not_yet in ("r16", "r14"):
                await store.delete(listed_last_or_not_yet)
            second = await store.runs(limit=4, before=first[-1].position)
            assert [run.header.run_id for run in second] == ["r16, too", "r15", "r15a", "r13"]
            third = await store.runs(limit=4, before=second[-1].position)
            assert [run.header.run_id for run in third] == ["r12", "r11", "r10"]
            assert list(await store.runs(limit=4, before=third[-1].position)) == []

    @alone
    async def test_a_page_that_cannot_be_is_refused(self, make: MakeStore) -> None:
        """Raises ConfigurationError that names the argument; nothing is listed by mistake."""
        positions: tuple[Any, ...] = (
            *("a", 1.0, (), (1.0,), (1.0, "a", "b"), [1.0, "a"], (None, "a"), ("1", "a"), (1.0, 2), (1.0, None)),
            *((True, "a"), (float("nan"), "a"), (float("inf"), "a"), (-float("inf"), "a"), (10**400, "a")),
        )
        limits: tuple[Any, ...] = (-1, True, 1.0, "1", 2**63)
        async with opened(make) as store:
            await store.create(header("r"))
            for field, value in (*(("before", each) for each in positions), *(("limit", each) for each in limits)):
                try:
                    await store.runs(**{field: value})
                except ConfigurationError as error:
                    assert error.field == field
                else:
                    raise AssertionError(f"ConfigurationError is promised for {field}={value!r}")
            assert len(await store.runs(limit=2**63 - 1, before=(2**80, ""))) == 1

    @alone
    async def test_a_run_is_deleted_with_its_steps(self, make: MakeStore) -> None:
        """Unless it has an owner; afterwards its id is free, and has no old steps."""
        async with opened(make) as store:
            await store.create(header("r"))
            await store.commit("r", "k", "call", "1", 1.0)
            await raises(RunConflict, store.delete("r"), names="r")
            await store.finish("r", "failed", {"error": "x"})
            await store.create(header("stays"))
            await store.commit("stays", "k", "call", "1", 1.0)
            await store.delete("r")
            await raises(RunNotFound, store.run("r"), names="r")
            await store.create(header("r"))
            assert (list(await store.steps("r")), (await store.run("r")).steps) == ([], 0)
            assert len(await store.steps("stays")) == 1

    @alone
    async def test_a_run_of_another_store_is_added_as_it_is(self, make: MakeStore) -> None:
        """With its steps, also open ones, and without an owner; it can be taken and resumed."""
        rows = [
            StepRow(key="b", kind="call", request="h", attempts=3, failures=("x", "y"), seq=1, at=5.5, body="{}"),
            StepRow(key="a", kind="human", seq=2, at=6.5, body="[]"),
            StepRow(key="c", kind="effect", attempts=2),
        ]
        run = StoredRun(header=header("r"), status="running", updated_at=9.25, steps=2, recoveries=2, owned=True)
        async with opened(make) as store:
            await store.add(run, rows)
            assert await store.run("r") == replace(run, owned=False)
            assert list(await store.steps("r")) == rows
            assert (await store.take("r")).recoveries == 3
            assert await store.intend("r", "c", "effect", None) == 3
            await store.commit("r", "c", "effect", "1", 7.0)
            assert [row.seq for row in await store.steps("r")] == [1, 2, 3]

    @alone
    async def test_documents_are_compared_and_set(self, make: MakeStore) -> None:
        """New if there was none, changed if the expected text matches; listed in the order of their first write."""
        async with opened(make) as store:
            assert await store.documents("c") == {}
            assert await store.put("c", "z", "1")
            assert not await store.put("c", "z", "2")
            assert not await store.put("c", "z", "1")
            assert await store.put("c", "a", "1")
            assert await store.put("d", "z", "other")
            assert not await store.put("c", "z", "2", expected="other")
            assert not await store.put("c", "none", "2", expected="1")
            assert await store.put("c", "z", "2", expected="1")
            assert list((await store.documents("c")).items()) == [("z", "2"), ("a", "1")]
            assert await store.documents("d") == {"z": "other"}

    @alone
    async def test_many_change_one_document(self, make: MakeStore) -> None:
        """Reading, writing, and repeating after a refusal loses no change."""

        async def add_one(store: Store) -> None:
            while True:
                old = (await store.documents("c"))["n"]
                if await store.put("c", "n", str(int(old) + 1), expected=old):
                    return

        async with opened(make) as one:
            await one.put("c", "n", "0")
            if not self.shared:
                await asyncio.gather(*(add_one(one) for _ in range(20)))
            else:
                async with opened(make) as other:
                    await asyncio.gather(*(add_one(store) for store in (one, other) * 10))
            assert await one.documents("c") == {"n": "20"}

    @alone
    async def test_a_closed_store_refuses_everything(self, make: MakeStore) -> None:
        """Raises StoreError; earlier writes are done; closing twice is harmless."""
        store = make()
        await store.create(header("r"))
        writing = [asyncio.create_task(store.commit("r", f"k{n}", "call", "{}", 1.0)) for n in range(20)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*writing)
        await store.close()
        calls: tuple[Callable[[], Coroutine[Any, Any, object]], ...] = (
            lambda: store.create(header("s")),
            lambda: store.release("r"),
            store.runs,
            lambda: store.documents("c"),
            lambda: store.put("c", "k", "1"),
            lambda: store.run("r"),
        )
        for call in calls:
            await raises(StoreError, call(), names="r")
        if self.shared:
            async with opened(make) as other:
                assert (await other.run("r")).steps == 20

    @alone
    async def test_an_unused_store_can_be_closed(self, make: MakeStore) -> None:
        """It has a name before."""
        store = make()
        assert isinstance(store, Store)
        assert store.name
        await store.close()


async def _old(store: Store, run_id: str, created_at: float) -> None:
    """Add a run of that time, without an owner."""
    run = StoredRun(header=header(run_id, created_at=created_at), status="complete", updated_at=created_at, steps=0)
    await store.add(run, [])
