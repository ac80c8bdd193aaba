"""Providers of OpenAI-compatible endpoints, as data."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.models.openai.chat import StructuredMode

__all__ = (
    "PROVIDERS",
    "Provider",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How to reach a provider's models."""

    base_url: str | None
    """None is OpenAI itself, or what OPENAI_BASE_URL says."""
    key_env: str | None
    """The environment variable that holds the key; None for servers that want none."""
    structured: StructuredMode = "json_schema"
    tools_with_schema: bool = True


def _hosted(base_url: str, key_env: str, **options: object) -> Provider:
    return Provider(base_url=base_url, key_env=key_env, **options)  # type: ignore[arg-type]  # Provider's own options


def _own(port: int) -> Provider:
    """A server on this machine: no key, and its grammar takes tools or a schema, not both."""
    return Provider(base_url=f"http://127.0.0.1:{port}/v1", key_env=None, tools_with_schema=False)


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "anthropic": _hosted("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", structured="tools"),
        "cerebras": _hosted("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
        "deepseek": _hosted("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", structured="json"),
        "fireworks": _hosted("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        "gemini": _hosted(
            "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", tools_with_schema=False
        ),
        "groq": _hosted("https://api.groq.com/openai/v1", "GROQ_API_KEY", structured="tools"),
        "llama-server": _own(8080),
        "lmstudio": _own(1234),
        "mistral": _hosted("https://api.mistral.ai/v1", "MISTRAL_API_KEY", tools_with_schema=False),
        "ollama": _own(11434),
        "openai": Provider(base_url=None, key_env="OPENAI_API_KEY"),
        "openrouter": _hosted("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        "together": _hosted("https://api.together.xyz/v1", "TOGETHER_API_KEY", tools_with_schema=False),
        "vllm": _own(8000),
        "xai": _hosted("https://api.x.ai/v1", "XAI_API_KEY"),
    }
)
