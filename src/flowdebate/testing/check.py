"""Checks that patterns keep the library's promises, using generated questions, answers, failures and delays.

from flowdebate.testing import check_debate

def test_my_debate():
    check_debate(make_debate)
"""

from __future__ import annotations

import asyncio
import inspect
import random
import re
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from random import SystemRandom
from time import monotonic
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from flowdebate._util.validation import check_count, check_library, check_seconds
from flowdebate.blocks.base import Block
from flowdebate.blocks.human.answers import submit_answer
from flowdebate.blocks.steps import LoopBack, Step
from flowdebate.chassis.rounds import RoundCondition
from flowdebate.chassis.turn import Turn
from flowdebate.errors import ConfigurationError, FlowDebateWarning, PromiseBroken
from flowdebate.models.call import forbid_real_models
from flowdebate.patterns.debate.schemas import DebateRawOutput
from flowdebate.runs.result import RunHandle, RunView
from flowdebate.stop import StopWhen, as_condition
from flowdebate.store.memory import MemoryStore
from flowdebate.testing.examples import Answering, Example, ExampleModel, answer_of
from flowdebate.testing.invariants import (
    OF_A_CANCELLATION,
    OF_A_CHECK,
    OF_A_RUN,
    OF_RUNS,
    OTHER_WORDS,
    Cancelled,
    Coverage,
    Played,
    Runs,
    ends_within_rounds,
)
from flowdebate.testing.play import Clock, RunHangs, Wait, location_of_task, run_in_time, watching

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


PROMISES: Mapping[str, Callable[[Any], Iterator[str]]] = {
    promise.__name__: promise for group in (OF_A_RUN, OF_RUNS, OF_A_CANCELLATION, OF_A_CHECK) for promise in group
}
"""All promises to check, keyed by name."""

# Too unusual to appear in a prompt by chance: if it does, the pattern put it there.
_OTHER_QUESTION = f"Should the {OTHER_WORDS[0]} ferry cross the {OTHER_WORDS[1]} before the winter?"
# Maximum number of examples to run in search of a smaller failing one; each takes several runs.
_SHRINKING = 100
# Maximum number of locations in the application's code at which to cancel runs of the first example.
_PLACES = 20
# After `_FEW` examples, a check that is expected to take more than `_LONG` seconds announces how long it will take.
_LONG, _FEW = 60, 3


class CheckOptions(TypedDict, total=False):
    """Options for `check_pattern` and `check_debate`."""

    max_examples: int
    """Number of examples to generate; 100 by default."""
    seed: int | None
    """Seed for the examples; None (default) chooses a new seed each time and reports it in the error. A number
    reproduces the same examples, given the same release of hypothesis and the same loaded modules, because hypothesis
    also tries constants from these modules.
    """
    failures: bool
    """True (default) to have models fail in some of the examples."""
    questions: SearchStrategy[str] | None
    """Strategy for questions; `flowdebate.testing.strategies.questions()` by default."""
    texts: Sequence[str]
    """Additional texts for models to say, such as a phrase needed to satisfy `terminate_when`."""
    answers: Answering | None
    """Function that answers requests to models; it returns None to leave a request to the simulated model."""
    skip: Sequence[str]
    """Names of promises to skip for this pattern."""
    examples: Sequence[Example]
    """Examples to check before any generated ones."""
    max_calls: int
    """Number of model calls above which a run is considered endless; 2,000 by default."""
    max_seconds: float
    """Number of seconds after which a run is considered endless; 5 by default."""


def check_debate(pattern: Block[Any, Any] | Callable[[], Block[Any, Any]], **options: Unpack[CheckOptions]) -> None:
    """Check a debate with `check_pattern`; raise ConfigurationError for any other pattern."""
    _check("check_debate", pattern, options, only=DebateRawOutput)


def check_pattern(pattern: Block[Any, Any] | Callable[[], Block[Any, Any]], **options: Unpack[CheckOptions]) -> None:
    """Check that `pattern`, a pattern or a function that builds one, keeps the library's promises.

    Each generated example runs the pattern six or seven times with simulated models and humans, even if the pattern
    specifies models; a function is called twice per example. The first broken promise raises PromiseBroken, an
    AssertionError that names the promise and the smallest failing example. Needs hypothesis.
    """
    _check("check_pattern", pattern, options)


def _check(location: str, pattern: object, options: CheckOptions, *, only: type[Any] = object) -> None:
    broken = find_broken_promise(pattern, location=location, only=only, **options).broken
    if broken is not None:
        raise broken.with_traceback(None)


@dataclass(kw_only=True)
class Finding:
    """Result of a check."""

    examples: int = 0
    """Number of examples generated, up to and including the failing one if a promise was broken."""
    broken: PromiseBroken | None = None
    """Smallest failure found; None if no promise was broken."""
    shrunk: int = 0
    """Number of additional examples run to search for a smaller failure."""
    seen: Coverage = field(default_factory=Coverage)
    seconds: float = 0.0
    """Total duration of all examples so far, in seconds."""
    hung: bool = False
    """True if a run exceeded its time limit; smaller examples are then not tried, because they would take
    just as long.
    """


def find_broken_promise(
    pattern: object,
    *,
    location: str = "check_pattern",
    only: type[Any] = object,
    shrink: bool = True,
    **options: Unpack[CheckOptions],
) -> Finding:
    """Run the same check as `check_pattern`, but return a `Finding` with the number of examples and any failure."""
    make = _maker(pattern, location)
    skip, seed = options.get("skip", ()), options.get("seed")
    check_library(f"{location}()", "hypothesis", library="hypothesis", extra="testing")
    bounds = {"max_examples": options.get("max_examples", 1), "max_calls": options.get("max_calls", 1)}
    check_count(f"{location}()", bounds)
    check_seconds(f"{location}()", max_seconds=options.get("max_seconds", 5.0))
    for name in skip:
        if name not in PROMISES:
            raise ConfigurationError(f"{location}()", "skip", name, "contains an unknown promise", choices=PROMISES)
    check = _Check(
        make=make,
        only=only,
        location=location,
        skip=frozenset(skip),
        seed=SystemRandom().getrandbits(32) if seed is None else seed,
        options=options,
        max_shrinks=_SHRINKING if shrink else 0,
    )
    with forbid_real_models():
        for example in options.get("examples", ()):
            check.holds(example)
        if check.finding.broken is None:
            _draw(check)
    return check.finding


def _draw(check: _Check) -> None:
    """Check generated examples, and shrink the first one that breaks a promise.

    If no example breaks a promise, check the promises about all examples together.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, errors, given, seed, settings

    from flowdebate.testing.strategies import examples

    options = check.options
    # A `terminate_when` may wait for a word that appears in its own code.
    predicates = [predicate for predicate in _predicates_of(_parts_of(check.make())) if predicate is not None]
    words = [
        word for predicate in predicates for code in _codes_of(predicate) for word in _strings_of(code) if word.strip()
    ]
    drawn = examples(
        failures=options.get("failures", True),
        questions=options.get("questions"),
        texts=[*options.get("texts", ()), *words],
    )
    # Failures are raised as this library's own error, with an example that can be pasted into a test. A database of
    # examples would make checks depend on earlier ones.
    quiet = settings(
        max_examples=options.get("max_examples", 100),
        phases=[Phase.generate, *([Phase.shrink] if check.max_shrinks else [])],
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )

    @seed(check.seed)
    @quiet
    @given(drawn)
    def holds(example: Example) -> None:
        # hypothesis seeds all examples the same way, which might hide a block's random behavior
        random.seed(f"{check.seed} {check.finding.examples} {check.finding.shrunk}")
        check.holds(example)
        if check.finding.broken is not None and check.finding.broken.example == example:
            raise check.finding.broken

    with suppress(PromiseBroken, errors.Flaky):  # a stateful block might fail only once
        holds()
    if check.finding.broken is None:
        check.whole()


@dataclass(frozen=True, kw_only=True)
class _Check:
    """A check in progress."""

    make: Callable[[], Block[Any, Any]]
    only: type[Any]
    location: str
    skip: frozenset[str]
    seed: int
    options: CheckOptions
    max_shrinks: int
    """Maximum number of examples to run in search of a smaller failure."""
    finding: Finding = field(default_factory=Finding)
    waits: dict[Wait | None, int] = field(default_factory=dict)
    """Number of waits at each location in the application's code, counted in the first example's run."""

    @cached_property
    def clock(self) -> Clock:
        """Clock that enforces the time limit for each run."""
        return Clock(self.options.get("max_seconds", 5.0))

    def holds(self, example: Example) -> None:
        """Run `example` and record the first broken promise; do nothing if the search for smaller examples is over."""
        if self.finding.broken is None:
            self.finding.examples += 1
        elif self.finding.shrunk >= self.max_shrinks or self.finding.hung or self.finding.broken.example == example:
            return  # hypothesis repeats the failing example, but a stateful block might pass this time
        else:
            self.finding.shrunk += 1
        start = monotonic()
        pattern = self.make()
        broken: tuple[Callable[..., Iterator[str]], str] | None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FlowDebateWarning)  # warnings do not matter here, only recorded behavior
            try:
                broken = run_in_time(lambda: self._first_problem(pattern, example), self.clock)
            except RunHangs as hang:
                self.finding.hung = True
                broken = ends_within_rounds, _describe_hang(self.clock.seconds, hang.place)
        self.finding.seconds += monotonic() - start
        if broken is not None:
            promise, problem = broken
            call = f"{self.location}(…, examples=[{example!r}])"
            self.finding.broken = self._broken(promise, problem, example, call)
        elif self.finding.examples == _FEW:
            self._announce()

    def _announce(self) -> None:
        """Announce the expected duration if the check is likely to take a while."""
        examples, took = self.options.get("max_examples", 100), self.finding.seconds / self.finding.examples
        if took * examples > _LONG:
            warnings.warn(
                f"{self.location}(): an example takes {took:.1f} s, so {examples} take about {took * examples:.0f} s. "
                "Lower max_examples to run fewer.",
                FlowDebateWarning,
                stacklevel=2,
            )

    def whole(self) -> None:
        """Check the promises about all examples as a whole, and record the first one broken."""
        self.finding.seen.examples = self.finding.examples
        for promise in OF_A_CHECK:
            if promise.__name__ not in self.skip:
                for problem in promise(self.finding.seen):
                    self.finding.broken = self._broken(promise, problem, None, f"{self.location}(…, seed={self.seed})")
                    return

    def _broken(self, promise: Callable[..., Any], problem: str, example: Example | None, call: str) -> PromiseBroken:
        meaning = " ".join((promise.__doc__ or "").split())
        return PromiseBroken(promise.__name__, meaning, problem, example=example, reproduce=call)

    async def _first_problem(
        self, pattern: Block[Any, Any], example: Example
    ) -> tuple[Callable[..., Iterator[str]], str] | None:
        async for promises, subject in self._subjects(pattern, example):
            for promise in promises:
                if promise.__name__ not in self.skip:
                    for problem in promise(subject):
                        return promise, problem
        return None

    async def _subjects(
        self, pattern: Block[Any, Any], example: Example
    ) -> AsyncIterator[tuple[Sequence[Callable[..., Iterator[str]]], Played | Runs | Cancelled]]:
        """Yield the runs of `example`, each paired with the promises to check for it."""
        parts = [*_parts_of(pattern)]
        stances = frozenset(part.stance for part in parts if isinstance(part, Turn) and part.stance)
        seen = self.finding.seen
        predicate, *rest = {id(test): test for test in _predicates_of(parts)}.values() or [None]
        # Ignore a condition if inner patterns do not share it, or if it depends on time, tokens or the application: it
        # may never be met in a check.
        seen.speakers = frozenset((part.name, part.agent_name) for part in parts if isinstance(part, Turn))
        seen.has_predicate = not rest and predicate is not None and not _waits_outside(predicate)

        async def play(example: Example) -> Played:
            run = await self._play(pattern, example, stances)
            seen.count(run)
            return run

        elsewhere = replace(example, question=_OTHER_QUESTION, seed=example.seed + 1, faults={})
        # Asking a different question reveals answers that were cached without regard to the question.
        other = await play(elsewhere)
        first = await play(example)
        yield OF_A_RUN, first
        yield OF_A_RUN, other
        # Repeating both runs reveals state that leaks into a later run, even if a different question comes in between.
        at_once = await play(example)
        later = await play(elsewhere)
        changed = None
        if not first.model.failed:
            is_debate = isinstance(first.raw, DebateRawOutput)
            new: dict[str, Any] = (
                {"seed": example.seed + 1} if is_debate else {"delays": (*reversed(example.delays), 2, 0, 1)}
            )
            changed = await play(replace(example, **new))
            yield OF_A_RUN, changed
        anew = self.make()
        alone = first if anew is pattern else await self._play(anew, example, stances)
        yield OF_RUNS, Runs(first=first, at_once=at_once, other=other, later=later, changed=changed, alone=alone)
        if not first.model.failed and "ends_when_cancelled" not in self.skip:
            async for cancelled in self._cancelled(pattern, replace(example, faults={}, delays=(1,))):
                yield OF_A_CANCELLATION, cancelled

    async def _cancelled(self, pattern: Block[Any, Any], example: Example) -> AsyncIterator[Cancelled]:
        """Cancel runs while they wait, and yield those that continued despite the cancellation.

        Up to `_PLACES` runs are cancelled for the first example, and one for each later example.
        """
        if not self.waits:
            with watching(lambda place: self.waits.update({place: self.waits.get(place, 0) + 1})):
                await self._play(pattern, example, frozenset())
            places = [(place, 1) for place in list(self.waits)[:_PLACES]]
        else:
            draw = random.Random(repr(example))  # noqa: S311 - an example always cancels at the same place
            place = draw.choice(list(self.waits))
            places = [(place, draw.randint(1, self.waits[place]))]
        for place, number in places:
            cancelled = await self._cancel(pattern, example, place, number)
            if cancelled is not None:
                yield cancelled

    async def _cancel(
        self, pattern: Block[Any, Any], example: Example, place: Wait | None, number: int
    ) -> Cancelled | None:
        """Cancel a run the `number`th time it waits at `place`, and return the run if it continued.

        Returns None if the run was cancelled as expected, or ended before it waited there that often.
        """
        remaining = number
        handles: list[RunHandle[Any]] = []

        def cancel() -> None:
            if handles and not handles[-1].done():
                handles[-1].cancel()
            elif remaining == 0:  # a human's answer has resumed the run, but its new handle has not been returned yet
                asyncio.get_running_loop().call_soon(cancel)

        def notice(waits: Wait | None) -> None:
            nonlocal remaining
            remaining -= waits == place
            if remaining == 0 and waits == place:
                asyncio.get_running_loop().call_soon(cancel)  # delayed until the task is actually waiting

        with watching(notice):
            try:
                run = await self._play(pattern, example, frozenset(), handles)
            except asyncio.CancelledError:  # this is the expected cancellation of the run
                self.clock.stop()
                return None
        reached, remaining = remaining <= 0, -1
        return Cancelled(place=place, run=run) if reached else None

    async def _play(
        self,
        pattern: Block[Any, Any],
        example: Example,
        stances: frozenset[str],
        handles: list[RunHandle[Any]] | None = None,
    ) -> Played:
        """Run an example; append the run's handle to `handles`, and another handle each time humans have answered."""
        options, store = self.options, _store_of(pattern)
        model = ExampleModel(example, answers=options.get("answers"), max_calls=options.get("max_calls", 2000))
        handles = [] if handles is None else handles
        self.clock.start()
        handle = pattern.start(example.question, override_model=model, seed=example.seed, store=store)
        handles.append(handle)
        view: RunView = handle
        output, error, hangs = None, None, None
        try:
            while (hangs := await self._hang(handle)) is None and (result := await handle).status == "awaiting":
                assert store  # noqa: S101 - only a stored run waits for somebody
                for request in result.pending:
                    await submit_answer(store, result.run_id, answer_of(example, request), place=request.place)
                view = handle = await pattern.start_resume(result.run_id, override_model=model, store=store)
                handles.append(handle)
            if hangs is None:
                view, output = result, result.output
        except Exception as failure:
            if isinstance(failure, ConfigurationError) and failure.location == "check_pattern()":
                raise
            error = failure
        self.clock.stop()
        if view.raw is not None and not isinstance(view.raw, self.only):
            problem = "must be a debate, or a function that builds one"
            hint = "check_pattern() checks every pattern"
            raise ConfigurationError(f"{self.location}()", "pattern", view.raw, problem, hint=hint)
        return Played(example=example, view=view, output=output, error=error, model=model, stances=stances, hangs=hangs)

    async def _hang(self, handle: RunHandle[Any]) -> str | None:
        """Cancel a run if it exceeds its time limit, and describe where it was waiting; otherwise, return None."""
        await handle.wait(self.clock.seconds_left)
        if handle.done():
            return None
        self.finding.hung = True
        places = [location_of_task(task) for task in asyncio.all_tasks() - {asyncio.current_task()}]
        handle.cancel()
        await handle.wait(1)
        return _describe_hang(self.clock.seconds, next(filter(None, places), None))


def _store_of(pattern: Block[Any, Any]) -> MemoryStore | Literal[False]:
    """Create a store if humans take part in the pattern; otherwise return False."""
    humans = any(getattr(resource, "needs_store", False) for resource in pattern.resources.values())
    return MemoryStore() if humans else False


def _describe_hang(seconds: float, place: Wait | None) -> str:
    return f"the run did not end within {seconds:g} seconds{'' if place is None else f': it is at {place}'}"


def _maker(pattern: object, location: str) -> Callable[[], Block[Any, Any]]:
    """Return a function that builds the pattern under test."""
    if not isinstance(pattern, Block) and not callable(pattern):
        raise ConfigurationError(
            f"{location}()", "pattern", pattern, "must be a pattern, or a function that builds one"
        )
    build: Callable[[], object] = (lambda: pattern) if isinstance(pattern, Block) else pattern

    def make() -> Block[Any, Any]:
        pattern = build()
        if not isinstance(pattern, Block):
            raise ConfigurationError(
                f"{location}()", "pattern", pattern, "must be a pattern, or a function that builds one"
            )
        return pattern

    return make


def _parts_of(root: object) -> Iterator[object]:
    """Yield the blocks and steps of `root`, except for blocks called by a function."""
    seen: set[int] = set()
    queue = [root]
    while queue:
        part: object = queue.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, (Block, Step)):
            yield part
            part = vars(part)
        children: Iterable[object] = ()
        if isinstance(part, Mapping):
            children = part.values()
        elif isinstance(part, (list, tuple)):
            children = part
        queue += [child for child in children if isinstance(child, (Block, Step, list, tuple, Mapping))][::-1]


def _predicates_of(parts: Iterable[Any]) -> list[Any]:
    """Collect the `terminate_when` of each pattern among the parts, using None for a pattern without one."""
    loops = [part.when for part in parts if isinstance(part, LoopBack)]
    return [loop.terminate_when for loop in loops if isinstance(loop, RoundCondition)]


def _waits_outside(predicate: StopWhen) -> bool:
    """Return whether `predicate` calls no functions, but depends on time, tokens or a flag."""
    condition = as_condition(predicate)
    return not condition.functions and re.search(r"\b(seconds|tokens|flag)\(", condition.name) is not None


def _codes_of(predicate: StopWhen) -> Iterator[CodeType]:
    """Yield the code objects of application functions used in a predicate."""
    for test in as_condition(predicate).functions:
        function = inspect.unwrap(test.func if isinstance(test, partial) else test)
        # `function` may be a callable object
        call = function if hasattr(function, "__code__") else type(function).__call__
        if isinstance(code := getattr(call, "__code__", None), CodeType):
            yield code


def _strings_of(code: CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from _strings_of(constant)
