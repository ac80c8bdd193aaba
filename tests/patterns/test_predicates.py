"""Predicates in `terminate_when`, for all patterns: their validation and their return values."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import handler
from flowdebate.errors import ConfigurationError, OutputError
from tests.patterns.every import ROUNDS, WITH_ROUNDS, make_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.runs.context import Context

QUESTION = "Should rents be capped?"


def build(pattern: str, predicate: object) -> Any:
    """Build `pattern` with this predicate."""
    return make_pattern(pattern, lambda _, __: None, terminate_when=predicate)


def takes_two(one: object, other: object) -> bool:
    """Take a required second argument besides the context."""
    return bool(one and other)


NO_PREDICATES: dict[str, object] = {
    "no arguments": lambda: True,
    "two arguments": takes_two,
    "an option that must be given": lambda ctx, *, limit: bool(ctx and limit),
    "a block": handler(lambda _, __: True, name="enough"),
    "an answer": True,
    "text": "round == 2",
}


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
@pytest.mark.parametrize("predicate", NO_PREDICATES.values(), ids=NO_PREDICATES)
def test_invalid_predicates_are_rejected_before_building(pattern: str, predicate: object) -> None:
    with pytest.raises(ConfigurationError, match=r"`terminate_when` must be a function of \(ctx\) or a condition"):
        build(pattern, predicate)


class Asked:
    """A callable object that is a predicate and also has one as a method."""

    def __call__(self, ctx: Context) -> bool:
        return bool(ctx.sequencer.state.round == 2)

    async def later(self, ctx: Context) -> bool:
        return self(ctx)


def with_options(ctx: Context, at: int = 2, **_: object) -> bool:
    """Return whether the round is `at`, as a predicate with an optional second argument."""
    return bool(ctx.sequencer.state.round == at)


PREDICATES: dict[str, Callable[..., object]] = {
    "an object": Asked(),
    "a method": Asked().later,
    "options with defaults": with_options,
    "a partial function": functools.partial(with_options, at=2),
    "any arguments": lambda *arguments: Asked()(arguments[0]),
}


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
@pytest.mark.parametrize("predicate", PREDICATES.values(), ids=PREDICATES)
def test_any_function_of_the_context_can_be_a_predicate(pattern: str, predicate: object) -> None:
    raw = build(pattern, predicate).run_sync(QUESTION).raw
    assert raw.stop_reason == "predicate"


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_predicates_may_return_numpy_bools(pattern: str) -> None:
    """A predicate that compares arrays returns NumPy's own bool type."""
    numpy = pytest.importorskip("numpy")
    raw = build(pattern, lambda ctx: numpy.float64(ctx.sequencer.state.round) > 1).run_sync(QUESTION).raw
    assert raw.stop_reason == "predicate"


@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("answer", ["no", "", None, 0, 1, ["yes"]])
@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_predicates_returning_a_non_bool_raise_an_error(pattern: str, answer: object, *, wait: bool) -> None:
    """A string such as "no" would count as true, and a missing `return` as false."""

    async def later(_: Context) -> object:
        return answer

    with pytest.raises(OutputError, match="block 'terminate_when' must return True or False: got"):
        build(pattern, later if wait else lambda _: answer).run_sync(QUESTION)


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_predicates_that_stay_false_let_the_rounds_reach_their_limit(pattern: str) -> None:
    rounds: list[int] = []

    def never(ctx: Context) -> bool:
        rounds.append(ctx.sequencer.state.round)
        return False

    raw = build(pattern, never).run_sync(QUESTION).raw
    assert raw.stop_reason == ("max_turns" if pattern == "handoff" else "max_rounds") or raw.early_end is not None
    assert rounds == list(range(1, ROUNDS))


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_outline_names_the_predicate(pattern: str) -> None:
    """The outline shows which conditions can end the rounds.

    Renaming the predicate does not prevent a stored run from being resumed.
    """
    outline, without = (build(pattern, predicate).outline() for predicate in (with_options, None))
    assert "terminate_when (with_options)" in str(outline)
    assert "terminate_when" not in str(without)
    assert outline.structure == without.structure
