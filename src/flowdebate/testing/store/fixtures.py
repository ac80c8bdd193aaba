"""Fixtures of the store conformance suite."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from functools import update_wrapper
from itertools import count
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from flowdebate.errors import RunConflict, StoreError
from flowdebate.store.base import RunHeader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from flowdebate.store.base import Store, StoredRun


P = ParamSpec("P")
S = TypeVar("S")

MakeStore: TypeAlias = "Callable[[], Store]"
"""Returns another store object of the test's place."""


class StoreStage:
    """Settings that differ between stores."""

    shared = True
    take_within: float = 5.0
    examples = 25

    def need_two(self) -> None:
        """Skip a test that needs two objects if there can be only one."""
        if not self.shared:
            import pytest

            pytest.skip("this store cannot be shared")

    async def taken(self, store: Store, run_id: str) -> StoredRun:
        """The run, once the store has noticed that its owner is gone."""
        end = time.monotonic() + self.take_within
        while True:
            try:
                return await store.take(run_id)
            except RunConflict:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.02)


def alone(check: Callable[Concatenate[S, P], Coroutine[Any, Any, None]]) -> Callable[Concatenate[S, P], None]:
    """A test that runs `check` in a new event loop, so that no plugin is needed."""

    def test(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(check(self, *args, **kwargs))

    update_wrapper(test, check)
    return test


@asynccontextmanager
async def opened(make: MakeStore) -> AsyncIterator[Store]:
    """A store that is closed at the end."""
    store = make()
    try:
        yield store
    finally:
        await store.close()


async def raises(expected: type[StoreError], call: Coroutine[Any, Any, object], *, names: str) -> None:
    """Check that `call` raises exactly `expected`, with the name of its run."""
    try:
        await call
    except StoreError as error:
        assert type(error) is expected, error
        assert getattr(error, "run_id", names) == names
    else:
        raise AssertionError(f"nothing was raised, but {expected.__name__} is promised")


def writes(store: Store, run_id: str) -> list[Callable[[], Coroutine[Any, Any, object]]]:
    """All writes that only the owner may do."""
    return [
        lambda: store.intend(run_id, "k", "call", None),
        lambda: store.commit(run_id, "k", "call", "2", 2.0),
        lambda: store.fail(run_id, "k", "failure"),
        lambda: store.finish(run_id, "complete", {"output": 1}),
    ]


NASTY = (
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
"""Texts that a store must neither change nor confuse."""

_SECOND = count(1)


def header(run_id: str, **values: Any) -> RunHeader:  # noqa: ANN401 - fields of RunHeader
    """The header of a new run, newer than all earlier ones."""
    given: Mapping[str, Any] = {
        "block": "debate",
        "seed": 7,
        "created_at": time.time() + next(_SECOND) / 1000,
        "question": "May cars go?",
        "input": {"question": "May cars go?"},
        "fingerprint": {"block": "one", "limits": "two"},
    }
    return RunHeader(run_id=run_id, **{**given, **values})
