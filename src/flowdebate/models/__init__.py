"""How a language model is reached: the `Model` protocol, openai and instructor, the local model, wrappers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.models.base import Message, Model, ModelRequest, ModelResponse, ModelSettings, ToolCall, ToolSpec
from flowdebate.models.guard import allow_real_models, forbid_real_models
from flowdebate.models.openai import OpenAIModel
from flowdebate.models.output import OutputSchema
from flowdebate.models.resolve import resolve_model
from flowdebate.models.usage import Usage

if TYPE_CHECKING:
    from flowdebate.models.local import LocalModel, stop_local_servers

__all__ = (
    "LocalModel",
    "Message",
    "Model",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "OpenAIModel",
    "OutputSchema",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "allow_real_models",
    "forbid_real_models",
    "resolve_model",
    "stop_local_servers",
)


def __getattr__(name: str) -> object:
    # The local model is imported when it is used: most programs never do.
    if name in {"LocalModel", "stop_local_servers"}:
        from flowdebate.models import local

        return getattr(local, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
