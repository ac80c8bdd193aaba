"""Aliases for the names of debaters and models, drawn once per run, and reports of names found in arguments (leaks)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol
from unicodedata import normalize

from pydantic import Field

from flowdebate._util.wire import WireModel, new_list
from flowdebate.chassis.state import derived, entries_of, pattern_state

if TYPE_CHECKING:
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.context import Context

    from .names import Meant, Names

LeakKind = Literal["name", "model", "family"]
"""Kind of leaked name: "name" for a debater, "model" for a model on the roster, or "family" for a model family or maker
that an author claims as its own.
"""
# nouns that fit any speaker: they imply no position and are not debate roles such as judge or moderator
_NOUNS = ("Speaker", "Participant", "Discussant", "Voice", "Contributor", "Panelist")
_MODEL_NOUNS = ("Model", "System", "Machine")
_MAKER_NOUNS = ("Maker", "Company", "Vendor")
_LETTERS = ("bdfgklmnprstvz", "aeiou")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A name found in an argument."""

    kind: LeakKind
    text: str
    """The name as written, including any `@` or article."""
    start: int
    end: int
    meant: str
    """Name of the debater, model, model family or maker referred to, spelled as in the roster if listed there."""
    alias: str


class Hidden(NamedTuple):
    """Text with names replaced by aliases, and the leaks found in the original."""

    text: str
    leaks: tuple[Leak, ...]


class Aliases:
    """Aliases for the names in a debate, created by `make_aliases` and drawn on first use."""

    def __init__(self, hidden_names: Names, draw: Callable[[], Mapping[Meant, str]]) -> None:
        self._known = hidden_names
        self._draw = draw
        self.hide: Callable[[str], Hidden] = cache(self._hide)  # cached for as long as the debate lasts
        """Function that replaces each name in a text with its alias; text without names is returned unchanged.

        Its running time is linear in the length of the text. It replaces every leak and changes nothing else:
        `hide(hide(text).text) == (hide(text).text, ())`.
        """

    @cached_property
    def _aliases(self) -> Mapping[Meant, str]:
        return self._draw()

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The aliases, keyed by model name and by debater name."""
        drawn = self._aliases
        # names come last, so that a debater with the same name as a model takes precedence
        return {name: drawn[kind, name] for want in ("model", "name") for kind, name in drawn if kind == want}

    def of(self, name: str) -> str:
        """Return the alias for a debater or model; raise LookupError for an unknown name."""
        alias = self.names.get(name)
        if alias is None:
            message = f"no alias was drawn for {name!r}; there are aliases for: {', '.join(map(repr, self.names))}"
            raise LookupError(message)
        return alias

    def _hide(self, text: str) -> Hidden:
        leaks = self._find_leaks(text)
        hidden, again = text, leaks
        # repeat, because a pass replaces only one of several overlapping names; each pass leaves fewer names to find
        while again:
            pieces, done = [], 0
            for leak in again:
                pieces += [hidden[done : leak.start], leak.alias]
                done = leak.end
            hidden = "".join(pieces) + hidden[done:]
            again = self._find_leaks(hidden)
        return Hidden(hidden, leaks)

    def _find_leaks(self, text: str) -> tuple[Leak, ...]:
        return tuple(
            Leak(kind=kind, text=text[start:end], start=start, end=end, meant=meant, alias=self._aliases[whose])
            for start, end, kind, meant, whose in self._known.find(text)
        )


def make_aliases(
    names: Iterable[str],
    *,
    models: Iterable[str] = (),
    question: str = "",
    stances: Iterable[str] = (),
    used: Iterable[str] = (),
    random: Random,
) -> Aliases:
    """Create aliases for `names` and `models`, given in any order, drawing them from `random` on first use.

    An alias shares no word with a name, a model, the question, a stance, or any string in `used`. A name that also
    occurs in the question or in a stance is hidden only where it clearly refers to a person.

    >>> from random import Random
    >>> aliases = make_aliases(["Alice", "skeptic"], random=Random(7))
    >>> aliases.hide("As Alice, I ask: would any skeptic?").text
    'As Speaker 93, I ask: would any skeptic?'
    """
    people, machines = tuple(sorted(set(names))), tuple(sorted(set(models)))
    pattern, words = _compile(people, machines, question, tuple(stances))
    avoid = words.union(*map(_split_words, used))
    return Aliases(pattern, lambda: _draw_aliases(people, machines, avoid, random))


@lru_cache(maxsize=64)  # cached, because every run of a debate needs the same patterns
def _compile(
    people: tuple[str, ...], machines: tuple[str, ...], question: str, stances: tuple[str, ...]
) -> tuple[Names, frozenset[str]]:
    """Compile the patterns for the names, and collect the words that aliases must not contain."""
    from .names import Names  # imported lazily, because importing the module compiles its patterns

    words = frozenset().union(*map(_split_words, (*people, *machines, question, *stances)))
    return Names(people, machines, question=question, stances=stances), words


def _split_words(text: str) -> set[str]:
    """Split `text` into words as readers see them; superscript digits count as part of a word and also as a word."""
    from .names import plain_words

    return {*plain_words(text), *plain_words(normalize("NFKC", text))}


def _draw_aliases(
    people: Sequence[str], machines: Sequence[str], avoid: frozenset[str], random: Random
) -> Mapping[Meant, str]:
    """Draw a noun and a number for each name, model family and maker, skipping the words and numbers in `avoid`."""
    # start at 10: in many arguments, a single digit refers to a turn, a round or a side
    count, low = len(people) + len(machines) + 2, 10
    free: Sequence[int] = ()
    while len(free) < count:
        free, low = range(low, low * 10), low * 10
        if not avoid.isdisjoint(map(str, free)):
            free = [number for number in free if str(number) not in avoid]
    # always draw numbers before nouns: any other order would change the aliases for a given seed
    numbers, nouns = random.sample(free, count), []
    for words in (_NOUNS, _MODEL_NOUNS, _MAKER_NOUNS):
        noun = next((word for word in words if word.lower() not in avoid), None)
        while noun is None:
            alias = "".join(random.choice(letters) for letters in _LETTERS * 3)
            noun = None if alias in avoid else alias.capitalize()
        nouns.append(noun)
    speaker, model, maker = nouns
    drawn: dict[Meant, str] = {("name", name): f"{speaker} {numbers.pop()}" for name in people}
    drawn |= {("model", name): f"{model} {numbers.pop()}" for name in machines}
    return drawn | {("family", ""): f"{model} {numbers.pop()}", ("maker", ""): f"{maker} {numbers.pop()}"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Anonymity:
    """Names of debaters and models to hide in a debate.

    The aliases depend on the names, the run's seed and the debate's path.
    """

    names: tuple[str, ...]
    models: tuple[str, ...] = ()
    """Names of the models known before the run."""
    stances: tuple[str, ...] = ()
    question: str | None = None
    """The question; only needed for blocks used outside a debate."""

    def aliases(self, ctx: Context) -> Aliases:
        """Return the aliases for this run of the debate."""
        handle = ctx.scope.sequencer
        aliases_by_key: dict[object, Aliases] = {} if handle is None else handle.derived
        aliases = aliases_by_key.get(self)
        if aliases is None:
            key = f"{ctx.seed}:aliases:{'' if handle is None else handle.path}"
            aliases = aliases_by_key[self] = make_aliases(
                self.names,
                models=self.models,
                question=pattern_state(ctx).question if self.question is None else self.question,
                stances=self.stances,
                random=Random(key),  # noqa: S311 - repeatable on purpose, and not the judge's
            )
        return aliases

    def entries(self, ctx: Context) -> Sequence[Any]:
        """Return the transcript so far with names replaced by aliases.

        Entries without names are returned unchanged. Each argument is searched only once per debate, because `derived`
        caches the results of earlier turns. The entries have the pattern's own entry type.
        """
        hide = self.aliases(ctx).hide

        def extend(views: Sequence[Any], entries: Sequence[Any], count: int) -> Sequence[Any]:
            further = [
                entry if (text := hide(entry.text).text) is entry.text else entry.model_copy(update={"text": text})
                for entry in entries[count:]
            ]
            return [*views, *further]

        return derived(ctx, (self, "entries"), (), extend)

    def hide(self, text: str | None, ctx: Context) -> str | None:
        """Replace the names in `text` with aliases."""
        return text if text is None else self.aliases(ctx).hide(text).text

    def leaks(self, ctx: Context) -> LeakReport | None:
        """Report the names found in the transcript so far, or return None if there are none."""
        report = leak_report(entries_of(ctx), self.aliases(ctx))
        return report if report.leaks else None


def named_models(model: ModelChoice, roster: Iterable[Any], *more_models: object) -> tuple[str, ...]:
    """List the models specified by a pattern: in its `model` option, in its `roster` and in `more_models`."""
    values = model.values() if isinstance(model, Mapping) else (model,)
    models = [*values, *(member.model for member in roster), *more_models]
    model_names = [name for name in models if isinstance(name, str) and "/" in name and not name.startswith("intent/")]
    return tuple(dict.fromkeys(model_names))


_EXCERPT = 30
"""Number of characters shown on either side of a leak, so that a reader can see whether it is a name."""


class Entry(Protocol):
    """Protocol for an argument in the transcript of any pattern."""

    # properties, because entries are frozen and a protocol's plain attributes would have to be writable
    @property
    def round(self) -> int:
        """The argument's round."""

    @property
    def agent_name(self) -> str:
        """The argument's author."""

    @property
    def text(self) -> str:
        """The argument's text as the author wrote it."""


class LeakAt(WireModel):
    """A name found in an argument."""

    entry: Annotated[int, Field(ge=0)]
    """The index of the argument in the transcript."""
    round: Annotated[int, Field(ge=1)]
    author: str
    """The argument's author."""
    kind: LeakKind
    whose: Literal["own", "other", "model"]
    """Owner of the name: the author ("own"), another debater ("other"), or a model or its maker ("model")."""
    meant: str
    """Name of the debater, model, model family or maker referred to, spelled as in the roster if listed there."""
    text: str
    """The name as the author wrote it."""
    start: Annotated[int, Field(ge=0)]
    """Character offset of the name in the argument's text."""
    end: Annotated[int, Field(ge=0)]
    excerpt: str
    """The name and a few words on either side of it, on one line."""


class LeakReport(WireModel):
    """Report on the names found in a transcript's arguments."""

    entries: Annotated[int, Field(ge=0)]
    """The number of arguments."""
    leaks: list[LeakAt] = Field(default_factory=new_list)
    """The leaks, in transcript order."""

    @property
    def count(self) -> int:
        return len(self.leaks)

    @property
    def own(self) -> int:
        """Number of times authors mention their own names."""
        return sum(leak.whose == "own" for leak in self.leaks)

    @property
    def others(self) -> int:
        """Number of times authors mention another debater's name."""
        return sum(leak.whose == "other" for leak in self.leaks)

    @property
    def models(self) -> int:
        """Number of times authors mention the name of a model or its maker."""
        return sum(leak.whose == "model" for leak in self.leaks)

    @property
    def share(self) -> float:
        """Share of arguments containing a name, from 0.0 to 1.0; 0.0 if there are no arguments."""
        return len({leak.entry for leak in self.leaks}) / self.entries if self.entries else 0.0


def leak_report(entries: Sequence[Entry], aliases: Aliases) -> LeakReport:
    """Report the names found in the arguments in `entries`, and where they occur."""
    leaks: list[LeakAt] = []
    for place, entry in enumerate(entries):
        for leak in aliases.hide(entry.text).leaks:
            first, last = max(0, leak.start - _EXCERPT), leak.end + _EXCERPT
            excerpt = " ".join(entry.text[first:last].split())
            leaks.append(
                # skip validation, which would take most of the time for an argument full of names
                LeakAt.model_construct(
                    entry=place,
                    round=entry.round,
                    author=entry.agent_name,
                    kind=leak.kind,
                    whose="model" if leak.kind != "name" else "own" if leak.meant == entry.agent_name else "other",
                    meant=leak.meant,
                    text=leak.text,
                    start=leak.start,
                    end=leak.end,
                    excerpt=f"{'…' if first else ''}{excerpt}{'…' if last < len(entry.text) else ''}",
                )
            )
    return LeakReport(entries=len(entries), leaks=leaks)
