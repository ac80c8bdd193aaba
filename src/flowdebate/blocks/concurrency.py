"""Concurrent calls whose results are returned in call order; a failure cancels the remaining calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import TypeVar

from flowdebate._text import add_note, error_text
from flowdebate.runs.suspend import Suspended, merge_suspensions

T = TypeVar("T")


async def in_order(  # noqa: C901 - one branch per way in which a call may end
    calls: Sequence[Callable[[], Awaitable[T]]], *, limit: int | None = None, finish: bool = False
) -> list[T]:
    """Await `calls` concurrently, at most `limit` at once, and return the results in call order.

    The first failure cancels the other calls and is raised unchanged. If several calls fail at the same time, the
    exception from the first of them is raised, with a note for each of the others. Cancelling the caller cancels all
    calls and waits for them. A call that cancels itself has no result, so it cancels the caller too. If calls are
    suspended to wait for humans (`Suspended`), the others finish; then a single `Suspended` with all the requests is
    raised. If `finish` is set, a failure does not cancel the other calls either.
    """
    if limit == 1 or len(calls) <= 1:
        return [await call() for call in calls]
    caller = asyncio.current_task()
    results: dict[int, T] = {}
    failures: dict[int, Exception] = {}
    suspended: dict[int, Suspended] = {}
    slots = asyncio.Semaphore(limit) if limit is not None and limit < len(calls) else nullcontext()

    async def run_call(index: int, call: Callable[[], Awaitable[T]]) -> None:
        try:
            async with slots:
                results[index] = await call()
        except Exception as failure:
            failures[index] = failure
            if not finish:
                raise
        except Suspended as branch:
            suspended[index] = branch
        except asyncio.CancelledError:
            if not failures and caller is not None and not caller.cancelling():
                raise _SelfCancelled from None  # the call cancelled itself, which a task group would ignore
            raise

    try:
        async with asyncio.TaskGroup() as group:
            for index, call in enumerate(calls):
                group.create_task(run_call(index, call))
    except BaseExceptionGroup as group_failure:
        # callers catch the calls' own errors, not exception groups
        raise _pick_exception(group_failure, failures) from None
    if failures or suspended:
        raise _merge_failures(failures) if failures else merge_suspensions(suspended)
    return [results[index] for index in range(len(calls))]


class _SelfCancelled(BaseException):
    """Raised when a call cancels itself."""


def _pick_exception(group_failure: BaseExceptionGroup, failures: dict[int, Exception]) -> BaseException:
    """Choose the exception to raise if calls have failed or a call has cancelled itself."""
    other_failures = group_failure.split(_SelfCancelled)[1]
    if other_failures is None:
        return asyncio.CancelledError()
    # an error that is not an `Exception`, such as KeyboardInterrupt, takes precedence over the calls' failures
    return _merge_failures(failures) if other_failures.split(Exception)[1] is None else other_failures


def _merge_failures(failures: dict[int, Exception]) -> Exception:
    (_, first), *later = sorted(failures.items())
    for index, failure in later:
        add_note(first, f"at the same time, call {index} failed: {error_text(failure)}")
    return first
