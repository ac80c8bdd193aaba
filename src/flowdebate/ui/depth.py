"""Run depths: the options implied by each depth, and the escalation used for depth "auto"."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from flowdebate._text import join_choices
from flowdebate.blocks.functions import handler
from flowdebate.chassis.escalation import (
    EscalationState,
    StepResult,
    last_result,
    make_pipeline,
)
from flowdebate.chassis.output import PatternOutput, publish
from flowdebate.chassis.state import state_of
from flowdebate.chassis.turn import FAIL
from flowdebate.errors import ConfigurationError
from flowdebate.ui.options import Depth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.ui.options import PlanOptions
    from flowdebate.ui.page import PatternPage
    from flowdebate.ui.plan import Plan

STEPS: tuple[Depth, ...] = tuple(depth for depth in get_args(Depth) if depth != "auto")
"""Depths tried by "auto", in order."""


def with_depth(page: PatternPage, options: PlanOptions) -> PlanOptions:
    """Return `options` completed with the values implied by their depth.

    For depth "auto", these include the speakers for all steps. Raises ConfigurationError if the pattern cannot end
    early, or if another option conflicts with this depth.
    """
    if options.depth is None:
        return options
    if options.depth != "auto":
        return _filled(page, options, page.options_for(options.depth))
    location, field = options.place("depth")
    if not _reports_agreement(page):
        name = page.document.model_fields["pattern"].default
        problem = f"cannot be auto: nobody in a {name} decides whether the speakers agree; choose {join_choices(STEPS)}"
        raise ConfigurationError(location, field, None, problem)
    for conflict in page.fixed_depth:
        if getattr(options, conflict):
            problem = f"cannot be auto with `{options.place(conflict)[1]}`; choose {join_choices(STEPS)}"
            raise ConfigurationError(location, field, None, problem)
    roster = options.ROSTER
    roster_options = {key: value for key, value in page.options_for(STEPS[-1]).items() if key == roster}
    return _filled(page, options, roster_options)


def without_depth(page: PatternPage, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored `options` without the values implied by their depth, for use at another depth."""
    depth: Depth | None = options.get("depth")
    if depth is None:
        return dict(options)
    follows = page.options_for(STEPS[-1] if depth == "auto" else depth)
    return {key: value for key, value in options.items() if key not in follows or value != follows[key]}


def _filled(page: PatternPage, options: PlanOptions, values: Mapping[str, Any]) -> PlanOptions:
    missing = {name: value for name, value in values.items() if value is not None and getattr(options, name) is None}
    read = page.options.model_validate(missing)
    return options.replaced(**{name: getattr(read, name) for name in missing}) if missing else options


def _reports_agreement(page: PatternPage) -> bool:
    raw = page.document.model_fields["raw"].annotation
    return isinstance(raw, type) and issubclass(raw, PatternOutput) and "is_undisputed" in vars(raw)


def build_escalation(page: PatternPage, plan: Plan) -> Sequencer[Any, Any]:
    """Build an escalation with one step for each depth; the last executed step produces the output."""
    blocks = [page.build(_plan_at(page, plan, depth)) for depth in STEPS]

    def make(state: EscalationState, _: Context, status: RunStatus, last: StepResult) -> PatternOutput | None:
        if not isinstance(last.output, PatternOutput):
            return None
        losses = [*state.losses, *last.output.losses]
        return last.output.model_copy(update={"escalation": list(state.steps), "losses": losses, "status": status})

    pipeline = make_pipeline(
        plan.name,
        blocks,
        rules=dict.fromkeys(STEPS, "undisputed"),
        failures=plan.failures.over(FAIL),
        make_output=make,
    )

    @handler(name=f"{plan.name}-output")
    def build(_: object, ctx: Context) -> Any:  # noqa: ANN401 - that of the pattern
        state, last = state_of(ctx, EscalationState), last_result(ctx)
        raw = make(state, ctx, ctx.run.outcome, last)
        if raw is None:
            return last.result
        publish(raw, ctx)
        return raw if last.result is last.output else last.result

    return pipeline.then(build)


def _plan_at(page: PatternPage, plan: Plan, depth: Depth) -> Plan:
    """Create the plan for one step, naming the block after the depth of the step."""
    values = {**page.options_for(depth), **page.depths.get("auto", {})}
    options = _filled(page, plan.options, values).replaced(depth=depth)
    return replace(plan, name=depth, options=options, speakers=_speakers_at(page, plan, values))


def _speakers_at(page: PatternPage, plan: Plan, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Select one step's speakers from those for all steps; keep all of them if the user named the speakers."""
    if plan.options.ROSTER not in page.options_for(STEPS[-1]):
        return plan.speakers
    names = [entry["name"] for entry in values.get(plan.options.ROSTER, page.default_speakers)]
    by_name = {speaker.name: speaker for speaker in plan.speakers}
    return tuple(by_name[name] for name in names) if by_name.keys() >= {*names} else plan.speakers
