"""Language models: the `Model` protocol, OpenAI-compatible and local models, policies around them, recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import (
        FinishReason,
        Flag,
        Message,
        Model,
        ModelRequest,
        ModelResponse,
        ModelSettings,
        ToolCall,
        ToolSpec,
    )
    from flowdebate.models.guard import allow_real_models, forbid_real_models
    from flowdebate.models.local.model import LocalModel, stop_local_servers
    from flowdebate.models.openai.model import OpenAIModel
    from flowdebate.models.output import OutputSchema
    from flowdebate.models.policies.circuit_breaker import Breaker, Breakers, CircuitBreaker
    from flowdebate.models.policies.limits import ConcurrencyLimit, RateLimit, SharedRateLimit
    from flowdebate.models.policies.resilience import Fallback, Retrying, Timeout
    from flowdebate.models.recording import RecordingModel, ReplayModel
    from flowdebate.models.resolve import PROVIDERS, ModelChoice, ModelSpec, Provider, resolve_model
    from flowdebate.models.retry import Retry
    from flowdebate.models.usage import Attempt, Usage
    from flowdebate.models.wrapper import PerRequestWrapper, Wrapper

__all__ = (
    "PROVIDERS",
    "Attempt",
    "Breaker",
    "Breakers",
    "CircuitBreaker",
    "ConcurrencyLimit",
    "Fallback",
    "FinishReason",
    "Flag",
    "LocalModel",
    "Message",
    "Model",
    "ModelChoice",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "ModelSpec",
    "OpenAIModel",
    "OutputSchema",
    "PerRequestWrapper",
    "Provider",
    "RateLimit",
    "RecordingModel",
    "ReplayModel",
    "Retry",
    "Retrying",
    "SharedRateLimit",
    "Timeout",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "Wrapper",
    "allow_real_models",
    "forbid_real_models",
    "resolve_model",
    "stop_local_servers",
)

_LAZY = {
    "Attempt": "usage",
    "Breaker": "policies.circuit_breaker",
    "Breakers": "policies.circuit_breaker",
    "CircuitBreaker": "policies.circuit_breaker",
    "ConcurrencyLimit": "policies.limits",
    "Fallback": "policies.resilience",
    "FinishReason": "base",
    "Flag": "base",
    "LocalModel": "local.model",
    "Message": "base",
    "Model": "base",
    "ModelChoice": "resolve",
    "ModelRequest": "base",
    "ModelResponse": "base",
    "ModelSettings": "base",
    "ModelSpec": "resolve",
    "OpenAIModel": "openai.model",
    "OutputSchema": "output",
    "PROVIDERS": "resolve",
    "PerRequestWrapper": "wrapper",
    "Provider": "resolve",
    "RateLimit": "policies.limits",
    "RecordingModel": "recording",
    "ReplayModel": "recording",
    "Retry": "retry",
    "Retrying": "policies.resilience",
    "SharedRateLimit": "policies.limits",
    "Timeout": "policies.resilience",
    "ToolCall": "base",
    "ToolSpec": "base",
    "Usage": "usage",
    "Wrapper": "wrapper",
    "allow_real_models": "guard",
    "forbid_real_models": "guard",
    "resolve_model": "resolve",
    "stop_local_servers": "local.model",
}
"""Imported at first use: most programs use few of them."""
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
