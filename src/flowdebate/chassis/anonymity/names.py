"""Recognition of names in arguments: the possible spellings of debaters, models and model families.

The rules rely on cues in the text (capitals and neighboring words), not on lists of names and occupations. On the test
corpus, they find 227 of the 246 names, and wrongly change 25 of the 179 turns that contain no name. With such lists
(common words, given names, endings such as -ist), the figures were 215 of 246 and 10 of 178: fewer turns were changed
wrongly, but more turns revealed their authors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias
from unicodedata import category

from flowdebate._text import fold, origins, with_accents

from .introductions import FAMILIES, MAKERS, WELL_KNOWN, family_among, find_claimed_names

if TYPE_CHECKING:
    from .aliases import LeakKind


def family_of(model: str) -> str:
    """Return the maker of a model, or the model's own name if its maker is unknown.

    >>> family_of("openai/gpt-5-mini"), family_of("ollama/my-own:7b")
    ('openai', 'my-own:7b')
    """
    part = model.rsplit("/", 1)[-1]
    family = family_among(part.lower())
    return part if family is None else FAMILIES[family]


def kin_among(judges: Iterable[str], debaters: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Pair each judge model with the first debater model from the same maker, if any.

    >>> kin_among(["openai/gpt-5-mini", "local"], ["anthropic/claude-5", "openai/gpt-6"])
    (('openai/gpt-5-mini', 'openai/gpt-6'),)
    """
    families: dict[str, str] = {}
    for model in debaters:
        families.setdefault(family_of(model), model)
    return tuple((judge, families[family_of(judge)]) for judge in dict.fromkeys(judges) if family_of(judge) in families)


def is_about_models(topic: Sequence[str]) -> bool:
    """Return whether the debate is about language models, in which case model names are part of its subject."""
    # hiding model names even in debates about models would change 6 more turns of the corpus
    words = {word for text in topic for word in re.findall(r"[^\W_]+", text.replace("'", ""))}
    ai_words = {"ai", "llm", "llms", "chatbot", "chatbots", *FAMILIES, *MAKERS} - _PLAIN_WORDS
    phrases = ("language model", "artificial intelligence")
    return (
        not words.isdisjoint(ai_words)
        or any(family_among(text) for text in topic)
        or any(phrase in text for text in topic for phrase in phrases)
    )


_PLAIN_WORDS = {"cohere"}  # makers whose names are common words


Level: TypeAlias = Literal["any", "capital", "sign"]
"""Evidence required for a spelling to count as a name.

- "any": no evidence; the spelling counts at word boundaries, in upper or lower case.
- "capital": each of its words is capitalized and the next word is not, or it is next to a cue.
- "sign": it is next to a cue, such as "X:", "@X", "I am X", "as X,", "X's argument", "X argues" or "— X".
"""
Meant: TypeAlias = tuple[Literal["name", "model", "family", "maker"], str]
"""Referent of an alias, as a pair: its kind ("name" for a debater), and its name (empty for a family or a maker)."""


class FoundName(NamedTuple):
    """A name found in text, and its position; see `Leak`."""

    start: int
    end: int
    kind: LeakKind
    meant: str
    whose: Meant


# Spellings of names

_MIN_LENGTH = 3
"""Minimum length, in letters, of a name that counts without a cue; shorter ones also occur as an article ("a"), in
lists, or in phrases such as "plan B".
"""
_AT_SIGNS = frozenset(
    "pro con for against yes no first second can could may might must shall should will would".split()  # noqa: SIM905
)
"""Names that always need a cue, because they often begin a sentence: the default names of the sides, and modal verbs.

Without this list, 18 more turns of the corpus would be wrongly changed ("Will landlords leave?", "Pro tip").
"""
_ROLE = re.compile(r"judge|\w{3,}(?:er|or|ist|ian|ant|ent|ate|ive|ic|al|ee|man|men)")
"""English words for people, recognized by their endings: economist, skeptic.

A roster may contain such a word in lowercase, just as it may contain "anna", but "any economist" does not refer to a
debater: without this pattern, 31 more turns of the corpus would be wrongly changed.
"""
_TITLES = frozenset({"dr", "mr", "mrs", "ms", "prof", "professor", "sir", "lady", "lord", "captain", "madam"})
_APART = r"[\s_\-—.*'~`>|/:]{0,12}"
_PIECE = re.compile("\\d+|[^\\W\\d_](?:[^\\W\\d_]|(?![\\w\\s])[\u0300-\u1fff\U00010000-\U0001efff])*")
"""Pattern for a word: digits, or letters with any combining marks (emoji do not count as marks)."""
_JOINED = (
    (re.compile(r"[\u0621-\u064a]{3}"), "\u0648\u0628\u0644"),
    (re.compile(r"[\u05d0-\u05ea]{3}"), "\u05d5\u05d1\u05dc"),
)
"""Patterns for Arabic and Hebrew words, each with the prefixes for "and", "in" and "for" that may be joined to a name.
Other such prefixes are omitted, because ordinary words often begin with the same letters.
"""
_UNSPACED = (
    range(0x0E00, 0x0F00),
    range(0x1000, 0x10A0),
    range(0x1780, 0x1800),
    range(0x3040, 0x3100),
    range(0x3400, 0xA000),
    range(0xAC00, 0xD7A4),
    range(0xF900, 0xFB00),
    range(0x20000, 0x40000),
)
"""Scripts in which a name need not be surrounded by spaces; patterns for such names (4 in the corpus) check no
boundaries.

The scripts are given as ranges rather than as a pattern, because `re` takes several milliseconds to compile such a
large set.
"""


def plain_words(text: str) -> list[str]:
    """Split `text` into folded words; an apostrophe does not split a word."""
    return re.findall(r"[^\W_]+", fold(text).replace("'", ""))


def _is_unspaced(character: str) -> bool:
    return any(ord(character) in script for script in _UNSPACED)


def _has_emoji(text: str) -> bool:
    return any(category(character) == "So" for character in text)


def _write_pattern(name: str) -> str:
    """Build a pattern matching `name` at word boundaries in folded text.

    The pattern is empty if the name contains no letter, digit or emoji.
    """
    low = fold(name)
    pieces: list[str] = _PIECE.findall(low)
    if not pieces:
        return re.escape(low) if _has_emoji(low) else ""
    tail = re.sub(r"[\s'.]", "", low[low.rindex(pieces[-1]) + len(pieces[-1]) :])
    end = "" if _is_unspaced(pieces[-1][-1]) else r"(?![^\W_])"
    if _has_emoji(tail):
        end = rf"(?:\s?{re.escape(tail)})?{end}"  # writers may omit the emoji
    elif tail:
        end = re.escape(tail)  # keep the tail: C++ is not C
    pattern = _APART.join(re.sub(r"(?<=\w{3})s\Z", "'?s", piece) for piece in pieces) + end
    first = pieces[0][0]
    if _is_unspaced(first):
        return pattern
    # The boundary is checked after the first character, so that a search can skip straight to that character.
    boundary = rf"(?<![^\W_]{first})"
    for letters, joined in _JOINED:
        if letters.match(pieces[0]):
            boundary = rf"(?:{boundary}|(?<=\b[{joined}]{first})|(?<=\b[{joined}]{{2}}{first}))"
    return f"{first}{boundary}{pattern[1:]}"


def _spell_name(name: str, shared: frozenset[str]) -> Iterator[tuple[str, Level]]:
    """List the forms of a debater's name: the full name and, for a person, the first and last words alone."""
    written = re.findall(r"[^\W_]+", name)
    if not written:
        yield name, "any"
        return
    words = [fold(word) for word in written]
    distinctive = any(not word.isascii() or any(map(str.isdigit, word)) for word in words)
    if len(words) == 1:
        [word] = words
        plain = word in _AT_SIGNS or word.isdecimal() or (len(word) < _MIN_LENGTH and word.isascii())
        everywhere = distinctive or (written[0].islower() and not _ROLE.fullmatch(word))
        yield name, "sign" if plain else "any" if everywhere else "capital"
        return
    yield name, "any" if distinctive else "capital"
    for word, spelling in {words[0]: written[0], words[-1]: written[-1]}.items():
        if spelling[0].isupper() and len(word) >= _MIN_LENGTH and word not in _TITLES | _AT_SIGNS | shared:
            yield word, "capital"


def _spell_model(model: str) -> Iterator[tuple[str, Level]]:
    """List the spellings of a model name such as `"openai/gpt-5-mini"`: full, without the provider, and shortened."""
    provider, _, _ = model.partition("/")
    if provider in {"local", "intent"}:
        return  # these are settings, which do not identify a model
    part = re.sub(r"\.(?:gguf|safetensors|bin)\Z", "", model.rsplit("/", 1)[-1], flags=re.IGNORECASE)
    pieces = re.findall(r"\d+|[^\W\d_]+", fold(part))
    yield from ((name, "any") for name, tells in ((model, provider != model), (part, len(pieces) > 1)) if tells)
    for count in range(len(pieces) - 1, 1, -1):
        if pieces[0].isalpha() and any(map(str.isdigit, pieces[:count])):
            yield " ".join(pieces[:count]), "any"
    if (family := family_among(fold(part))) is not None:
        yield family, "sign"


# Cues that a spelling is a name. Of the 246 names in the corpus, 53 were found by a single cue: 8 by a label, 19 by an
# introduction, 6 by "as X,", 19 by the words after the name, and 1 by a signature.

_AROUND = 48
"""Number of characters to examine before a name; enough for the longest introduction, "my esteemed
counterpart, the".
"""
_LABEL_BEFORE = re.compile(r"(?:\A|\n)[\s>*_#\[(<-]*(?:the\s)?\Z")
_LABEL_AFTER = re.compile(r"[*_)\]>]*(?:, [^\[\]\n]{0,60}\])?\s?:(?![\w/])|[*_]+ ?[—-]|, [^\[\]\n]{0,60}\]|[*_]*\n")
_INTRODUCED = re.compile(
    r"\b(?:i am|i'm|my name is|i,|(?:opponent|colleague|counterpart|friend|debater|speaker|panelist|participant),?"
    r"|according to|dear|unlike|(?:dis)?agree with|(?:speaking|my role) as)\s+(?:the\s+)?\Z"
)
# 3 of the names found through introductions are lowercase
_PHRASE_ENDS = re.compile(r"[*_]*(?:[.,;:!?)]|\s(?:i|that|who|on)\b|\Z)")
"""Pattern for the text that may follow a lowercase name, as in "unlike bear, I" but not in "unlike bear markets"."""
_AS = re.compile(r"\bas\s+(?:the\s+)?\Z")
_SAID = re.compile(
    r"[*_]*'s? (?:own |first |second |last )?"
    r"(?:argument|point|claim|case|view|figures|position|rebuttal|reply|source)s?\b"
    r"|[*_]* (?:says|said that|argues|argued|claims that|claimed|insists|asserts|concedes|replied)\b"
    r"|, your?\b|\s+here[,.:]"
)
_SIGNED = re.compile(r"(?:—|--)\s*\Z")
_LINE_END = re.compile(r"[.*_]*\s*(?:\n|\Z)")
_ANY_ONE = re.compile(r"\b(?:an?|any|every|no|each|some|one)\s+\Z")
"""Pattern for words that precede a common noun rather than a name, as in "any economist knows" and "a Bull market"."""
_ARTICLE = re.compile(r"\bthe\s{1,3}\Z")


def _is_name(level: Level, low: str, start: int, end: int, spelling: str, after: str) -> bool:
    """Return whether `low[start:end]`, written as `spelling` and followed by `after`, counts as a name."""
    if level == "any":
        return True
    before = low[max(0, start - _AROUND) : start]
    if before[-1:] == "@" or (_LABEL_BEFORE.search(before) and _LABEL_AFTER.match(low, end)):
        return True
    capital = "_" in spelling or not any(word[:1].islower() for word in re.split(r"[\s\-—*~`>|/:.]+", spelling))
    if _ANY_ONE.search(before) or (level == "sign" and not capital):
        return False
    if (
        (_INTRODUCED.search(before) and (capital or _ARTICLE.search(before) or _PHRASE_ENDS.match(low, end)))
        or (low[end : end + 1] == "," and _AS.search(before))
        or _SAID.match(low, end)
        or (_SIGNED.search(before) and _LINE_END.match(low, end))
    ):
        return True
    # part of a term rather than a name: Mark Twain, May 2019
    term = after[:1] in {" ", "-"} and (after[1:].isupper() or after[1:].isdigit())
    return level == "capital" and capital and not term


class _KnownName(NamedTuple):
    """One of the known spellings of a name."""

    whose: Meant
    level: Level
    pattern: str
    needle: str
    """Substring contained in every match of the pattern; searching for it is ten times as fast as matching
    the pattern.
    """


class Names:
    """Compiled patterns for the names on a roster and the names of its models.

    A name that is also a stance is never hidden, because every speaker tag shows the stance anyway. A name that occurs
    in the question or as part of a stance counts only next to a cue.
    """

    def __init__(self, names: Sequence[str], models: Sequence[str], *, question: str, stances: Sequence[str]) -> None:
        topic = [fold(text) for text in (question, *stances)]
        counted = Counter(word for name in names for word in set(plain_words(name)))
        shared = frozenset(word for word in counted if counted[word] > 1).union(*map(plain_words, topic))
        stated = {"".join(plain_words(stance)) for stance in stances}
        entries: dict[str, _KnownName] = {}

        def add(whose: Meant, spelling: str, level: Level) -> None:
            pattern = _write_pattern(spelling)
            if pattern and pattern not in entries and "".join(plain_words(whose[1])) not in stated:
                if whose[0] == "name" and any(re.search(pattern, text) for text in topic):
                    level = "sign"
                first: str = [*_PIECE.findall(fold(spelling)), fold(spelling)][0]
                # the name may be followed by a possessive 's
                entries[pattern] = _KnownName(whose, level, pattern, first.removesuffix("s"))

        for name in names:
            for spelling, level in _spell_name(name, shared):
                add(("name", name), spelling, level)
        # in debates about models, model names are ordinary words except in introductions
        for model in () if is_about_models(topic) else models:
            for spelling, level in _spell_model(model):
                add(("model", model), spelling, level)
        self._known = sorted(entries.values(), key=lambda one: len(one.pattern), reverse=True)
        self._pattern = re.compile("|".join(f"{one.pattern}()" for one in self._known)) if self._known else None
        self._needles = tuple({one.needle for one in self._known})
        self._families = {family_among(fold(model.rsplit("/", 1)[-1])): model for model in reversed(models)}

    def find(self, text: str) -> list[FoundName]:
        """Find the names in `text`, in order, keeping the longest of any that overlap."""
        low = fold(text)
        well_known = any(map(low.__contains__, WELL_KNOWN))
        if not well_known and not any(map(low.__contains__, self._needles)):
            return []
        places = origins(text)
        matches: list[FoundName] = []
        roster_matches = [*self._find_roster(text, low, places)]
        for span, kind, meant in find_claimed_names(low) if well_known else ():
            model = self._families.get(meant) if kind == "family" else None
            roster_matches.append(
                FoundName(*span, "family", model or meant, (kind, "") if model is None else ("model", model))
            )
        for one in sorted(roster_matches, key=lambda name: (name.start, -name.end)):
            start, end = one.start, one.end
            if places is not None:
                start, end = places[start], with_accents(text, places[end - 1] + 1)
            if not matches or start >= matches[-1].end:
                matches.append(one._replace(start=start, end=end))
        return matches

    def _find_roster(self, text: str, low: str, places: list[int] | None) -> Iterator[FoundName]:
        match = self._pattern.search(low) if self._pattern else None
        while match and self._pattern:
            entry = self._known[(match.lastindex or 1) - 1]
            start, end = match.span()
            first, last = (start, end) if places is None else (places[start], places[end - 1] + 1)
            # a following vowel sign makes it a different word
            is_followed_by_mark = category(low[end]) in {"Mn", "Mc"} if end < len(low) else False
            is_name = not is_followed_by_mark and _is_name(
                entry.level, low, start, end, text[first:last], text[last : last + 2]
            )
            if is_name:
                # the name includes a preceding "@" or, for a role, its article
                article = _ARTICLE.search(low, max(0, start - _AROUND), start) if entry.level == "capital" else None
                led = start - 1 if low[start - 1 : start] == "@" else start if article is None else article.start()
                yield FoundName(led, end, "name" if entry.whose[0] == "name" else "model", entry.whose[1], entry.whose)
            match = self._pattern.search(low, end if is_name else start + 1)
