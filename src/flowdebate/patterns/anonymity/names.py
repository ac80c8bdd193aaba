"""Names in texts: spellings of debaters and models, and the rules that find them."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from flowdebate._util.text import fold, origins, with_accents
from flowdebate.patterns.anonymity.model_families import FAMILIES, VENDORS, family_among

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flowdebate.patterns.anonymity.signs import Level


_SHORTEST = 3
_FUNCTION_WORDS = frozenset(
    """
    about against all and any are but can con cons contra did does for from had has have her him his how its let
    more most not now off our out over per pro pros she some than that the them then they this thus too was were
    what when who why with would yes you your
    """.split()  # noqa: SIM905 - a list this long is read as words
)
_COMMON = frozenset(
    """
    advocate agent ally alpha amber angel april art august autumn basil bear beta bill black blue brook bull buyer
    capital carol chair champion chance charity chase chief christian city clay cliff coach cop cost critic cynic daisy
    dale dawn dean december delta destiny devil diplomat dove drew earl earth east eight elder equity europe eve expert
    faith falcon father february fern finance first five forest four fox frank free freedom friday friend future gamma
    gene glen global gold good grace grant gray green grey growth guard guest guide hawk hazel health heart heather
    hero holly home honor hope house hunter industry iris ivy jack jade january jasmine jewel joy judge july june jury
    justice king labor labour lance lark law lawyer left liberty lily lion local logic march mark market may media
    melody mercy merit miles miss money monday mother nature nick nine north november nurse october olive omega one opal
    order owl page parent past pat patience peace pearl penny pepper phoenix pierce pilot planet poet policy poppy power
    pragmatist present press priest progress prudence public queen ray reason rebel red reed reform rich right risk
    river rob robin rock rose rusty safety sage sandy saturday scarlet sceptic science sea second september seven
    sierra sigma six skeptic sky society south speed spring spy star state sterling stone strategy sue summer sun sunday
    sunny tax team tech temperance ten terry third three thursday tiger trade trinity true trust truth tuesday
    two value verity violet voice wade ward water wealth wednesday west white will winter witness wolf wood world youth
    """.split()  # noqa: SIM905
)
"""Words that are often used as names."""
_PERSONS = re.compile(r".{3,}(?:er|or|ist|yst|ian|cian|ant|ent|ate|ive|al|eer|ee|man|men|woman|person)")
"""Endings of words for persons: economist, tenant, officer."""
_GIVEN = frozenset(
    """
    adrian alexander alistair brian christopher clement crystal dexter ebenezer esther grover hector homer igor julian
    lester lillian marian millicent oliver peter roger skyler spencer taylor trevor tyler victor vincent vivian walter
    """.split()  # noqa: SIM905
)
"""Given names with the endings of words for persons."""
_TITLES = frozenset({"dr", "mr", "mrs", "ms", "prof", "professor", "sir", "lady", "lord", "captain", "madam"})

_APART = r"[\s_\-—.*'~`>|/:]{0,12}"
_PIECE = re.compile("\\d+|[^\\W\\d_](?:[^\\W\\d_]|(?![\\w\\s])[\u0300-\u1fff\U00010000-\U0010ffff])*")
"""Digits, or letters with the marks that follow them in some scripts."""
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
"""Scripts without spaces between words; `re` takes milliseconds to compile so large a set."""


def _is_unspaced(character: str) -> bool:
    return any(ord(character) in script for script in _UNSPACED)


def plain_words(text: str) -> list[str]:
    """The words of `text`, folded; an apostrophe joins."""
    return re.findall(r"[^\W_]+", fold(text).replace("'", ""))


def _pattern(name: str) -> str:
    """A pattern for `name` in folded text, at word boundaries; empty if it has no letter and no digit."""
    low = fold(name)
    pieces: list[str] = _PIECE.findall(low)
    if not pieces:
        return ""
    tail = re.search(r"[^\w\s'.]*\Z", low)
    end = re.escape(tail[0]) if tail and tail[0] else "" if _is_unspaced(pieces[-1][-1]) else r"(?![^\W_])"
    whole = _APART.join(re.sub(r"(?<=\w{3})s\Z", "'?s", piece) for piece in pieces) + end
    first = pieces[0][0]
    # The boundary is checked after the first character, so that a search can skip to that character.
    return whole if _is_unspaced(first) else f"{first}(?<![^\\W_]{first}){whole[1:]}"


def _needle(name: str) -> str:
    """A part of all texts that `_pattern(name)` matches; a last s may be `'s` there."""
    pieces: list[str] = _PIECE.findall(fold(name))
    return pieces[0].removesuffix("s") if pieces else ""


def _level(word: str, written: str) -> Level:
    """The level of a name of one word; `word` is its folded form.

    >>> [_level(word.lower(), word) for word in ("ann", "Ann", "skeptic", "pro")]
    ['any', 'capital', 'common', 'sign']
    """
    if word in _FUNCTION_WORDS or word.isdecimal() or (len(word) < _SHORTEST and word.isascii()):
        return "sign"
    if word in _COMMON or (word.isascii() and word not in _GIVEN and _PERSONS.fullmatch(word)):
        return "common"
    return "any" if written.islower() or not word.isascii() or not word.isalpha() else "capital"


def _spellings(name: str, shared: frozenset[str]) -> Iterator[tuple[str, Level]]:
    """The spellings of a debater's name: the whole, and of a person's full name also its first and its last word."""
    written = re.findall(r"[^\W_]+", name)
    words = [fold(word) for word in written]
    if len(written) <= 1:
        yield name, _level("".join(words), name)
        return
    yield name, "any" if any(not word.isascii() or any(map(str.isdigit, word)) for word in words) else "phrase"
    for word, shown in ((words[0], written[0]), (words[-1], written[-1])):
        if shown[0].isupper() and len(word) >= _SHORTEST and word not in _TITLES | _FUNCTION_WORDS | _COMMON | shared:
            yield word, "common"


def _model_spellings(model: str) -> Iterator[tuple[str, Level]]:
    """The spellings of a model such as `"openai/gpt-5-mini"`: whole, without its provider, and down to its number."""
    provider, _, _ = model.partition("/")
    if provider in {"local", "intent"}:
        return
    part = re.sub(r"\.(?:gguf|safetensors|bin)\Z", "", model.rsplit("/", 1)[-1], flags=re.IGNORECASE)
    pieces = re.findall(r"\d+|[^\W\d_]+", fold(part))
    yield model, "any" if provider != model else "self"
    yield part, "any" if len(pieces) > 1 else "self"
    for count in range(len(pieces) - 1, 1, -1):
        if pieces[0].isalpha() and any(map(str.isdigit, pieces[:count])):
            yield " ".join(pieces[:count]), "any"
    if (family := family_among(fold(part))) is not None:
        yield family, "sign"


_VARIANT = r"(?:mini|nano|turbo|sonnet|opus|haiku|flash|pro|\d[\d.]*b?)\b"
_VERSION = rf"(?:[\s-]?v?\d{{1,3}}(?:\.\d{{1,3}})?[a-z]{{0,2}})?(?:[\s-]{_VARIANT}){{0,3}}"
_KIND = r"(?:model|assistant|ai|system|llm|chatbot)"
_MADE = r"(?:made|built|trained|developed|created|designed)"


@lru_cache(maxsize=1)
def _self_naming() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of authors who name their own model family ("I am Claude") or its maker ("made by Anthropic")."""
    makers = sorted((fold(written) for group in VENDORS.values() for written in group), key=len, reverse=True)
    maker = rf"(?:{'|'.join(map(re.escape, makers))})\b"
    family = rf"(?:{'|'.join(sorted(FAMILIES, key=len, reverse=True))}){_VERSION}\b"
    i_am = r"\b(?:i am|i'm|my name is|call me|i,|speaking as|this is) "
    words = r"(?:(?!that\b|which\b|who\b)[\w'-]+ ){0,7}?"
    of_family = (
        rf"{i_am}({family})(?=[*_]*\s*(?:[,.;:!?)—]|\Z)|\s(?:and|from|by|here|an?)\b)",
        rf"\bas ({family})(?=,? (?:i|i'm|my|we)\b)",
        rf"(?<![^\W_])({family})(?= here[,.:;!])",
        rf"\b(?:as|i am|i'm) an? ({family})(?= (?:[\w-]+ ){{0,2}}{_KIND}\b)",
    )
    of_maker = (
        rf"\b(?:i am|i'm|i was|i have been|as an?) {words}(?:[\w'-]+, )?{_MADE} (?:by|at) ({maker})",
        rf"\b(?:i am|i'm|as) an? {words}{_KIND} (?:by|from|of) ({maker})",
        rf"\b(?:as|i am|i'm) an? ({maker})(?= (?:[\w-]+ ){{0,2}}{_KIND}\b)",
        rf"\bmy (?:creator|developer|maker|training|trainer)s?(?: at| is| are| by)? ({maker})",
        rf"(?<![^\W_])({maker})(?= (?:has |have )?{_MADE} me\b)",
    )
    return re.compile("|".join(of_family)), re.compile("|".join(of_maker))


Meant: TypeAlias = tuple[Literal["name", "model", "family", "maker"], str]
"""The owner of an alias: a debater, a model, or any model family or maker (with an empty name)."""


class _Known(NamedTuple):
    """One spelling of a name."""

    whose: Meant
    level: Level
    pattern: str
    needle: str
    """A part of every text that the pattern matches: a search for it costs a tenth of one for the pattern."""


class Found(NamedTuple):
    """A name and its place in a text."""

    start: int
    end: int
    kind: Literal["name", "model", "family", "maker"]
    meant: str
    """The name or model as the roster writes it, or the family or maker."""
    whose: Meant


class Names:
    """Compiled patterns for the names of a roster and its models.

    A name that is a stance is never hidden, since every tag shows it. A name that occurs in the question or in a stance
    counts at signs only.
    """

    def __init__(self, names: Sequence[str], models: Sequence[str], *, question: str, stances: Sequence[str]) -> None:
        topic = [fold(text) for text in (question, *stances)]
        counted = Counter(word for name in names for word in set(plain_words(name)))
        shared = frozenset(word for word in counted if counted[word] > 1).union(*map(plain_words, topic))
        shown = {"".join(plain_words(stance)) for stance in stances}
        known: dict[str, _Known] = {}
        counts: Level
        for name in names:
            for spelling, level in _spellings(name, shared):
                pattern = _pattern(spelling)
                asked = level != "common" and pattern and any(re.search(pattern, text) for text in topic)
                counts = "sign" if asked else level
                known.setdefault(pattern, _Known(("name", name), counts, pattern, _needle(spelling)))
        about_models = _is_about_models(topic)
        for model in models:
            for spelling, level in _model_spellings(model):
                pattern = _pattern(spelling)
                counts = "self" if about_models else level
                known.setdefault(pattern, _Known(("model", model), counts, pattern, _needle(spelling)))
        usable = [one for one in known.values() if one.pattern and "".join(plain_words(one.whose[1])) not in shown]
        self._known = sorted(usable, key=lambda one: len(one.pattern), reverse=True)
        self._pattern = re.compile("|".join(f"{one.pattern}()" for one in self._known)) if self._known else None
        self._needles = tuple({one.needle for one in self._known})
        self._families = {family_among(fold(model.rsplit("/", 1)[-1])): model for model in reversed(models)}

    def find(self, text: str) -> list[Found]:
        """The names in `text`, in order; the longest of several that begin at one place."""
        low = fold(text)
        words = low.encode(errors="replace").translate(_LETTERS_ONLY).split()
        well_known = not _FIRST_WORDS.isdisjoint(words) and any(map(low.__contains__, _WELL_KNOWN))
        if not well_known and not any(map(low.__contains__, self._needles)):
            return []
        places = origins(text)
        found: list[Found] = []
        named = [*self._roster(text, low, places), *(_selves(low, self._families) if well_known else ())]
        for one in sorted(named, key=lambda name: (name.start, -name.end)):
            start, end = one.start, one.end
            if places is not None:
                start, end = places[start], with_accents(text, places[end - 1] + 1)
            if not found or start >= found[-1].end:
                found.append(one._replace(start=start, end=end))
        return found

    def _roster(self, text: str, low: str, places: list[int] | None) -> Iterator[Found]:
        match = self._pattern.search(low) if self._pattern else None
        while match and self._pattern:
            from flowdebate.patterns.anonymity.signs import is_name, led  # most debates name nobody

            known = self._known[(match.lastindex or 1) - 1]
            start, end = match.span()
            first, last = (start, end) if places is None else (places[start], places[end - 1] + 1)
            named = is_name(known.level, low, (start, end), text, (first, last))
            if named:
                yield Found(start - led(low, start, known.level), end, known.whose[0], known.whose[1], known.whose)
            match = self._pattern.search(low, end if named else start + 1)


_FAMILIES_AND_MAKERS = frozenset(map(fold, [*FAMILIES, *(written for group in VENDORS.values() for written in group)]))
_WELL_KNOWN = tuple(
    word for word in _FAMILIES_AND_MAKERS if not any(part in word for part in _FAMILIES_AND_MAKERS - {word})
)
"""Model families and their makers, without those that contain another: one of these is in every text that names any."""
_LETTERS_ONLY = bytes(code if code in b"abcdefghijklmnopqrstuvwxyz" else 32 for code in range(256))
_FIRST_WORDS = frozenset(
    (re.split("[^a-z]", word, maxsplit=1)[0] + end).encode() for word in _FAMILIES_AND_MAKERS for end in ("", "v")
)
"""The letters with which they begin, also before a version ("gptv4"): a text without any of these words names none, and
to look for all words at once takes a fraction of the time."""


def _selves(low: str, families: Mapping[str | None, str]) -> Iterator[Found]:
    """The families and makers that authors call their own; `families` maps those of the roster to its models."""
    of_family, of_maker = _self_naming()
    for match in of_family.finditer(low):
        family = family_among(match[match.lastindex or 0]) or ""
        model = families.get(family)
        whose: Meant = ("family", "") if model is None else ("model", model)
        yield Found(*match.span(match.lastindex or 0), "family", model or family, whose)
    for match in of_maker.finditer(low):
        maker = "".join(plain_words(match[match.lastindex or 0]))
        yield Found(*match.span(match.lastindex or 0), "maker", maker, ("maker", ""))


def _is_about_models(topic: Sequence[str]) -> bool:
    """Whether the debate is about models, so that their names are part of the question."""
    words = {word for text in topic for word in plain_words(text)}
    about = {"ai", "llm", "llms", "chatbot", "chatbots", "gpt", "chatgpt"}
    makers = {fold(written) for group in VENDORS.values() for written in group}
    return (
        bool(words & (about | FAMILIES.keys() | makers))
        or any(family_among(text) for text in topic)
        or any("language model" in text or "artificial intelligence" in text for text in topic)
    )
