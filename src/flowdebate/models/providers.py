"""Model providers: their addresses, the names of their key variables, and their servers' capabilities."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Literal

StructuredMode = Literal["json_schema", "tools", "json", "md_json"]
"""Mode for requesting a structured answer: a response format, a tool call, JSON, or JSON in a code block."""

STRUCTURED_MODES: tuple[StructuredMode, ...] = ("json_schema", "tools", "json", "md_json")
"""Structured modes, from the most to the least constraining."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's connection options."""

    base_url: str | None
    """Endpoint URL; None to use OPENAI_BASE_URL or, if that is unset, OpenAI itself."""
    key_env: str | None
    """Environment variable for the API key; None for servers that need no key."""
    default: str | None
    """Default model, chosen to be current and inexpensive; None to use the server's first model."""
    _: KW_ONLY
    structured: StructuredMode = "json_schema"
    tools_with_schema: bool = True
    logprobs: bool = True
    effort: str | None = "reasoning_effort"

    def address(self, name: str) -> str | None:
        """Return the endpoint of the provider called `name`; None stands for OpenAI's own endpoint.

        The provider's environment variable, if set, overrides `base_url`.
        """
        return os.environ.get(address_variable(name), "").strip() or self.base_url


def _local_server(port: int, *, effort: str = "reasoning_effort") -> Provider:
    """Describe a local server: it needs no API key and cannot combine tools with a schema."""
    return Provider(f"http://127.0.0.1:{port}/v1", None, None, tools_with_schema=False, effort=effort)


# Providers, in the order in which their keys are looked up.
PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "openai": Provider(None, "OPENAI_API_KEY", "gpt-5.6-luna"),
        "anthropic": Provider(
            "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "claude-haiku-5-5", structured="tools", logprobs=False
        ),
        "cerebras": Provider("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", "gpt-oss-120b"),
        "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek-flash", structured="json"),
        "fireworks": Provider(
            "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", "accounts/fireworks/models/glm-5p3-flash"
        ),
        "gemini": Provider(
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_KEY",
            "gemini-flash-latest",
            tools_with_schema=False,
        ),
        "groq": Provider(
            "https://api.groq.com/openai/v1",
            "GROQ_API_KEY",
            "openai/gpt-oss-120b",
            structured="tools",
            logprobs=False,
        ),
        "mistral": Provider(
            "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-large-latest", tools_with_schema=False
        ),
        "openrouter": Provider(
            "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openai/gpt-oss-120b", effort="reasoning.effort"
        ),
        "together": Provider(
            "https://api.together.xyz/v1", "TOGETHER_API_KEY", "openai/gpt-oss-120b", tools_with_schema=False
        ),
        "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY", "grok-4.3"),
        "ollama": _local_server(11434),
        "lmstudio": _local_server(1234),
        "vllm": _local_server(8000),
        "llama-server": _local_server(8080, effort="chat_template_kwargs.reasoning_effort"),
    }
)


def address_variable(name: str) -> str:
    """Return the environment variable for a provider's address.

    >>> address_variable("llama-server")
    'LLAMA_SERVER_BASE_URL'
    """
    return f"{name.upper().replace('-', '_')}_BASE_URL"
