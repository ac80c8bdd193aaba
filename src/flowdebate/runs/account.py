"""Account: what all runs of a service have used of one budget, counted in their store."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from sys import maxsize
from typing import TYPE_CHECKING, NamedTuple

from flowdebate.errors import BudgetReached, ConfigurationError, StoreError
from flowdebate.runs.durable.journal import wait_uncancelled
from flowdebate.runs.limits import Budget

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest
    from flowdebate.models.usage import Attempt, Usage
    from flowdebate.runs.limits import Limits
    from flowdebate.store.base import Store


_COLLECTION = "budgets"
"""Of the store's documents: one for each account, by its name."""


class Used(NamedTuple):
    """What requests have used, or may use."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def plus(self, other: Used, sign: int = 1) -> Used:
        """Both together; what is left without `other` for the sign -1."""
        cost = round(self.cost + sign * other.cost, 12)  # a sum of money comes back to 0
        return Used(self.calls + sign * other.calls, self.tokens + sign * other.tokens, cost)


class Account:
    """The account `name` in `store`: `limits` are those of all runs together.

    All processes with the same store and name share it, and its figures outlast them, and runs that are deleted. The
    first request of a call is counted before it is sent, so a budget is exceeded at most by retries that several
    processes send at once, and by answers longer than estimated. What a killed process has reserved stays used.
    """

    def __init__(self, store: Store, limits: Limits, *, name: str = "all runs") -> None:
        for field in ("seconds", "working_seconds"):
            if (given := getattr(limits, field)) is not None:
                allowed = "left out: a budget is one of calls, tokens and cost"
                raise ConfigurationError("Service", f"budget.{field}", given, allowed)
        self.name = name
        self.limits = limits
        self._pricing = Budget(replace(limits, tokens=limits.tokens or maxsize))  # else it would count no tokens
        self._store = store
        self._lock = asyncio.Lock()
        self._known = Used()
        """What the store said last."""
        self._owed = Used()
        """What the next write has to add."""

    def expect(self, model: str, request: ModelRequest, usage: Usage | None = None) -> Used:
        """What a request may use; with a `usage`, what it has used, as estimated where the server did not report it."""
        expected = self._pricing.estimate(model, request)
        if usage is None:
            return Used(1, expected.tokens, expected.cost)
        known = usage if usage.total_tokens is not None else expected.unknown
        return Used(1, known.total_tokens or 0, self._pricing.price_of(model, known) or 0.0)

    async def used(self) -> Used:
        """What is used by now, by all processes."""
        return (await self._read())[0]

    async def check(self) -> None:
        """BudgetReached where nothing is left."""
        self._check(await self.used(), Used())

    def owe(self, used: Used, instead: Used | None = None) -> None:
        """Let the next write count this, `instead` of what was held; else BudgetReached, as far as is known here."""
        if instead is None:
            self._check(self._known.plus(self._owed), used)
        self._owed = self._owed.plus(used).plus(instead or Used(), -1)

    async def count(self, more: Used | None = None) -> None:
        """Write what is owed, and `more` for a request that is about to be sent; BudgetReached if that does not fit."""
        async with self._lock:
            while more is not None or self._owed != Used():
                (known, body), owed = await self._read(), self._owed
                used = known.plus(owed)
                if more is not None:
                    self._check(used, more)
                    used = used.plus(more)
                put = self._store.put(_COLLECTION, self.name, json.dumps(used._asdict()), expected=body)
                writing = asyncio.ensure_future(put)
                cancelled = await wait_uncancelled(writing)
                if writing.result():
                    self._known, self._owed = used, self._owed.plus(owed, -1)
                    if cancelled is not None and more is not None:  # it will not be sent
                        self._owed = self._owed.plus(more, -1)
                    more = None
                if cancelled is not None:
                    raise cancelled

    async def _read(self) -> tuple[Used, str | None]:
        body = (await self._store.documents(_COLLECTION)).get(self.name)
        self._known = Used() if body is None else Used(**json.loads(body))
        return self._known, body

    def _check(self, used: Used, more: Used) -> None:
        for kind, so_far, further in zip(Used._fields, used, more, strict=True):
            limit: float | None = getattr(self.limits, kind)
            if limit is not None and (so_far >= limit or so_far + further > limit):
                raise BudgetReached(kind, limit=limit, used=so_far, budget=self.name)


class Charge:
    """The meter of one call: counts its requests against the budget of its run, and the account of its service."""

    def __init__(self, account: Account | None, budget: Budget | None) -> None:
        self._account = account
        self._budget = budget
        self._held = self._used = Used()
        self._sent = False

    async def begin(self, model: str, request: ModelRequest) -> None:
        """Hold what the first request of the call may use; BudgetReached."""
        if self._account is not None:
            held = Used(1)
            with suppress(ConfigurationError):  # a wrapper has no price, and the model inside of it is not known yet
                held = self._account.expect(model, request)
            await self._account.count(held)
            self._held = held

    async def end(self) -> None:
        """Count what the call has used in place of what was held."""
        if self._account is not None:
            self._account.owe(self._used, instead=self._held)
            with suppress(StoreError):  # the answer is there: the next write brings its figures along
                await self._account.count()

    def reserve(self, model: str, request: ModelRequest) -> tuple[ModelRequest, object]:
        """Reserve a request that is about to be sent; LimitReached."""
        if self._account is not None:
            expected = self._account.expect(model, request)
            if self._sent:
                self._account.owe(expected)
                self._held = self._held.plus(expected)
            self._sent = True
        return request, None if self._budget is None else self._budget.reserve(model, request)

    def settle(self, reserved: object, attempt: Attempt) -> None:
        """Count an attempt, in place of its reservation."""
        assert isinstance(reserved, tuple)  # noqa: S101 - the result of `reserve`
        if self._account is not None:
            self._used = self._used.plus(self._account.expect(attempt.model, reserved[0], attempt.usage))
        if self._budget is not None:
            self._budget.settle(reserved[1], attempt)

    def release(self, reserved: object) -> None:
        """Release the reservation of a request that was not sent."""
        assert isinstance(reserved, tuple)  # noqa: S101 - the result of `reserve`
        if self._budget is not None:
            self._budget.release(reserved[1])
