"""Random pipelines: recipes drawn by Hypothesis, their blocks and their expected results.

`Recipe.build()` composes real blocks, whereas `Recipe.expected()` computes the result in plain Python, so that the
tests compare two independent definitions. Values are integers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from flowdebate import handler, sequencer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis.strategies import DrawFn, SearchStrategy

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.runs.context import Context

NAMES = ("a", "b", "loop", "parallel", "branch", "a~2", "a/b", "a[1]", "loop[1]", "a#1", "a%2F", "über uns", "x\ny")
"""Block names, many of which contain path separators."""


class Boom(Exception):
    """An exception raised by drawn blocks."""


class Bang(Boom):
    """A subclass of `Boom`."""


@dataclass(frozen=True)
class Told:
    """An event emitted by a drawn block when it acts."""

    label: str
    value: int
    seen: int
    """Number of blocks that acted earlier, as counted in the surrounding sequencer's state."""


@dataclass
class Journal:
    """Log of what the drawn blocks in one build do."""

    paths: list[str] = field(default_factory=list)
    inside: Counter[str] = field(default_factory=Counter)
    """Blocks that have started but not finished, keyed by path."""

    @contextmanager
    def visit(self, ctx: Context) -> Iterator[None]:
        """Record that a block is acting until the `with` block ends."""
        self.paths.append(ctx.path)
        self.inside[ctx.path] += 1
        try:
            yield
        finally:
            self.inside[ctx.path] -= 1


@dataclass(frozen=True)
class Recipe:
    """A recipe for a block that yields to other blocks `pauses` times before it acts."""

    name: str

    def build(self, journal: Journal) -> Block[Any, Any]:
        """Build a block that behaves as the recipe describes."""
        raise NotImplementedError

    def expected(self, value: int) -> int:
        """Return the expected output, or raise the expected exception."""
        raise NotImplementedError


@dataclass(frozen=True)
class Add(Recipe):
    """A block that adds `number` after yielding to others `pauses` times."""

    number: int
    pauses: int = 0

    def build(self, journal: Journal) -> Block[Any, Any]:
        async def add(value: int, ctx: Context) -> int:
            with journal.visit(ctx):
                for _ in range(self.pauses):
                    await asyncio.sleep(0)
                scope = ctx.scope.sequencer
                ctx.emit(Told(self.name, value, scope.state["acted"] if scope is not None else -1))
                if scope is not None:
                    scope.update(acted=scope.state["acted"] + 1)
                return value + self.number

        return handler(add, name=self.name)

    def expected(self, value: int) -> int:
        return value + self.number


@dataclass(frozen=True)
class Fails(Recipe):
    """A block that raises an exception."""

    error: type[Boom]

    def build(self, journal: Journal) -> Block[Any, Any]:
        def fail(_: int, ctx: Context) -> int:
            with journal.visit(ctx):
                raise self.error(self.name)

        return handler(fail, name=self.name)

    def expected(self, value: int) -> int:
        raise self.error(self.name)


@dataclass(frozen=True)
class Verb:
    """A step, defined by how it is added to a sequencer and what it does to a value."""

    def add(self, to: Sequencer[Any, Any], journal: Journal) -> Sequencer[Any, Any]:
        """Return `to` with the step added."""
        raise NotImplementedError

    def expected(self, value: int) -> int:
        """Return the value after the step."""
        raise NotImplementedError


@dataclass(frozen=True)
class Over:
    """A condition that holds if the value exceeds `bound`."""

    bound: int

    def __call__(self, value: int) -> bool:
        return value > self.bound


@dataclass(frozen=True)
class Then(Verb):
    """One of `then`, `then_if`, `tap` and `tap_if`."""

    block: Recipe
    when: Over | None = None
    tapped: bool = False

    def add(self, to: Sequencer[Any, Any], journal: Journal) -> Sequencer[Any, Any]:
        block = self.block.build(journal)
        if self.when is None:
            return to.tap(block) if self.tapped else to.then(block)
        return to.tap_if(self.when, block) if self.tapped else to.then_if(self.when, block)

    def expected(self, value: int) -> int:
        if self.when is not None and not self.when(value):
            return value
        output = self.block.expected(value)
        return value if self.tapped else output


@dataclass(frozen=True)
class Plus(Verb):
    """The step `map`."""

    number: int

    def add(self, to: Sequencer[Any, Any], journal: Journal) -> Sequencer[Any, Any]:
        return to.map(lambda value: value + self.number)

    def expected(self, value: int) -> int:
        return value + self.number


@dataclass(frozen=True)
class AtOnce(Verb):
    """The step `parallel`, followed by the sum of the outputs."""

    blocks: tuple[Recipe, ...]
    limit: int | None

    def add(self, to: Sequencer[Any, Any], journal: Journal) -> Sequencer[Any, Any]:
        branches = {f"{index}/": block.build(journal) for index, block in enumerate(self.blocks)}
        return to.parallel(branches, max_concurrency=self.limit).map(lambda outputs: sum(outputs.values()))

    def expected(self, value: int) -> int:
        return sum(block.expected(value) for block in self.blocks)


@dataclass(frozen=True)
class Each(Verb):
    """Either `tap_each` or `for_each` on `copies` copies of the value. The outputs of `for_each` are summed."""

    block: Recipe
    copies: int
    limit: int | None
    tapped: bool

    def add(self, to: Sequencer[Any, Any], journal: Journal) -> Sequencer[Any, Any]:
        block = self.block.build(journal)

        def items(value: int) -> list[int]:
            return [value] * self.copies

        if self.tapped:
            return to.tap_each(block, over=items, max_concurrency=self.limit)
        return to.for_each(block, over=items, max_concurrency=self.limit).map(sum)

    def expected(self, value: int) -> int:
        outputs = [self.block.expected(value) for _ in range(self.copies)]
        return value if self.tapped else sum(outputs)


@dataclass(frozen=True)
class Choice(Verb):
    """The step `branch`."""

    cases: tuple[tuple[Over, Recipe], ...]
    otherwise: Recipe | None

    def add(self, to: Sequencer[Any, Any], journal: Journal) -> Sequencer[Any, Any]:
        return to.branch(
            *((condition, block.build(journal)) for condition, block in self.cases),
            otherwise=None if self.otherwise is None else self.otherwise.build(journal),
        )

    def expected(self, value: int) -> int:
        for condition, block in self.cases:
            if condition(value):
                return block.expected(value)
        return value if self.otherwise is None else self.otherwise.expected(value)


@dataclass(frozen=True)
class Rescue(Verb):
    """The step `rescue`; the sequencer's `expected` decides when it acts."""

    gives: int
    name: str
    on: type[Boom]

    def add(self, to: Sequencer[Any, Any], journal: Journal) -> Sequencer[Any, Any]:
        def rescue(_: Boom, ctx: Context) -> int:
            with journal.visit(ctx):
                return self.gives

        return to.rescue(handler(rescue, name=self.name), on=self.on)

    def expected(self, value: int) -> int:
        return value


@dataclass(frozen=True)
class Again(Verb):
    """A `loop_back` to the first step; the sequencer's `expected` counts its passes."""

    when: Over
    passes: int
    label: str

    def add(self, to: Sequencer[Any, Any], journal: Journal) -> Sequencer[Any, Any]:
        return to.loop_back(to.steps[0].key, when=self.when, max_iterations=self.passes, label=self.label)

    def expected(self, value: int) -> int:
        return value


@dataclass(frozen=True)
class Pipeline(Recipe):
    """A sequencer; if `stateful`, it hides the surrounding state."""

    verbs: tuple[Verb, ...]
    stateful: bool = False

    def build(self, journal: Journal) -> Sequencer[Any, Any]:
        pipeline: Sequencer[Any, Any] = sequencer(name=self.name, state=counter if self.stateful else None)
        for verb in self.verbs:
            pipeline = verb.add(pipeline, journal)
        return pipeline

    def expected(self, value: int) -> int:
        passes, index = 1, 0
        while index < len(self.verbs):
            verb = self.verbs[index]
            try:
                if isinstance(verb, Again) and passes < verb.passes and verb.when(value):
                    passes, index = passes + 1, 0
                    continue
                value = verb.expected(value)
            except Boom as error:
                index, value = self._rescued(error, index)
            index += 1
        return value

    def _rescued(self, error: Boom, index: int) -> tuple[int, int]:
        for place, verb in enumerate(self.verbs):
            if place > index and isinstance(verb, Rescue) and isinstance(error, verb.on):
                return place, verb.gives
        raise error


def counter() -> dict[str, int]:
    """Create a state that counts the drawn blocks that have acted."""
    return {"acted": 0}


SMALL = st.integers(-3, 3)
LIMITS = st.none() | st.integers(1, 3)
CONDITIONS = st.builds(Over, SMALL)
LABELS = st.sampled_from(NAMES)
ERRORS: SearchStrategy[type[Boom]] = st.sampled_from([Boom, Bang])


def leaves(*, failing: bool, pauses: int) -> SearchStrategy[Recipe]:
    """Draw blocks that contain no other blocks."""
    adds: SearchStrategy[Recipe] = st.builds(Add, LABELS, SMALL, st.integers(0, pauses))
    return adds | st.builds(Fails, LABELS, ERRORS) if failing else adds


@st.composite
def recipes(
    draw: DrawFn, /, *, depth: int = 2, failing: bool = True, concurrent: bool = True, pauses: int = 0
) -> Recipe:
    """Draw blocks of any kind, nested `depth` deep. Concurrent blocks never fail."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(leaves(failing=failing, pauses=pauses))
    return draw(pipelines(depth=depth, failing=failing, concurrent=concurrent, pauses=pauses))


@st.composite
def pipelines(
    draw: DrawFn,
    /,
    *,
    depth: int = 2,
    failing: bool = True,
    concurrent: bool = True,
    pauses: int = 0,
    stateful: bool | None = None,
) -> Pipeline:
    """Draw sequencers of random steps, nested `depth` deep."""
    inner = recipes(depth=depth - 1, failing=failing, concurrent=concurrent, pauses=pauses)
    calm = recipes(depth=depth - 1, failing=False, concurrent=concurrent, pauses=pauses)
    kinds: list[SearchStrategy[Verb]] = [
        st.builds(Then, inner, st.none() | CONDITIONS, st.booleans()),
        st.builds(Plus, SMALL),
        st.builds(Choice, st.lists(st.tuples(CONDITIONS, inner), min_size=1, max_size=2).map(tuple), st.none() | inner),
        st.builds(Rescue, SMALL, LABELS, ERRORS),
    ]
    if concurrent:
        kinds.append(st.builds(AtOnce, st.lists(calm, max_size=3).map(tuple), LIMITS))
        kinds.append(st.builds(Each, calm, st.integers(0, 3), LIMITS, st.booleans()))
    steps: SearchStrategy[Verb] = st.one_of(kinds)
    verbs = draw(st.lists(steps, max_size=4))
    loops: bool = draw(st.booleans())
    if verbs and loops:
        place = draw(st.integers(1, len(verbs)))
        verbs.insert(place, draw(st.builds(Again, CONDITIONS, st.integers(1, 3), LABELS)))
    hides_state: bool = draw(st.booleans()) if stateful is None else stateful
    return Pipeline(draw(LABELS), tuple(verbs), hides_state)


@dataclass(frozen=True)
class Outcome:
    """The parts of a run's result that the invariants cover."""

    output: object
    error: str | None
    told: tuple[Told, ...]
    acted: int
    paths: tuple[str, ...]


def outcome_of(block: Block[Any, Any], value: int, journal: Journal) -> Outcome:
    """Run `block` inside a sequencer with a state and return the outcome."""
    journal.paths.clear()
    states: list[Any] = []
    records: list[Any] = []

    def remember(value: object, ctx: Context) -> None:
        states.append(ctx.sequencer)
        records.append(ctx.run.records.events)

    around = sequencer(name="around", state=counter).tap(handler(remember, name="remember")).then(block)
    output: object = None
    error: str | None = None
    try:
        output = around.run_sync(value).output
    except Boom as boom:
        error = f"{type(boom).__name__}: {boom}"
    events = tuple(event for event in records[0] if isinstance(event, Told))
    return Outcome(output, error, events, states[0].state["acted"], tuple(journal.paths))


def result_of(call: Callable[[], int]) -> tuple[object, str | None]:
    """Return the result of `call`, or its exception."""
    try:
        return call(), None
    except Boom as boom:
        return None, f"{type(boom).__name__}: {boom}"
