"""Where a text says of its author which model it is, or who made it."""

from __future__ import annotations

import re

__all__ = ("says_family", "says_vendor")

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
