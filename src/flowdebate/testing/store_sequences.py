"""Store conformance tests that compare the results of random operations with those of the memory store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar, Unpack

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from flowdebate.errors import StoreError
from flowdebate.store.base import RunFilter, StepKind, Store, StoredRun, StoredStatus
from flowdebate.store.memory import MemoryStore
from flowdebate.testing.store import TRICKY_TEXTS, header

T = TypeVar("T")
_TEXTS = st.sampled_from(TRICKY_TEXTS) | st.text(max_size=8)
# Only a few values, so that random operations collide on a step or find a document with the expected text.
_KEYS = st.sampled_from(("a", "b", "\x00", "\ud800"))
_BODIES = st.sampled_from("xyz")
_KINDS = st.sampled_from(("call", "effect", "loss", "human"))
_ENDS = st.sampled_from(("complete", "interrupted", "failed", "awaiting", "dead_letter"))
_OBJECTS = st.integers(0, 1)
_NUMBERS = count(1)


class _StoreMachine(RuleBasedStateMachine):
    """State machine with two store objects for one location, and a MemoryStore mirroring the owner's writes."""

    runs: Bundle[Any] = Bundle("runs")

    def __init__(self, make: Callable[[], Store], *, shared: bool, take_within: float) -> None:
        super().__init__()
        self.loop: asyncio.Runner = asyncio.Runner()
        self.make = make
        self.shared = shared
        self.take_within = take_within
        self.stores: list[Store] = [make(), make()] if shared else [make()]
        self.model: MemoryStore = MemoryStore()
        self.owners: dict[str, Store] = {}
        # All sequences in a test share a location; the mark identifies the runs of this sequence.
        self.mark: str = str(next(_NUMBERS))

    @initialize(target=runs)
    def begin(self) -> str:
        return f"{self.mark}:"  # an unused id

    @rule(target=runs, name=_TEXTS, which=_OBJECTS, question=_TEXTS, block=st.sampled_from("xy"))
    def create(self, name: str, which: int, question: str, block: str) -> str:
        run_id = f"{self.mark}:{name}"
        new_header = header(run_id, question=question, block=block, labels={"mark": self.mark})
        if self.call_both(which, lambda store: store.create(new_header)) is None:
            self.owners[run_id] = self.at(which)
        return run_id

    @rule(run_id=runs, which=_OBJECTS)
    def take(self, run_id: str, which: int) -> None:
        end = time.monotonic() + self.take_within
        expected = self.done(self.model.take(run_id))
        got = self.done(self.at(which).take(run_id))
        while got == "RunConflict" != expected and time.monotonic() < end:
            # A server may take a moment to notice that an owner is gone.
            got = self.done(self.at(which).take(run_id))
        assert _without_time(got) == _without_time(expected)
        if not isinstance(got, str):
            self.owners[run_id] = self.at(which)

    @rule(run_id=runs, which=_OBJECTS)
    def release(self, run_id: str, which: int) -> None:
        # Releasing another object's run does not raise an error, because closing a store releases everything it might
        # own.
        assert self.done(self.at(which).release(run_id)) is None
        if self.owners.get(run_id) is self.at(which):
            self.done(self.model.release(run_id))
            del self.owners[run_id]

    @rule(run_id=runs, which=_OBJECTS, key=_KEYS, kind=_KINDS, request=st.none() | _TEXTS)
    def intend(self, run_id: str, which: int, key: str, kind: StepKind, request: str | None) -> None:
        self.write(run_id, which, lambda store: store.intend(run_id, key, kind, request))

    @rule(run_id=runs, which=_OBJECTS, key=_KEYS, kind=_KINDS, body=_TEXTS)
    def commit(self, run_id: str, which: int, key: str, kind: StepKind, body: str) -> None:
        self.write(run_id, which, lambda store: store.commit(run_id, key, kind, body, 2.5))

    @rule(run_id=runs, which=_OBJECTS, key=_KEYS, failure=_TEXTS)
    def fail(self, run_id: str, which: int, key: str, failure: str) -> None:
        async def attempt(store: Store) -> None:
            await store.intend(run_id, key, "call", None)  # only a started step can fail
            await store.fail(run_id, key, failure)

        self.write(run_id, which, attempt)

    @rule(run_id=runs, which=_OBJECTS, status=_ENDS, outcome=st.none() | st.dictionaries(_TEXTS, _TEXTS, max_size=2))
    def finish(self, run_id: str, which: int, status: StoredStatus, outcome: dict[str, str] | None) -> None:
        if self.write(run_id, which, lambda store: store.finish(run_id, status, outcome)) is None:
            del self.owners[run_id]

    @rule(run_id=runs, which=_OBJECTS)
    def delete(self, run_id: str, which: int) -> None:
        self.call_both(which, lambda store: store.delete(run_id))

    @rule(source=runs, which=_OBJECTS, name=st.none() | _TEXTS)
    def add(self, source: str, which: int, name: str | None) -> None:
        run = self.done(self.model.run(source))
        if isinstance(run, str):
            return
        # Adding the run under its own id must be refused, because the id is taken.
        run_id = source if name is None else f"{self.mark}:copy {name}"
        copy = replace(run, header=replace(run.header, run_id=run_id))
        rows = self.loop.run(self.model.steps(source))
        self.call_both(which, lambda store: store.add(copy, rows))

    @rule(which=_OBJECTS, key=_KEYS, body=_BODIES, expected=st.none() | _BODIES)
    def put(self, which: int, key: str, body: str, expected: str | None) -> None:
        self.call_both(which, lambda store: store.put(self.mark, key, body, expected=expected))
        documents = self.loop.run(self.at(which).documents(self.mark))
        assert list(documents.items()) == list(self.loop.run(self.model.documents(self.mark)).items())

    @precondition(lambda self: self.shared)
    @rule(which=_OBJECTS)
    def reopen(self, which: int) -> None:
        store = self.at(which)
        self.done(store.close())
        self.stores[which] = self.make()
        # The store's runs are released unchanged, as if their owner's process had died.
        for run_id in [run_id for run_id, owner in self.owners.items() if owner is store]:
            self.done(self.model.release(run_id))
            del self.owners[run_id]

    @rule(
        which=_OBJECTS,
        status=st.none() | _ENDS | st.just("running"),
        block=st.none() | _BODIES,
        text=st.none() | _TEXTS,
        prefix=st.none() | _TEXTS,
        limit=st.none() | st.integers(0, 3),
        after=st.none() | st.integers(0, 5),
    )
    def find(self, which: int, after: int | None, **filters: Unpack[RunFilter]) -> None:
        positions = [run.position for run in self.loop.run(self.model.runs())]
        before = positions[after % len(positions)] if positions and after is not None else None
        filters["labels"], filters["before"] = {"mark": self.mark}, before
        runs, expected = self.loop.run(self.at(which).runs(**filters)), self.loop.run(self.model.runs(**filters))
        assert [run.position for run in runs] == [run.position for run in expected]

    @invariant()
    def stores_agree(self) -> None:
        expected = {run.header.run_id: _without_time(run) for run in self.loop.run(self.model.runs())}
        end = time.monotonic() + self.take_within
        for store in self.stores:
            listing = None
            while listing != expected and (listing is None or time.monotonic() <= end):
                if listing is not None:
                    time.sleep(0.01)  # `owned` may be updated after a delay
                runs = self.loop.run(store.runs(labels={"mark": self.mark}))
                listing = {run.header.run_id: _without_time(run) for run in runs}
            assert listing == expected
        for run_id in expected:
            assert list(self.loop.run(self.stores[-1].steps(run_id))) == list(self.loop.run(self.model.steps(run_id)))

    def teardown(self) -> None:
        for store in self.stores:
            self.done(store.close())
        self.loop.close()

    def at(self, which: int) -> Store:
        return self.stores[which % len(self.stores)]

    def done(self, call: Coroutine[Any, Any, T]) -> T | str:
        """Return the result of `call`, or just its error's class name, since messages may differ between stores."""
        try:
            return self.loop.run(call)
        except StoreError as error:
            return type(error).__name__

    def call_both(self, which: int, call: Callable[[Store], Coroutine[Any, Any, Any]]) -> object:
        """Make the same call on a store object and on the MemoryStore, and check that the results are equal."""
        got = self.done(call(self.at(which)))
        assert got == self.done(call(self.model))
        return got

    def write(self, run_id: str, which: int, call: Callable[[Store], Coroutine[Any, Any, Any]]) -> object:
        """Perform a write; check that an owner gets the MemoryStore's result, and that others' writes are rejected."""
        if self.owners.get(run_id) is self.at(which):
            return self.call_both(which, call)
        # The memory store is a single object that owns the runs of both stores, so it cannot tell which writes should
        # be refused.
        missing = isinstance(self.done(self.model.run(run_id)), str)
        got = self.done(call(self.at(which)))
        assert got == ("RunNotFound" if missing else "RunConflict")
        return got


def _without_time(run: StoredRun | str) -> StoredRun | str:
    """Return `run` without the time of its last write."""
    return run if isinstance(run, str) else replace(run, updated_at=0.0)


def check_sequences(make: Callable[[], Store], *, shared: bool, take_within: float, examples: int) -> None:
    """Run `examples` random sequences of operations on stores from `make`, comparing results with a MemoryStore's."""
    run_state_machine_as_test(
        lambda: _StoreMachine(make, shared=shared, take_within=take_within),  # type: ignore[arg-type]  # it only calls it
        settings=settings(
            # Stores may be slow: the contract makes no promise about speed.
            deadline=None,
            suppress_health_check=list(HealthCheck),
            max_examples=examples,
            stateful_step_count=25,
        ),
    )
