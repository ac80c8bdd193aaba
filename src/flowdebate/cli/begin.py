"""How a run is begun: a new one, which is kept where it can be, or one that is carried on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from flowdebate.cli.kept_plan import kept_plan
from flowdebate.cli.streams import tell
from flowdebate.errors import StoreError

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.keeping import Place
    from flowdebate.cli.plan import Plan
    from flowdebate.runs.durable.journal import OnUncertain
    from flowdebate.runs.durable.resume import StoreOptions
    from flowdebate.runs.run import Run

__all__ = ("Anew", "Begin", "CarriedOn")


class Begin(Protocol):
    """Makes the run of a plan, and says what it is about."""

    place: Place | None
    """Where it is kept."""
    is_new: ClassVar[bool]

    async def __call__(self, plan: Plan, pattern: Sequencer[Any, Any], /) -> tuple[Run, Any]:
        """The run, which nothing is asked for yet, and its input."""


@dataclass(kw_only=True)
class Anew:
    """Begins a new run.

    A store that the user has named must take it: StoreError, before anything is asked for. Where the user's data
    directory cannot, a warning says so, and the run is held without being kept.
    """

    is_new: ClassVar[bool] = True
    place: Place | None

    async def __call__(self, plan: Plan, pattern: Sequencer[Any, Any], /) -> tuple[Run, Any]:
        if self.place is None:
            return _made(plan, pattern, keeping=False), plan.subject
        from flowdebate.runs.durable.resume import StoreOptions

        run = _made(plan, pattern, keeping=StoreOptions(store=self.place.store, plan=kept_plan(plan)))
        assert run.journal is not None  # noqa: S101 - it has a store
        try:
            await run.journal.begin()
        except StoreError as error:
            if self.place.named:
                raise StoreError(error.store, f"{error.problem}; --no-store does not keep the run") from error
            tell(f"Warning: the run is not kept: {error}")
            self.place = None
            run = _made(plan, pattern, keeping=False)
        return run, plan.subject


@dataclass(kw_only=True)
class CarriedOn:
    """Takes up the run `run_id`; with the errors of `Block.resume`."""

    is_new: ClassVar[bool] = False
    place: Place | None
    run_id: str
    uncertain: OnUncertain = "retry"
    allow_changes: bool = False
    revive: bool = False

    async def __call__(self, plan: Plan, pattern: Sequencer[Any, Any], /) -> tuple[Run, Any]:
        from flowdebate.runs.durable.resume import load_run

        assert self.place is not None  # noqa: S101 - it is kept somewhere
        return await load_run(
            self.place.store,
            self.run_id,
            block=pattern.name,
            outline=pattern.outline(),
            session=None,
            model=plan.models,
            limits=plan.limits,
            on_uncertain=self.uncertain,
            allow_changes=self.allow_changes,
            retry_dead_letter=self.revive,
        )


def _made(plan: Plan, pattern: Sequencer[Any, Any], *, keeping: StoreOptions | bool) -> Run:
    from flowdebate.runs.execute import make_run

    return make_run(
        pattern, plan.subject, session=None, model=plan.models, seed=plan.seed, limits=plan.limits, store=keeping
    )
