"""Seats: assignment of models to names and roles, based on a pattern's `model` option.

A mapping may have entries for all seats ("default"), for speakers ("chat"), for all other roles ("synthesize"), for a
single role, or for a name; the most specific entry applies. Setting "default" to "each" distributes the available
models.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowdebate._text import did_you_mean, join_choices
from flowdebate._util.documentation import ONE_MODEL, cite
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.models.resolve import (
    EACH,
    ModelChoice,
    ModelSpec,
    check_model,
    list_available_models,
    maker_of,
    model_of_environment,
    no_model,
    vendor_of,
)

if TYPE_CHECKING:
    from flowdebate.models.base import Model


DEFAULT = "default"
_GROUPS = (DEFAULT, "chat", "synthesize")


@dataclass(frozen=True, kw_only=True)
class Seats:
    """A pattern's `model` option, split into assignments to names and roles."""

    members: Mapping[str, ModelSpec] = field(default_factory=dict)
    """Models of the members that have a model of their own, keyed by member name."""
    roles: Mapping[str, ModelSpec] = field(default_factory=dict)
    """Models keyed by role."""
    rest: ModelChoice = None
    """Model for all names and roles that have no model of their own."""

    @property
    def choice(self) -> Any:  # noqa: ANN401 - a ModelChoice of what was given
        """All assignments merged into a single `model` option, which no longer contains "each"."""
        rest = self.rest if isinstance(self.rest, Mapping) else {DEFAULT: self.rest}
        if [*rest] == ["chat", "synthesize"] and rest["chat"] == rest["synthesize"]:
            rest = {DEFAULT: rest["chat"]}
        models = {**rest, **self.roles, **self.members}
        return models[DEFAULT] if [*models] == [DEFAULT] else models


def seat_models(
    choice: ModelChoice,
    members: Mapping[str, ModelSpec | None],
    roles: Sequence[str],
    *,
    speaker: str,
    location: str,
    field: str = "model",
    check: Callable[..., object] = check_model,
    find: Callable[[], Sequence[str]] = list_available_models,
) -> Seats:
    """Split `choice` into models for a roster's members, keyed by name, and models for the other `roles`.

    `speaker` is the members' role; `check` raises an error if a value is not a model, and `find` returns the models
    distributed by "each". Raises ConfigurationError for an unknown or ambiguous key, and ModelUnavailable if "each"
    finds no model.
    """
    if choice == EACH:
        choice = {DEFAULT: EACH}
    if not isinstance(choice, Mapping):
        check(choice, location=location, field=field)
        return Seats(rest=choice)
    keys = [*_GROUPS, speaker, *roles]
    for key, model in choice.items():
        place = f"{field}.{key}"
        if key in members and key in keys:
            problem = f"is ambiguous, because it is both a name and a role: rename the {speaker}"
            raise ConfigurationError(location, field, key, problem)
        if key not in members and key not in keys:
            seats = [*members, *roles, speaker, DEFAULT]
            hint = did_you_mean(str(key), seats, cutoff=0.8) or f"Choose {join_choices(seats)}"
            raise ConfigurationError(location, field, key, "matches no name or role in the run", hint=hint)
        if not (key == DEFAULT and model == EACH):
            check(model, location=location, field=place)
    models: dict[str, Model | str] = {name: choice[name] for name in members if name in choice}
    if speaker in choice:
        models = {name: choice[speaker] for name, member_model in members.items() if member_model is None} | models
    rest = {intent: choice.get(intent, choice.get(DEFAULT)) for intent in _GROUPS[1:]}
    if EACH in rest.values():
        seated = {name: models.get(name, member_model) for name, member_model in members.items()}
        dealt, *other_models = deal(seated, find())
        models |= dealt
        rest = {
            intent: other if spec == EACH else spec
            for (intent, spec), other in zip(rest.items(), other_models, strict=True)
        }
    open_intents = {intent: spec for intent, spec in rest.items() if spec is not None}
    return Seats(
        members=models, roles={role: choice[role] for role in roles if role in choice}, rest=open_intents or None
    )


def deal(seated: Mapping[str, ModelSpec | None], candidates: Sequence[str]) -> tuple[dict[str, str], str, str]:
    """Distribute `candidates` among the names without a model, alternating between vendors.

    Returns the models keyed by name, the first candidate, and a model for the judge: if possible, from a vendor not
    assigned to any name, and otherwise from the next vendor.
    """
    if not candidates:
        raise no_model()
    vendors = {vendor_of(model) for model in seated.values() if model is not None}
    order = sorted(candidates, key=lambda model: vendor_of(model) in vendors)
    free = [name for name, model in seated.items() if model is None]
    dealt = {name: order[at % len(order)] for at, name in enumerate(free)}
    vendors |= {vendor_of(model) for model in dealt.values()}
    neutral = next((model for model in candidates if vendor_of(model) not in vendors), order[len(free) % len(order)])
    return dealt, candidates[0], neutral


def with_first(choice: ModelChoice, listed: Sequence[ModelSpec]) -> ModelChoice:
    """Add the first of the `listed` models to `choice` as the default, unless `choice` or FLOWDEBATE_MODEL sets one.

    >>> with_first({"chair": "local"}, ["openai/gpt-5", "gemini/gemini-3-pro"])
    {'default': 'openai/gpt-5', 'chair': 'local'}
    """
    if not listed or model_of_environment() is not None:
        return choice
    if choice is None:
        return listed[0]
    return {DEFAULT: listed[0], **choice} if isinstance(choice, Mapping) else choice


def check_makers(
    models: Mapping[str, str], *, location: str, not_vendor: Sequence[str], min_vendors: int | None, seats: str
) -> None:
    """Check that all `models` come from permitted vendors; `models` maps names to models.

    `seats` says who uses the models, such as "reviewers"; it is used in error messages. Raises ConfigurationError if a
    model's vendor is excluded or if there are fewer than `min_vendors` vendors.

    >>> models = {"Ada": "openai/gpt-5-mini", "Ben": "openrouter/openai/gpt-5"}
    >>> check_makers(models, location="review", not_vendor=["anthropic"], min_vendors=2, seats="reviewers")
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: review: too few vendors: `min_vendors` is 2, but all reviewers use models...
    """
    excluded = {maker_of(vendor): vendor for vendor in not_vendor}
    for name, model in models.items():
        if (maker := maker_of(model)) in excluded:
            finding = f"{name} uses {model}, a model from {maker}, which `not_vendor` excludes"
            sentence = f"{location}: {finding}. Choose another model for {name}."
            raise ConfigurationError(location, "not_vendor", excluded[maker], message=sentence)
    makers = dict.fromkeys(map(maker_of, models.values()))
    if min_vendors is not None and len(makers) < min_vendors:
        finding = f"all {seats} use models from {', '.join(makers) or 'nobody'}"
        advice = "Set the API key of another provider, or choose models from other vendors."
        sentence = f"{location}: too few vendors: `min_vendors` is {min_vendors}, but {finding}. {advice}"
        raise ConfigurationError(location, "min_vendors", min_vendors, message=sentence)


def default_vendor_models(model: ModelChoice, *, location: str, without: Sequence[str] = ()) -> ModelChoice:
    """Choose models for a multi-vendor pattern if no models are specified, and warn about the choice.

    Models from vendors in `without` are not used.
    """
    if (
        model is not None
        or model_of_environment() is not None
        or not (models := list_available_models(without=without))
    ):
        return model
    message = f"no model is set, so {', '.join(models)} are used; pass models or set FLOWDEBATE_MODEL to choose others"
    if len(models) == 1:
        message = f"only one vendor is configured, so all members use {models[0]}; see {cite(ONE_MODEL)}"
    # the caller of the pattern's function is four frames up, above this function, the factory and its wrapper
    warnings.warn(f"{location}: {message}", FlowDebateWarning, stacklevel=4)
    return EACH if len(models) > 1 else models[0] if without else None


def deal_roles(roles: Sequence[str], models: Sequence[str]) -> dict[str, str]:
    """Distribute `models`, one per vendor, among `roles`; all remaining roles get the last model.

    >>> deal_roles(["author", "critic", "judge"], ["openai/gpt-5-mini", "gemini/gemini-3-flash"])
    {'author': 'openai/gpt-5-mini', 'critic': 'gemini/gemini-3-flash', 'judge': 'gemini/gemini-3-flash'}
    """
    return {role: models[min(index, len(models) - 1)] for index, role in enumerate(roles)}


def independent_by_default(model: ModelChoice, roles: Sequence[str], *, location: str) -> ModelChoice:
    """Choose models from different vendors for the `roles` if no models are specified, and warn about the choice."""
    if model is not None or model_of_environment() is not None or not (available := list_available_models()):
        return model
    models = deal_roles(roles, available)
    listed = ", ".join(f"{role} {name}" for role, name in models.items())
    message = f"no model is set, so the models are: {listed}; pass models or set FLOWDEBATE_MODEL to choose others"
    if len(available) == 1:
        message = f"only one vendor is configured, so {', '.join(roles)} all use {available[0]}; see {cite(ONE_MODEL)}"
    # the caller of the pattern's function is four frames up, above this function, the factory and its wrapper
    warnings.warn(f"{location}: {message}", FlowDebateWarning, stacklevel=4)
    return models if len(available) > 1 else None
