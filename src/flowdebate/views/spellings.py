"""How names of debaters and models may be spelled, as patterns over folded text in lower case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowdebate.measures.model_families import family_among
from flowdebate.views.folding import fold
from flowdebate.views.name_words import TITLES, is_given, rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from flowdebate.views.name_words import Rule

__all__ = ("family_named", "key_of", "model_spellings", "name_spellings", "pattern_of", "plain_words")

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
