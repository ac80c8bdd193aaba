"""Conformance suite for stores: tests for the guarantees made by `flowdebate.store.Store`."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import update_wrapper
from itertools import count
from typing import Any, TypeAlias, TypedDict, Unpack

from flowdebate.errors import ConfigurationError, RunConflict, RunExists, RunNotFound, StoreError
from flowdebate.store.base import RunFilter, RunHeader, StepRow, Store, StoredRun, StoredStatus

MakeStore: TypeAlias = "Callable[[], Store]"
"""Factory for store objects; all objects created during a test share one location."""

TRICKY_TEXTS = (
    "plain",
    "with space and / and %s and %(x)s and $1 and {0} and ?",
    "quote ' and \" and \\ and -- and ; DROP TABLE runs",
    "line\nbreak\r\ttab",
    "nothing\x00in between",
    "\x00",
    "\x1a0000",
    "\ud800 half of a pair",
    "half \udfff",
    "\N{LATIN SMALL LETTER E WITH ACUTE}e\N{COMBINING ACUTE ACCENT}",
    "\N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH JOINER}\N{NO-BREAK SPACE}",
    "\U0001f469\u200d\U0001f680 \U0010ffff",
    "../../etc",
    " ends in blanks ",
    "",
)
"""Strings that a store must not change or mistake for one another. A null character ends a string in C. JSON allows
half of a surrogate pair, but UTF-8 does not. A path containing `..` may lead out of its folder, and some databases drop
trailing spaces.
"""

# Runs are listed by start time, and a clock may repeat a value, so each run starts a millisecond after the previous
# one.
_LATER = count(1)


class HeaderFields(TypedDict, total=False):
    """Fields of a `RunHeader`, as accepted by `header`."""

    block: str
    seed: int
    created_at: float
    question: str
    input: object
    fingerprint: Mapping[str, str]
    model: object
    limits: Mapping[str, float] | None
    session: Mapping[str, Any] | None
    labels: Mapping[str, str]
    plan: Mapping[str, Any] | None
    foreign: bool
    parent: Mapping[str, Any] | None
    format: int


def header(run_id: str, **values: Unpack[HeaderFields]) -> RunHeader:
    """Create a header for a new run; its creation time is later than that of any previous header."""
    default: HeaderFields = {
        "block": "debate",
        "seed": 7,
        "created_at": time.time() + next(_LATER) / 1000,
        "question": "May cars go?",
        "input": {"question": "May cars go?"},
        "fingerprint": {"block": "one", "limits": "two"},
    }
    fields: HeaderFields = {**default, **values}
    return RunHeader(run_id=run_id, **fields)


def _promise(check: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test that calls `check` with one store object per parameter, all using the same location.

    The test runs in a new event loop, without a pytest plugin. Tests with two objects are skipped if the store cannot
    be shared.
    """
    objects = len(inspect.signature(check).parameters) - 1

    def test(self: StoreConformance, make: MakeStore) -> None:
        if objects > 1 and not self.shared:
            import pytest

            pytest.skip("this store cannot be shared")

        async def act() -> None:
            stores = [make() for _ in range(objects)]
            try:
                await check(self, *stores)
            finally:
                for store in stores:
                    await store.close()

        asyncio.run(act())

    update_wrapper(test, check)
    del test.__wrapped__  # type: ignore[attr-defined]  # pytest would read the parameters of `check` from it
    return test


async def _refuses(expected: type[StoreError], *calls: Coroutine[Any, Any, object]) -> None:
    """Check that each call raises `expected` itself, not a subclass, and that the error is about the run "r"."""
    for call in calls:
        try:
            await call
        except StoreError as error:
            assert type(error) is expected, error
            assert getattr(error, "run_id", "r") == "r"
        else:
            raise AssertionError(f"expected {expected.__name__}, but nothing was raised")


def _writes(store: Store) -> list[Coroutine[Any, Any, object]]:
    """List all writes to the run "r" that only its owner may perform."""
    return [
        store.intend("r", "k", "call", None),
        store.commit("r", "k", "call", "2", 2.0),
        store.fail("r", "k", "failure"),
        store.finish("r", "complete", {"output": 1}),
    ]


async def _ids(store: Store, **filters: Unpack[RunFilter]) -> list[str]:
    return [run.header.run_id for run in await store.runs(**filters)]


async def _add_old(
    store: Store, run_id: str, at: float, status: StoredStatus = "complete", **values: Unpack[HeaderFields]
) -> None:
    run = StoredRun(header=replace(header(run_id, **values), created_at=at), status=status, updated_at=at, steps=0)
    await store.add(run, [])


class StoreConformance:
    """Conformance tests for a store; subclass this and define a pytest fixture `make`.

        class TestMyStore(StoreConformance):
            @pytest.fixture
            def make(self, tmp_path):
                return lambda: MyStore(tmp_path / "runs")

    Each call to `make()` returns a new store object. Within a test, all objects use the same location; each test starts
    with a new, empty location. `shared` is True if several objects can use one location; otherwise tests that need two
    objects are skipped. `take_within` is the maximum time, in seconds, until another object can take a run whose owner
    is gone. `examples` is the number of random sequences of operations. Needs `flowdebate[testing]`.
    """

    shared = True
    take_within: float = 5.0
    examples = 25

    @_promise
    async def test_new_run_is_complete(self, store: Store) -> None:
        """Check that a new run is in progress and owned, has no steps or outcome, and preserves its header and ID."""
        # A seed may have more bits than a database integer, and later versions may add fields to a header.
        run_header = header(
            "r",
            seed=2**80,
            question="Straße?",
            input={"a": [1, 2.5, None, True, "ü\x00"]},
            plan={"kind": "debate"},
            session={"state": {}},
            labels={"team": "red"},
            foreign=True,
        )
        before = time.time()
        await store.create(run_header)
        run = await store.run("r")
        assert run == StoredRun(header=run_header, status="running", updated_at=run.updated_at, steps=0, owned=True)
        assert before <= run.updated_at <= time.time()
        assert list(await store.steps("r")) == []
        await _refuses(RunExists, store.create(header("r", block="second")), store.add(run, []))
        assert await store.run("r") == run

    @_promise
    async def test_unknown_run_raises_run_not_found(self, store: Store) -> None:
        """Check that, for an unknown run, every operation except `release` raises RunNotFound with the run's ID."""
        await store.create(header("other"))
        calls = [call("r") for call in (store.run, store.steps, store.take, store.delete)]
        await _refuses(RunNotFound, *calls, *_writes(store))
        # must not raise: this is called last during cleanup, where an error would hide the original one
        await store.release("r")

    @_promise
    async def test_finished_run_has_outcome_and_no_owner(self, store: Store) -> None:
        """Check that a finished run cannot be written to until it is taken, after which it can be finished again."""
        outcome = {"output": {"text": "ü\x00\ud800"}, "seconds": 1.5, "error": None}
        await store.create(header("r"))
        await store.finish("r", "interrupted", outcome)
        run = await store.run("r")
        assert (run.status, run.outcome, run.owned) == ("interrupted", outcome, False)
        await _refuses(RunConflict, *_writes(store))
        assert await store.run("r") == run
        taken_run = await store.take("r")
        assert (taken_run.status, taken_run.outcome, taken_run.recoveries) == ("interrupted", outcome, 0)
        assert (await store.run("r")).status == "running"
        await store.finish("r", "complete", None)
        run = await store.run("r")
        assert (run.status, run.outcome, run.owned) == ("complete", None, False)

    @_promise
    async def test_brief_list_omits_outputs(self, store: Store) -> None:
        """Check that a brief list omits only outputs, even for an imported run, and that a full list omits nothing."""
        outcome = {"output": "ü\x00\ud800", "raw": {"a": 1}, "seconds": 1.5, "summary": {"decision": "ü\x00\ud800"}}
        await store.create(header("r"))
        await store.finish("r", "complete", outcome)
        await store.add(replace(await store.run("r"), header=header("s")), [])
        await store.create(header("t"))
        outcomes = {run.header.run_id: run.outcome for run in await store.runs(brief=True)}
        brief = {key: outcome[key] for key in ("seconds", "summary")}
        assert outcomes == {"r": brief, "s": brief, "t": None}
        assert [run.outcome for run in await store.runs() if run.outcome] == [outcome, outcome]

    @_promise
    async def test_release_changes_only_the_owner(self, store: Store) -> None:
        """Check that releasing a run changes only its owner, and that nobody can write to it until it is taken."""
        await store.create(header("r"))
        await store.commit("r", "k", "call", "{}", 1.0)
        await store.intend("r", "open", "call", None)
        before = await store.run("r"), await store.steps("r")
        await store.release("r")
        await store.release("r")  # a released run has no owner, so no operation is rejected
        await _refuses(RunConflict, *_writes(store))
        assert (replace(await store.run("r"), owned=True), await store.steps("r")) == before
        await store.take("r")
        assert await store.intend("r", "open", "call", None) == 2

    @_promise
    async def test_only_one_take_succeeds(self, store: Store) -> None:
        """Check that exactly one of many concurrent attempts to take a run succeeds; all others raise RunConflict."""
        await store.create(header("r"))
        await _refuses(RunConflict, store.take("r"))
        await store.release("r")
        tries = await asyncio.gather(*(store.take("r") for _ in range(10)), return_exceptions=True)
        assert sorted(type(result).__name__ for result in tries) == ["RunConflict"] * 9 + ["StoredRun"]

    @_promise
    async def test_progress_resets_recoveries(self, store: Store) -> None:
        """Check that taking a run in progress counts as a recovery, and that committing a step resets the count."""
        await store.create(header("r"))
        for number in (1, 2, 3):
            await store.release("r")
            assert (await store.take("r")).recoveries == (await store.run("r")).recoveries == number
            await store.intend("r", "k", "call", None)
        await store.commit("r", "k", "call", "{}", 1.0)
        assert (await store.run("r")).recoveries == 0

    @_promise
    async def test_other_object_cannot_write_owned_run(self, one: Store, other: Store) -> None:
        """Check that a second store object can read an owned run, but cannot take, write, delete or release it."""
        await one.create(header("r"))
        await one.commit("r", "k", "call", "1", 1.0)
        assert await other.run("r") == await one.run("r")
        assert [run.owned for run in await other.runs()] == [True]
        await _refuses(RunConflict, other.take("r"), other.delete("r"), *_writes(other))
        await _refuses(RunExists, other.create(header("r")))
        await other.release("r")
        await one.intend("r", "k2", "call", None)
        await one.release("r")
        await other.take("r")
        await _refuses(RunConflict, *_writes(one))
        assert [row.key for row in await one.steps("r")] == ["k", "k2"]

    @_promise
    async def test_abandoned_run_can_be_resumed(self, one: Store, other: Store) -> None:
        """Check that a closed store object owns no runs: another object sees all its writes and can take its run."""
        await one.create(header("r"))
        await one.commit("r", "a", "call", "1", 1.0)
        await one.intend("r", "b", "effect", "hash")
        await one.fail("r", "b", "it broke")
        await one.put("c", "k", "1")
        await one.close()
        assert not (await other.run("r")).owned
        end = time.monotonic() + self.take_within
        while True:  # a server may take a moment to notice that the owner is gone
            try:
                taken_run = await other.take("r")
            except RunConflict:
                assert time.monotonic() < end
                await asyncio.sleep(0.02)
            else:
                break
        assert (taken_run.status, taken_run.steps, taken_run.recoveries) == ("running", 1, 1)
        steps = [(row.key, row.body, row.failures) for row in await other.steps("r")]
        assert steps == [("a", "1", ()), ("b", None, ("it broke",))]
        assert await other.documents("c") == {"k": "1"}
        assert await other.intend("r", "b", "effect", "hash") == 2

    @_promise
    async def test_steps_record_intents_and_results(self, store: Store) -> None:
        """Check that attempts are numbered from 1 and failures are listed in order.

        Each finished step must have a number and a time.
        """
        await store.create(header("r"))
        assert await store.intend("r", "k", "call", "hash") == 1
        assert list(await store.steps("r")) == [StepRow(key="k", kind="call", request="hash")]
        await store.fail("r", "k", "first")
        assert await store.intend("r", "k", "call", "hash2") == 2
        await store.fail("r", "k", "first")
        open_one = StepRow(key="k", kind="call", request="hash2", attempts=2, failures=("first", "first"))
        assert list(await store.steps("r")) == [open_one]
        assert (await store.run("r")).steps == 0
        await store.commit("r", "k", "loss", '{"a": 1}', 12.25)
        assert list(await store.steps("r")) == [replace(open_one, kind="loss", seq=1, at=12.25, body='{"a": 1}')]
        run = await store.run("r")
        assert run.steps == 1
        assert abs(run.updated_at - time.time()) < 60

    @_promise
    async def test_first_commit_wins(self, store: Store) -> None:
        """Check that a second commit for the same key, even a simultaneous one, changes nothing."""
        await store.create(header("r"))
        await store.commit("r", "k", "call", "1", 1.0)
        before = await store.run("r"), await store.steps("r")
        await store.commit("r", "k", "loss", "2", 2.0)
        assert (await store.run("r"), await store.steps("r")) == before
        # A recorded step must not change, even if two workers commit it because one of them was presumed dead.
        await asyncio.gather(*(store.commit("r", "at once", "call", str(n), 1.0) for n in range(10)))
        assert (await store.run("r")).steps == 2
        assert [(row.key, row.seq) for row in await store.steps("r")] == [("k", 1), ("at once", 2)]

    @_promise
    async def test_several_collections_are_read_in_one_call(self, store: Store) -> None:
        """Check that several collections can be read in one call, omitting those without documents."""
        for collection, key in (("a", "note"), ("b", "other"), ("c", "note"), ("c", "a first one")):
            assert await store.put(collection, key, f"{collection} {key}")
        notes = {"a": {"note": "a note"}, "c": {"note": "c note"}}
        assert await store.documents_in(["a", "b", "c", "d"], key="note") == notes
        documents = await store.documents_in(["b", "c", "d"])
        assert documents == {"b": {"other": "b other"}, "c": {"note": "c note", "a first one": "c a first one"}}
        assert list(documents["c"]) == ["note", "a first one"]
        assert await store.documents_in([]) == {}

    @_promise
    async def test_steps_after_a_number_can_be_read(self, store: Store) -> None:
        """Check that clients following a run can read the steps after a given step number, and all open steps."""
        await store.create(header("r"))
        for number in range(5):
            await store.intend("r", f"k{5 - number}", "call", "hash")
            await store.commit("r", f"k{5 - number}", "call", str(number), float(number))
        await store.intend("r", "a", "call", "hash")
        steps = [(row.key, row.seq, row.body) for row in await store.steps("r", after=3)]
        assert steps == [("k2", 4, "3"), ("k1", 5, "4"), ("a", None, None)]
        assert [row.key for row in await store.steps("r", after=5)] == ["a"]

    @_promise
    async def test_steps_are_in_order(self, store: Store) -> None:
        """Check that finished steps are listed in the order of their commits, followed by open steps sorted by key."""
        await store.create(header("r"))
        # Sorted by code point: UTF-16 order would put the woman emoji (U+1F469) before \uffff, and a language's
        # collation would put "a" before "B".
        for key in ("z", "B", "a", "é", "\U0001f469", "\uffff", "C"):
            await store.intend("r", key, "call", None)
        for key in ("z", "C"):
            await store.commit("r", key, "call", "0", 1.0)
        steps = [(row.key, row.seq) for row in await store.steps("r")]
        assert steps == [("z", 1), ("C", 2), *((key, None) for key in ("B", "a", "é", "\uffff", "\U0001f469"))]

    @_promise
    async def test_any_text_is_stored_unchanged(self, store: Store) -> None:
        """Check that no stored text is changed or mistaken for another.

        This applies to IDs, keys, hashes, bodies, failures, labels, questions and documents.
        """
        for text in TRICKY_TEXTS:
            await store.create(header(text, block=text, question=text, labels={text: text}, plan={text: text}))
            await store.intend(text, text, "call", text)
            await store.fail(text, text, text)
            for key in TRICKY_TEXTS:
                await store.commit(text, key, "effect", key, 1.0)
            assert await store.put(text, text, text)
        for text in TRICKY_TEXTS:
            run = await store.run(text)
            assert (run.header.run_id, run.header.labels, run.steps) == (text, {text: text}, len(TRICKY_TEXTS))
            rows = {row.key: row for row in await store.steps(text)}
            assert {key: row.body for key, row in rows.items()} == dict(zip(TRICKY_TEXTS, TRICKY_TEXTS, strict=True))
            assert (rows[text].request, rows[text].failures) == (text, (text,))
            assert await _ids(store, labels={text: text}) == await _ids(store, block=text) == [text]
            assert await store.documents(text) == {text: text}
            assert await store.put(text, text, "new", expected=text)
            await store.finish(text, "complete", {text: text})
            await store.delete(text)
        assert list(await store.runs()) == []

    @_promise
    async def test_concurrent_runs_lose_no_steps(self, store: Store) -> None:
        """Check that no step is lost when fifty runs of ten steps each are executed concurrently."""

        async def step(run_id: str, key: str) -> None:
            assert await store.intend(run_id, key, "call", key) == 1
            await store.commit(run_id, key, "call", f"{run_id} {key}", 1.0)

        async def act(run_id: str) -> None:
            await store.create(header(run_id))
            await asyncio.gather(*(step(run_id, f"k{n}") for n in range(10)))
            await store.finish(run_id, "complete", {"id": run_id})

        await asyncio.gather(*(act(f"r{n}") for n in range(50)))
        runs = await store.runs()
        assert {run.header.run_id for run in runs} == {f"r{n}" for n in range(50)}
        for run in runs:
            run_id = run.header.run_id
            rows = await store.steps(run_id)
            assert [row.seq for row in rows] == list(range(1, 11))
            assert {row.body for row in rows} == {f"{run_id} k{n}" for n in range(10)}
            assert run.outcome == {"id": run_id}

    @_promise
    async def test_cancelled_write_is_kept(self, store: Store) -> None:
        """Check that a write completes even if it is cancelled repeatedly, and that later writes come after it."""
        await store.create(header("r"))
        tasks = [asyncio.create_task(store.commit("r", f"k{n}", "call", "{}", 1.0)) for n in range(30)]
        # let each write start; once started, it must be completed, because it records an answer that has been paid for
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
            task.cancel()
        await store.finish("r", "interrupted", None)
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        assert [row.key for row in await store.steps("r")] == [f"k{n}" for n in range(30)]

    def test_store_works_across_event_loops(self, make: MakeStore) -> None:
        """Check that a store works with a different event loop for each run, as in calls to `run_sync`."""
        store = make()
        asyncio.run(store.create(header("r")))
        for number in (1, 2, 3):
            assert asyncio.run(store.intend("r", "k", "call", None)) == number
        asyncio.run(store.close())

    @_promise
    async def test_runs_can_be_filtered(self, store: Store) -> None:
        """Check that filters work alone and combined, and that newer runs come first regardless of later writes."""
        sigma = "\N{GREEK CAPITAL LETTER SIGMA}\N{GREEK SMALL LETTER FINAL SIGMA}"
        labels = {"t": "1"}
        await store.create(header("b", created_at=2.0, question=f"ÉCOLE İ {sigma}", labels=labels, block="x"))
        await store.create(header("c", created_at=3.0, block="y", question="a\x00b \ud800", labels={"t": "2"}))
        await store.create(
            header("a", created_at=1.0, question="Die Straße, 100%_\\?", labels=labels | {"u": "2"}, block="x")
        )
        await store.finish("b", "complete", None)
        await store.commit("a", "k", "call", "1", 9.0)
        # Text is matched in its case-folded form, which is longer than the text itself for ß and İ.
        texts = {"STRASSE": "a", "école": "b", "\N{GREEK SMALL LETTER SIGMA}" * 2: "b", "i\u0307": "b", "ss": "a"}
        texts |= {"0%_\\": "a", "s%e": "", "A\x00B": "c", "0": "a", "\ud800": "c", "": "cba"}
        cases: list[tuple[dict[str, Any], str]] = [
            *(({"text": text}, expected) for text, expected in texts.items()),
            *(({"limit": limit}, "cba"[:limit]) for limit in range(5)),
            ({"status": "complete"}, "b"),
            ({"status": "failed"}, ""),
            ({"block": "x"}, "ba"),
            ({"block": "X"}, ""),
            ({"labels": {"t": "1"}}, "ba"),
            ({"labels": {"t": "1", "u": "2"}}, "a"),
            ({"labels": {"1": "t"}}, ""),
            ({"labels": {}}, "cba"),
            ({"labels": {"t": "1"}, "block": "x", "status": "running", "text": "die", "limit": 5}, "a"),
        ]
        for filters, expected in cases:
            assert "".join(await _ids(store, **filters)) == expected, filters
        assert list(await store.runs()) == [await store.run(name) for name in "cba"]

    @_promise
    async def test_runs_are_found_by_id_prefix(self, store: Store) -> None:
        """Check that an ID prefix is matched literally, in any script and even if it contains database wildcards."""
        ids = ("ab", "abc", "aBc", "a%c", "a_c", "b", "xab", "ä1", "a\x00", "a\x00b", "\ud800x", "ab\U0010ffff!", "\\a")
        for run_id in ids:
            await store.create(header(run_id))
        for prefix in ("", "a", "ab", "aB", "a%", "a_", "ä", "a\x00", "\ud800", "ab\U0010ffff", "\\", "abcd", *ids):
            expected = {run_id for run_id in ids if run_id.startswith(prefix)}
            assert set(await _ids(store, prefix=prefix)) == expected, repr(prefix)
        assert await _ids(store, prefix="a", limit=1) == ["ab\U0010ffff!"]

    @_promise
    async def test_pages_add_up_to_the_list(self, store: Store) -> None:
        """Check that pages of any size, with any filter, add up to the full list.

        Runs may have equal times or unusual IDs.
        """
        for number, name in enumerate(("b", "a", "\x00", "\ud800", "ä", "", "c", "B", "\U0001f469")):
            status: StoredStatus = "complete" if number % 4 == 1 else "failed"
            block, labels = "xy"[number % 2], {"t": str(number % 3)}
            await _add_old(store, name, float(number // 4), status, block=block, labels=labels)
        several = {"labels": {"t": "1"}, "block": "x", "status": "failed", "text": "cars"}
        alone: list[dict[str, Any]] = [{}, {"status": "queued"}, {"prefix": "\x00"}]
        for filters in (*alone, several, *({name: value} for name, value in several.items())):
            full_list = list(await store.runs(**filters))
            for size in (1, 2, 3, 4, 9, 10):
                before = None
                for begin in range(0, len(full_list) + 1, size):
                    page = list(await store.runs(**filters, limit=size, before=before))
                    assert page == full_list[begin : begin + size], (filters, size, begin)
                    before = page[-1].position if page else None

    @_promise
    async def test_listing_survives_concurrent_changes(self, store: Store) -> None:
        """Check that no run is repeated, and no existing run skipped, if runs are added or deleted between pages."""
        for number in range(10, 20):
            await _add_old(store, f"r{number}", float(number))
        await _add_old(store, "r16, too", 16.0)
        first = await store.runs(limit=4)
        assert [run.header.run_id for run in first] == ["r19", "r18", "r17", "r16"]
        for name, at in (("newest", 30.0), ("between those listed", 17.5), ("r15a", 15.0)):
            await _add_old(store, name, at)
        for listed_last_or_not_yet in ("r16", "r14"):
            await store.delete(listed_last_or_not_yet)
        second = await store.runs(limit=4, before=first[-1].position)
        assert [run.header.run_id for run in second] == ["r16, too", "r15", "r15a", "r13"]
        third = await store.runs(limit=4, before=second[-1].position)
        assert [run.header.run_id for run in third] == ["r12", "r11", "r10"]
        assert list(await store.runs(limit=4, before=third[-1].position)) == []

    @_promise
    async def test_invalid_page_is_rejected(self, store: Store) -> None:
        """Check that an invalid page raises a ConfigurationError naming the argument."""
        # A position may come from a client, so an invalid one must not reach a comparison in the database.
        positions: tuple[Any, ...] = (
            *("a", 1.0, (), (1.0,), (1.0, "a", "b"), [1.0, "a"], (None, "a"), ("1", "a"), (1.0, 2), (1.0, None)),
            *((True, "a"), (float("nan"), "a"), (float("inf"), "a"), (-float("inf"), "a"), (10**400, "a")),
        )
        limits: tuple[Any, ...] = (-1, True, 1.0, "1", 2**63)
        await store.create(header("r"))
        for field, value in (
            *(("before", position) for position in positions),
            *(("limit", position) for position in limits),
        ):
            try:
                await store.runs(**{field: value})
            except ConfigurationError as error:
                assert error.field == field
            else:
                raise AssertionError(f"expected ConfigurationError for {field}={value!r}")
        assert len(await store.runs(limit=2**63 - 1, before=(2**80, ""))) == 1

    @_promise
    async def test_deleted_run_leaves_nothing(self, store: Store) -> None:
        """Check that a run reusing a deleted run's ID inherits nothing, and that owned runs cannot be deleted."""
        await store.create(header("stays"))
        await store.commit("stays", "k", "call", "1", 1.0)
        for again in range(3):
            await store.create(header("r"))
            assert (list(await store.steps("r")), (await store.run("r")).steps) == ([], 0)
            assert await store.intend("r", "open", "call", None) == 1
            await store.fail("r", "failed", "no")
            await store.commit("r", f"done {again}", "call", "1", 1.0)
            copy = await store.run("r")
            await _refuses(RunConflict, store.delete("r"))
            await store.release("r")
            await store.delete("r")
            await _refuses(RunNotFound, store.run("r"))
            await store.add(replace(copy, owned=False, steps=0), [])
            await store.take("r")
            assert list(await store.steps("r")) == []
            await store.commit("r", "done", "call", "1", 1.0)
            await store.finish("r", "complete", None)
            await store.delete("r")
        assert len(await store.steps("stays")) == 1

    @_promise
    async def test_added_run_is_unchanged(self, store: Store) -> None:
        """Check that an imported run keeps its outcome and steps, even open ones, has no owner, and can be resumed."""
        rows = [
            StepRow(key="b", kind="call", request="h", attempts=3, failures=("x", "y"), seq=1, at=5.5, body="{}"),
            StepRow(key="a", kind="human", seq=2, at=6.5, body="[]"),
            StepRow(key="c", kind="effect", attempts=2),
        ]
        more: dict[str, Any] = {"recoveries": 2, "owned": True, "outcome": {"output": "ü"}}
        run = StoredRun(header=header("r"), status="running", updated_at=9.25, steps=2, **more)
        await store.add(run, rows)
        assert await store.run("r") == replace(run, owned=False)
        assert list(await store.steps("r")) == rows
        assert (await store.take("r")).recoveries == 3
        assert await store.intend("r", "c", "effect", None) == 3
        await store.commit("r", "c", "effect", "1", 7.0)
        assert [row.seq for row in await store.steps("r")] == [1, 2, 3]

    @_promise
    async def test_documents_are_compared_and_set(self, store: Store) -> None:
        """Check that documents are created, replaced only if their text matches, and listed in creation order."""
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

    def test_concurrent_changes_to_one_document(self, make: MakeStore) -> None:
        """Check that no change is lost when several tasks change a document and retry each rejected change."""

        async def add_one(store: Store) -> None:
            old = (await store.documents("c"))["n"]
            while not await store.put("c", "n", str(int(old) + 1), expected=old):
                old = (await store.documents("c"))["n"]

        async def act() -> None:
            one = make()
            other = make() if self.shared else one
            await one.put("c", "n", "0")
            await asyncio.gather(*(add_one(store) for store in (one, other) * 10))
            assert await other.documents("c") == {"n": "20"}
            await one.close()
            await other.close()

        asyncio.run(act())

    @_promise
    async def test_closed_store_rejects_operations(self, store: Store) -> None:
        """Check that a closed store raises StoreError, preserves earlier writes, and can be closed again."""
        await store.create(header("r"))
        writing = [asyncio.create_task(store.commit("r", f"k{n}", "call", "{}", 1.0)) for n in range(20)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*writing)
        await store.close()
        calls = (store.create(header("s")), store.release("r"), store.runs(), store.run("r"))
        await _refuses(StoreError, *calls, store.documents("c"), store.put("c", "k", "1"))

    @_promise
    async def test_close_keeps_pending_writes(self, one: Store, other: Store) -> None:
        """Check that writes still in progress when the store is closed are not lost."""
        await one.create(header("r"))
        writing = [asyncio.create_task(one.commit("r", f"k{n}", "call", "{}", 1.0)) for n in range(20)]
        await asyncio.sleep(0)
        await one.close()
        await asyncio.gather(*writing)
        assert (await other.run("r")).steps == 20

    @_promise
    async def test_unused_store_can_be_closed(self, store: Store) -> None:
        """Check that an unused store has a name and can be closed."""
        assert isinstance(store, Store)
        assert store.name
        await store.close()

    def test_operations_match_memory_store(self, make: MakeStore) -> None:
        """Check that any sequence of operations, on two objects if possible, gives the same results as MemoryStore."""
        from flowdebate.testing.store_sequences import check_sequences

        check_sequences(make, shared=self.shared, take_within=self.take_within, examples=self.examples)
