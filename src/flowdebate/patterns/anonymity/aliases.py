"""Names that arguments hold, found and replaced by aliases: who argues is not told by what is argued.

See docs/anonymity.md for what counts as a name and what does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

from flowdebate.patterns.anonymity.schemas import LeakAt, LeakReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from random import Random

    from flowdebate.patterns.anonymity.find import Finder
    from flowdebate.patterns.anonymity.known_names import AliasOf
    from flowdebate.patterns.anonymity.schemas import LeakKind
    from flowdebate.patterns.debate.schemas import DebateContributionEntry

__all__ = (
    "Aliases",
    "Leak",
    "leak_report",
    "make_aliases",
)

_NOUNS = ("Speaker", "Participant", "Discussant", "Voice", "Contributor", "Panelist")
_MODEL_NOUNS = ("Model", "System", "Machine")
_MAKER_NOUNS = ("Maker", "Company", "Vendor")
_LETTERS = ("bdfgklmnprstvz", "aeiou")
_KEPT = 128
"""Texts whose hidden form is kept."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Aliases:
    """An alias for each name of a debate, and what finds the names in texts. See `make_aliases`."""

    names: Mapping[str, str]
    """The alias of each debater's name, and of each model."""
    _find: Callable[[str], list[Leak]] = field(repr=False)
    _hidden: Callable[[str], str] = field(repr=False)

    def of(self, name: str) -> str:
        """The alias of a debater's name or of a model; LookupError for others."""
        alias = self.names.get(name)
        if alias is None:
            message = f"no alias was drawn for {name!r}; there is one for: {', '.join(map(repr, self.names))}"
            raise LookupError(message)
        return alias

    def find(self, text: str) -> list[Leak]:
        """The names that `text` holds, in the order in which they stand there."""
        return self._find(text)

    def hide(self, text: str) -> str:
        """`text` with an alias for each name that it holds; without one, the same text.

        In time that grows with the length of the text, and once for each of a transcript's last texts, since every
        turn shows them again. `hide(hide(text)) == hide(text)`, and `find` finds nothing in it.
        """
        return self._hidden(text)


def make_aliases(
    names: Iterable[str],
    *,
    models: Iterable[str] = (),
    question: str = "",
    stances: Iterable[str] = (),
    taken: Iterable[str] = (),
    random: Random,
) -> Aliases:
    """Aliases for `names` and `models`, drawn from `random`; in which order they are given changes nothing.

    No word of an alias is one of a name, a model, the question, a stance, or a text in `taken`. A name that occurs in
    the question or in a stance counts as one only where it names somebody.

    >>> from random import Random
    >>> aliases = make_aliases(["Alice", "skeptic"], random=Random(7))
    >>> aliases.hide("As Alice, I ask: would any skeptic?") == f"As {aliases.of('Alice')}, I ask: would any skeptic?"
    True
    """
    people, machines, positions = tuple(sorted(set(names))), tuple(sorted(set(models))), tuple(stances)
    finder, avoid = _finder(people, machines, question, positions)
    if taken:
        avoid = avoid.union(*map(_words, taken))
    drawn = _numbers(len(people) + len(machines) + 2, avoid, random)
    noun, model_noun, maker_noun = (_noun(nouns, avoid, random) for nouns in (_NOUNS, _MODEL_NOUNS, _MAKER_NOUNS))
    of_people = {name: f"{noun} {drawn.pop()}" for name in people}
    of_models = {model: f"{model_noun} {drawn.pop()}" for model in machines}
    aliases: dict[AliasOf, str] = {("name", name): alias for name, alias in of_people.items()}
    aliases |= {("model", model): alias for model, alias in of_models.items()}
    aliases |= {("family", ""): f"{model_noun} {drawn.pop()}", ("maker", ""): f"{maker_noun} {drawn.pop()}"}
    find = partial(finder.find, aliases=aliases)
    hide = lru_cache(maxsize=_KEPT)(partial(_hidden, find))
    return Aliases(names={**of_models, **of_people}, _find=find, _hidden=hide)


@lru_cache(maxsize=64)  # the same in all runs of a debate
def _finder(
    people: tuple[str, ...], machines: tuple[str, ...], question: str, positions: tuple[str, ...]
) -> tuple[Finder, frozenset[str]]:
    """What finds the names, and the words that no alias may have."""
    # Here, since it takes 20 ms to get ready to look for names.
    from flowdebate.patterns.anonymity.find import Finder
    from flowdebate.patterns.anonymity.known_names import known_names

    known = known_names(people, machines, question=question, stances=positions)
    spellings = sorted({one.pattern for one in known.values()}, key=len, reverse=True)
    finder = Finder(known=known, pattern=re.compile("|".join(spellings)) if spellings else None)
    return finder, frozenset().union(*map(_words, (*people, *machines, question, *positions)))


def _words(text: str) -> Iterable[str]:
    from flowdebate.patterns.anonymity.known_names import plain_words

    return plain_words(text)


def _hidden(find: Callable[[str], list[Leak]], text: str) -> str:
    while leaks := find(text):  # a second look is nearly always the last: an alias is no name
        pieces, done = [], 0
        for leak in leaks:
            pieces += [text[done : leak.start], leak.alias]
            done = leak.end
        text = "".join(pieces) + text[done:]
    return text


def _numbers(count: int, avoid: frozenset[str], random: Random) -> list[int]:
    """So many different numbers of two digits, or of more where there are too few."""
    low = 10
    while True:
        free = [number for number in range(low, low * 10) if str(number) not in avoid]
        if len(free) >= count:
            return random.sample(free, count)
        low *= 10


def _noun(nouns: Sequence[str], avoid: frozenset[str], random: Random) -> str:
    """The first of `nouns` that nothing else is called, or a word made up."""
    for noun in nouns:
        if noun.lower() not in avoid:
            return noun
    while True:
        made = "".join(random.choice(letters) for letters in _LETTERS * 3)
        if made not in avoid:
            return made.capitalize()


_SHOWN = 30
"""Characters around a leak that its excerpt shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A name in a text."""

    kind: LeakKind
    """A debater's name, a model's, or a family of models or its maker."""
    text: str
    """The name as it is written there, with its `@` or its article."""
    start: int
    end: int
    meant: str
    """Whom it names: a name or a model as the roster writes it, or a family or a maker."""
    alias: str
    """What stands for it."""


def leak_report(entries: Sequence[DebateContributionEntry], aliases: Aliases) -> LeakReport:
    """Which names stand in the arguments of `entries`, and where."""
    found = [
        LeakAt(
            entry=place,
            round=entry.round,
            author=entry.agent_name,
            kind=leak.kind,
            whose=_whose(leak, entry.agent_name),
            meant=leak.meant,
            text=leak.text,
            start=leak.start,
            end=leak.end,
            excerpt=_excerpt(entry.text, leak),
        )
        for place, entry in enumerate(entries)
        if aliases.hide(entry.text) != entry.text  # which is known of most already
        for leak in aliases.find(entry.text)
    ]
    return LeakReport(entries=len(entries), leaks=found)


def _whose(leak: Leak, author: str) -> Literal["own", "other", "model"]:
    if leak.kind != "name":
        return "model"
    return "own" if leak.meant == author else "other"


def _excerpt(text: str, leak: Leak) -> str:
    """The leak and what stands around it, on one line."""
    first, last = max(0, leak.start - _SHOWN), leak.end + _SHOWN
    shown = " ".join(text[first:last].split())
    return f"{'…' if first else ''}{shown}{'…' if last < len(text) else ''}"
