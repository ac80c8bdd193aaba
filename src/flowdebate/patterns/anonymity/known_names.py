"""How names of debaters and models may be spelled, as patterns over folded text in lower case."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from flowdebate.patterns.anonymity.model_families import FAMILIES, VENDORS, family_among
from flowdebate.patterns.anonymity.text import TITLES, fold, is_given, rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from flowdebate.patterns.anonymity.schemas import LeakKind
    from flowdebate.patterns.anonymity.text import Rule

__all__ = (
    "AliasOf",
    "Known",
    "Makers",
    "family_named",
    "key_of",
    "known_makers",
    "known_names",
    "model_spellings",
    "name_spellings",
    "pattern_of",
    "plain_words",
)

_APART = re.compile(r"[\s_\-—.*'~`>|/:@]+")
_BETWEEN = r"[\s_\-*~`>|]{0,12}"
_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_SYLLABLE = re.compile("[\uac00-\ud7a3]")
_NO_LETTER_NEXT = "(?![^\\W_]|[\u0900-\u0903\u093a-\u094f])"
_VARIANTS = frozenset({"sonnet", "opus", "haiku", "flash", "pro", "ultra", "nano", "turbo"})
_SHORTEST_MODEL = 4
_NO_MODEL = frozenset({"local", "intent"})


def plain_words(text: str) -> list[str]:
    """The words of `text`, folded and in lower case; what an apostrophe joins is one."""
    return re.findall(r"[^\W_]+", fold(text).lower().replace("'", ""))


def key_of(written: str) -> str:
    """What is the same for all spellings of one name.

    >>> key_of("Growth_Analyst") == key_of("growth analyst")
    True
    """
    return _APART.sub("", fold(written).lower())


def pattern_of(name: str) -> str:
    """A pattern for `name` in folded text in lower case, at word boundaries; empty where it has no letter."""
    low = fold(name).lower()
    parts = [part for part in _APART.split(low) if part]
    if not any(char.isalnum() for char in low):
        return ""
    pieces, dotted = [], "." in low
    for index, part in enumerate(parts):
        if index:
            digits = parts[index - 1][-1].isdigit() and part[0].isdigit()
            pieces.append(
                r"[\s_\-.]{1,12}"
                if digits
                else rf"(?:\.\s?|'|[/:]|{_BETWEEN})"
                if dotted
                else rf"(?:'|[/:]|{_BETWEEN})"
            )
        pieces.append(_part(part))
    return _bounded("".join(pieces), low_first=parts[0][0], low_last=parts[-1][-1])


def _part(part: str) -> str:
    """One part of a name: letters and digits may stand apart, and an apostrophe before its last s."""
    tokens = [re.escape(token) for token in re.findall(r"\d+|\D+", part)]
    if tokens[-1].endswith("s") and len(tokens[-1]) > 3:  # noqa: PLR2004
        tokens[-1] = f"{tokens[-1][:-1]}'?s"
    return _BETWEEN.join(tokens)


def _bounded(pattern: str, *, low_first: str, low_last: str) -> str:
    """`pattern` where no letter goes on; the check comes after the first character, which a search can skip to."""
    if low_first.isalnum() and not _UNSPACED.match(low_first):
        first = re.escape(low_first)
        pattern = f"{first}(?<![^\\W_]{first}){pattern[len(first) :]}"
    open_ended = _UNSPACED.match(low_last) or _SYLLABLE.match(low_last) or not low_last.isalnum()
    return pattern if open_ended else pattern + _NO_LETTER_NEXT


def name_spellings(name: str, shared: AbstractSet[str]) -> Iterator[tuple[str, Rule | None]]:
    """The spellings of a debater's `name`, each with its rule; None is for a phrase of ordinary words.

    `shared` are the words, in lower case, of several names or of the question: one of them alone names nobody.
    """
    written = re.findall(r"[^\W_]+", fold(name).replace("'", ""))
    words = [(word.lower(), word[:1].isupper()) for word in written if word.lower() not in TITLES] or [
        (word.lower(), word[:1].isupper()) for word in written
    ]
    if len(written) == 1:
        yield name, rule_of(words[0][0], capital=words[0][1])
        return
    titled = len(words) < len(written)
    rules = [
        _titled(rule_of(word, capital=capital)) if titled else rule_of(word, capital=capital) for word, capital in words
    ]
    proper = (
        titled
        or rules[-1:] == ["anywhere"]
        or any(is_given(word) or any(map(str.isdigit, word)) or not word.isascii() for word, _ in words)
    )
    yield name, "anywhere" if proper else None
    if proper:
        for (word, capital), rule in (*zip(words[:1], rules, strict=False), (words[-1], rules[-1])):
            if rule == "anywhere" and len(word) > 2 and word not in shared and word.isalpha():  # noqa: PLR2004
                first_alone = word == words[0][0] and len(words) > 1 and not is_given(word)
                yield word, "role" if first_alone and capital else "anywhere"


def _titled(rule: Rule) -> Rule:
    """The rule for a word behind a title: Dr. Taylor is no tailor."""
    return "anywhere" if rule in {"role", "word"} else rule


def family_named(text: str) -> str | None:
    """The first family of models that `text` names, however it is written; None for one that is not known."""
    return family_among(fold(text).lower())


def model_spellings(model: str) -> Iterator[tuple[str, Rule]]:
    """The spellings of a model such as `"openai/gpt-5-mini"`: whole, without its provider, and shorter ones."""
    provider, _, rest = model.partition("/")
    if provider in _NO_MODEL:
        return
    part = re.sub(r"\.(?:gguf|safetensors|bin)\Z", "", model.rsplit("/", 1)[-1], flags=re.IGNORECASE)
    if rest:
        yield model, "anywhere"
    tokens = _TOKEN.findall(fold(part).lower())
    starts = [0, 1] if len(tokens) > 1 and tokens[1] in _VARIANTS else [0]
    for start in starts:
        for end in range(len(tokens), start, -1):
            shown = tokens[start:end]
            numbered = shown[0].isalpha() and any(map(str.isdigit, shown))
            if (numbered and sum(map(len, shown)) >= _SHORTEST_MODEL) or (end - start == len(tokens) > 1):
                yield " ".join(shown), "anywhere"
            elif end - start == len(tokens):
                yield part, "self"


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
