"""Model families: the maker that a model belongs to, by its name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = (
    "FAMILIES",
    "VENDORS",
    "family_among",
    "family_of",
    "kin_among",
)

FAMILIES: dict[str, str] = {
    "gpt": "openai", "chatgpt": "openai", "claude": "anthropic", "gemini": "google", "gemma": "google",
    "bard": "google", "llama": "meta", "mistral": "mistral", "mixtral": "mistral", "ministral": "mistral",
    "magistral": "mistral", "qwen": "alibaba", "deepseek": "deepseek", "grok": "xai", "copilot": "microsoft",
    "kimi": "moonshot", "glm": "zhipu", "smollm": "huggingface",
}  # fmt: skip
"""Well-known families of models, each with its maker."""
VENDORS: dict[str, tuple[str, ...]] = {
    "openai": ("OpenAI", "Open AI"),
    "anthropic": ("Anthropic",),
    "google": ("Google DeepMind", "DeepMind", "Google"),
    "meta": ("Meta AI", "Meta"),
    "mistral": ("Mistral AI",),
    "alibaba": ("Alibaba Cloud", "Alibaba"),
    "deepseek": (),
    "xai": ("xAI",),
    "microsoft": ("Microsoft",),
    "moonshot": ("Moonshot AI",),
    "zhipu": ("Zhipu",),
    "huggingface": ("Hugging Face",),
    "amazon": ("Amazon",),
    "nvidia": ("NVIDIA",),
}
"""The makers as texts write them."""

_TOKEN = re.compile(r"\d+|[^\W\d_]+")


def family_among(text: str) -> str | None:
    """The first well-known family that `text`, in small letters, names; None for none.

    >>> family_among("gpt-5-mini"), family_among("smollm2"), family_among("my-own")
    ('gpt', 'smollm', None)
    """
    words: list[str] = _TOKEN.findall(text)
    for word in words:
        for family in (word, word.rstrip("lm")):
            if family in FAMILIES:
                return family
    return None


def family_of(model: str) -> str:
    """The maker of the model of that name, or the model's own name where the maker is not known.

    >>> family_of("openai/gpt-5-mini"), family_of("ollama/my-own:7b")
    ('openai', 'my-own:7b')
    """
    part = model.rsplit("/", 1)[-1]
    known = family_among(part.lower())
    return part if known is None else FAMILIES[known]


def kin_among(judges: Iterable[str], debaters: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Each of `judges` that is of the family of one of `debaters`, with the first such one.

    >>> kin_among(["openai/gpt-5-mini", "local"], ["anthropic/claude-5", "openai/gpt-6"])
    (('openai/gpt-5-mini', 'openai/gpt-6'),)
    """
    families: dict[str, str] = {}
    for model in debaters:
        families.setdefault(family_of(model), model)
    return tuple((judge, families[family_of(judge)]) for judge in dict.fromkeys(judges) if family_of(judge) in families)
