"""Aliases for the names of debaters and models in texts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from random import Random

    from flowdebate.patterns.anonymity.names import Meant, Names


LeakKind = Literal["name", "model", "family"]
"""A debater, a model of the roster, or a model family or maker that authors call their own."""
# words for anybody who speaks: none of them says what somebody stands for, or is a role of a debate (judge, moderator)
_NOUNS = ("Speaker", "Participant", "Discussant", "Voice", "Contributor", "Panelist")
_MODEL_NOUNS = ("Model", "System", "Machine")
_MAKER_NOUNS = ("Maker", "Company", "Vendor")
_LETTERS = ("bdfgklmnprstvz", "aeiou")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A name in a text."""

    kind: LeakKind
    text: str
    """The name as written, with its `@` or its article."""
    start: int
    end: int
    meant: str
    """The name or model as the roster writes it, or the family or maker."""
    alias: str


class Hidden(NamedTuple):
    """A text with aliases in place of names, and the leaks in the original."""

    text: str
    leaks: tuple[Leak, ...]


class Aliases:
    """One alias for each name of a debate; made by `make_aliases`, and drawn when the first is needed."""

    def __init__(self, known: Names, draw: Callable[[], Mapping[Meant, str]]) -> None:
        self._known = known
        self._draw = draw
        self.hide: Callable[[str], Hidden] = cache(self._hide)  # the aliases end with the debate
        """Replaces each name in a text by its alias; a text without names stays the same object.

        Runs in time linear in the length of the text. Nothing outside the leaks changes, and what is hidden has no
        leaks: `hide(hide(text).text) == (hide(text).text, ())`.
        """

    @cached_property
    def _aliases(self) -> Mapping[Meant, str]:
        return self._draw()

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The aliases by model and by debater's name."""
        drawn = self._aliases
        # a debater who is called like a model comes last, and so is the one that is meant
        return {name: drawn[kind, name] for want in ("model", "name") for kind, name in drawn if kind == want}

    def of(self, name: str) -> str:
        """The alias of a debater or a model; LookupError for unknown names."""
        alias = self.names.get(name)
        if alias is None:
            message = f"no alias was drawn for {name!r}; there is one for: {', '.join(map(repr, self.names))}"
            raise LookupError(message)
        return alias

    def _hide(self, text: str) -> Hidden:
        leaks = self._leaks(text)
        shown, again = text, leaks
        while again:  # a name may have hidden another one that overlapped it; each pass leaves fewer words of the text
            pieces, done = [], 0
            for leak in again:
                pieces += [shown[done : leak.start], leak.alias]
                done = leak.end
            shown = "".join(pieces) + shown[done:]
            again = self._leaks(shown)
        return Hidden(shown, leaks)

    def _leaks(self, text: str) -> tuple[Leak, ...]:
        return tuple(
            Leak(
                kind="family" if found.kind == "maker" else found.kind,
                text=text[found.start : found.end],
                start=found.start,
                end=found.end,
                meant=found.meant,
                alias=self._aliases[found.whose],
            )
            for found in self._known.find(text)
        )


def make_aliases(
    names: Iterable[str],
    *,
    models: Iterable[str] = (),
    question: str = "",
    stances: Iterable[str] = (),
    taken: Iterable[str] = (),
    random: Random,
) -> Aliases:
    """Aliases for `names` and `models`, in whatever order; they are drawn from `random` when the first is needed.

    An alias shares no word with a name, a model, the question, a stance, or a text in `taken`. A name that occurs in
    the question or in a stance is hidden only at a sign that it refers to a person.

    >>> from random import Random
    >>> aliases = make_aliases(["Alice", "skeptic"], random=Random(7))
    >>> aliases.hide("As Alice, I ask: would any skeptic?").text
    'As Speaker 93, I ask: would any skeptic?'
    """
    from flowdebate.patterns.anonymity.names import plain_words

    people, machines = tuple(sorted(set(names))), tuple(sorted(set(models)))
    known, words = _compile(people, machines, question, tuple(stances))
    avoid = words.union(*map(plain_words, taken))

    def draw() -> Mapping[Meant, str]:
        # the numbers are drawn before the nouns, always: an order that changed would give a seed other aliases
        numbers = _draw_numbers(len(people) + len(machines) + 2, avoid, random)
        noun, model_noun, maker_noun = (
            _choose_noun(nouns, avoid, random) for nouns in (_NOUNS, _MODEL_NOUNS, _MAKER_NOUNS)
        )
        drawn: dict[Meant, str] = {("name", name): f"{noun} {numbers.pop()}" for name in people}
        drawn |= {("model", model): f"{model_noun} {numbers.pop()}" for model in machines}
        return drawn | {("family", ""): f"{model_noun} {numbers.pop()}", ("maker", ""): f"{maker_noun} {numbers.pop()}"}

    return Aliases(known, draw)


@lru_cache(maxsize=64)  # the same in all runs of a debate
def _compile(
    people: tuple[str, ...], machines: tuple[str, ...], question: str, stances: tuple[str, ...]
) -> tuple[Names, frozenset[str]]:
    """The compiled names, and the words that aliases must avoid."""
    from flowdebate.patterns.anonymity.names import Names, plain_words

    words = frozenset().union(*map(plain_words, (*people, *machines, question, *stances)))
    return Names(people, machines, question=question, stances=stances), words


def _draw_numbers(count: int, avoid: frozenset[str], random: Random) -> list[int]:
    """Distinct numbers of two digits, or of more if there are too few."""
    low = 10  # a single digit is a turn, a round or a side in many arguments
    while True:
        free: Sequence[int] = range(low, low * 10)
        if not avoid.isdisjoint(map(str, free)):
            free = [number for number in free if str(number) not in avoid]
        if len(free) >= count:
            return random.sample(free, count)
        low *= 10


def _choose_noun(nouns: Sequence[str], avoid: frozenset[str], random: Random) -> str:
    """The first of `nouns` that is free, or a made-up word."""
    for noun in nouns:
        if noun.lower() not in avoid:
            return noun
    while True:
        made = "".join(random.choice(letters) for letters in _LETTERS * 3)
        if made not in avoid:
            return made.capitalize()
