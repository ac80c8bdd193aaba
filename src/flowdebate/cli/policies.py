"""What the command puts around the models of a debate: second attempts, fallbacks, a recording."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowdebate.cli.plan import Plan, Policies
    from flowdebate.models.base import Model

__all__ = ("with_policies",)

_INTENTS = ("chat", "synthesize")


def with_policies(plan: Plan) -> Plan:
    """`plan` with its policies around every model of it; as it is where there are none."""
    if plan.policies.are_none:
        return plan
    around = _Around(plan.policies)
    given = plan.models or {}
    return replace(
        plan,
        models={intent: around(given.get(intent, f"intent/{intent}")) for intent in _INTENTS},
        debaters=tuple(
            debater if debater.model is None else replace(debater, model=around(debater.model))
            for debater in plan.debaters
        ),
    )


class _Around:
    """Puts the policies around a model; the same one for the same model."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._made: dict[Model | str, Model] = {}
        self._replayed = None if policies.replay is None else _replayed(policies.replay)

    def __call__(self, spec: Model | str) -> Model:
        if self._replayed is not None:
            return self._replayed
        if spec not in self._made:
            self._made[spec] = self._make(spec)
        return self._made[spec]

    def _make(self, spec: Model | str) -> Model:
        from flowdebate.models.policies.fallback import Fallback

        models = [self._repeating(each) for each in (spec, *self._policies.fallback)]
        model = Fallback(*models) if len(models) > 1 else models[0]
        return model if self._policies.record is None else _recorded(model, self._policies.record)

    def _repeating(self, spec: Model | str) -> Model:
        from flowdebate.models.policies.retrying import Retrying
        from flowdebate.models.resolve import resolve_model
        from flowdebate.models.retry import Retry

        model = resolve_model(spec)
        attempts = self._policies.attempts
        return model if attempts is None else Retrying(model, Retry(attempts=attempts))


def _recorded(model: Model, path: str) -> Model:
    from flowdebate.models.policies.recorded import Recorded

    return Recorded(model, path)


def _replayed(path: str) -> Model:
    from flowdebate.models.policies.replayed import Replayed

    return Replayed(path)
