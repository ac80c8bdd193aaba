"""Service for one of several users: it sees only the runs that carry this user's name as a label."""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ConfigurationError, RunExists, RunNotFound

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.service.audit import Items
    from flowdebate.service.channel import Update
    from flowdebate.service.evidence import Evidence
    from flowdebate.service.plans.plan import Plan
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunDetails, RunPage, RunState
    from flowdebate.service.steps import CallDetails
    from flowdebate.service.votes import Vote, Votes
    from flowdebate.store.base import StoredRun


OWNER = "owner"
"""The label that says whose a run is."""


class OwnedService:
    """The runs of `owner` in `service`; those of others are not found, whatever is done with them.

    It has the methods of `Service`. A label `owner` cannot be given: it is always this one.
    """

    def __init__(self, service: Service, owner: str) -> None:
        self._service = service
        self.owner = owner
        self.patterns: Mapping[str, Block[Any, Any]] = service.patterns

    async def begin(
        self,
        pattern: str | Plan,
        question: object = None,
        *,
        labels: Mapping[str, str] | None = None,
        run_id: str | None = None,
        **options: Any,  # noqa: ANN401 - those of the service
    ) -> RunState:
        """Begin a run of this owner; RunExists for an id that a run of another one has."""
        await self._check_free(run_id)
        begun = await self._service.begin(pattern, question, labels=self._labels(labels), run_id=run_id, **options)
        return self._own(begun)

    async def run(self, run_id: str) -> RunDetails:
        """A run of this owner."""
        await self.stored(run_id)
        return await self._service.run(run_id)

    async def runs(self, *, labels: Mapping[str, str] | None = None, **filters: Any) -> RunPage:  # noqa: ANN401 - those of the service
        """Runs of this owner."""
        return await self._service.runs(labels={**(labels or {}), OWNER: self.owner}, **filters)

    async def audited(self, *, labels: Mapping[str, str] | None = None, **filters: Any) -> Items:  # noqa: ANN401 - those of the service
        """Ballots and votes of runs of this owner."""
        return await self._service.audited(labels={**(labels or {}), OWNER: self.owner}, **filters)

    async def follow(self, run_id: str, *, after: str | None = None) -> AsyncGenerator[Update]:
        """Updates of a run."""
        await self.stored(run_id)
        async with aclosing(self._service.follow(run_id, after=after)) as updates:
            async for update in updates:
                yield update

    async def events(self, run_id: str) -> Sequence[object]:
        """Recorded events of a run."""
        await self.stored(run_id)
        return await self._service.events(run_id)

    async def people(self, run_id: str) -> list[str]:
        """Names of the blocks that ask people in a run."""
        await self.stored(run_id)
        return await self._service.people(run_id)

    async def call(self, run_id: str, place: str) -> CallDetails | None:
        """A call of a model as it was sent."""
        await self.stored(run_id)
        return await self._service.call(run_id, place)

    async def evidence(self, run_id: str) -> tuple[list[str], Evidence]:
        """The lines of a run's export, and what replaying them gives."""
        await self.stored(run_id)
        return await self._service.evidence(run_id)

    async def wait(self, run_id: str, seconds: float | None = None) -> RunDetails:
        """Wait until a run ends, or waits for a human."""
        await self.stored(run_id)
        return await self._service.wait(run_id, seconds)

    async def answer(
        self,
        run_id: str,
        answer: object,
        **options: Any,  # noqa: ANN401 - those of the service
    ) -> RunState:
        """Answer what a run waits for."""
        await self.stored(run_id)
        return await self._service.answer(run_id, answer, **options)

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
        """This user's vote; None before it."""
        await self.stored(run_id)
        return await self._service.vote_of(run_id, self.owner)

    async def votes(self, run_id: str) -> Votes:
        """The votes of the readers of a run."""
        await self.stored(run_id)
        return await self._service.votes(run_id)

    async def cancel(self, run_id: str) -> RunState:
        """Cancel a run."""
        await self.stored(run_id)
        return await self._service.cancel(run_id)

    async def resume(self, run_id: str, **options: Any) -> RunState:  # noqa: ANN401 - those of the service
        """Resume a run."""
        await self.stored(run_id)
        return await self._service.resume(run_id, **options)

    async def fork(
        self,
        run_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        new_id: str | None = None,
        **options: Any,  # noqa: ANN401 - those of the service
    ) -> RunState:
        """Begin a run of this owner from the journal of another one of theirs."""
        await self.stored(run_id)
        await self._check_free(new_id)
        forked = await self._service.fork(run_id, labels=self._labels(labels), new_id=new_id, **options)
        return self._own(forked)

    async def delete(self, run_id: str) -> None:
        """Delete a run."""
        await self.stored(run_id)
        await self._service.delete(run_id)

    def _labels(self, labels: Mapping[str, str] | None) -> dict[str, str]:
        if labels and labels.get(OWNER, self.owner) != self.owner:
            raise ConfigurationError("begin", f"labels.{OWNER}", labels[OWNER], f"left out, or {self.owner!r}")
        return {**(labels or {}), OWNER: self.owner}

    async def stored(self, run_id: str) -> StoredRun:
        """A run of this owner, as it is stored."""
        run = await self._service.store.run(run_id)
        if run.header.labels.get(OWNER) != self.owner:
            raise RunNotFound(self._service.store.name, run_id)
        return run

    async def _check_free(self, run_id: str | None) -> None:
        """RunExists for the id of a run of somebody else, before anything of that run can be told."""
        if run_id is not None:
            try:
                await self.stored(run_id)
            except RunNotFound:
                with suppress(RunNotFound):
                    await self._service.store.run(run_id)
                    raise RunExists(self._service.store.name, run_id) from None

    def _own(self, state: RunState) -> RunState:
        """`state`; RunExists where somebody else has started a run with the same id in the meantime."""
        if state.labels.get(OWNER) != self.owner:
            raise RunExists(self._service.store.name, state.run_id)
        return state
