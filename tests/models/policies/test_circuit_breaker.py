"""The circuit breaker, compared with a reference implementation and another library, and wrapped around models."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from pyresilience import CircuitBreakerConfig
from pyresilience._circuit_breaker import CircuitBreaker as Oracle

from flowdebate.errors import (
    AuthenticationFailed,
    CircuitOpen,
    ConfigurationError,
    ConnectionLost,
    EmptyResponse,
    LimitReached,
    MalformedResponse,
    ModelTimeout,
    ModelUnavailable,
    OutputTruncated,
    ProviderFailed,
    RateLimited,
    Refused,
    RequestRejected,
    ResponseTooLarge,
    SchemaViolation,
)
from flowdebate.models import Breaker, Breakers, CircuitBreaker, ConcurrencyLimit, Fallback, Retry, Timeout
from flowdebate.models.base import CircuitChanged
from flowdebate.models.call import ask

from .helpers import Leaf, Naps, endpoint_error, hang, make_request, warped

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


@dataclass
class Clock:
    """Clock advanced by hand."""

    now: float = 500.0

    def __call__(self) -> float:
        return self.now


# The state machine


@dataclass
class Period:
    """A period that the breaker spends in one state, as the reference records it.

    It contains the results of calls, and the numbers of the admitted calls that have not ended.
    """

    state: str
    start: float
    results: list[bool] = field(default_factory=list)
    trials: set[int] = field(default_factory=set)


@dataclass
class Reference:
    """Reference implementation of the breaker: a history of periods, in which nothing is ever reset."""

    failures: int
    cooldown: int
    successes: int
    periods: list[Period] = field(default_factory=lambda: [Period("closed", 0)])

    def look(self, now: float) -> Period:
        """Return the current period."""
        last = self.periods[-1]
        if last.state == "open" and now >= last.start + self.cooldown:
            self.periods.append(Period("half_open", now))
        return self.periods[-1]

    def admits(self, now: float) -> bool:
        """Return whether a call is allowed."""
        period = self.look(now)
        return period.state == "closed" or (period.state == "half_open" and len(period.trials) < self.successes)

    def result(self, period: Period, call: int, now: float, *, succeeded: bool | None) -> None:
        """Record the result of a call that was admitted during `period`."""
        period.trials.discard(call)
        if period is not self.periods[-1] or succeeded is None or period.state == "open":
            return
        period.results.append(succeeded)
        in_a_row = self.failures if period.state == "closed" else 1
        if period.results[-in_a_row:] == [False] * in_a_row:
            self.periods.append(Period("open", now))
        elif period.state == "half_open" and len(period.results) == self.successes:
            self.periods.append(Period("closed", now))


class BreakerMachine(RuleBasedStateMachine):
    """State machine that compares the breaker with the reference.

    They must agree after any sequence of calls, results, cancellations and waits.
    """

    calls = Bundle("calls")

    @initialize(failures=st.integers(1, 4), cooldown=st.integers(1, 60), successes=st.integers(1, 3))
    def begin(self, failures: int, cooldown: int, successes: int) -> None:
        """Create a breaker with any options."""
        self.clock = Clock()
        self.breaker = Breaker(failures=failures, cooldown=cooldown, successes=successes, clock=self.clock)
        self.reference = Reference(failures, cooldown, successes)
        self.number = 0

    @rule(target=calls)
    def admit(self) -> Any:
        """Try to make a call."""
        expected = self.reference.admits(self.clock.now)
        assert self.breaker.available is expected
        step = self.breaker.admit()
        assert (step.ticket is not None) is expected
        assert step.after == self.reference.periods[-1].state
        if step.ticket is None:
            return multiple()
        self.number += 1
        period = self.reference.periods[-1]
        period.trials.add(self.number)
        return (step.ticket, period, self.number)

    @rule(call=consumes(calls), succeeded=st.sampled_from([True, False, False, None]))
    def settle(self, call: Any, *, succeeded: bool | None) -> None:
        """End a call, possibly long after its admission."""
        ticket, period, number = call
        before = self.reference.periods[-1].state
        self.reference.result(period, number, self.clock.now, succeeded=succeeded)
        step = self.breaker.settle(ticket, succeeded=succeeded)
        assert step[:2] == (before, self.reference.periods[-1].state)

    @rule(succeeded=st.booleans())
    def record(self, *, succeeded: bool) -> None:
        """Record the result of a call that bypassed the breaker."""
        self.reference.result(self.reference.look(self.clock.now), 0, self.clock.now, succeeded=succeeded)
        assert self.breaker.record(succeeded=succeeded).after == self.reference.periods[-1].state

    @rule(seconds=st.integers(1, 70))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.clock.now += seconds

    @precondition(lambda self: self.reference.periods[-1].state == "open")
    @rule(early=st.booleans())
    def wait_for_the_cooldown(self, *, early: bool) -> None:
        """Let time pass until the end of the cooldown, or until just before it."""
        last = self.reference.periods[-1]
        self.clock.now = max(self.clock.now, last.start + self.reference.cooldown - early)

    @invariant()
    def states_agree(self) -> None:
        """Check that reading the state changes nothing and gives the state that the next call would see."""
        if not hasattr(self, "reference"):
            return
        last = self.reference.periods[-1]
        remaining = last.start + self.reference.cooldown - self.clock.now if last.state == "open" else 0
        assert self.breaker.state == ("half_open" if last.state == "open" and remaining <= 0 else last.state)
        assert self.breaker.seconds_left == max(0, remaining)


BreakerMachine.TestCase.settings = settings(stateful_step_count=40)
TestBreakerMachine = BreakerMachine.TestCase


@given(
    failures=st.integers(1, 4),
    successes=st.integers(1, 3),
    # no sum of these may equal the 60-second cooldown, because the other library reads a running clock
    steps=st.lists(st.booleans() | st.sampled_from([7, 50, 100]), max_size=60),
)
def test_sequential_calls_match_another_library(failures: int, successes: int, steps: list[bool | int]) -> None:
    """The breaker changes state on exactly the same calls as the one in pyresilience."""
    clock = Clock()
    breaker = Breaker(failures=failures, cooldown=60, successes=successes, clock=clock)
    config = CircuitBreakerConfig(failure_threshold=failures, recovery_timeout=60, success_threshold=successes)
    oracle = Oracle(config)
    for step in steps:
        if not isinstance(step, bool):
            clock.now += step
            if oracle._last_failure_time is not None:
                oracle._last_failure_time -= step
            continue
        ticket = breaker.admit().ticket
        assert (ticket is not None) == oracle.allow_request()
        if ticket is not None:
            breaker.settle(ticket, succeeded=step)
            _ = oracle.record_success() if step else oracle.record_failure()
        assert breaker.state == oracle.state.value


def test_threads_share_the_trial_limit() -> None:
    """Sixteen threads make calls at the same time while the circuit is half-open.

    Exactly two calls are admitted.
    """
    clock = Clock()
    breaker = Breaker(failures=1, cooldown=1, successes=2, clock=clock)
    for _ in range(50):
        breaker.record(succeeded=False)
        clock.now += 2
        barrier = threading.Barrier(16)
        tickets: list[int | None] = []

        def ask_leave(barrier: threading.Barrier = barrier, tickets: list[int | None] = tickets) -> None:
            barrier.wait()
            tickets.append(breaker.admit().ticket)

        threads = [threading.Thread(target=ask_leave, daemon=True) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        trials = [ticket for ticket in tickets if ticket is not None]
        assert (len(tickets), len(trials)) == (16, 2)
        for ticket in trials:
            breaker.settle(ticket, succeeded=True)
        assert breaker.state == "closed"


def test_agents_are_distinguished_by_name() -> None:
    """One agent's failures do not affect the others.

    An agent that has never been seen counts as available, and looking it up does not store it.
    """
    clock = Clock()
    breakers = Breakers(failures=3, cooldown=60, successes=2, clock=clock)
    everybody = ["ada", "ben", "cy"]
    for _ in range(3):
        assert breakers.available(everybody) == everybody
        breakers.record_failure("ben")
    assert breakers.available(everybody) == ["ada", "cy"]
    assert [breakers.state(name) for name in everybody] == ["closed", "open", "closed"]
    clock.now += 60
    assert breakers.available(everybody) == everybody
    assert breakers.state("ben") == "half_open"
    breakers.record_success("ben")
    assert breakers.state("ben") == "half_open"
    breakers.record_success("ben")
    assert breakers.state("ben") == "closed"
    assert breakers.of("ben") is breakers.of("ben")
    assert set(breakers._known) == {"ben"}


@pytest.mark.parametrize("make", [Breaker, Breakers, lambda **options: CircuitBreaker(Leaf(), **options)])
@pytest.mark.parametrize(
    ("field", "value"),
    [("failures", 0), ("failures", 2.0), ("successes", True), ("cooldown", 0), ("cooldown", float("nan"))],
)
def test_invalid_options_are_rejected(make: Callable[..., Any], field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make(**{field: value})
    assert caught.value.field == field


def test_a_shared_circuit_must_be_a_breaker() -> None:
    with pytest.raises(ConfigurationError, match="a Breaker"):
        CircuitBreaker(Leaf(), breaker=Breakers())  # type: ignore[arg-type]


# Around models


FAILURES: list[Callable[[], Exception]] = [
    lambda: ProviderFailed("500", status=500),
    lambda: ConnectionLost("reset"),
    lambda: ModelUnavailable("refused", transient=True),
    lambda: ModelTimeout(5),
    lambda: MalformedResponse("html"),
]
NEUTRAL: list[Callable[[], Exception]] = [
    lambda: RateLimited("busy"),
    lambda: RateLimited("spent", quota_exhausted=True),
    lambda: AuthenticationFailed("key"),
    lambda: RequestRejected("no", status=400),
    lambda: ModelUnavailable("not set up"),
    lambda: ConnectionLost("bad certificate", transient=False),
    lambda: Refused("no"),
    lambda: EmptyResponse("nothing"),
    lambda: OutputTruncated("cut"),
    lambda: SchemaViolation([("a", "b")]),
    lambda: ResponseTooLarge(5, "bytes"),
    lambda: CircuitOpen(5),
    lambda: LimitReached("calls", limit=1, used=1),
    ZeroDivisionError,
]


async def failing(model: Any, error: type[BaseException], **options: Any) -> Any:
    with pytest.raises(error) as caught:
        await ask(model, make_request(**options))
    return caught.value


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error()).__name__)
async def test_a_failing_endpoint_is_not_called(error: Any) -> None:
    """After three consecutive failures, the fourth call is not made. Any success resets the count."""
    leaf = Leaf([error(), error(), "fine", error(), error(), error()])
    model = CircuitBreaker(leaf)
    for number in range(6):
        if number == 2:
            await ask(model, make_request())
        else:
            await failing(model, type(error()))
    assert model.breaker.state == "open"
    refused = await failing(model, CircuitOpen)
    assert (len(leaf.requests), refused.model, refused.block) == (6, "leaf", "judge")
    assert 59 < refused.seconds <= 60


@pytest.mark.parametrize("error", NEUTRAL, ids=lambda error: type(error()).__name__)
async def test_unrelated_errors_are_not_counted(error: Any) -> None:
    """Whatever the state of the circuit, unrelated errors count as neither failures nor successes.

    A trial that ends with such an error frees its slot.
    """
    clock = Clock()
    leaf = Leaf([endpoint_error, *[error()] * 5, endpoint_error, error(), error(), "fine"])
    model = CircuitBreaker(leaf, failures=2, successes=1, clock=clock)
    states: list[str] = []
    expected: list[type[Exception]] = [ProviderFailed, *[type(error())] * 5, ProviderFailed]
    for kind in expected:
        await failing(model, kind)
        states.append(model.breaker.state)
    clock.now += 60
    for _ in range(2):
        await failing(model, type(error()))
        states.append(model.breaker.state)
    await ask(model, make_request())
    assert [*states, model.breaker.state] == ["closed"] * 6 + ["open", "half_open", "half_open", "closed"]


async def test_a_call_with_retries_counts_once() -> None:
    leaf = Leaf([endpoint_error], retry=Retry(attempts=5, sleep=Naps()))
    model = CircuitBreaker(leaf, failures=2)
    states = []
    for _ in range(2):
        await failing(model, ProviderFailed)
        states.append((len(leaf.requests), model.breaker.state))
    assert states == [(5, "closed"), (10, "open")]


async def test_state_changes_are_reported_to_the_run_that_caused_them() -> None:
    """Two runs can share a circuit by using the same model, yet each receives only the changes it caused."""
    clock = Clock()
    breaker = Breaker(failures=1, successes=2, clock=clock)
    first, second = (
        CircuitBreaker(Leaf([endpoint_error, "fine"]), breaker=breaker),
        CircuitBreaker(Leaf(name="b"), breaker=breaker),
    )
    one, two = list[Any](), list[Any]()
    await failing(first, ProviderFailed, events=one)
    await failing(second, CircuitOpen, events=two)
    clock.now += 60
    await ask(second, make_request(events=two))
    await ask(first, make_request(events=one))
    assert one == [
        CircuitChanged(block="judge", model="leaf", before="closed", after="open"),
        CircuitChanged(block="judge", model="leaf", before="half_open", after="closed"),
    ]
    assert two == [CircuitChanged(block="judge", model="b", before="open", after="half_open")]


async def test_a_cancelled_trial_releases_its_slot() -> None:
    """The circuit admits only one trial at a time.

    After the trial is cancelled, the next call becomes the trial, and a concurrent call is rejected.
    """
    clock = Clock()
    model = CircuitBreaker(Leaf([endpoint_error, hang, hang, "fine"]), failures=1, successes=1, clock=clock)
    await failing(model, ProviderFailed)
    clock.now += 60
    for _ in range(2):
        trial = asyncio.create_task(ask(model, make_request()))
        await asyncio.sleep(0)
        refused = await failing(model, CircuitOpen)
        assert refused.seconds == 0
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial
        assert model.breaker.state == "half_open"
    await ask(model, make_request())
    assert model.breaker.state == "closed"


async def test_calls_admitted_before_the_circuit_opened_do_not_change_it() -> None:
    """A late answer says nothing about the endpoint's present state."""
    gate = asyncio.Event()

    async def late(_: object) -> str:
        await gate.wait()
        return "fine"

    clock = Clock()
    model = CircuitBreaker(Leaf([late, late, endpoint_error, hang]), failures=1, successes=2, clock=clock)
    early = [asyncio.create_task(ask(model, make_request())) for _ in range(2)]
    await asyncio.sleep(0)
    await failing(model, ProviderFailed)
    clock.now += 60
    trial = asyncio.create_task(ask(model, make_request()))
    await asyncio.sleep(0)
    gate.set()
    assert [answered.text for answered in await asyncio.gather(*early)] == ["fine", "fine"]
    assert model.breaker.state == "half_open"
    assert model.breaker.available
    trial.cancel()
    await asyncio.gather(trial, return_exceptions=True)


def test_a_timeout_after_sending_counts_as_a_failure() -> None:
    """The circuit breaker sees an expired deadline as a cancellation of the call.

    A call that is still queued at that time has not reached the endpoint, so it does not count.
    """

    async def late() -> None:
        hanging = CircuitBreaker(Leaf([hang]), failures=1)
        await failing(hanging, ModelTimeout, timeout=5)
        assert hanging.breaker.state == "open"
        within = CircuitBreaker(Leaf([hang]), failures=1)
        await failing(Timeout(within, 5), ModelTimeout)
        assert within.breaker.state == "open"
        queue = ConcurrencyLimit(Leaf([hang]), 1)
        first = asyncio.create_task(ask(queue, make_request()))
        await asyncio.sleep(0)
        waiting = CircuitBreaker(queue, failures=1)
        await failing(waiting, ModelTimeout, timeout=5)
        assert waiting.breaker.state == "closed"
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    warped(late())


async def test_an_open_circuit_causes_an_immediate_fallback() -> None:
    """While the circuit is open, only the second model is called. The rejected call does not count as an attempt."""
    first = Leaf([endpoint_error])
    model = Fallback(CircuitBreaker(first, failures=1), Leaf(["better"]))
    for _ in range(5):
        request = make_request()
        assert (await ask(model, request)).text == "better"
    assert len(first.requests) == 1
    assert [attempt.error for attempt in request.attempts.made] == [None]
