"""Recipes for runs: instructions for building the block of a new run, a stored run or a fork."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any, TypeAlias

from flowdebate._util.validation import check_text
from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError
from flowdebate.models.resolve import EACH, ModelChoice
from flowdebate.patterns import PATTERNS, PatternInfo, find_pattern
from flowdebate.runs.durable.fork import Continuation, plan_requested_continuation
from flowdebate.runs.limits import Limits
from flowdebate.service.runs import archive_of
from flowdebate.sources.files import is_file
from flowdebate.store.base import Store, StoredRun
from flowdebate.ui.models import AllowedModels, Policies, with_policies
from flowdebate.ui.plan import Plan, make_plan, pattern_of_run, plan_of, plan_of_fork, stored_plan, with_sides

CheckOptions: TypeAlias = "Callable[[Any], None]"
"""Function that checks a plan's options, and raises ConfigurationError for options not available to the caller."""

_BEGIN = "Service.begin()"
_OPTIONS = "options"
_RECOVER = "recover"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything needed to start a run."""

    name: str
    block: Block[Any, Any]
    value: object = None
    model: ModelChoice = None
    limits: Limits | None = None
    seed: int | None = None
    stored: Mapping[str, Any] | None = None
    queued: bool = False
    """True if the run is executed by workers."""
    plan: Plan | None = None
    """Plan from which the run is built; None for a registered pattern."""

    @property
    def proposes(self) -> bool:
        """True if the block proposes the speakers because the plan names none."""
        return self.plan is not None and not self.plan.speakers


async def make_recipe(make: Callable[[], Recipe], options: Mapping[str, Any]) -> Recipe:
    """Build a recipe, in a separate thread if its `options` name files, so that other tasks are not blocked.

    Reading a document takes up to 15 seconds, or longer if others are queued ahead of it. The process does not wait for
    the thread when it exits.
    """
    sources = options.get("sources")
    texts = sources.values() if isinstance(sources, Mapping) else ()
    if not (isinstance(sources, list) or any(isinstance(text, str) and is_file(text) for text in texts)):
        return make()
    loop, context = asyncio.get_running_loop(), copy_context()
    future: asyncio.Future[Recipe] = loop.create_future()

    def run() -> None:
        recipe: Recipe | None = None
        problem: Exception | None = None
        try:
            recipe = context.run(make)
        except Exception as error:  # noqa: BLE001 - it is raised where the recipe is awaited
            problem = error

        def settle() -> None:
            if future.done():  # nobody is waiting anymore
                return
            if recipe is not None:
                future.set_result(recipe)
            elif problem is not None:
                future.set_exception(problem)

        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle)

    Thread(target=run, name="flowdebate-sources", daemon=True).start()
    return await future


class Recipes:
    """A service's patterns, keyed by name: registered patterns, and built-in patterns described by plans."""

    def __init__(
        self,
        patterns: Mapping[str, Block[Any, Any]],
        *,
        model: ModelChoice,
        limits: Limits | None,
        plans: bool,
        store: Store,
        queued: Collection[str],
        recover: bool,
    ) -> None:
        self.patterns: dict[str, Block[Any, Any]] = dict(patterns)
        self.plans = plans
        self._model = model
        self._limits = limits
        self._store = store
        self._queued = queued
        self._recover = {_RECOVER: True} if recover else {}
        self.allowed: AllowedModels | None = None
        """Models allowed in plans that this program did not create; None if all are allowed."""

    @property
    def model_name(self) -> str | None:
        """Name of the default model for debaters; None if the environment determines it."""
        model = self._model.get("chat") if isinstance(self._model, Mapping) else self._model
        return model if isinstance(model, str) or model is None else model.name

    def new(
        self,
        pattern: str | Plan,
        question: object,
        options: Mapping[str, Any],
        *,
        seed: int | None,
        labels: Mapping[str, str] | None,
        limits: Limits | None,
        check: CheckOptions | None,
    ) -> Recipe:
        """Build the recipe for a new run; raise ConfigurationError for invalid options."""
        if isinstance(pattern, Plan):
            return self._of_plan(pattern, limits, labels or {})
        if pattern in self.patterns:
            if options:
                raise ConfigurationError(
                    _BEGIN,
                    "options",
                    None,
                    f"cannot be set: {pattern} is registered with its own options; only limits can be set",
                )
            if isinstance(question, str):
                check_text(_BEGIN, question=question)
            return self._of_registered(pattern, question, seed=seed, limits=limits)
        info = find_pattern(pattern) if self.plans else None
        if info is None:
            names = [*self.patterns, *(PATTERNS if self.plans else ())]
            raise ConfigurationError(_BEGIN, "pattern", pattern, choices=names)
        if not isinstance(question, str):
            raise ConfigurationError(_BEGIN, info.subject, question, "must be text")
        plan = self._make_plan(info, question, options, seed=seed, check=check)
        if not plan.speakers:
            return self._of_proposer(plan, limits)
        return self._of_plan(plan, limits, labels or {})

    def with_sides(
        self, recipe: Recipe, sides: Sequence[Any], limits: Limits | None, labels: Mapping[str, str] | None
    ) -> Recipe:
        """Build the recipe for a run with the proposed `sides`; raise ConfigurationError if the plan rejects them."""
        assert recipe.plan is not None  # noqa: S101 - only a plan waits for proposed sides
        return self._of_plan(with_sides(recipe.plan, sides), limits, labels or {})

    def _of_proposer(self, plan: Plan, limits: Limits | None) -> Recipe:
        """Build the recipe for the call that proposes a plan's speakers."""
        page = plan.info.load_page()
        assigned_plan = self._with_service_model(plan)
        return Recipe(
            name=plan.info.name,
            block=page.create_proposer(plan.options.instructions),
            value=plan.subject,
            model=with_policies(assigned_plan, recording=False).models,
            limits=self._bounded(plan.limits if limits is None else limits),
            seed=plan.seed,
            plan=plan,
        )

    def _make_plan(
        self,
        info: PatternInfo,
        question: str,
        options: Mapping[str, Any],
        *,
        seed: int | None,
        check: CheckOptions | None,
    ) -> Plan:
        values = {**options, info.subject: question, **({} if seed is None else {"seed": seed})}
        if self._model == EACH and values.get("model") is None:
            values["model"] = EACH
        plan_options = info.load_page().options.read({}, file=values, location=_OPTIONS)
        if check is not None:  # checked before reading any file named in the options
            check(plan_options)
        if self.allowed is not None:
            self.allowed.check(plan_options)
        return make_plan(info, {}, file=values, location=_OPTIONS, begins=self._model is None, allow=self.allowed)

    def register(self, name: str, pattern: Block[Any, Any]) -> None:
        """Add a pattern; raise ConfigurationError if the name is taken."""
        if name in self.patterns:
            raise ConfigurationError("Service.register()", "name", name, "is already registered")
        self.patterns[name] = pattern

    def of_run(
        self, run: StoredRun, *, to_ask: bool = True, limits: Limits | None = None, plan: Plan | None = None
    ) -> Recipe:
        """Build the recipe for resuming a stored run or, if `to_ask` is False, for replaying it without models.

        `plan` replaces the stored plan. Raises ConfigurationError if this service lacks the run's pattern.
        """
        # Runs that are imported or merely displayed use what they once read from the archive, and leave the archive
        # unchanged.
        labels = run.header.labels if to_ask and not run.header.foreign else None
        if plan is not None:
            return self._of_plan(plan, limits, labels, recording=False)
        if (registered := self.registered(run, limits=limits)) is not None:
            return registered
        if run.header.plan is None or pattern_of_run(run) is None:
            known = ", ".join(self.patterns) or "none"
            problem = f"is a run of {run.header.block} without a plan; registered patterns: {known}"
            raise ConfigurationError("Service", "run_id", run.header.run_id, problem)
        plan = plan_of(run, {}, to_ask=to_ask)
        # The run was imported, or was started by a program that may use other models.
        if to_ask and self.allowed is not None:
            models = run.header.model if plan.models is None and self._model is None else None
            names = models.values() if isinstance(models, Mapping) else [models]
            self.allowed.check(plan.options, *(name for name in names if isinstance(name, str)))
        if not to_ask:  # a replay never calls models, so there is nothing to record or to wrap
            plan = replace(plan, policies=Policies())
        return self._of_plan(plan, limits, labels, recording=False)

    def registered(self, run: StoredRun, *, limits: Limits | None = None) -> Recipe | None:
        """Build the recipe for a stored run of a registered pattern; return None for any other run."""
        name = self._registered(run)
        if name is None:
            return None
        return self._of_registered(name, None, seed=None, limits=limits, more=_find_continuation(run))

    def of_fork(
        self,
        run: StoredRun,
        *,
        pattern: str | Plan | None,
        options: Mapping[str, Any],
        seed: int | None,
        labels: Mapping[str, str] | None,
        limits: Limits | None,
        check: CheckOptions | None,
    ) -> Recipe:
        """Build the recipe for a fork of a stored run.

        The fork may use a different registered `pattern`, a different plan, or different `options`.
        """
        if isinstance(pattern, Plan):
            return self._of_plan(pattern, limits, labels or {}, recording=False)
        if pattern is not None and pattern not in self.patterns:
            raise ConfigurationError("Service.fork()", "pattern", pattern, choices=self.patterns)
        name = pattern or self._registered(run)
        if name is not None or run.header.plan is None:
            if set(options) - ({"continuation"} if pattern is None and name is not None else set()):
                raise ConfigurationError("Service.fork()", "options", None, "can be changed only if the run has a plan")
            if name is None:
                return self.of_run(run)
            more = plan_requested_continuation(run, options["continuation"]) if options else _find_continuation(run)
            return self._of_registered(name, None, seed=seed, limits=limits, more=more)
        info = pattern_of_run(run)
        if check is not None and options and info is not None:
            check(info.load_page().options.read({}, file=options, location=_OPTIONS))
        changes = options if seed is None else {**options, "seed": seed}
        plan = plan_of_fork(run, {}, changes=changes, allow=self.allowed)
        if self.allowed is not None:
            self.allowed.check(plan.options)
        return self._of_plan(plan, limits, labels or {}, recording=False)

    def name_of(self, run: StoredRun) -> str | None:
        """Return the name of a stored run's pattern, or None if this service does not have the pattern."""
        info = pattern_of_run(run)
        return self._registered(run) or (None if info is None else info.name)

    def block_name(self, pattern: str) -> str:
        """Return the name of a pattern's block."""
        if pattern in self.patterns:
            return self.patterns[pattern].name
        info = find_pattern(pattern)
        return pattern if info is None else info.name

    def is_to_recover(self, run: StoredRun) -> bool:
        """Return whether a run was started by a service that recovers its runs, and can be resumed by this service."""
        return bool((run.header.plan or {}).get(_RECOVER)) and self.name_of(run) is not None

    def _registered(self, run: StoredRun) -> str | None:
        plan = run.header.plan or {}
        # Workers store their pattern's name under the key that plans use for the name of a built-in pattern.
        name = plan.get("registered", plan.get("pattern") if "workers" in plan else None)
        if name is None and not plan:  # the run was started by a program, and only its block identifies the pattern
            name = next(
                (pattern_name for pattern_name, block in self.patterns.items() if block.name == run.header.block), None
            )
        return name if isinstance(name, str) and name in self.patterns else None

    def _of_registered(
        self, name: str, value: object, *, seed: int | None, limits: Limits | None, more: Continuation | None = None
    ) -> Recipe:
        block, stored = self.patterns[name], {"registered": name, **self._recover}
        if more is not None:
            if block.with_continuation is None or name in self._queued:
                problem = "cannot be set: only a debate outside the queue of workers can be continued"
                raise ConfigurationError("options", "continuation", None, problem)
            block, stored = block.with_continuation(more), {**stored, "continuation": more.to_plan()}
        return Recipe(
            name=name,
            block=block,
            value=value,
            model=self._model,
            limits=self._bounded(limits),
            seed=seed,
            stored=stored,
            queued=name in self._queued,
        )

    def _of_plan(
        self, plan: Plan, limits: Limits | None, labels: Mapping[str, str] | None, *, recording: bool = True
    ) -> Recipe:
        """Build the recipe for a plan.

        If `labels` name an owner, the run uses the owner's archive, unless the plan excludes the archive.
        """
        needs_archive = getattr(plan.options, "archive", False)
        # recorded and replayed runs do without an archive, because a recording must stay valid when the archive grows
        if needs_archive is None:
            needs_archive = plan.options.record is None and plan.options.replay is None
        if needs_archive and labels is not None:
            plan = replace(plan, archive=archive_of(self._store, labels))
        # stored as the caller passed it, without the service's default model
        stored = {**stored_plan(plan), **self._recover}
        plan = with_policies(self._with_service_model(plan), recording=recording)
        bounds = self._bounded(plan.limits if limits is None else limits)
        return Recipe(
            name=plan.info.name,
            block=plan.pattern(),
            value=plan.subject,
            model=plan.models,
            limits=bounds,
            seed=plan.seed,
            stored=stored,
            plan=plan,
        )

    def _with_service_model(self, plan: Plan) -> Plan:
        """Return `plan`, with the service's model added if the plan names none."""
        if plan.models is not None or self._model in (None, EACH):
            return plan
        model = self._model
        return replace(plan, models=model if isinstance(model, Mapping) else {"chat": model, "synthesize": model})

    def _bounded(self, limits: Limits | None) -> Limits | None:
        if limits is None or self._limits is None:
            return limits or self._limits
        return limits.within(self._limits)


def _find_continuation(run: StoredRun) -> Continuation | None:
    """Return the continuation stored with a registered pattern's run, or None if there is none."""
    return Continuation.of_plan((run.header.plan or {}).get("continuation"))
