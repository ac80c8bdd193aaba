"""Usage limits for a run, and accounts of a service's total usage; usage is reserved before each request."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from sys import maxsize
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from flowdebate._text import join_choices
from flowdebate._util.cancellation import wait_uncancelled
from flowdebate._util.validation import check_count, check_number
from flowdebate.errors import BudgetReached, ConfigurationError, LimitReached, StoreError
from flowdebate.models.base import Attempt, ModelRequest, Usage, estimate_tokens
from flowdebate.models.prices import GIVEN, HOW, are_prices_known, known_price, prices_source

if TYPE_CHECKING:
    from flowdebate.store.base import Store

_ANSWER = 1_000
"""Estimated length of an answer, in tokens, if its length is not limited and its usage is not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A model's prices per million tokens, in any currency.

    >>> Price(prompt=0.25, completion=2.0).of(Usage(calls=1, prompt_tokens=4_000, completion_tokens=500))
    0.002
    """

    prompt: float
    completion: float
    cached: float | None = None
    """Price of cached prompt tokens; None if it is the same as for other prompt tokens."""
    cache_written: float | None = None
    """Price of prompt tokens written to a cache; None if it is the same as for other prompt tokens."""

    def of(self, usage: Usage) -> float:
        """Return the cost of `usage`; unknown token counts are ignored."""
        cached = 0 if self.cached is None else usage.cached_tokens or 0
        written = 0 if self.cache_written is None else usage.cache_written_tokens or 0
        fresh = max((usage.prompt_tokens or 0) - cached - written, 0)
        paid = fresh * self.prompt + cached * (self.cached or 0) + written * (self.cache_written or 0)
        return (paid + (usage.completion_tokens or 0) * self.completion) / 1_000_000


Prices: TypeAlias = Mapping[str, Price] | Callable[[str, Usage], float]
"""Prices keyed by model name, or a function that computes a cost from a model's name and usage. Prompt and completion
tokens that the server did not report are estimated before the function is called.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on a run; None means no limit.

    Each request counts, even if it fails or is a retry, and its estimated usage is reserved before it is sent. A new
    call can therefore never exceed a limit; only in-flight calls that use more than they reserved can. When a debate
    reaches a limit, it ends with its partial output, and `result.status` is "limit". Other blocks raise LimitReached.

    >>> Limits(calls=40, tokens=50_000).calls
    40
    """

    calls: int | None = None
    """Maximum number of requests to models."""
    tokens: int | None = None
    """Maximum number of tokens in prompts and answers combined. If a server does not report usage, the number is
    estimated at four characters per token.
    """
    cost: float | None = None
    """Maximum cost in the currency of `prices`, or in US dollars if `prices` is None."""
    seconds: float | None = None
    """Maximum duration of the run, in seconds."""
    working_seconds: float | None = None
    """Maximum total duration of all requests, in seconds, excluding time spent waiting for retries, rate limits and
    queues.
    """
    prices: Prices | None = None
    """Token prices; None to use those from `genai-prices`, if installed. A price table takes precedence over
    `genai-prices`.
    """

    def __post_init__(self) -> None:
        check_count("Limits", optional=True, calls=self.calls, tokens=self.tokens)
        bounds = {"cost": self.cost, "seconds": self.seconds, "working_seconds": self.working_seconds}
        check_number("Limits", bounds, above=0, optional=True)
        if self.cost is not None and self.prices is None and not are_prices_known():
            raise ConfigurationError(
                "Limits", "prices", None, "is required with `cost`", hint=f"Or install known prices: {HOW}"
            )
        if self.prices is not None and not callable(self.prices):
            wrong = not isinstance(self.prices, Mapping) or not all(isinstance(p, Price) for p in self.prices.values())
            if wrong:
                raise ConfigurationError(
                    "Limits",
                    "prices",
                    self.prices,
                    "must be a dict that maps model names to Price, or a function that takes a model name and usage",
                )

    def __bool__(self) -> bool:
        """Return whether any field is set; if so, usage must be limited or counted."""
        return any(getattr(self, field.name) is not None for field in fields(self))

    def within(self, bounds: Limits) -> Limits:
        """Return a copy of these limits, each capped at the corresponding limit in `bounds`.

        >>> Limits(calls=40).within(Limits(calls=10, seconds=60)) == Limits(calls=10, seconds=60)
        True
        """
        bounds_by_name = {
            name: min(
                (bound for bound in (getattr(self, name), getattr(bounds, name)) if bound is not None), default=None
            )
            for name in ("calls", "tokens", "cost", "seconds", "working_seconds")
        }
        # A cost limit makes sense only with the prices it was chosen for.
        return Limits(
            **bounds_by_name, prices=bounds.prices if self.prices is None or bounds.cost is not None else self.prices
        )


class Reserved(NamedTuple):
    """Estimated usage of a request, reserved before the request is sent."""

    request: ModelRequest
    tokens: int
    cost: float

    @property
    def unknown(self) -> Usage:
        """Usage to record if the server does not report any."""
        prompt, room = estimate_tokens(self.request.characters), self.request.settings.max_tokens
        return Usage(calls=1, prompt_tokens=prompt, cached_tokens=0, completion_tokens=room or _ANSWER)


class Budget:
    """`Meter` that counts a run's requests against its `Limits`."""

    __slots__ = (
        "_calls",
        "_cost",
        "_counts_tokens",
        "_in_flight",
        "_limits",
        "_tokens",
        "_unpriced",
        "_working_seconds",
        "raised",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts_tokens = limits.tokens is not None or limits.prices is not None or are_prices_known()
        self._in_flight: list[Reserved] = []
        self._calls = 0
        self._tokens = 0
        self._cost: float | None = 0.0
        self._unpriced: list[tuple[str, Usage]] = []
        """Usage not priced yet; prices are looked up only when needed."""
        self._working_seconds = 0.0
        self.raised: list[LimitReached] = []
        """Errors raised so far; there can be several, because concurrent calls may each reach a limit."""

    @property
    def seconds(self) -> float | None:
        """Time limit for the run, in seconds."""
        return self._limits.seconds

    @property
    def cost(self) -> float | None:
        """Cost of the run so far; None if any model's price is unknown."""
        while self._unpriced and self._cost is not None:
            price = self.price_of(*self._unpriced.pop())
            self._cost = None if price is None else self._cost + price
        return None if self._limits.prices is None and not are_prices_known() else self._cost

    @property
    def prices(self) -> str | None:
        """Currency and source of the prices, or only the source for prices set in `Limits`; None if `cost` is None."""
        if self.cost is None:
            return None
        if self._limits.prices is not None:
            return GIVEN
        # Only local models were used, and no prices are loaded for them.
        return prices_source() if self.cost else "USD"

    def price_of(self, model: str, usage: Usage) -> float | None:
        """Return the cost of a model's `usage`; None if the model's price is unknown.

        Raises ConfigurationError for a model missing from a price table, or for a model of unknown price if the cost is
        limited.
        """
        prices = self._limits.prices
        if callable(prices):
            return prices(model, usage)
        if prices is not None and (price := prices.get(model)) is not None:
            return price.of(usage)
        listed_price = known_price(model, usage) if are_prices_known() else None
        if listed_price is None and (prices is not None or self._limits.cost is not None):
            others = f", only for {join_choices(prices, word='and')}" if prices else ""
            hint = "The known prices do not include it either" if are_prices_known() else ""
            raise ConfigurationError("Limits", "prices", None, f"has no price for {model}{others}", hint=hint)
        return listed_price

    def reserve(self, model: str, request: ModelRequest) -> Reserved:
        """Reserve the usage of a request about to be sent; raise LimitReached if it would exceed a limit."""
        limits, flying = self._limits, self._in_flight
        estimated = limits.tokens is not None or limits.cost is not None or limits.prices is not None
        reserved = self.estimate(model, request) if estimated else Reserved(request, 0, 0.0)
        if limits.calls is not None:
            self._check("calls", limits.calls, self._calls + len(flying), 1)
        if limits.tokens is not None:
            self._check("tokens", limits.tokens, self._tokens + sum(r.tokens for r in flying), reserved.tokens)
        if limits.cost is not None:
            self._check("cost", limits.cost, (self.cost or 0.0) + sum(r.cost for r in flying), reserved.cost)
        if limits.working_seconds is not None:  # it is unknown how long the new request will take
            self._check("working_seconds", limits.working_seconds, self._working_seconds, 0)
        self._in_flight.append(reserved)
        return reserved

    def settle(self, reserved: object, attempt: Attempt) -> None:
        """Replace a reservation with the attempt's actual usage."""
        assert isinstance(reserved, Reserved)  # noqa: S101 - the result of `reserve`
        self.release(reserved)
        self._calls += 1
        self._working_seconds += attempt.seconds
        if self._counts_tokens:
            usage, tokens = attempt.usage, attempt.usage.total_tokens
            # Unknown usage must not count as zero; otherwise, limits would not apply to servers that report no usage.
            if tokens is None:
                usage = reserved.unknown
                tokens = usage.total_tokens or 0
            self._tokens += tokens
            self._unpriced.append((attempt.model, usage))
            if self._limits.prices is not None:
                _ = self.cost  # look up the application's prices now, so that errors in them are raised during the run

    def count(self, attempts: Iterable[Attempt], request: ModelRequest) -> None:
        """Count attempts at `request` made before this process took over the run.

        Limits do not apply to these attempts.
        """
        for attempt in attempts:
            reserved = Reserved(request, 0, 0.0)
            self._in_flight.append(reserved)
            self.settle(reserved, attempt)

    def release(self, reserved: object) -> None:
        """Release the reservation for an unsent request."""
        for index, other in enumerate(self._in_flight):
            if other is reserved:  # compare by identity, because concurrent requests may have equal estimates
                del self._in_flight[index]
                return

    def time_is_up(self) -> LimitReached:
        """Return the error to raise for a run that has used up its `seconds`."""
        assert self._limits.seconds is not None  # noqa: S101 - the caller has a limit
        self.raised.append(LimitReached("seconds", limit=self._limits.seconds, used=self._limits.seconds))
        return self.raised[-1]

    def _check(self, kind: str, limit: float, used: float, more: float) -> None:
        if used >= limit or used + more > limit:
            self.raised.append(LimitReached(kind, limit=limit, used=used))
            raise self.raised[-1]

    def estimate(self, model: str, request: ModelRequest) -> Reserved:
        """Estimate the usage of a request."""
        if not self._counts_tokens:
            return Reserved(request, 0, 0.0)
        known_usage = Usage(
            calls=1,
            prompt_tokens=estimate_tokens(request.characters),
            cached_tokens=0,
            completion_tokens=request.settings.max_tokens or 0,
        )
        # Models without a price are rejected before they are called.
        priced = self._limits.prices is not None or self._limits.cost is not None
        return Reserved(
            request, known_usage.total_tokens or 0, (self.price_of(model, known_usage) or 0.0) if priced else 0.0
        )


OWNER = "owner"
"""Key of the label that names the owner of a run."""
_COLLECTION = "budgets"
"""Collection that contains the account for all runs as a document; its subcollections contain the owners' accounts."""
_DAY = 86_400


class Used(NamedTuple):
    """Actual or estimated usage of requests."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def plus(self, other: Used, sign: int = 1) -> Used:
        """Add the usage in `other`, or subtract it if `sign` is -1."""
        cost = round(self.cost + sign * other.cost, 12)  # rounded, so that a cost can return to exactly 0
        return Used(self.calls + sign * other.calls, self.tokens + sign * other.tokens, cost)


_NOTHING = Used()


class Account:
    """Running total of the usage of all runs in `store`, or of one `owner`'s runs on one day (UTC).

    The `limits` apply to this total. All processes using the store share the account, and its figures survive restarts
    and the deletion of runs. A call's first request is counted before it is sent, so a budget can be exceeded only by
    retries that several processes send at the same time, or by answers longer than estimated. If a process is killed,
    its reservations remain counted.
    """

    def __init__(self, store: Store, limits: Limits, *, owner: str | None = None) -> None:
        for field in ("seconds", "working_seconds"):
            if getattr(limits, field) is not None:
                problem = "cannot be set: a budget limits calls, tokens or cost"
                location = "budget" if owner is None else "owner_budget"
                raise ConfigurationError("Service", f"{location}.{field}", None, problem)
        self.name: str = "all runs" if owner is None else repr(owner)
        self.limits = limits
        # Without a token limit, the budget would not count tokens.
        self._pricing = Budget(replace(limits, tokens=limits.tokens or maxsize))
        self._store = store
        self._daily = owner is not None
        self._collection, self._key = _COLLECTION, self.name
        if owner is not None:  # names in a store must be short and printable, but user names may be long or unprintable
            digest = sha256(owner.encode(errors="surrogatepass")).hexdigest()
            self._collection, self._key = f"{_COLLECTION}/{digest}", "day"
        self._day = 0
        """Day of the most recently read figures, in days since the epoch."""
        self._lock = asyncio.Lock()
        self._known = Used()
        """Usage as of the last read from or write to the store."""
        self._owed = Used()
        """Usage to be added by the next write."""

    @property
    def until(self) -> float | None:
        """Time at which the account is reset, in seconds since the epoch; None if it is never reset."""
        return (max(self._day, int(time.time() // _DAY)) + 1) * float(_DAY) if self._daily else None

    def expect(self, model: str, request: ModelRequest, usage: Usage | None = None) -> Used:
        """Estimate the usage of a request; if `usage` is passed, estimate only the counts missing from it."""
        expected = self._pricing.estimate(model, request)
        if usage is None:
            return Used(1, expected.tokens, expected.cost)
        usage_known = usage if usage.total_tokens is not None else expected.unknown
        return Used(1, usage_known.total_tokens or 0, self._pricing.price_of(model, usage_known) or 0.0)

    async def used(self) -> Used:
        """Return the account's current usage, across all processes."""
        return (await self._read())[0]

    async def check(self) -> None:
        """Raise BudgetReached if the account's budget is used up."""
        self._check(await self.used(), Used())

    def add_pending(self, used: Used, instead: Used | None = None) -> None:
        """Add `used` to the usage to be written next, in place of the reservation `instead` if there is one.

        Raises BudgetReached if there is no reservation to replace and the budget would be exceeded.
        """
        if instead is None:
            self._check(self._known.plus(self._owed), used)
        self._owed = self._owed.plus(used).plus(instead or Used(), -1)

    async def count(self, more: Used | None = None) -> None:
        """Write any unwritten usage, plus `more` for a request about to be sent.

        Raises BudgetReached if this would exceed the budget.
        """
        async with self._lock:
            while more is not None or self._owed != Used():
                (stored_counts, body), owed = await self._read(), self._owed
                used = stored_counts.plus(owed)
                if more is not None:
                    self._check(used, more)
                    used = used.plus(more)
                if self._daily:  # releasing yesterday's reservation must not reduce today's figures below zero
                    used = Used(max(0, used.calls), max(0, used.tokens), max(0.0, used.cost))
                written = json.dumps(used._asdict() | ({"day": self._day} if self._daily else {}))
                put = self._store.put(self._collection, self._key, written, expected=body)
                writing = asyncio.ensure_future(put)
                cancelled = await wait_uncancelled(writing)
                if writing.result():
                    self._known, self._owed = used, self._owed.plus(owed, -1)
                    # the caller was cancelled, so the request will not be sent
                    if cancelled is not None and more is not None:
                        self._owed = self._owed.plus(more, -1)
                    more = None
                if cancelled is not None:
                    raise cancelled

    async def _read(self) -> tuple[Used, str | None]:
        body = (await self._store.documents(self._collection)).get(self._key)
        counts = {} if body is None else json.loads(body)
        day = counts.pop("day", 0)
        if self._daily:  # never go back to an earlier day, even if this process's clock is slow
            self._day = max(day, int(time.time() // _DAY))
        self._known = Used(**counts) if day == self._day or not self._daily else Used()
        return self._known, body

    def _check(self, used: Used, more: Used) -> None:
        for kind, so_far, further in zip(Used._fields, used, more, strict=True):
            limit: float | None = getattr(self.limits, kind)
            if limit is not None and (so_far >= limit or so_far + further > limit):
                raise BudgetReached(kind, limit=limit, used=so_far, budget=self.name, until=self.until)


class Accounts:
    """A service's accounts: one for all runs (`budget`), and one per owner and day (`owner_budget`)."""

    def __init__(self, store: Store, budget: Limits | None, owner_budget: Limits | None) -> None:
        self._store = store
        self._all = () if budget is None else (Account(store, budget),)
        self._each = owner_budget
        self._owners: WeakValueDictionary[str, Account] = WeakValueDictionary()
        """Accounts of owners with runs in progress; each account is shared, so runs are counted one at a time."""
        if owner_budget is not None:
            Account(store, owner_budget, owner="")  # raises ConfigurationError if the budget is invalid

    def of(self, labels: Mapping[str, str] | None) -> tuple[Account, ...]:
        owner = (labels or {}).get(OWNER)
        if owner is None or self._each is None:
            return self._all
        account = self._owners.get(owner) or Account(self._store, self._each, owner=owner)
        return (*self._all, self._owners.setdefault(owner, account))


@dataclass(slots=True)
class _Meter:
    """Reserved and actual usage of a single call, as recorded in one account."""

    account: Account
    reserved: Used = _NOTHING
    used: Used = _NOTHING


class Charge:
    """Meter that counts a call's requests against the run's budget and the service's accounts."""

    def __init__(self, accounts: Sequence[Account], budget: Budget | None) -> None:
        self._meters = [_Meter(account) for account in accounts]
        self._budget = budget
        self._sent = False

    async def begin(self, model: str, request: ModelRequest) -> None:
        """Reserve the estimated usage of the call's first request; raise BudgetReached if it would exceed the budget.

        `end` must always be called afterwards.
        """
        for meter in self._meters:
            reserved = Used(1)
            # A wrapper model has no price of its own, and the wrapped model is not known yet.
            with suppress(ConfigurationError):
                reserved = meter.account.expect(model, request)
            await meter.account.count(reserved)
            meter.reserved = reserved

    async def end(self) -> None:
        """Replace the call's reserved usage with its actual usage."""
        for meter in self._meters:
            meter.account.add_pending(meter.used, instead=meter.reserved)
            # do not lose the answer because of a failed write; the next write will include its usage
            with suppress(StoreError):
                await meter.account.count()

    def reserve(self, model: str, request: ModelRequest) -> tuple[ModelRequest, object]:
        """Reserve the usage of a request about to be sent; raise LimitReached if it would exceed a limit."""
        for meter in self._meters:
            expected = meter.account.expect(model, request)
            if self._sent:
                meter.account.add_pending(expected)
                meter.reserved = meter.reserved.plus(expected)
        self._sent = True
        return request, None if self._budget is None else self._budget.reserve(model, request)

    def settle(self, reserved: object, attempt: Attempt) -> None:
        """Replace a reservation with the attempt's actual usage."""
        assert isinstance(reserved, tuple)  # noqa: S101 - the result of `reserve`
        for meter in self._meters:
            meter.used = meter.used.plus(meter.account.expect(attempt.model, reserved[0], attempt.usage))
        if self._budget is not None:
            self._budget.settle(reserved[1], attempt)

    def release(self, reserved: object) -> None:
        """Release the reservation for an unsent request."""
        assert isinstance(reserved, tuple)  # noqa: S101 - the result of `reserve`
        if self._budget is not None:
            self._budget.release(reserved[1])
