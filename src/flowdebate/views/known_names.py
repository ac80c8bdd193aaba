"""What can be found in a debate's arguments: its names and models in all their spellings, with rule and alias."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from flowdebate.measures.model_families import FAMILIES, VENDORS
from flowdebate.views.folding import fold
from flowdebate.views.spellings import family_named, key_of, model_spellings, name_spellings, pattern_of, plain_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.schemas.anonymity import LeakKind
    from flowdebate.views.name_words import Rule

__all__ = ("AliasOf", "Known", "Makers", "known_makers", "known_names")

AliasOf: TypeAlias = tuple[Literal["name", "model", "family", "maker"], str]
"""Whom an alias stands for: a debater, a model, any family of models, any maker; of the latter two without a name."""
_ABOUT_MODELS = frozenset({"ai", "llm", "llms", "chatbot", "chatbots", "gpt", "chatgpt"})
_BY_RARITY = "etaoinsrhldcumfpgwybvkxjqz"
_SHORTEST_HINT = 4
_VERSION = (
    r"(?:[\s-]?v?\d{1,3}(?:\.\d{1,3})?[a-z]{0,2})?"
    r"(?:[\s-](?:mini|nano|turbo|sonnet|opus|haiku|flash|pro|ultra|large|small|medium|chat|instruct|\d{1,3}(?:\.\d{1,3})?b?)){0,3}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What one spelling stands for."""

    kind: LeakKind
    meant: str
    whose: AliasOf
    """Which alias stands for it."""
    rule: Rule | None
    """None for a phrase of ordinary words."""
    pattern: str


@dataclass(frozen=True, slots=True)
class Makers:
    """The well-known families of models and their makers, whoever debates."""

    hint: re.Pattern[str]
    """A part of each, from its rarest letter on: quick to search for, and in few texts."""
    pattern: re.Pattern[str]
    """A maker is its first group."""


def known_names(
    names: Sequence[str], models: Sequence[str], *, question: str, stances: Sequence[str]
) -> dict[str, Known]:
    """What is known of the roster, by `key_of` its spellings.

    A name that is a stance is none that could be hidden: each tag shows it.
    """
    topic = [fold(text).lower() for text in (question, *stances)]
    shown = {key_of(stance) for stance in stances}
    found: dict[str, Known] = {}
    counted = Counter(word for name in names for word in set(plain_words(name)))
    shared = {word for text in topic for word in plain_words(text)} | {word for word in counted if counted[word] > 1}
    for name in names:
        for spelling, rule in name_spellings(name, shared):
            _add(found, "name", ("name", name), spelling, _in_topic(spelling, rule, topic), shown)
    about_models = _is_about_models(topic)
    for model in models:
        for written, told in model_spellings(model):
            _add(found, "model", ("model", model), written, "self" if about_models else told, shown)
        family = family_named(model.rsplit("/", 1)[-1])
        if family is not None:
            _add(found, "family", ("model", model), family, "self" if about_models else "careful", shown)
    return found


def _add(
    found: dict[str, Known], kind: LeakKind, whose: AliasOf, spelling: str, rule: Rule | None, shown: set[str]
) -> None:
    key, pattern = key_of(spelling), pattern_of(spelling)
    if pattern and key not in shown:
        found.setdefault(key, Known(kind=kind, meant=whose[1], whose=whose, rule=rule, pattern=pattern))


def _in_topic(spelling: str, rule: Rule | None, topic: Sequence[str]) -> Rule | None:
    """`rule`, but for a name that occurs in what is debated."""
    pattern = pattern_of(spelling)
    if rule in {"anywhere", "word"} and pattern and any(re.search(pattern, text) for text in topic):
        return "careful"
    return rule


def _is_about_models(topic: Sequence[str]) -> bool:
    if any(re.search(r"language models?\b|artificial intelligence", text) for text in topic):
        return True
    words = {word for text in topic for word in plain_words(text)}
    if words & _ABOUT_MODELS:
        return True
    return any(known_makers().pattern.search(text) for text in topic)


@lru_cache(maxsize=1)
def known_makers() -> Makers:
    """The families and their makers, compiled once in a process."""
    vendors = sorted({pattern_of(written): written for group in VENDORS.values() for written in group}, key=len)[::-1]
    families = sorted((pattern_of(family) for family in FAMILIES), key=len)[::-1]
    versioned = [family.removesuffix(_tail(family)) + _VERSION + _tail(family) for family in families]
    hints = {_hint(word.lower()) for word in (*FAMILIES, *(written for group in VENDORS.values() for written in group))}
    return Makers(re.compile("|".join(sorted(hints))), re.compile(f"({'|'.join(vendors)})|{'|'.join(versioned)}"))


def _hint(word: str) -> str:
    """What `word` ends with, from its rarest letter on; of several words the first, where it is long enough."""
    first, _, second = word.partition(" ")
    if second and len(first) <= _SHORTEST_HINT:
        return rf"{first}[\s_\-*~`>|/:']{{1,12}}{second}"
    return first[max(range(max(1, len(first) - _SHORTEST_HINT + 1)), key=lambda place: _BY_RARITY.find(first[place])) :]


def _tail(pattern: str) -> str:
    return pattern[pattern.rindex("(?!") :]
