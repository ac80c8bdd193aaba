"""Where a sentence names somebody: the places in which a word that may be a name is one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowdebate.patterns.anonymity.aliases import Leak
from flowdebate.patterns.anonymity.known_names import Known, family_named, key_of, known_makers
from flowdebate.patterns.anonymity.naming_signs import (
    AND,
    AND_BEFORE,
    AROUND,
    AS_ONE,
    BEFORE,
    BETWEEN_WORDS,
    BOTH,
    CLOSING,
    COMMA_I,
    DETERMINERS,
    DOES,
    HERE,
    LABEL,
    LAST_WORDS,
    LEADS,
    LINE_END,
    LINE_START,
    NEXT_CAPITAL,
    POSSESSIVE,
    SAID,
    SAID_THAT,
    SAYS,
    SENTENCE_END,
    SPACES,
    TAG,
    THE,
    VOCATIVE,
    YOU,
)
from flowdebate.patterns.anonymity.text import fold, origins

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flowdebate.patterns.anonymity.known_names import AliasOf
    from flowdebate.patterns.anonymity.schemas import LeakKind
    from flowdebate.patterns.anonymity.text import Rule

__all__ = (
    "Finder",
    "naming_start",
    "phrase_start",
    "says_family",
    "says_vendor",
)


def naming_start(low: str, cased: str, start: int, end: int, rule: Rule) -> int | None:  # noqa: PLR0911 - one for each sign
    """Where the name begins that stands at `start` to `end`, what goes with it (`@`, "the") included; None for no name.

    `low` is `cased` in lower case. For the rules "role", "word", "careful" and "short".
    """
    if start and low[start - 1] == "@" and not low[max(0, start - 2)].isalnum():
        return start - 1
    capital = not cased[start].islower()
    if _is_label(low, start, end, listed=not capital or rule in {"careful", "short"}):
        return start
    if not capital and rule in {"careful", "short"}:
        return None
    if _is_compound(low, start, end):
        return None
    left = low[max(0, start - AROUND) : start]
    begin, left = _without_article(left, start)
    if begin != start and rule in {"careful", "short"}:
        return None
    word, opens = _word_before(left, capital=capital and begin == start)
    if rule == "role" and low[end : end + 1] == "," and AS_ONE.search(low, max(0, start - AROUND), start):
        return start if COMMA_I.match(low, end) else None
    if word in DETERMINERS or (word == "that" and not capital):
        return None
    if (
        _is_led_to(low, left, word, end, plain=not capital and begin == start)
        or _is_signed(low, left, end, capital=capital)
        or _is_subject(low, word, opens, end, rule, capital=capital, article=begin != start)
        or _is_beside(low, start, end, word, capital=capital)
        or (capital and rule in {"role", "word"} and _is_capitalised(cased, start, end, article=begin != start))
    ):
        return begin
    return None


def _is_label(low: str, start: int, end: int, *, listed: bool) -> bool:
    """Whether it stands before a line's text: `Name: …`, `**Name** — …`, `[Name, stance] …`."""
    since = max(0, start - AROUND)
    line = max(low.rfind("\n", since, start), low.rfind("\r", since, start)) + 1
    if line == 0 and since:
        return False
    lead = low[line:start]
    if not LINE_START.fullmatch(lead):
        return False
    if ("#" in lead or "**" in lead or "__" in lead) and LINE_END.match(low, end):
        return True
    return bool(LABEL.match(low, end)) or any(
        sign in lead and tag.match(low, end) for sign, tag in TAG.items() if sign != "(" or not listed
    )


def _is_compound(low: str, start: int, end: int) -> bool:
    before, after = low[max(0, start - 2) : start], low[end : end + 2]
    return (before[-1:] in "-/" and before[:1].isalnum()) or (after[:1] in "-/" and after[1:].isalnum())


def _without_article(left: str, start: int) -> tuple[int, str]:
    article = THE.search(left) if left[-1:].isspace() else None
    return (start - len(left) + article.start(), left[: article.start()]) if article else (start, left)


def _word_before(left: str, *, capital: bool) -> tuple[str, bool]:
    """The word before, empty where a sentence or a clause opens; and whether it is a sentence that opens."""
    bare = left.rstrip(SPACES)
    if bare[-1:] in {"\n", "\r"} and not capital and bare[-2:-1].isalnum():
        bare = bare.rstrip()  # a line that is wrapped
    if not bare or bare[-1].isspace():
        return "", True
    if not bare[-1].isalnum():
        return "", bare[-1] in ".!?:>#-"
    return re.split(r"[^\w']", bare[-24:])[-1].strip("_'"), False


def _is_led_to(low: str, left: str, word: str, end: int, *, plain: bool) -> bool:
    """Whether what stands before says that a name follows: "I am …", "my opponent …", "according to …"."""
    lead = left.rstrip(SPACES + "\n")
    last = word or re.split(r"[^\w']", lead.rstrip(",")[-24:])[-1]
    if last not in LAST_WORDS or (plain and last in {"am", "i'm", "are", "no", "yes", "well", "look"}):
        return False
    return any(before.search(lead) and after.match(low, end) for before, after in LEADS)


def _is_signed(low: str, left: str, end: int, *, capital: bool) -> bool:
    closing = CLOSING.search(left) if LINE_END.match(low, end) else None
    return closing is not None and (capital or not left[: closing.start()].rstrip(" \t*_>")[-1:].strip())


def _is_subject(low: str, word: str, opens: bool, end: int, rule: Rule, *, capital: bool, article: bool) -> bool:  # noqa: FBT001, PLR0911
    """Whether it says or has something in a debate: "…'s argument", "… claims", "…, you …", "… here."."""
    if HERE.match(low, end):
        return not word or word == "is"
    if opens and not article and VOCATIVE.match(low, end):
        return capital or rule == "role"
    if word and word not in BEFORE and not article:
        return False
    if POSSESSIVE.match(low, end) or SAYS.match(low, end):
        return capital or rule == "role" or not article
    if rule in {"careful", "short"}:
        return bool(SAID_THAT.match(low, end))
    if SAID.match(low, end):
        return capital or rule == "role"
    return rule == "role" and capital and not article and bool(DOES.match(low, end))


def _is_beside(low: str, start: int, end: int, word: str, *, capital: bool) -> bool:
    """Whether it is named with somebody else ("… and I", "… and B both"), or at the end of what is said to "you"."""
    if not capital:
        return False
    if (not word or word in BEFORE) and AND.match(low, end):
        return True
    left = ("" if start > AROUND else "\n") + low[max(0, start - AROUND) : start]
    if word in {"and", "&", ""} and BOTH.match(low, end) and AND_BEFORE.search(left):
        return True
    return not word and SENTENCE_END.match(low, end) is not None and YOU.search(left) is not None


def _is_capitalised(cased: str, start: int, end: int, *, article: bool) -> bool:
    """Whether a capital inside a sentence says it: no other word around it has one."""
    before = cased[max(0, start - AROUND) : start].rstrip(SPACES)
    if not before or (not before[-1].isalnum() and before[-1] not in ",;—"):
        return False
    if before[-1].isalnum():
        word = re.split(r"[^\w']", before[-24:])[-1]
        if not word[:1].islower() and (article or word.lower() not in BEFORE or (len(word) > 1 and word.isupper())):
            return False
    following = NEXT_CAPITAL.match(cased, end)
    return following is None or not following[0][-1].isupper()


def phrase_start(low: str, cased: str, start: int, end: int) -> int | None:
    """The same for a name of several ordinary words: `growth_analyst` and Growth Analyst name, a growth analyst not."""
    shown = cased[start:end]
    words = BETWEEN_WORDS.split(shown)
    if "_" in shown or (len(words) == 1 and not shown.islower()):
        named = naming_start(low, cased, start, end, "role")
        return start if named is None else named
    if all(not word[:1].islower() for word in words):
        left = low[max(0, start - AROUND) : start]
        begin, left = _without_article(left, start)
        word, _ = _word_before(left, capital=True)
        return None if word in DETERMINERS or _is_compound(low, start, end) else begin
    return naming_start(low, low, start, end, "role")


_LONGEST = 96
_MADE = r"(?:made|built|trained|developed|created|designed|produced|released|programmed|fine-tuned|tuned|taught)"
_KIND = r"(?:model|assistant|ai|system|llm|chatbot|bot|agent)"
_WORD = r"(?!(?:that|which|who|models|systems|if|when|because|than|by|is|are|was|were)\b)[\w.,'-]+\s+"
_BY = r"\s+(?:by|from|of|at)\s+(?:the\s+team\s+at\s+)?\Z"
_FAMILY_AS = re.compile(r"(?<!such )\bas\s+(?:the\s+)?\Z")
_FAMILY_AM = re.compile(r"(?:\bi\s+am|\bi'm|\bmy\s+name\s+is|\bcall\s+me|\bi,|\bspeaking\s+as|\bthis\s+is)\s+\Z")
_I = re.compile(r"[*_`\"']{0,4},?\s{1,3}(?:i|i'm|i've|i'd|i'll|my|we)\b")
_STOP = re.compile(
    r"[*_`\"']{0,4}\s{0,3}(?:[,.;:!?)—]|\Z)|\s{1,3}(?:and|from|by|here|speaking|an?|(?:the|a)\s+(?:model|assistant))\b"
)
_HERE = re.compile(r"\s{1,3}here(?:[,.:;!—]|\s+with\b|\s+again\b)")
_MADE_ME = re.compile(
    rf"\b(?:i\s+am|i'm|i\s+was|i\s+have\s+been|i've\s+been)\s+(?:{_WORD}){{0,9}}?{_MADE}\s+(?:by|at)\s+(?:the\s+team\s+at\s+)?\Z"
)
_AM_ONE = re.compile(rf"\b(?:i\s+am|i'm)\s+(?:just\s+)?(?:an?|the)\s+(?:{_WORD}){{0,5}}?{_KIND}(?:,?\s+{_MADE})?{_BY}")
_AS_ONE = re.compile(rf"\bas\s+(?:just\s+)?an?\s+(?:{_WORD}){{0,5}}?{_KIND}(?:,?\s+{_MADE})?{_BY}")
_MY_MAKER = re.compile(
    r"\b(?:my|our)\s+(?:own\s+)?(?:maker|creator|developer|lab|vendor|provider|owner|trainer|training|engineer)s?,?"
    r"(?:\s+at|\s+is|\s+are|\s+by)?\s+\Z|\b(?:we|us)\s+at\s+\Z"
)
_AN = re.compile(r"\b(as|i\s+am|i'm)\s+an?\s+\Z")
_KIND_AFTER = re.compile(rf"(?:'s)?\s+(?:[\w-]+\s+){{0,2}}{_KIND}\b(,?\s+(?:i|i'm|my|we)\b)?")
_ME_AFTER = re.compile(rf"\s+(?:has\s+|have\s+)?{_MADE}\s+me\b")


def says_family(low: str, start: int, end: int) -> bool:
    """Whether the model's name at `start` to `end` of `low`, in lower case, is what its author is said to be.

    >>> says_family("as claude, i disagree.", 3, 9), says_family("as claude monet, i paint.", 3, 9)
    (True, False)
    """
    left = low[max(0, start - _LONGEST) : start]
    if _HERE.match(low, end):
        return not left.rstrip(" \t*_") or not left.rstrip(" \t*_")[-1].isalnum()
    if not left[-1:].strip(" \t\n"):
        if _FAMILY_AM.search(left):
            return _STOP.match(low, end) is not None or _I.match(low, end) is not None
        if _FAMILY_AS.search(left):
            return _I.match(low, end) is not None
        return _is_one(low, left, end)
    return False


def says_vendor(low: str, start: int, end: int) -> bool:
    """Whether the maker at `start` to `end` of `low`, in lower case, is said to be its author's.

    >>> says_vendor("i was trained by openai.", 17, 23), says_vendor("models trained by openai cost.", 18, 24)
    (True, False)
    """
    if _ME_AFTER.match(low, end):
        return True
    left = low[max(0, start - _LONGEST) : start]
    if _MADE_ME.search(left) or _AM_ONE.search(left) or _MY_MAKER.search(left):
        return True
    if _AS_ONE.search(left):
        return _I.match(low, end) is not None
    return _is_one(low, left, end)


def _is_one(low: str, left: str, end: int) -> bool:
    """Whether it is "As an … model, I" or "I am an … model"."""
    lead, kind = _AN.search(left), _KIND_AFTER.match(low, end)
    return lead is not None and kind is not None and (lead[1] != "as" or kind[1] is not None)


@dataclass(frozen=True, eq=False, kw_only=True)
class Finder:
    """What finds names: all that is known of a debate's roster, compiled once."""

    known: Mapping[str, Known]
    pattern: re.Pattern[str] | None

    def find(self, text: str, aliases: Mapping[AliasOf, str]) -> list[Leak]:
        """The names that `text` holds, in the order in which they stand there, each with its alias."""
        cased = fold(text)
        low = cased.lower()
        found = sorted((*self._roster(low, cased), *self._makers(low)), key=_first_and_longest)
        if not found:
            return []
        places = None if text.isascii() else origins(text)
        leaks: list[Leak] = []
        for start, end, kind, meant, whose in found:
            first, last = (start, end) if places is None else (places[start][0], places[end - 1][1])
            if not leaks or first >= leaks[-1].end:
                named, alias = text[first:last], aliases[whose]
                leaks.append(Leak(kind=kind, text=named, start=first, end=last, meant=meant, alias=alias))
        return leaks

    def _roster(self, low: str, cased: str) -> Iterator[_Span]:
        """Names of the roster and its models."""
        if self.pattern is None:
            return
        match = self.pattern.search(low)
        while match:
            start, end = match.span()
            known = self.known.get(key_of(match[0]))
            begin = None if known is None else _begin(known, low, cased, start, end)
            if known is not None and begin is not None:
                yield begin, end, known.kind, known.meant, known.whose
            match = self.pattern.search(low, start + 1 if begin is None else end)

    def _makers(self, low: str) -> Iterator[_Span]:
        """Families of models and their makers, where a text says that its author is one of theirs."""
        makers = known_makers()
        if makers.hint.search(low) is None:
            return
        for match in makers.pattern.finditer(low):
            start, end = match.span()
            if match[1] is not None:
                if says_vendor(low, start, end):
                    yield start, end, "family", key_of(match[0]), ("maker", "")
            elif says_family(low, start, end):
                family = family_named(match[0]) or match[0]
                known = self.known.get(family)
                if known is None:
                    yield start, end, "family", family, ("family", "")
                else:
                    yield start, end, "family", known.meant, known.whose


_Span = tuple[int, int, "LeakKind", str, "AliasOf"]


def _first_and_longest(span: _Span) -> tuple[int, int]:
    return span[0], -span[1]


def _begin(known: Known, low: str, cased: str, start: int, end: int) -> int | None:
    """Where the name begins that is found at `start` to `end`; None where the words name nobody."""
    if known.rule == "anywhere":
        return start - 1 if start and low[start - 1] == "@" and not low[max(0, start - 2)].isalnum() else start
    if known.rule == "self":
        return start if says_family(low, start, end) else None
    if known.rule is None:
        return phrase_start(low, cased, start, end)
    return naming_start(low, cased, start, end, known.rule)
