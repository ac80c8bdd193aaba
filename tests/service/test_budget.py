"""A budget for all runs of a service, shared with forks, resumed runs, restarts and other processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Limits, Price
from flowdebate.errors import BudgetReached, ConfigurationError, ProviderFailed
from flowdebate.models import Retry, Retrying
from flowdebate.models.base import Attempt, ModelRequest, Usage
from flowdebate.runs.limits import Account, Accounts, Charge
from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.store.memory import MemoryStore
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "Should we ship?"
SHORT = {"max_rounds": 1, "schedule": "single"}
"""Options for a debate that makes four calls."""


class CountingModel(FunctionModel):
    """Model that answers in a short debate and counts its answers."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.made = 0

    def _answer(self, request: ModelRequest) -> Any:
        self.made += 1
        if request.output_schema is not None:
            return {"reasoning": "Both have a point.", "winner": None, "verdict": "Wait a week."}
        return f"{request.block} is sure."


async def used_amounts(service: Service) -> dict[str, float]:
    """Return how much of each limit is used."""
    return {budget.kind: budget.used for budget in await service.budgets()}


async def run_status(service: Service, **options: Any) -> str:
    """Run a debate that makes four calls, and return its status."""
    started = await service.begin("debate", QUESTION, options=SHORT, **options)
    return (await service.wait(started.run_id)).status


def test_runs_share_the_budget() -> None:
    """The run that exhausts the budget ends with a partial result."""

    async def run() -> None:
        model = CountingModel()
        async with Service(store="memory:", model=model, budget=Limits(calls=6)) as service:
            assert await run_status(service, run_id="one") == "complete"
            assert await run_status(service, run_id="two") == "limit"
            assert await used_amounts(service) == {"calls": 6}
            two = await service.run("two")
            assert two.error == "BudgetReached: the budget for all runs is exhausted: 6 of 6 calls used"
            assert two.document is not None
            assert len(two.document.raw.transcript) == 2
            for more in (
                service.begin("debate", QUESTION, options=SHORT),
                service.resume("two"),
                service.fork("one", options={"instructions": "Be brief."}),
            ):
                with pytest.raises(BudgetReached, match="6 of 6 calls used") as raised:
                    await more
                assert (raised.value.budget, raised.value.used, raised.value.limit) == ("all runs", 6, 6)
            repeated = await service.begin("debate", QUESTION, options=SHORT, run_id="one")
            assert repeated.status == "complete"  # this run was started earlier
            await service.delete("one")
            assert await used_amounts(service) == {"calls": 6}
        assert model.made == 6

    asyncio.run(run())


def test_forks_cannot_exceed_the_budget() -> None:
    """Each fork has new limits but shares the budget. Reused answers cost nothing."""

    async def run() -> None:
        model, limits = CountingModel(), Limits(calls=2)
        async with Service(store="memory:", model=model, limits=limits, budget=Limits(calls=3)) as service:
            assert await run_status(service, run_id="run-0") == "limit"
            await service.fork("run-0", fork_id="run-1")
            assert (await service.wait("run-1")).status == "limit"
            assert (await used_amounts(service), model.made) == ({"calls": 3}, 3)
            with pytest.raises(BudgetReached):
                await service.fork("run-1", fork_id="run-2")

    asyncio.run(run())


def test_budget_survives_a_restart_and_is_shared_between_processes(tmp_path: Path) -> None:
    """Usage is recorded in the store. Raising the budget lets a run continue where it stopped."""

    async def run() -> None:
        path, model = tmp_path / "runs.sqlite3", CountingModel()
        async with Service(store=path, model=model, budget=Limits(calls=5)) as first:
            assert await run_status(first, run_id="one") == "complete"
            second = Service(store=path, model=model, budget=Limits(calls=5))
            assert await used_amounts(second) == {"calls": 4}
            assert await run_status(second, run_id="two") == "limit"
            assert await used_amounts(first) == {"calls": 5}
            with pytest.raises(BudgetReached):
                await first.begin("debate", QUESTION, options=SHORT)
        async with Service(store=path, model=model, budget=Limits(calls=8)) as later:
            await later.resume("two")
            assert (await later.wait("two")).status == "complete"
            assert await used_amounts(later) == {"calls": 8}
        assert model.made == 8

    asyncio.run(run())


def test_racing_processes_never_exceed_the_budget(tmp_path: Path) -> None:
    """Before a call is sent, it is counted in the store that all processes share."""

    async def run() -> None:
        path, models = tmp_path / "runs.sqlite3", [CountingModel(), CountingModel(), CountingModel()]
        services = [Service(store=path, model=model, budget=Limits(calls=17)) for model in models]
        await asyncio.gather(*(run_status(service) for service in services for _ in range(6)))
        assert sum(model.made for model in models) == 17
        assert [await used_amounts(service) for service in services] == [{"calls": 17}] * 3
        for service in services:
            await service.close()

    asyncio.run(run())


def test_retries_count_individually() -> None:
    def fails(_: ModelRequest) -> Any:
        raise ProviderFailed("503", status=503)

    async def run() -> None:
        model = Retrying(FunctionModel(fails), Retry(attempts=3, first_wait=0))
        async with Service(store="memory:", model=model, budget=Limits(calls=5)) as service:
            options = {**SHORT, "on_failure": "skip"}
            started = await service.begin("debate", QUESTION, options=options)
            assert (await service.wait(started.run_id)).status == "limit"
            assert await used_amounts(service) == {"calls": 5}

    asyncio.run(run())


def test_unreported_tokens_and_money_are_estimated() -> None:
    """Each request is charged its estimated usage first and its reported usage later.

    The usage of deleted runs still counts.
    """

    async def run() -> None:
        price = {"function": Price(prompt=1.0, completion=2.0)}
        budget = Limits(tokens=100_000, cost=1.0, prices=price)
        async with Service(store="memory:", model=CountingModel(), budget=budget) as service:
            assert await run_status(service, run_id="one") == "complete"
            usage = await used_amounts(service)
            tokens = (await service.run("one")).usage
            assert usage["tokens"] > 100
            assert tokens is not None
            assert 0 < usage["cost"] < 0.1
        small = Limits(cost=0.000_1, prices=price)
        async with Service(store="memory:", model=CountingModel(), budget=small) as service:
            assert await run_status(service) == "limit"

    asyncio.run(run())


def test_reported_usage_replaces_the_estimate() -> None:
    """The actual usage may be lower than the estimate."""

    async def run() -> None:
        account = Account(MemoryStore(), Limits(tokens=50))
        request = ModelRequest(messages=[{"role": "user", "content": "x" * 160}], block="ann")
        charge = Charge((account,), None)
        await charge.begin("m", request)
        assert (await account.used())[:2] == (1, 40)
        reserved = charge.reserve("m", request)
        charge.settle(reserved, Attempt(model="m", usage=Usage(calls=1, prompt_tokens=7, completion_tokens=2)))
        await charge.end()
        assert (await account.used())[:2] == (1, 9)
        unsent = Charge((account,), None)
        await unsent.begin("m", request)
        await unsent.end()
        assert (await account.used())[:2] == (1, 9)

    asyncio.run(run())


@pytest.mark.parametrize("of", ["budget", "owner_budget"])
@pytest.mark.parametrize("field", ["seconds", "working_seconds"])
def test_time_limits_are_not_part_of_a_budget(field: str, of: str) -> None:
    """A budget with a time limit raises an error at once."""
    with pytest.raises(ConfigurationError, match=rf"Service: `{of}\.{field}` cannot be set"):
        Service(store="memory:", **{of: Limits(**{field: 5})})  # type: ignore[arg-type]


def test_cancelling_a_charge_keeps_the_totals_correct(tmp_path: Path) -> None:
    """The write is still completed, and the reserved amount is released because it was not used."""

    async def run() -> None:
        store = SqliteStore(tmp_path / "runs.sqlite3")
        account = Account(store, Limits(calls=50))
        request = ModelRequest(messages=[{"role": "user", "content": "x"}], block="ann")

        async def call(number: int) -> None:
            charge = Charge((account,), None)
            try:
                await charge.begin("m", request)
            finally:
                await charge.end()

        calls = [asyncio.create_task(call(number)) for number in range(40)]
        await asyncio.sleep(0)
        for task in calls[::2]:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await call(0)
        assert (await account.used()).calls == 0
        await store.close()

    asyncio.run(run())


def test_each_owner_has_a_daily_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner's exhausted budget does not affect other owners.

    The error says when the next budget begins. If the clock is set back by a day, the budget of the later day still
    applies.
    """
    now = 1_000.5 * 86_400
    monkeypatch.setattr("flowdebate.runs.limits.time.time", lambda: now)

    async def run() -> None:
        nonlocal now
        limits, all_runs = Limits(calls=5), Limits(calls=100)
        async with Service(store="memory:", model=CountingModel(), budget=all_runs, owner_budget=limits) as service:
            ann, bob = (OwnedService(service, owner) for owner in ("ann", "bob"))
            for owner, statuses in ((ann, ("complete", "limit")), (bob, ("complete",))):
                for expected in statuses:
                    run_id = f"{owner.owner} {expected}"
                    await owner.begin("debate", QUESTION, options=SHORT, run_id=run_id)
                    assert (await owner.wait(run_id)).status == expected
            with pytest.raises(
                BudgetReached, match="for 'ann' is exhausted: 5 of 5 calls used; it resets at 1972-09-28"
            ) as raised:
                await ann.resume("ann limit")
            assert raised.value.retry_after == 43_200
            assert {(budget.budget, budget.used) for budget in await bob.budgets()} == {("all runs", 9), ("'bob'", 4)}
            assert await run_status(service) == "complete"  # runs without an owner are not affected
            now += 86_400
            begun = await ann.begin("debate", QUESTION, options=SHORT)
            assert (await ann.wait(begun.run_id)).status == "complete"
            now -= 86_400
            assert [budget.used for budget in await ann.budgets()] == [17, 4]

    asyncio.run(run())


def test_rejected_charge_reserves_nothing_in_any_account() -> None:
    """A call that would exceed the daily budget is rejected and does not count toward the total budget either."""

    async def run() -> None:
        accounts = Accounts(MemoryStore(), Limits(calls=9), Limits(calls=1)).of({"owner": "ann"})
        request = ModelRequest(messages=[{"role": "user", "content": "x"}], block="ann")
        first_charge = Charge(accounts, None)
        await first_charge.begin("m", request)
        second_charge = Charge(accounts, None)
        with pytest.raises(BudgetReached):
            await second_charge.begin("m", request)
        await second_charge.end()
        assert [(await account.used()).calls for account in accounts] == [1, 1]

    asyncio.run(run())
