"""Where a sentence names somebody: the places in which a word that may be a name is one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowdebate.views.naming_signs import (
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

if TYPE_CHECKING:
    from flowdebate.views.name_words import Rule

__all__ = ("naming_start", "phrase_start")


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
