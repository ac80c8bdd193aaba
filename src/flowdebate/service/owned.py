"""Service restricted to the runs of one user: only runs labeled with the user's name can be accessed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError, RunExists, RunNotFound
from flowdebate.evaluation.readers import Vote, Votes
from flowdebate.evaluation.stored_audit import Items
from flowdebate.models.base import Message
from flowdebate.runs.limits import OWNER
from flowdebate.runs.result import RunResult
from flowdebate.service.channel import Update
from flowdebate.service.runs import archive_of
from flowdebate.service.service import Service
from flowdebate.service.state import BudgetState, Changed, RunPage, RunRecord, RunState
from flowdebate.store.archive import StoredArchive
from flowdebate.store.base import StoredRun
from flowdebate.ui.plan import Plan

P = ParamSpec("P")
T = TypeVar("T")


def _of_owner(
    method: Callable[Concatenate[Service, str, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[OwnedService, str, P], Coroutine[Any, Any, T]]:
    """Wrap a `Service` method for a single run, adding a check that the run belongs to the owner."""

    @wraps(method)
    async def checked(self: OwnedService, run_id: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        await self.stored(run_id)
        return await method(self._service, run_id, *args, **kwargs)

    return checked


class OwnedService:
    """View of `service` limited to `owner`'s runs; other owners' runs cannot be found.

    The class has the same methods as `Service`. Callers cannot set the label `owner`, which always names this owner.
    """

    def __init__(self, service: Service, owner: str) -> None:
        self._service = service
        self.owner = owner
        self.patterns: Mapping[str, Block[Any, Any]] = service.patterns

    run: Final = _of_owner(Service.run)
    events: Final = _of_owner(Service.events)
    people: Final = _of_owner(Service.people)
    call: Final = _of_owner(Service.call)
    evidence: Final = _of_owner(Service.evidence)
    wait: Final = _of_owner(Service.wait)
    answer: Final = _of_owner(Service.answer)
    votes: Final = _of_owner(Service.votes)
    share: Final = _of_owner(Service.share)
    shares: Final = _of_owner(Service.shares)
    unshare: Final = _of_owner(Service.unshare)
    note: Final = _of_owner(Service.note)
    write_note: Final = _of_owner(Service.write_note)
    cancel: Final = _of_owner(Service.cancel)
    resume: Final = _of_owner(Service.resume)
    delete: Final = _of_owner(Service.delete)

    async def begin(
        self,
        pattern: str | Plan,
        question: object = None,
        *,
        labels: Mapping[str, str] | None = None,
        run_id: str | None = None,
        **options: Any,  # noqa: ANN401 - those of the service
    ) -> RunState:
        """Start a run for this owner; raise RunExists if another owner's run already has the id."""
        await self._check_free(run_id)
        begun = await self._service.begin(pattern, question, labels=self._labels(labels), run_id=run_id, **options)
        return self._check_begun(begun)

    async def propose_sides(
        self,
        pattern: str,
        question: object,
        *,
        labels: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401 - those of the service
    ) -> Sequence[Any]:
        """Propose speakers for a new run by this owner."""
        return await self._service.propose_sides(pattern, question, labels=self._labels(labels), **options)

    async def ask_model(
        self,
        pattern: str,
        messages: Sequence[Message],
        *,
        labels: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401 - those of the service
    ) -> RunResult[Any]:
        """Request one answer from a pattern's model; the call counts toward this owner's budget."""
        return await self._service.ask_model(pattern, messages, labels=self._labels(labels), **options)

    async def fork(
        self,
        run_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        fork_id: str | None = None,
        **options: Any,  # noqa: ANN401 - those of the service
    ) -> RunState:
        """Start a fork of one of this owner's runs."""
        await self.stored(run_id)
        await self._check_free(fork_id)
        forked = await self._service.fork(run_id, labels=self._labels(labels), fork_id=fork_id, **options)
        return self._check_begun(forked)

    async def runs(self, *, labels: Mapping[str, str] | None = None, **filters: Any) -> RunPage:  # noqa: ANN401 - those of the service
        return await self._service.runs(labels={**(labels or {}), OWNER: self.owner}, **filters)

    async def notes(self, runs: RunPage) -> dict[str, str]:
        """Return the notes on the runs listed on a page, keyed by run id."""
        return await self._service.notes(runs)

    async def resume_all(self, *, labels: Mapping[str, str] | None = None, **filters: Any) -> Changed:  # noqa: ANN401 - those of the service
        return await self._service.resume_all(labels={**(labels or {}), OWNER: self.owner}, **filters)

    async def cancel_all(self, *, labels: Mapping[str, str] | None = None, **filters: Any) -> Changed:  # noqa: ANN401 - those of the service
        return await self._service.cancel_all(labels={**(labels or {}), OWNER: self.owner}, **filters)

    async def audited(self, *, labels: Mapping[str, str] | None = None, **filters: Any) -> Items:  # noqa: ANN401 - those of the service
        """Return the ballots and votes from this owner's runs."""
        return await self._service.audited(labels={**(labels or {}), OWNER: self.owner}, **filters)

    async def budgets(self) -> list[BudgetState]:
        """Return how much of the budget shared by all runs, and of this owner's budget, has been used."""
        return await self._service.budgets(self.owner)

    def archive(self) -> StoredArchive:
        """Return the archive of this owner's debates."""
        return archive_of(self._service.store, {OWNER: self.owner})

    async def follow(self, run_id: str, *, after: str | None = None) -> AsyncGenerator[Update]:
        await self.stored(run_id)
        async with aclosing(self._service.follow(run_id, after=after)) as updates:
            async for update in updates:
                yield update

    async def vote(
        self,
        run_id: str,
        reader: str,  # noqa: ARG002 - it is this user, who has one vote
        winner: str | None,
        **options: Any,  # noqa: ANN401 - those of the service
    ) -> Votes:
        """Record this user's vote."""
        await self.stored(run_id)
        return await self._service.vote(run_id, self.owner, winner, **options)

    async def vote_of(self, run_id: str, reader: str) -> Vote | None:  # noqa: ARG002 - as in `vote`
        """Return this user's vote; None if there is none yet."""
        await self.stored(run_id)
        return await self._service.vote_of(run_id, self.owner)

    async def record(self, run_id: str) -> RunRecord:
        """Read everything shown on a run's page, for one of this owner's runs."""
        return await self._service.record(run_id, stored=await self.stored(run_id))

    async def stored(self, run_id: str) -> StoredRun:
        """Return one of this owner's stored runs."""
        run = await self._service.store.run(run_id)
        if run.header.labels.get(OWNER) != self.owner:
            # Raise the same error as for a missing run, so as not to reveal other owners' ids.
            raise RunNotFound(self._service.store.name, run_id)
        return run

    def _labels(self, labels: Mapping[str, str] | None) -> dict[str, str]:
        if labels and labels.get(OWNER, self.owner) != self.owner:
            raise ConfigurationError("begin", f"labels.{OWNER}", labels[OWNER], f"must be {self.owner}, or omitted")
        return {**(labels or {}), OWNER: self.owner}

    async def _check_free(self, run_id: str | None) -> None:
        """Raise RunExists if the id is taken by another owner's run, without revealing anything about that run."""
        if run_id is not None:
            try:
                await self.stored(run_id)
            except RunNotFound:
                with suppress(RunNotFound):
                    await self._service.store.run(run_id)
                    raise RunExists(self._service.store.name, run_id) from None

    def _check_begun(self, state: RunState) -> RunState:
        """Return `state`; raise RunExists if a different user has started a run with the same id in the meantime."""
        if state.labels.get(OWNER) != self.owner:
            raise RunExists(self._service.store.name, state.run_id)
        return state
