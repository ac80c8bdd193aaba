"""Store conformance: random sequences of operations, compared with the memory store."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from flowdebate.errors import StoreError
from flowdebate.store.memory import MemoryStore
from flowdebate.testing.store.suite import NASTY, header

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from flowdebate.store.base import Store


_TEXTS = st.sampled_from(NASTY) | st.text(max_size=8)
_KEYS = st.sampled_from(("a", "b", "\x00", "\ud800"))
_KINDS = st.sampled_from(("call", "effect", "loss", "human"))
_ENDS = st.sampled_from(("complete", "interrupted", "failed", "awaiting", "dead_letter"))
_OBJECTS = st.integers(0, 1)
_NUMBERS = count(1)


class StoreMachine(RuleBasedStateMachine):
    """Two objects of one place, and a MemoryStore that receives every write of the owner."""

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
        self.mark: str = str(next(_NUMBERS))
        """Marks the runs of this sequence: all sequences of a test have one place."""

    @initialize(target=runs)
    def begin(self) -> str:
        """An unused id."""
        return f"{self.mark}:"

    @rule(target=runs, name=_TEXTS, which=_OBJECTS, question=_TEXTS, block=st.sampled_from("xy"))
    def create(self, name: str, which: int, question: str, block: str) -> str:
        """Create a run, possibly under an id that exists."""
        run_id = f"{self.mark}:{name}"
        given = header(run_id, question=question, block=block, labels={"mark": self.mark})
        if self.both(which, lambda store: store.create(given)) is None:
            self.owners[run_id] = self.at(which)
        return run_id

    @rule(run_id=runs, which=_OBJECTS)
    def take(self, run_id: str, which: int) -> None:
        """Take a run, if it has no owner; a server may notice a moment later that an owner is gone."""
        end = time.monotonic() + self.take_within
        expected = self.done(self.model.take(run_id))
        got = self.done(self.at(which).take(run_id))
        while got == "RunConflict" != expected and time.monotonic() < end:
            got = self.done(self.at(which).take(run_id))
        assert _without_time(got) == _without_time(expected)
        if not isinstance(got, str):
            self.owners[run_id] = self.at(which)

    @rule(run_id=runs, which=_OBJECTS)
    def release(self, run_id: str, which: int) -> None:
        """Release a run, whoever owns it."""
        assert self.done(self.at(which).release(run_id)) is None
        if self.owners.get(run_id) is self.at(which):
            self.done(self.model.release(run_id))
            del self.owners[run_id]

    @rule(run_id=runs, which=_OBJECTS, key=_KEYS, kind=_KINDS, request=st.none() | _TEXTS)
    def intend(self, run_id: str, which: int, key: str, kind: Any, request: str | None) -> None:  # noqa: ANN401
        """Start a step, for the first time or again."""
        self.write(run_id, which, lambda store: store.intend(run_id, key, kind, request))

    @rule(run_id=runs, which=_OBJECTS, key=_KEYS, kind=_KINDS, body=_TEXTS)
    def commit(self, run_id: str, which: int, key: str, kind: Any, body: str) -> None:  # noqa: ANN401
        """Commit a step, started or not, finished or not."""
        self.write(run_id, which, lambda store: store.commit(run_id, key, kind, body, 2.5))

    @rule(run_id=runs, which=_OBJECTS, key=_KEYS, failure=_TEXTS)
    def fail(self, run_id: str, which: int, key: str, failure: str) -> None:
        """Start a step that fails."""

        async def attempt(store: Store) -> None:
            await store.intend(run_id, key, "call", None)
            await store.fail(run_id, key, failure)

        self.write(run_id, which, attempt)

    @rule(run_id=runs, which=_OBJECTS, status=_ENDS, outcome=st.none() | st.dictionaries(_TEXTS, _TEXTS, max_size=2))
    def finish(self, run_id: str, which: int, status: Any, outcome: dict[str, str] | None) -> None:  # noqa: ANN401
        """Finish a run."""
        if self.write(run_id, which, lambda store: store.finish(run_id, status, outcome)) is None:
            del self.owners[run_id]

    @rule(run_id=runs, which=_OBJECTS)
    def delete(self, run_id: str, which: int) -> None:
        """Delete a run, if it has no owner."""
        self.both(which, lambda store: store.delete(run_id))

    @rule(source=runs, which=_OBJECTS, name=st.none() | _TEXTS)
    def add(self, source: str, which: int, name: str | None) -> None:
        """Add a copy of a run under another id, or under its own, which is taken."""
        run = self.done(self.model.run(source))
        if isinstance(run, str):
            return
        run_id = source if name is None else f"{self.mark}:copy {name}"
        copy = replace(run, header=replace(run.header, run_id=run_id))
        rows = self.done(self.model.steps(source))
        self.both(which, lambda store: store.add(copy, rows))

    @rule(which=_OBJECTS, key=_KEYS, body=st.sampled_from("xyz"), expected=st.none() | st.sampled_from("xyz"))
    def put(self, which: int, key: str, body: str, expected: str | None) -> None:
        """Change a document if the expected text matches."""
        self.both(which, lambda store: store.put(self.mark, key, body, expected=expected))
        documents = self.done(self.at(which).documents(self.mark))
        assert list(documents.items()) == list(self.done(self.model.documents(self.mark)).items())

    @rule(which=_OBJECTS)
    def reopen(self, which: int) -> None:
        """Replace an object by a new one: its runs are released unchanged."""
        if not self.shared:
            return
        store = self.at(which)
        self.done(store.close())
        self.stores[which] = self.make()
        for run_id in [run_id for run_id, owner in self.owners.items() if owner is store]:
            self.done(self.model.release(run_id))
            del self.owners[run_id]

    @rule(
        which=_OBJECTS,
        status=st.none() | _ENDS | st.just("running"),
        block=st.none() | st.sampled_from("xyz"),
        text=st.none() | _TEXTS,
        prefix=st.none() | _TEXTS,
        limit=st.none() | st.integers(0, 3),
        after=st.none() | st.integers(0, 5),
    )
    def find(self, which: int, after: int | None, **asked: Any) -> None:  # noqa: ANN401
        """Find runs by any filters, from the beginning or after any run."""
        positions = [run.position for run in self.done(self.model.runs())]
        before = positions[after % len(positions)] if positions and after is not None else None
        asked |= {"labels": {"mark": self.mark}, "before": before}
        found, expected = self.done(self.at(which).runs(**asked)), self.done(self.model.runs(**asked))
        assert [run.position for run in found] == [run.position for run in expected]

    @invariant()
    def all_see_the_same(self) -> None:
        """Each object has the runs and steps of the MemoryStore; `owned` may lag behind."""
        expected = {run.header.run_id: _without_time(run) for run in self.done(self.model.runs())}
        end = time.monotonic() + self.take_within
        for store in self.stores:
            while True:
                runs = self.done(store.runs(labels={"mark": self.mark}))
                found = {run.header.run_id: _without_time(run) for run in runs}
                if found == expected or time.monotonic() > end:
                    break
                time.sleep(0.01)
            assert found == expected
        for run_id in expected:
            assert list(self.done(self.stores[-1].steps(run_id))) == list(self.done(self.model.steps(run_id)))

    def teardown(self) -> None:
        """Close all stores."""
        for store in self.stores:
            self.done(store.close())
        self.loop.close()

    def at(self, which: int) -> Store:
        """The object with this number, or the only one."""
        return self.stores[which % len(self.stores)]

    def done(self, call: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - any result
        """The result of `call`, or the name of its error."""
        try:
            return self.loop.run(call)
        except StoreError as error:
            return type(error).__name__

    def both(self, which: int, call: Callable[[Store], Coroutine[Any, Any, Any]]) -> object:
        """The result of the call on the object and on the MemoryStore, which must be equal."""
        got = self.done(call(self.at(which)))
        assert got == self.done(call(self.model))
        return got

    def write(self, run_id: str, which: int, call: Callable[[Store], Coroutine[Any, Any, Any]]) -> object:
        """The result of a write: equal to that in memory for the owner, refused for others."""
        if self.owners.get(run_id) is self.at(which):
            return self.both(which, call)
        missing = isinstance(self.done(self.model.run(run_id)), str)
        got = self.done(call(self.at(which)))
        assert got == ("RunNotFound" if missing else "RunConflict")
        return got


def check_sequences(make: Callable[[], Store], *, shared: bool, take_within: float, examples: int) -> None:
    """Run the machine on the stores of `make`."""
    run_state_machine_as_test(
        lambda: StoreMachine(make, shared=shared, take_within=take_within),  # type: ignore[arg-type]  # it only calls it
        settings=settings(
            deadline=None, max_examples=examples, stateful_step_count=25, suppress_health_check=list(HealthCheck)
        ),
    )


def _without_time(run: Any) -> object:  # noqa: ANN401 - or the name of an error
    """`run` without the time of its last write."""
    return run if isinstance(run, str) else replace(run, updated_at=0.0)
