"""Transition marker of a handoff: "Transition to NAME" at the end of an answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from flowdebate.prompts import AROUND, DECORATION, PAIRS, name_among, tag_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Result of `read_transition`."""

    text: str
    """The answer without the marker; nothing else of it is changed."""
    name: str | None
    """The name, as it is spelt among the names, or as written if it is none of them; None without a marker."""


_MARKER = re.compile(r"\btransition[^\S\n]+to\b", re.IGNORECASE)
_GAPS = (re.compile(r"[^\S\n]*"), re.compile(r"[^\S\n]*:?[^\S\n]*"))
_BETWEEN = re.compile(rf"[^\S\n]*:?[^\S\n]*([{re.escape(DECORATION)}]*)[^\S\n]*:?[^\S\n]*")
"""Characters allowed between "Transition to" and the name."""
_BEHIND = re.compile(rf"(?:[{re.escape(AROUND)}]|[^\S\n])*")
_BULLET = re.compile(r"(?:[-+•>=#→⇒]|[^\S\n])*")
_SENTENCE_END = re.compile(rf"[.!?…:;。！？][{re.escape(DECORATION)}]*[^\S\n]+$")
_EDGE = f"{AROUND} \t\r\n"
_LOOKED_AT = 50  # markers, from the last on: a model can write any number of them
_LONGEST_STRANGER = 80  # characters of a name that nobody has; what is longer is a sentence about some transition
_OPENERS = {closes: opens for opens, closes in PAIRS.items()}


def read_transition(text: str, names: Iterable[str]) -> Transition:
    r"""The name that `text` hands over to, and the rest of the text.

    A marker is "Transition to" with one of `names`, in any case, maybe in quotes, brackets or markdown, where the text
    ends or in a sentence or line of its own; the last one counts, and is taken off. Of names that begin alike the
    longest that fits is meant. In the last line also a name that nobody has is a marker, if it is a sentence of its
    own: such a name is given as it was written.

    >>> read_transition("Machines err.\n\n**Transition to: opponent.**", ["Proponent", "Opponent"])
    Transition(text='Machines err.', name='Opponent')
    >>> read_transition("The transition to Opponent rule failed.", ["Proponent", "Opponent"]).name is None
    True
    """
    known = tuple(names)
    for marker in reversed(list(_MARKER.finditer(text))[-_LOOKED_AT:]):
        found = _read(text, marker, known)
        if found is not None:
            return found
    return Transition(text=text, name=None)


def _read(text: str, marker: re.Match[str], names: tuple[str, ...]) -> Transition | None:
    """The transition that `marker` begins; None where it is only words."""
    begin = marker.start()
    while begin > 0 and text[begin - 1] in DECORATION:  # quotes, brackets and markdown right before it are its own
        begin -= 1
    opened = text[begin : marker.start()]
    between = _BETWEEN.match(text, marker.end())
    assert between is not None  # noqa: S101 - it matches nothing at all, too
    opened += between[1]
    # a sentence or a line of its own begins with it; the end of a sentence is no more than 20 characters away
    before = text[max(_line_start(text, begin), begin - 20) : begin]
    own = _bulleted(text, begin) or _SENTENCE_END.search(before) is not None
    # a name may begin with what else would be a colon, a quote or a bracket
    begins = dict.fromkeys(gap.end() for gap in (*(g.match(text, marker.end()) for g in _GAPS), between) if gap)
    known = next(filter(None, (_named(text, place, names) for place in begins)), None)
    if known is not None:
        name, name_end = known
        line_end = _line_end(text, name_end)
        behind = _BEHIND.match(text, name_end, line_end)
        end = name_end if behind is None else behind.end()
        ends = end == line_end and (own or not text[end:].strip())
        if ends or (own and any(c in ".!…" for c in text[name_end:end])):
            return Transition(text=_without(text, begin, name_end, end, opened), name=name)
    line_end = _line_end(text, between.end())
    name_end = _undecorated(text, between.end(), line_end)
    stranger = text[between.end() : name_end].strip(_EDGE)
    if own and 0 < len(stranger) <= _LONGEST_STRANGER and not text[line_end:].strip():
        return Transition(text=_without(text, begin, name_end, line_end, opened), name=stranger)
    return None


def _named(text: str, begin: int, names: tuple[str, ...]) -> tuple[str, int] | None:
    """The one of `names` at `begin`, and where it ends."""
    match = _pattern(names).match(text, begin)
    if match is not None:
        written = " ".join(match["name"].split())
        return name_among(written, names) or name_among(match["name"], names) or written, match.end()
    line_end = _line_end(text, begin)
    rest = text[begin:line_end]
    # other forms of the same characters, which no pattern of the name itself finds
    name = name_among(rest, names) or name_among(rest.removeprefix("the "), names)
    if name is None:
        return None
    return name, line_end if name[-1] in AROUND else _undecorated(text, begin, line_end)


def _undecorated(text: str, begin: int, end: int) -> int:
    """The end of `text[begin:end]` without quotes, markdown and the like."""
    return begin + len(text[begin:end].rstrip(_EDGE))


@lru_cache(maxsize=64)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Finds any of `names`, as it is or as prompts show it, the longest first; not within a longer word."""
    spelt = sorted({form for name in names for form in (name, tag_name(name))}, key=len, reverse=True)
    forms = "|".join(r"\s+".join(map(re.escape, form.split())) for form in spelt if form.strip())
    # "the" is lazy, for a name may begin with it
    return re.compile(rf"(?:the\s+)??(?P<name>{forms or '(?!)'})(?!\w)", re.IGNORECASE)


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end == -1 else end


def _bulleted(text: str, begin: int) -> bool:
    """Whether only a bullet precedes `begin` on its line."""
    return _BULLET.fullmatch(text, _line_start(text, begin), begin) is not None


def _without(text: str, begin: int, name_end: int, end: int, opened: str) -> str:
    """`text` without the marker between `begin` and `end`, and without the white space that set it off."""
    line = _line_start(text, begin)
    if _bulleted(text, begin):
        begin = line
    before, behind = text[:begin], text[end:]
    kept = _unopened(text[name_end:end], opened, before)
    if not behind.strip():
        return before.rstrip() + kept
    if begin == line and behind.startswith("\n"):
        return before + kept + behind[1:]
    return before + kept + behind.lstrip(" \t")


def _unopened(closing: str, opened: str, before: str) -> str:
    """The part of `closing` that closes something opened before the marker: the bold of a whole paragraph."""
    run = re.search(rf"[{re.escape(DECORATION)}]+\s*$", closing.rstrip(".!?…,;: \t\r"))
    if run is None:
        return ""
    closers = run[0].strip()
    if opened or closers[0] in PAIRS or closers[0] == "'":
        return ""
    opener = _OPENERS.get(closers[0])
    if opener is None:
        return closers if before.count(closers) % 2 else ""
    return closers if before.count(opener) > before.count(closers[0]) else ""
