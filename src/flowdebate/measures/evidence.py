"""Claims without evidence: a heuristic for English that finds sentences to check."""

from __future__ import annotations

import re
from itertools import pairwise

__all__ = ("claims_without_evidence",)

_END = re.compile(r"(?<=[.!?…])[\"'”’)\]*_]*[ \t]+|(?<=[。！？])|[\r\n\x0b\x0c\x85\u2028\u2029]+")
"""Possible ends of a sentence."""
_ABBREVIATED = re.compile(
    r"\b(?:[A-Z]|al|approx|cf|Dr|e\.g|eg|Fig|i\.e|ie|Mr|Mrs|Ms|no|No|Prof|St|U\.S|vs)\.$", re.ASCII
)
"""Abbreviations, whose full stop ends no sentence."""
_BULLET = re.compile(r"\A\s*(?:[-*+•>#]+|\(?\d{1,2}[.)])[ \t]+")

_YEAR = r"(?:1[5-9]|20)\d\d[a-z]?"
_NOTE = r"\[[^\[\]\n]{1,80}\]"
_IN_BRACKETS = rf"\((?=[^()]*[A-Z][a-z])[^()]{{1,120}}\b{_YEAR}\b[^()]{{0,60}}\)"
_LINK = r"https?://|www\.|\bdoi\b|\barxiv\b"
_NAMED = r"\b(?:[Ss]ources?|[Cc]iting|[Cc]ited|[Rr]eference)\b ?:?"

_SOURCE = re.compile(
    rf"{_NOTE}|{_IN_BRACKETS}|(?i:{_LINK})|{_NAMED}|\bet al\b|[¹²³⁴⁵⁶⁷⁸⁹]"
    rf"|\b[A-Z]\w+ \({_YEAR}\)|\b[Aa]ccording to (?:the )?[A-Z]"
)
"""A pointer to a source: a note, (Smith 2020), Smith (2020), a link, "according to the OECD"."""
_SOURCE_FIRST = re.compile(rf"\s*(?:{_NOTE}|{_IN_BRACKETS}|(?i:{_LINK})|{_NAMED})")
"""The same at the beginning of a sentence, where it may belong to the one before."""
_NOTE_FIRST = re.compile(rf"\s*(?:{_NOTE}|{_IN_BRACKETS})")

_NUMBER = r"(?<![A-Za-z0-9_.,#-])(?<!(?:agent|point|round) )(?<!option )(?<!(?:claim|issue) )(?<!step )(?<!proposal )\d"
_SUPERLATIVE = (
    r"\b(?<!at )(?:best|biggest|cheapest|fastest|fewest|greatest|highest|largest|least|lowest|most|safest|slowest"
    r"|smallest|strongest|weakest|worst)\b(?! likely)"
)
_APPEAL = (
    r"\b(?:data|evidence|experts?|polls?|research|researchers|science|scientists|statistics|stud(?:y|ies)|surveys?)"
    r"(?: \w+)? (?:agrees?|confirms?|demonstrates?|finds?|found|indicates?|proves?|reveals?|says?|shows?|showed"
    r"|suggests?)\b|\b(?:proven|well[- ]known|widely accepted)\b"
)
_CLAIM = re.compile(f"{_NUMBER}|{_SUPERLATIVE}|{_APPEAL}", re.IGNORECASE)


def claims_without_evidence(text: str) -> list[str]:
    """Sentences of `text` that make a claim in need of evidence and cite none, in order and verbatim.

    A number, a superlative, or an appeal ("studies show", "experts agree") makes such a claim. A note ("[3]"), a
    reference, a link, or "according to" and a name, in the sentence or right after it, is evidence. Questions make no
    claims. The heuristic knows English words only, and not whether a source exists or supports the claim.

    >>> claims_without_evidence("Rents rose by 40%. Supply fell by a third [2]. Studies show that caps work. Why?")
    ['Rents rose by 40%.', 'Studies show that caps work.']
    """
    claims = []
    for sentence, after in pairwise([*_sentences(text), ""]):
        own = sentence[match.end() :] if (match := _NOTE_FIRST.match(sentence)) else sentence
        plain = _BULLET.sub("", own, count=1).strip()
        asserts = _CLAIM.search(plain) and not plain.rstrip("\"'”’)]*_ ").endswith(("?", "？"))
        if asserts and not _SOURCE.search(own) and not _SOURCE_FIRST.match(after):
            claims.append(plain)
    return claims


def _sentences(text: str) -> list[str]:
    """The sentences of `text` with the blanks around them; the full stop of an abbreviation ends none."""
    sentences = []
    start = 0
    for end in _END.finditer(text):
        if not _ABBREVIATED.search(text, max(start, end.start() - 8), end.start()):
            sentences.append(text[start : end.end()])
            start = end.end()
    return [sentence for sentence in [*sentences, text[start:]] if sentence.strip()]
