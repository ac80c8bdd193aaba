"""Accounts: what all runs of a service, and those of each owner on one day, have used of a budget; in their store."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from sys import maxsize
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from flowdebate.errors import BudgetReached, ConfigurationError, StoreError
from flowdebate.runs.durable.journal import wait_uncancelled
from flowdebate.runs.limits import Budget, Limits

if TYPE_CHECKING:
    from flowdebate.models.base import Attempt, ModelRequest, Usage
    from flowdebate.store.base import Store


OWNER = "owner"
"""The label with the user to whom a run belongs."""
_COLLECTION = "budgets"
"""Of the store's documents: the account of all runs; those of owners have collections of their own below it."""
_DAY = 86_400


class Used(NamedTuple):
    """What requests have used, or may use."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def plus(self, other: Used, sign: int = 1) -> Used:
        """Both together; what is left without `other` for the sign -1."""
        cost = round(self.cost + sign * other.cost, 12)  # a sum of money comes back to 0
        return Used(self.calls + sign * other.calls, self.tokens + sign * other.tokens, cost)


_NOTHING = Used()


class Account:
    """The account of all runs in `store`, or of those of `owner` on one day (UTC): `limits` are those of them together.

    All processes with the same store share it, and its figures outlast them, and runs that are deleted. The first
    request of a call is counted before it is sent, so a budget is exceeded at most by retries that several processes
    send at once, and by answers longer than estimated. What a killed process has reserved stays used.
    """

    def __init__(self, store: Store, limits: Limits, *, owner: str | None = None) -> None:
        for field in ("seconds", "working_seconds"):
            if (given := getattr(limits, field)) is not None:
                allowed = "left out: a budget is one of calls, tokens and cost"
                where = "budget" if owner is None else "owner_budget"
                raise ConfigurationError("Service", f"{where}.{field}", given, allowed)
        self.name: str = "all runs" if owner is None else repr(owner)
        self.limits = limits
        self._pricing = Budget(replace(limits, tokens=limits.tokens or maxsize))  # else it would count no tokens
        self._store = store
        self._daily = owner is not None
        self._collection, self._key = _COLLECTION, self.name
        if owner is not None:  # a name in a store is short and printable, and those of users are what others make them
            digest = sha256(owner.encode(errors="surrogatepass")).hexdigest()
            self._collection, self._key = f"{_COLLECTION}/{digest}", "day"
        self._day = 0
        """Of the figures that were read last, in days since the epoch."""
        self._lock = asyncio.Lock()
        self._known = Used()
        """What the store said last."""
        self._owed = Used()
        """What the next write has to add."""

    @property
    def until(self) -> float | None:
        """When the figures begin anew, in seconds since the epoch; None for those that never do."""
        return (max(self._day, int(time.time() // _DAY)) + 1) * float(_DAY) if self._daily else None

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
                if self._daily:  # what was held yesterday is not given back today
                    used = Used(max(0, used.calls), max(0, used.tokens), max(0.0, used.cost))
                written = json.dumps(used._asdict() | ({"day": self._day} if self._daily else {}))
                put = self._store.put(self._collection, self._key, written, expected=body)
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
        body = (await self._store.documents(self._collection)).get(self._key)
        found = {} if body is None else json.loads(body)
        day = found.pop("day", 0)
        if self._daily:  # by the latest clock of all processes: one that is behind begins no day anew
            self._day = max(day, int(time.time() // _DAY))
        self._known = Used(**found) if day == self._day or not self._daily else Used()
        return self._known, body

    def _check(self, used: Used, more: Used) -> None:
        for kind, so_far, further in zip(Used._fields, used, more, strict=True):
            limit: float | None = getattr(self.limits, kind)
            if limit is not None and (so_far >= limit or so_far + further > limit):
                raise BudgetReached(kind, limit=limit, used=so_far, budget=self.name, until=self.until)


class Accounts:
    """The accounts of the runs of one service: `budget` of all, and `owner_budget` of each owner and day."""

    def __init__(self, store: Store, budget: Limits | None, owner_budget: Limits | None) -> None:
        self._store = store
        self._all = () if budget is None else (Account(store, budget),)
        self._each = owner_budget
        self._owners: WeakValueDictionary[str, Account] = WeakValueDictionary()
        """Those of runs in progress, so that these count one after the other."""
        if owner_budget is not None:
            Account(store, owner_budget, owner="")  # ConfigurationError

    def of(self, labels: Mapping[str, str] | None) -> tuple[Account, ...]:
        """The accounts of a run with these labels."""
        owner = (labels or {}).get(OWNER)
        if owner is None or self._each is None:
            return self._all
        found = self._owners.get(owner) or Account(self._store, self._each, owner=owner)
        return (*self._all, self._owners.setdefault(owner, found))


@dataclass(slots=True)
class _Meter:
    """What one call holds and has used of one account."""

    account: Account
    held: Used = _NOTHING
    used: Used = _NOTHING


class Charge:
    """The meter of one call: counts its requests against the budget of its run, and the accounts of its service."""

    def __init__(self, accounts: Sequence[Account], budget: Budget | None) -> None:
        self._meters = [_Meter(account) for account in accounts]
        self._budget = budget
        self._sent = False

    async def begin(self, model: str, request: ModelRequest) -> None:
        """Hold what the first request of the call may use; BudgetReached. `end` has to follow in any case."""
        for meter in self._meters:
            held = Used(1)
            with suppress(ConfigurationError):  # a wrapper has no price, and the model inside of it is not known yet
                held = meter.account.expect(model, request)
            await meter.account.count(held)
            meter.held = held

    async def end(self) -> None:
        """Count what the call has used in place of what was held."""
        for meter in self._meters:
            meter.account.owe(meter.used, instead=meter.held)
            with suppress(StoreError):  # the answer is there: the next write brings its figures along
                await meter.account.count()

    def reserve(self, model: str, request: ModelRequest) -> tuple[ModelRequest, object]:
        """Reserve a request that is about to be sent; LimitReached."""
        for meter in self._meters:
            expected = meter.account.expect(model, request)
            if self._sent:
                meter.account.owe(expected)
                meter.held = meter.held.plus(expected)
        self._sent = True
        return request, None if self._budget is None else self._budget.reserve(model, request)

    def settle(self, reserved: object, attempt: Attempt) -> None:
        """Count an attempt, in place of its reservation."""
        assert isinstance(reserved, tuple)  # noqa: S101 - the result of `reserve`
        for meter in self._meters:
            meter.used = meter.used.plus(meter.account.expect(attempt.model, reserved[0], attempt.usage))
        if self._budget is not None:
            self._budget.settle(reserved[1], attempt)

    def release(self, reserved: object) -> None:
        """Release the reservation of a request that was not sent."""
        assert isinstance(reserved, tuple)  # noqa: S101 - the result of `reserve`
        if self._budget is not None:
            self._budget.release(reserved[1])
