"""Policies around the models of a plan: retries, fallbacks, recording and replay."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import Model
    from flowdebate.service.plans.plan import Plan, Policies


PlanT = TypeVar("PlanT", bound="Plan")
_INTENTS = ("chat", "synthesize")


def with_policies(plan: PlanT, *, recording: bool = True) -> PlanT:
    """`plan` with its policies around every model, and with none left to apply.

    `recording=False` leaves out the recording: that of an interrupted run cannot be continued.
    """
    policies = plan.policies
    if policies.are_none:
        return plan
    plan = replace(plan, policies=type(policies)())
    if policies.replay is not None:
        from flowdebate.models.recording import ReplayModel

        replayed = ReplayModel(policies.replay)
        return with_models(plan, lambda _: replayed)
    made = _Made(policies)
    if policies.record is None or not recording:
        return with_models(plan, made)
    return with_models(plan, _recorded(made, made(_meant(plan, "chat")), policies.record))


def with_models(plan: PlanT, made: Callable[[Model | str], Model]) -> PlanT:
    """`plan` with `made` applied to each of its models."""
    models = {intent: made(_meant(plan, intent)) for intent in _INTENTS}
    speakers = tuple(
        speaker if speaker.model is None else replace(speaker, model=made(speaker.model)) for speaker in plan.speakers
    )
    return replace(plan, models=models, speakers=speakers)


def _meant(plan: Plan, intent: str) -> Model | str:
    """The model given for `intent`, else the environment's."""
    return (plan.models or {}).get(intent, f"intent/{intent}")


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
        from flowdebate.models.policies.resilience import Fallback

        return Fallback(*models)

    def _repeating(self, spec: Model | str) -> Model:
        from flowdebate.models.policies.resilience import Retrying
        from flowdebate.models.resolve import resolve_model
        from flowdebate.models.retry import Retry

        model = resolve_model(spec)
        attempts = self._policies.attempts
        return model if attempts is None else Retrying(model, Retry(attempts=attempts))


_ASKED: ContextVar[Model] = ContextVar("asked")
"""Model of the call that is being recorded."""


def _recorded(made: _Made, first: Model, path: str) -> Callable[[Model | str], Model]:
    """A maker of models that record all answers in one file, under the name of the `first` one."""
    from flowdebate.models.call import answer
    from flowdebate.models.recording import RecordingModel
    from flowdebate.models.wrapper import Wrapper

    if TYPE_CHECKING:
        from flowdebate.models.base import ModelRequest, ModelResponse

    class Asked(Wrapper):
        """The model that a call is for, whichever it is."""

        async def request(self, request: ModelRequest, /) -> ModelResponse:
            return await answer(_ASKED.get(), request)

    class Through(Wrapper):
        """A model whose answers go through the recording."""

        async def request(self, request: ModelRequest, /) -> ModelResponse:
            before = _ASKED.set(self.inner)
            try:
                return await answer(recording, request)
            finally:
                _ASKED.reset(before)

    recording = RecordingModel(Asked(first), path)
    through: dict[Model, Model] = {}

    def recorded(spec: Model | str) -> Model:
        model = made(spec)
        return through.setdefault(model, Through(model))

    return recorded
