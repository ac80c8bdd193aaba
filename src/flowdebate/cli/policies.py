"""What the command puts around the models of a debate: second attempts, fallbacks, a recording."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.cli.plan import Plan, Policies
    from flowdebate.models.base import Model

__all__ = ("with_policies",)

_SYNTHESIZING = ("moderator", "judge", "synthesizer")


def with_policies(plan: Plan, *, name: str) -> Plan:
    """`plan`, of the debate `name`, with its policies around every model; as it is where there are none."""
    policies = plan.policies
    if policies.are_none:
        return plan
    if policies.replay is not None:
        from flowdebate.models.policies.replayed import Replayed

        return _with_one(plan, Replayed(policies.replay))
    made = _Made(policies)
    given = plan.models or {}
    models = {intent: made(given.get(intent, f"intent/{intent}")) for intent in ("chat", "synthesize")}
    debaters = tuple(
        debater if debater.model is None else replace(debater, model=made(debater.model)) for debater in plan.debaters
    )
    if policies.record is None:
        return replace(plan, models=models, debaters=debaters)
    seats = {f"{name}-{seat}": models["synthesize"] for seat in _SYNTHESIZING}
    seats |= {
        f"{name}-debater-{debater.name}": made(debater.model) for debater in debaters if debater.model is not None
    }
    return _with_one(plan, _recorded(seats, models["chat"], policies.record))


def _with_one(plan: Plan, model: Model) -> Plan:
    """`plan` with `model` in every seat."""
    debaters = tuple(replace(debater, model=None) for debater in plan.debaters)
    return replace(plan, models={"chat": model, "synthesize": model}, debaters=debaters)


class _Made:
    """Makes the models; the same one for the same name."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._made: dict[Model | str, Model] = {}

    def __call__(self, spec: Model | str) -> Model:
        if spec not in self._made:
            model = self._with_fallback(spec)
            self._made[spec] = self._made[model] = model
        return self._made[spec]

    def _with_fallback(self, spec: Model | str) -> Model:
        models = [self._repeating(each) for each in (spec, *self._policies.fallback)]
        if len(models) == 1:
            return models[0]
        from flowdebate.models.policies.fallback import Fallback

        return Fallback(*models)

    def _repeating(self, spec: Model | str) -> Model:
        from flowdebate.models.policies.retrying import Retrying
        from flowdebate.models.resolve import resolve_model
        from flowdebate.models.retry import Retry

        model = resolve_model(spec)
        attempts = self._policies.attempts
        return model if attempts is None else Retrying(model, Retry(attempts=attempts))


def _recorded(seats: Mapping[str, Model], others: Model, path: str) -> Model:
    """One model that asks each seat's own, and keeps all answers in one file."""
    from flowdebate.models.boundary import answer
    from flowdebate.models.policies.recorded import Recorded
    from flowdebate.models.wrapper import Wrapper

    if TYPE_CHECKING:
        from flowdebate.models.base import ModelRequest, ModelResponse

    class BySeat(Wrapper):
        """Asks the model of the seat that asks."""

        async def request(self, request: ModelRequest, /) -> ModelResponse:
            return await answer(seats.get(request.block, others), request)

        def models(self) -> tuple[Model, ...]:
            return tuple(dict.fromkeys((others, *seats.values())))

    return Recorded(BySeat(others), path)
