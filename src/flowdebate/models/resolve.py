"""Which model a name means.

    "openai/gpt-5-mini"    a provider of `PROVIDERS`, and a model of it as the provider writes it
    "local"                the embedded model
    "intent/chat"          whatever the run uses for debaters
    "intent/synthesize"    whatever the run uses for moderators, judges and synthesizers
    a Model object         itself

An intent means, in this order: what the run was given as `model`, the environment variable FLOWDEBATE_MODEL,
OpenAI where OPENAI_API_KEY or OPENAI_BASE_URL is set, the local model where it is installed. A block that names a model
gets that one, whatever the run was given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias, cast

from flowdebate.errors import ConfigurationError, ModelUnavailable
from flowdebate.models.base import Model
from flowdebate.models.local.gguf import WAYS_OUT, local_model_installed
from flowdebate.models.openai.model import OpenAIModel
from flowdebate.models.providers import PROVIDERS

__all__ = (
    "ModelChoice",
    "ModelResolver",
    "ModelSpec",
    "check_model",
    "model_of_environment",
    "resolve_model",
)

ModelSpec: TypeAlias = Model | str
"""A model, or the name of one."""

ModelChoice: TypeAlias = Model | str | Mapping[str, Model | str] | None
"""What a run may be given as `model`: for all intents, by intent (`{"chat": …, "synthesize": …}`), or nothing."""

_INTENTS = ("chat", "synthesize")
_PREFIX = "intent/"
_VARIABLE = "FLOWDEBATE_MODEL"
_OPENAI_DEFAULT = "openai/gpt-5-mini"


class ModelResolver:
    """Resolves the names of one run: the same name is the same object, so that its connections are shared."""

    __slots__ = ("_choice", "_known")

    def __init__(self, choice: ModelChoice = None) -> None:
        self._choice = choice
        self._known: dict[str, Model] = {}

    def resolve(self, spec: ModelSpec | None = None) -> Model:
        """The model that `spec` means; None is "intent/chat".

        Errors: ConfigurationError for what no model can be meant by, ModelUnavailable where nothing is set up.
        """
        if spec is None:
            spec = "intent/chat"
        elif not isinstance(spec, str):
            return _as_model(spec, "model")
        known = self._known.get(spec)
        if known is None:
            known = self._known[spec] = self._resolve(spec)
        return known

    def _resolve(self, spec: str) -> Model:
        if not spec.startswith(_PREFIX):
            return _named(spec, "model")
        intent = spec.removeprefix(_PREFIX)
        if intent not in _INTENTS:
            raise ConfigurationError("model", "model", spec, " or ".join(repr(_PREFIX + known) for known in _INTENTS))
        chosen = self._choice
        if isinstance(chosen, Mapping):
            _check_mapping(chosen)
            chosen = chosen.get(intent)
        if chosen is None:
            chosen = _default()
        if not isinstance(chosen, str):
            return _as_model(chosen, "model")
        if chosen.startswith(_PREFIX):
            raise ConfigurationError("run", "model", chosen, "a real model: an intent cannot mean an intent")
        return self.resolve(chosen)


def resolve_model(spec: ModelSpec | None, *, default: ModelChoice = None) -> Model:
    """The model that `spec` means where the run was given `default`.

    >>> resolve_model("ollama/gemma3").name
    'ollama/gemma3'
    """
    return ModelResolver(default).resolve(spec)


def check_model(choice: ModelChoice, *, where: str, field: str = "model") -> None:
    """ConfigurationError for what cannot mean a model; looks at nothing but `choice` itself."""
    if choice is None:
        return
    if isinstance(choice, Mapping):
        _check_mapping(choice, where, field)
        for intent, spec in choice.items():
            check_model(spec, where=where, field=f"{field}[{intent!r}]")
    elif not isinstance(choice, str):
        _as_model(choice, field, where)
    elif choice.startswith(_PREFIX):
        if choice.removeprefix(_PREFIX) not in _INTENTS:
            raise ConfigurationError(where, field, choice, " or ".join(repr(_PREFIX + known) for known in _INTENTS))
    else:
        _named(choice, field, where)


def model_of_environment() -> str | None:
    """What FLOWDEBATE_MODEL names; None where it is not set, or blank."""
    return os.environ.get(_VARIABLE, "").strip() or None


def _default() -> str:
    named = model_of_environment()
    if named:
        return named
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"):
        return _OPENAI_DEFAULT
    if local_model_installed():
        return "local"
    nothing = ModelUnavailable(f"no model is set up: {WAYS_OUT}; or set {_VARIABLE}, or pass model=…")
    nothing.providers_fault = False
    raise nothing


def _named(spec: str, field: str, where: str = "model") -> Model:
    if spec == "local":
        from flowdebate.models.local.model import LocalModel

        return LocalModel()
    provider_name, slash, name = spec.partition("/")
    provider = PROVIDERS.get(provider_name)
    if not slash or not name.strip() or provider is None:
        allowed = f'"local", "intent/chat", "intent/synthesize" or "provider/model" with one of {", ".join(PROVIDERS)}'
        raise ConfigurationError(where, field, spec, allowed)
    return OpenAIModel(
        name,
        base_url=provider.base_url,
        api_key_env=provider.key_env,
        structured=provider.structured,
        tools_with_schema=provider.tools_with_schema,
        label=spec,
    )


def _as_model(value: object, field: str, where: str = "model") -> Model:
    # what isinstance(value, Model) looks at, at a tenth of its price
    if not isinstance(value, type) and callable(getattr(value, "request", None)) and hasattr(value, "name"):
        return cast("Model", value)
    raise ConfigurationError(where, field, value, "a Model object or the name of a model")


def _check_mapping(choice: Mapping[str, Model | str], where: str = "run", field: str = "model") -> None:
    unknown = [intent for intent in choice if intent not in _INTENTS]
    if unknown:
        raise ConfigurationError(
            where, field, unknown[0], f"a mapping with the keys {' and '.join(map(repr, _INTENTS))}"
        )
