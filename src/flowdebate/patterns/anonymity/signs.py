"""Signs that a spelling means a person: the rules by which it counts as a name at its place."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["any", "capital", "common", "phrase", "sign", "self"]
"""The rule by which a spelling counts as a name.

    any      at word boundaries, in whatever case
    capital  where it begins with a capital
    common   where it begins with a capital inside a sentence, and without a capitalised word next to it; or at a sign
    phrase   several words: where each begins with a capital, or they are joined; or at a sign
    sign     at a sign only: "X:", "@X", "I am X", "as X,", "X's argument", "— X"
    self     where authors call themselves by it (a model's family)
"""

_PERSON = r"(?:opponent|colleague|counterpart|friend|debater|speaker|panelist|participant),?"
_LEADS = rf"i am|i'm|my name is|i,|{_PERSON}|according to|dear|unlike|agree with|(?:speaking|my role) as"
_SIGN_BEFORE = re.compile(rf"\b(?:dis)?(?:{_LEADS})\s+(?:the\s+)?\Z")
_AS = re.compile(r"\bas\s+(?:the\s+)?\Z")
_OWN = r"(?:argument|point|claim|case|view|figures|position|rebuttal|reply|source)s?"
_SAYS = r"(?:says|said that|argues|argued|claims that|claimed|insists|asserts|concedes|replied)"
_SIGN_AFTER = re.compile(rf"[*_]*'s? (?:own |first |second |last )?{_OWN}\b|[*_]* {_SAYS}\b|, your?\b|\s+here[,.:]")
_LABEL_BEFORE = re.compile(r"(?:\A|\n)[\s>*_#\[(<-]*(?:the\s)?\Z")
_LABEL_AFTER = re.compile(r"[*_)\]>]*(?:, [^\[\]\n]{0,60}\])?\s?:(?![\w/])|[*_]+ ?[—-]|, [^\[\]\n]{0,60}\]|[*_]*\n")
_ANY_ONE = re.compile(r"\b(?:an?|any|every|no|each|some|one)\s+\Z")
_NOUN_AFTER = re.compile(
    r" (?!(?:again|agree|also|and|argue|as|at|but|by|can|claim|could|did|disagree|do|for|from|had|has|here|if|in|is|"
    r"just|may|might|must|never|not|now|of|on|only|or|our|said|say|should|so|still|than|that|then|think|to|was|were|"
    r"when|who|will|with|would|yet)\b)"
    r"[a-z]{3,}(?<!ed)(?:(?<!s)|(?<=markets)|(?<=cases))\b"
)
"""A noun after a word, which makes both of them one term: "bull market"; forms of verbs often end in s or ed."""
_SIGNED = re.compile(r"(?:—|--)\s*\Z")
_LINE_END = re.compile(r"[.*_]*\s*(?:\n|\Z)")
_ARTICLE = re.compile(r"\bthe\s{1,3}\Z")
_AROUND = 48
"""Characters next to a name that are looked at."""


def is_name(level: Level, low: str, folded_span: tuple[int, int], text: str, span: tuple[int, int]) -> bool:
    """Whether a spelling of `level` counts as a name at its place."""
    start, end = span
    if level == "self":
        return False  # these are found as a model's words about itself
    if level == "any" or _is_sign(low, *folded_span, level, capital=text[start].isupper()):
        return True
    if level == "capital":
        return text[start].isupper()
    if level == "phrase":
        shown = re.split(r"[\s\-—*~`>|/:.]+", text[start:end])
        return "_" in text[start:end] or not any(word[:1].islower() for word in shown)
    return level == "common" and _stands_out(text, start, end)


def _is_sign(low: str, start: int, end: int, level: Level, *, capital: bool) -> bool:
    """Whether there is a sign next to `low[start:end]` that it refers to a person."""
    before = low[max(0, start - _AROUND) : start]
    if before[-1:] == "@" or (_LABEL_BEFORE.search(before) and _LABEL_AFTER.match(low, end)):
        return True
    if _ANY_ONE.search(before) or (level == "sign" and not capital):
        return False
    word_of_another = level == "common" and not capital and _NOUN_AFTER.match(low, end) is not None
    return (
        (_SIGN_BEFORE.search(before) is not None and not word_of_another)
        or (low[end : end + 1] == "," and _AS.search(before) is not None)
        or _SIGN_AFTER.match(low, end) is not None
        or (_SIGNED.search(before) is not None and _LINE_END.match(low, end) is not None)
    )


def _stands_out(text: str, start: int, end: int) -> bool:
    """Whether `text[start:end]` is capitalised inside a sentence, without a capitalised word next to it."""
    before, after = text[max(0, start - _AROUND) : start], text[end : end + 2]
    low = before.casefold()
    if _ANY_ONE.search(low) or (_ARTICLE.search(low) and _NOUN_AFTER.match(text, end)):  # a Bull market
        return False
    if not text[start].isupper() or (after[:1] in {" ", "-", "/"} and (after[1:].isupper() or after[1:].isdigit())):
        return False
    bare = before.rstrip(" *_\"'\u201c\u2018(")
    if not bare or bare[-1] in ".!?:>#\n-/" or after[:1] in {"-", "/"}:
        return False
    word = re.split(r"[^\w']", bare)[-1]
    return not word or word[0].islower() or word == "The"


def led(low: str, start: int, level: str) -> int:
    """The length of the `@`, or of a role's article, that belongs to the name after it."""
    if low[start - 1 : start] == "@":
        return 1
    article = _ARTICLE.search(low, max(0, start - _AROUND), start) if level in {"common", "phrase"} else None
    return 0 if article is None else start - article.start()
