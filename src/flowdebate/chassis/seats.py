"""Seats: which model each name and each role of a pattern gets from its `model`.

A mapping has one entry for all ("default"), for those who speak ("chat") or all others ("synthesize"), for a role, and
for a name; the most specific one counts. "each" as the default deals the models that are set up.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowdebate._util.documentation import ONE_MODEL, cite
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.models.resolve import (
    EACH,
    ModelChoice,
    ModelSpec,
    check_model,
    found_models,
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
    """A pattern's `model`, taken apart."""

    members: Mapping[str, ModelSpec] = field(default_factory=dict)
    """By name, for those on the roster who get another one than the rest."""
    roles: Mapping[str, ModelSpec] = field(default_factory=dict)
    """By role, likewise."""
    rest: ModelChoice = None
    """Of all others."""

    @property
    def choice(self) -> Any:  # noqa: ANN401 - a ModelChoice of what was given
        """The same as one `model`, with nothing left to deal."""
        rest = self.rest if isinstance(self.rest, Mapping) else {DEFAULT: self.rest}
        if [*rest] == ["chat", "synthesize"] and rest["chat"] == rest["synthesize"]:
            rest = {DEFAULT: rest["chat"]}
        found = {**rest, **self.roles, **self.members}
        return found[DEFAULT] if [*found] == [DEFAULT] else found


def seat_models(
    choice: ModelChoice,
    members: Mapping[str, ModelSpec | None],
    roles: Sequence[str],
    *,
    speaker: str,
    where: str,
    field: str = "model",
    check: Callable[..., object] = check_model,
    find: Callable[[], Sequence[str]] = found_models,
) -> Seats:
    """Take `choice` apart for a roster, by name with the models that its entries name, and for `roles` beside it.

    `speaker` is the role of those on the roster; `check` raises for what is no model, and `find` returns those that
    "each" deals. ConfigurationError for a key that is no seat, or two of them; ModelUnavailable where "each" finds no
    model.
    """
    if choice == EACH:
        choice = {DEFAULT: EACH}
    if not isinstance(choice, Mapping):
        check(choice, where=where, field=field)
        return Seats(rest=choice)
    keys = [*_GROUPS, speaker, *roles]
    for key, model in choice.items():
        place = f"{field}[{key!r}]"
        if key in members and key in keys:
            allowed = f"given for what is either a name or a role: call the {speaker} otherwise"
            raise ConfigurationError(where, field, key, allowed)
        if key not in members and key not in keys:
            from difflib import get_close_matches

            seats = [*members, *roles, speaker, DEFAULT]
            close = get_close_matches(str(key), seats, n=1, cutoff=0.8)
            hint = f"Did you mean {close[0]!r}?" if close else ""
            raise ConfigurationError(where, field, key, f"given for one of {', '.join(seats)}", hint=hint)
        if not (key == DEFAULT and model == EACH):
            check(model, where=where, field=place)
    named: dict[str, Model | str] = {name: choice[name] for name in members if name in choice}
    if speaker in choice:
        named = {name: choice[speaker] for name, own in members.items() if own is None} | named
    rest = {intent: choice.get(intent, choice.get(DEFAULT)) for intent in _GROUPS[1:]}
    if EACH in rest.values():
        seated = {name: named.get(name, own) for name, own in members.items()}
        dealt, *others = deal(seated, find())
        named |= dealt
        rest = {
            intent: other if spec == EACH else spec for (intent, spec), other in zip(rest.items(), others, strict=True)
        }
    left = {intent: spec for intent, spec in rest.items() if spec is not None}
    return Seats(members=named, roles={role: choice[role] for role in roles if role in choice}, rest=left or None)


def deal(seated: Mapping[str, ModelSpec | None], found: Sequence[str]) -> tuple[dict[str, str], str, str]:
    """Deal the models that are `found` to the names without one, one vendor after the other.

    Returns their models, the model of the first vendor, and one for who judges: of a vendor that none of the names has
    if there is one, else of the next.
    """
    if not found:
        raise no_model()
    taken = {vendor_of(model) for model in seated.values() if model is not None}
    order = sorted(found, key=lambda model: vendor_of(model) in taken)
    free = [name for name, model in seated.items() if model is None]
    dealt = {name: order[at % len(order)] for at, name in enumerate(free)}
    taken |= {vendor_of(model) for model in dealt.values()}
    neutral = next((model for model in found if vendor_of(model) not in taken), order[len(free) % len(order)])
    return dealt, found[0], neutral


def with_first(choice: ModelChoice, listed: Sequence[ModelSpec]) -> ModelChoice:
    """Add the first of the `listed` models to `choice` as the default, unless a default model is set.

    >>> with_first({"chair": "local"}, ["openai/gpt-5", "gemini/gemini-3-pro"])
    {'default': 'openai/gpt-5', 'chair': 'local'}
    """
    if not listed or model_of_environment() is not None:
        return choice
    if choice is None:
        return listed[0]
    return {DEFAULT: listed[0], **choice} if isinstance(choice, Mapping) else choice


def check_makers(
    models: Mapping[str, str], *, where: str, not_vendor: Sequence[str], min_vendors: int | None, seats: str
) -> None:
    """Check who made the models of `seats`, by name.

    Raises ConfigurationError for a model that an excluded vendor made, and for fewer vendors than `min_vendors`.

    >>> models = {"Ada": "openai/gpt-5-mini", "Ben": "openrouter/openai/gpt-5"}
    >>> check_makers(models, where="review", not_vendor=["anthropic"], min_vendors=2, seats="reviewers")
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: review: too few vendors: `min_vendors` is 2, and all reviewers have models...
    """
    excluded = {maker_of(vendor): vendor for vendor in not_vendor}
    for name, model in models.items():
        if (maker := maker_of(model)) in excluded:
            sentence = (
                f"{where}: {name} has {model}, a model by {maker}, which `not_vendor` excludes. Give {name} another."
            )
            raise ConfigurationError(where, "not_vendor", excluded[maker], sentence, message=sentence)
    makers = dict.fromkeys(map(maker_of, models.values()))
    if min_vendors is not None and len(makers) < min_vendors:
        made = f"all {seats} have models by {', '.join(makers) or 'nobody'}"
        advice = "Set the key of another provider, or name models of other vendors."
        sentence = f"{where}: too few vendors: `min_vendors` is {min_vendors}, and {made}. {advice}"
        raise ConfigurationError(where, "min_vendors", min_vendors, sentence, message=sentence)


def each_by_default(model: ModelChoice, *, where: str, without: Sequence[str] = ()) -> ModelChoice:
    """The model of a pattern that is of several vendors where nobody names a model, which a warning says.

    Models by the vendors of `without` are not asked.
    """
    if model is not None or model_of_environment() is not None or not (found := found_models(without=without)):
        return model
    told = f"no model is named, so {', '.join(found)} are asked; name models, or set FLOWDEBATE_MODEL, to choose others"
    if len(found) == 1:
        told = f"one vendor is set up, so all members are {found[0]}; see {cite(ONE_MODEL)}"
    # four frames up is the caller of the pattern's function: that one, its wrapper and this one are between
    warnings.warn(f"{where}: {told}", FlowDebateWarning, stacklevel=4)
    return EACH if len(found) > 1 else found[0] if without else None
