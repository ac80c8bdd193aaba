"""Model families and their makers, recognized by the names of models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


FAMILIES: dict[str, str] = {
    "gpt": "openai", "chatgpt": "openai", "claude": "anthropic", "gemini": "google", "gemma": "google",
    "bard": "google", "llama": "meta", "mistral": "mistral", "mixtral": "mistral", "ministral": "mistral",
    "magistral": "mistral", "qwen": "alibaba", "deepseek": "deepseek", "grok": "xai", "copilot": "microsoft",
    "kimi": "moonshot", "glm": "zhipu", "smollm": "huggingface",
}  # fmt: skip
"""Well-known model families, each with its maker."""
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
"""The spellings of each maker."""

_TOKEN = re.compile(r"\d+|[^\W\d_]+")


def family_among(text: str) -> str | None:
    """The first well-known family in lower-case `text`; None without one.

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
    """The maker of a model, or the model's own name if the maker is unknown.

    >>> family_of("openai/gpt-5-mini"), family_of("ollama/my-own:7b")
    ('openai', 'my-own:7b')
    """
    part = model.rsplit("/", 1)[-1]
    known = family_among(part.lower())
    return part if known is None else FAMILIES[known]


def kin_among(judges: Iterable[str], debaters: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of a judge's model and the first debater's model of the same maker.

    >>> kin_among(["openai/gpt-5-mini", "local"], ["anthropic/claude-5", "openai/gpt-6"])
    (('openai/gpt-5-mini', 'openai/gpt-6'),)
    """
    families: dict[str, str] = {}
    for model in debaters:
        families.setdefault(family_of(model), model)
    return tuple((judge, families[family_of(judge)]) for judge in dict.fromkeys(judges) if family_of(judge) in families)
