"""Checks of patterns: the library's promises, over drawn questions, answers, failures and orders.

from flowdebate.testing import check_debate

def test_my_debate():
    check_debate(make_debate)
"""

from __future__ import annotations

import inspect
import random
import re
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import SystemRandom
from types import CodeType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from flowdebate._util.validation import check_count, check_library
from flowdebate.blocks.base import Block
from flowdebate.blocks.human.answers import submit_answer
from flowdebate.blocks.steps import LoopBack, Step
from flowdebate.chassis.rounds import AnotherRound
from flowdebate.chassis.turn import Turn
from flowdebate.errors import ConfigurationError, FlowDebateWarning, PromiseBroken
from flowdebate.models.call import forbid_real_models
from flowdebate.patterns.debate.schemas import DebateRawOutput
from flowdebate.runs.execute import run_sync
from flowdebate.runs.result import RunView
from flowdebate.stop import StopWhen, as_condition
from flowdebate.store.memory import MemoryStore
from flowdebate.testing.examples import Answering, Example, ExampleModel, answer_of
from flowdebate.testing.invariants import OF_A_CHECK, OF_A_RUN, OF_RUNS, Coverage, Played, Runs

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


PROMISES: Mapping[str, Callable[[Any], Iterator[str]]] = {
    promise.__name__: promise for group in (OF_A_RUN, OF_RUNS, OF_A_CHECK) for promise in group
}
"""Everything that is checked, by name."""

# In no prompt by chance: where it is shown, the pattern has asked it.
_OTHER_QUESTION = "Should the harbour be dredged before the winter?"
# Examples that are tried in search of a smaller one: each is five runs.
_SHRINKING = 100


class CheckOptions(TypedDict, total=False):
    """Options of `check_pattern` and `check_debate`."""

    max_examples: int
    """How many examples are drawn; default 100."""
    seed: int | None
    """The seed of the draws; None (default) is another one each time, which the error names."""
    failures: bool
    """Whether models fail in some of the examples; default True."""
    questions: SearchStrategy[str] | None
    """Draws the questions; default `flowdebate.testing.strategies.questions()`."""
    texts: Sequence[str]
    """Further texts that models say, such as what `terminate_when` waits for."""
    answers: Answering | None
    """A function of the model request that answers some of them itself, and returns None for the others."""
    skip: Sequence[str]
    """Names of promises that this pattern does not make."""
    examples: Sequence[Example]
    """Examples to check before any is drawn."""
    max_calls: int
    """From this number of model calls on, a run counts as one that does not end; default 2,000."""


def check_debate(pattern: Block[Any, Any] | Callable[[], Block[Any, Any]], **options: Unpack[CheckOptions]) -> None:
    """`check_pattern` for a debate; ConfigurationError for another pattern."""
    _check("check_debate", pattern, options, only=DebateRawOutput)


def check_pattern(pattern: Block[Any, Any] | Callable[[], Block[Any, Any]], **options: Unpack[CheckOptions]) -> None:
    """Check that the promises of the library hold for `pattern`, a pattern or a function that builds one.

    Each drawn example runs it five times with models and humans that answer as the example says, whatever models it
    names; a function is called once for each example. PromiseBroken, an AssertionError, for the first promise that
    does not hold: it names the promise, and the smallest example that was found. Needs hypothesis.
    """
    _check("check_pattern", pattern, options)


def _check(where: str, pattern: object, options: CheckOptions, *, only: type[Any] = object) -> None:
    broken = find_broken_promise(pattern, where=where, only=only, **options).broken
    if broken is not None:
        raise broken.with_traceback(None)


@dataclass(kw_only=True)
class Finding:
    """The result of a check."""

    examples: int = 0
    """Examples that were drawn until a promise was found broken; all of them if none was."""
    broken: PromiseBroken | None = None
    """The smallest failure that was found."""
    shrunk: int = 0
    """Examples that were tried after that, in search of a smaller one."""
    seen: Coverage = field(default_factory=Coverage)


def find_broken_promise(
    pattern: object,
    *,
    where: str = "check_pattern",
    only: type[Any] = object,
    shrink: bool = True,
    **options: Unpack[CheckOptions],
) -> Finding:
    """`check_pattern` as a value: what was found, and after how many examples."""
    make = _maker(pattern, where)
    skip, seed = options.get("skip", ()), options.get("seed")
    check_library(f"{where}()", "hypothesis", library="hypothesis", extra="testing")
    most = {"max_examples": options.get("max_examples", 1), "max_calls": options.get("max_calls", 1)}
    check_count(f"{where}()", **most)
    for name in skip:
        if name not in PROMISES:
            raise ConfigurationError(f"{where}()", "skip", name, f"names of promises: {', '.join(PROMISES)}")
    check = _Check(
        make=make,
        only=only,
        where=where,
        skip=frozenset(skip),
        seed=SystemRandom().getrandbits(32) if seed is None else seed,
        options=options,
        most=_SHRINKING if shrink else 0,
    )
    with forbid_real_models(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowDebateWarning)  # it is what is recorded that counts
        for example in options.get("examples", ()):
            check.holds(example)
        if check.found.broken is None:
            _draw(check)
    return check.found


def _draw(check: _Check) -> None:
    """Check drawn examples until one breaks a promise; then smaller ones; then what holds for all of them."""
    from hypothesis import HealthCheck, Phase, Verbosity, errors, given, seed, settings

    from flowdebate.testing.strategies import examples

    options = check.options
    # a `terminate_when` may wait for somebody to say a word, which stands in its code
    predicates = [each for each in _predicates_of(_parts_of(check.make())) if each is not None]
    words = [word for each in predicates for code in _codes_of(each) for word in _strings_of(code) if word.strip()]
    drawn = examples(
        failures=options.get("failures", True),
        questions=options.get("questions"),
        texts=[*options.get("texts", ()), *words],
    )
    # what a failure is shown by is our own error, with an example that can be pasted; a database would make a check
    # depend on earlier ones
    quiet = settings(
        max_examples=options.get("max_examples", 100),
        phases=[Phase.generate, *([Phase.shrink] if check.most else [])],
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
        # hypothesis makes all examples throw the same dice: a block with its own might then repeat itself by chance
        random.seed(f"{check.seed} {check.found.examples} {check.found.shrunk}")
        check.holds(example)
        if check.found.broken is not None and check.found.broken.example == example:
            raise check.found.broken

    with suppress(PromiseBroken, errors.Flaky):  # a block that keeps state may fail once only
        holds()
    if check.found.broken is None:
        check.whole()


@dataclass(frozen=True, kw_only=True)
class _Check:
    """A check in progress."""

    make: Callable[[], Block[Any, Any]]
    only: type[Any]
    where: str
    skip: frozenset[str]
    seed: int
    options: CheckOptions
    most: int
    """How many examples are tried in search of a smaller one."""
    found: Finding = field(default_factory=Finding)

    def holds(self, example: Example) -> None:
        """Run `example`, unless a smaller one has been looked for long enough, and note the first broken promise."""
        if self.found.broken is None:
            self.found.examples += 1
        elif self.found.shrunk >= self.most or self.found.broken.example == example:
            return  # hypothesis asks once more for the one that failed: a block that keeps state might pass it now
        else:
            self.found.shrunk += 1
        pattern = self.make()
        broken = run_sync(lambda: self._first_problem(pattern, example))
        if broken is not None:
            promise, problem = broken
            call = f"{self.where}(…, examples=[{example!r}])"
            self.found.broken = self._broken(promise, problem, example, call)

    def whole(self) -> None:
        """Note the first promise about all examples that does not hold."""
        for promise in OF_A_CHECK:
            if promise.__name__ not in self.skip:
                for problem in promise(self.found.seen):
                    self.found.broken = self._broken(promise, problem, None, f"{self.where}(…, seed={self.seed})")
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
    ) -> AsyncIterator[tuple[Sequence[Callable[..., Iterator[str]]], Played | Runs]]:
        """The runs of `example`, each with the promises to check once it is over."""
        parts = [*_parts_of(pattern)]
        stances = frozenset(part.stance for part in parts if isinstance(part, Turn) and part.stance)
        seen = self.found.seen
        predicate, *others = {id(each): each for each in _predicates_of(parts)}.values() or [None]
        # not of a pattern in another one; and what waits for time, tokens or the application may never come in a check
        seen.has_predicate = not others and predicate is not None and not _waits_outside(predicate)

        async def play(example: Example) -> Played:
            run = await self._play(pattern, example, stances)
            seen.count(run)
            return run

        first = await play(example)
        yield OF_A_RUN, first
        at_once = await play(example)  # state of two runs' period shows here, state of the question's after another one
        other = await play(replace(example, question=_OTHER_QUESTION, seed=example.seed + 1, faults={}))
        yield OF_A_RUN, other
        later = await play(example)
        changed = None
        if not first.model.failed:
            is_debate = isinstance(first.raw, DebateRawOutput)
            new: dict[str, Any] = (
                {"seed": example.seed + 1} if is_debate else {"delays": (*reversed(example.delays), 2, 0, 1)}
            )
            changed = await play(replace(example, **new))
            yield OF_A_RUN, changed
        yield OF_RUNS, Runs(first=first, again=(at_once, later), other=other, changed=changed)

    async def _play(self, pattern: Block[Any, Any], example: Example, stances: frozenset[str]) -> Played:
        options = self.options
        model = ExampleModel(example, answers=options.get("answers"), max_calls=options.get("max_calls", 2000))
        humans = any(getattr(each, "needs_store", False) for each in pattern.resources.values())
        store = MemoryStore() if humans else False
        handle = pattern.start(example.question, override_model=model, seed=example.seed, store=store)
        view: RunView = handle
        output, error = None, None
        try:
            while (result := await handle).status == "awaiting":
                for asked in result.pending:
                    await submit_answer(store, result.run_id, answer_of(example, asked), place=asked.place)
                view = handle = await pattern.start_resume(result.run_id, override_model=model, store=store)
            view, output = result, result.output
        except Exception as failure:
            if isinstance(failure, ConfigurationError) and failure.where == "check_pattern()":
                raise
            error = failure
        if view.raw is not None and not isinstance(view.raw, self.only):
            allowed, hint = "a debate, or a function that builds one", "check_pattern() checks every pattern"
            raise ConfigurationError(f"{self.where}()", "pattern", view.raw, allowed, hint=hint)
        return Played(example=example, view=view, output=output, error=error, model=model, stances=stances)


def _maker(pattern: object, where: str) -> Callable[[], Block[Any, Any]]:
    """A function that returns the pattern to check."""
    if not isinstance(pattern, Block) and not callable(pattern):
        raise ConfigurationError(f"{where}()", "pattern", pattern, "a pattern, or a function that builds one")
    build: Callable[[], object] = (lambda: pattern) if isinstance(pattern, Block) else pattern

    def make() -> Block[Any, Any]:
        made = build()
        if not isinstance(made, Block):
            raise ConfigurationError(f"{where}()", "pattern", made, "a pattern, or a function that builds one")
        return made

    return make


def _parts_of(whole: object) -> Iterator[object]:
    """The blocks and steps that `whole` is made of, without those that a function calls."""
    seen: set[int] = set()
    left = [whole]
    while left:
        part: object = left.pop()
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
        left += [each for each in children if isinstance(each, (Block, Step, list, tuple, Mapping))][::-1]


def _predicates_of(parts: Iterable[Any]) -> list[Any]:
    """The `terminate_when` of each pattern among the parts of one, or None for one without it."""
    loops = [part.when for part in parts if isinstance(part, LoopBack)]
    return [loop.terminate_when for loop in loops if isinstance(loop, AnotherRound)]


def _waits_outside(predicate: StopWhen) -> bool:
    """Whether it is a condition on what no answer of a model decides."""
    condition = as_condition(predicate)
    return not condition.functions and re.search(r"\b(seconds|tokens|flag)\(", condition.name) is not None


def _codes_of(predicate: StopWhen) -> Iterator[CodeType]:
    """The code of the application's functions in it."""
    for each in as_condition(predicate).functions:
        function = inspect.unwrap(each.func if isinstance(each, partial) else each)
        call = function if hasattr(function, "__code__") else type(function).__call__  # an object that can be called
        if isinstance(code := getattr(call, "__code__", None), CodeType):
            yield code


def _strings_of(code: CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from _strings_of(constant)
