"""Model families and their makers, recognized by the names of models, and by what models say of themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from flowdebate._text import fold

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


# How authors call them their own

_VARIANT = r"(?:mini|nano|turbo|sonnet|opus|haiku|flash|pro|\d[\d.]*b?)\b"
_VERSION = rf"(?:[\s-]?v?\d{{1,3}}(?:\.\d{{1,3}})?[a-z]{{0,2}})?(?:[\s-]{_VARIANT}){{0,3}}"
_KIND = r"(?:model|assistant|ai|system|llm|chatbot)"
_MADE = r"(?:made|built|trained|developed|created|designed)"
_MAKERS = frozenset(fold(written) for group in VENDORS.values() for written in group)
WELL_KNOWN = tuple(
    word for word in FAMILIES.keys() | _MAKERS if not any(part in word for part in (FAMILIES.keys() | _MAKERS) - {word})
)
"""Families and makers, without those that contain another: one of these is in every text that names any. To look for
them one by one takes a fifth of the time that the patterns take, and most arguments have none."""


@lru_cache(maxsize=1)
def _self_naming() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of authors who name their own model family ("I am Claude") or its maker ("made by Anthropic")."""
    maker = rf"(?:{'|'.join(map(re.escape, sorted(_MAKERS, key=len, reverse=True)))})\b"
    family = rf"(?:{'|'.join(sorted(FAMILIES, key=len, reverse=True))}){_VERSION}\b"
    i_am = r"\b(?:i am|i'm|my name is|call me|i,|speaking as|this is) "
    words = r"(?:(?!that\b|which\b|who\b)[\w'-]+ ){0,7}?"
    of_family = (
        rf"{i_am}({family})(?=[*_]*\s*(?:[,.;:!?)—]|\Z)|\s(?:and|from|by|here|an?)\b)",
        rf"\bas ({family})(?=,? (?:i|i'm|my|we)\b)",
    )
    of_maker = (
        rf"\b(?:i am|i'm|i was|i have been|as an?) {words}(?:[\w'-]+, )?{_MADE} (?:by|at) ({maker})",
        rf"\b(?:i am|i'm|as) an? {words}{_KIND} (?:by|from|of) ({maker})",
        rf"\b(?:as|i am|i'm) an? ({maker})(?= (?:[\w-]+ ){{0,2}}{_KIND}\b)",
        rf"\bmy (?:creator|developer|maker|training|trainer)s?(?: at| is| are| by)? ({maker})",
        rf"(?<![^\W_])({maker})(?= (?:has |have )?{_MADE} me\b)",
    )
    return re.compile("|".join(of_family)), re.compile("|".join(of_maker))


def find_selves(low: str) -> Iterator[tuple[tuple[int, int], Literal["family", "maker"], str]]:
    """The families and makers that authors call their own in folded text, each with its span."""
    of_family, of_maker = _self_naming()
    for match in of_family.finditer(low):
        named = match.lastindex or 0
        yield match.span(named), "family", family_among(match[named]) or ""
    for match in of_maker.finditer(low):
        named = match.lastindex or 0
        yield match.span(named), "maker", "".join(re.findall(r"[^\W_]+", match[named]))


def is_about_models(topic: Sequence[str]) -> bool:
    """Whether the debate is about models, so that their names are part of the question."""
    # where names of models were hidden all the same, 6 further turns of the corpus would be changed
    words = {word for text in topic for word in re.findall(r"[^\W_]+", text.replace("'", ""))}
    about = {"ai", "llm", "llms", "chatbot", "chatbots", *FAMILIES, *_MAKERS}
    phrases = ("language model", "artificial intelligence")
    return (
        not words.isdisjoint(about)
        or any(family_among(text) for text in topic)
        or any(phrase in text for text in topic for phrase in phrases)
    )
