"""Finding the names of a debate in a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowdebate.views.folding import fold, origins
from flowdebate.views.known_names import Known, known_makers
from flowdebate.views.leaks import Leak
from flowdebate.views.naming import naming_start, phrase_start
from flowdebate.views.self_naming import says_family, says_vendor
from flowdebate.views.spellings import family_named, key_of

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping

    from flowdebate.schemas.anonymity import LeakKind
    from flowdebate.views.known_names import AliasOf

__all__ = ("Finder",)


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
