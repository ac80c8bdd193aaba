"""`terminate_when`: what it may be is checked at once, and what it answers when it is asked, in all patterns."""

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


def built(pattern: str, predicate: object) -> Any:
    """`pattern` with this predicate."""
    return make_pattern(pattern, lambda _, __: None, terminate_when=predicate)


def two(one: object, other: object) -> bool:
    """Takes more than the context."""
    return bool(one and other)


NO_PREDICATES: dict[str, object] = {
    "no arguments": lambda: True,
    "two arguments": two,
    "an option that must be given": lambda ctx, *, limit: bool(ctx and limit),
    "a block": handler(lambda _, __: True, name="enough"),
    "an answer": True,
    "text": "round == 2",
}


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
@pytest.mark.parametrize("predicate", NO_PREDICATES.values(), ids=NO_PREDICATES)
def test_what_cannot_be_asked_is_refused_before_anything_is_built(pattern: str, predicate: object) -> None:
    """Nothing is paid for: the error says which option, and what it may be."""
    with pytest.raises(ConfigurationError, match=r"`terminate_when` must be a sync or async function of \(ctx\)"):
        built(pattern, predicate)


class Asked:
    """Predicates as methods."""

    def __call__(self, ctx: Context) -> bool:
        return bool(ctx.sequencer.state.round == 2)

    async def later(self, ctx: Context) -> bool:
        return self(ctx)


def with_options(ctx: Context, at: int = 2, **_: object) -> bool:
    """A predicate with an option."""
    return bool(ctx.sequencer.state.round == at)


PREDICATES: dict[str, Callable[..., object]] = {
    "an object": Asked(),
    "a method": Asked().later,
    "options with defaults": with_options,
    "a partial function": functools.partial(with_options, at=2),
    "any arguments": lambda *given: Asked()(given[0]),
}


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
@pytest.mark.parametrize("predicate", PREDICATES.values(), ids=PREDICATES)
def test_whatever_takes_the_context_is_a_predicate(pattern: str, predicate: object) -> None:
    """It ends the rounds where it says so."""
    raw = built(pattern, predicate).run_sync(QUESTION).raw
    assert raw.stop_reason == "predicate"


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_a_comparison_of_numpy_is_an_answer(pattern: str) -> None:
    """Predicates that measure similarity compare arrays."""
    numpy = pytest.importorskip("numpy")
    raw = built(pattern, lambda ctx: numpy.float64(ctx.sequencer.state.round) > 1).run_sync(QUESTION).raw
    assert raw.stop_reason == "predicate"


@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("answer", ["no", "", None, 0, 1, ["yes"]])
@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_an_answer_that_is_no_bool_ends_the_run(pattern: str, answer: object, *, wait: bool) -> None:
    """Else a text such as "no" would count as yes, and a forgotten `return` as no."""

    async def later(_: Context) -> object:
        return answer

    with pytest.raises(OutputError, match="block 'terminate_when' must return True or False: got"):
        built(pattern, later if wait else lambda _: answer).run_sync(QUESTION)


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_a_predicate_that_says_no_leaves_the_rounds_to_their_limit(pattern: str) -> None:
    """It is asked after each round but the last."""
    asked: list[int] = []

    def never(ctx: Context) -> bool:
        asked.append(ctx.sequencer.state.round)
        return False

    raw = built(pattern, never).run_sync(QUESTION).raw
    assert raw.stop_reason == ("max_turns" if pattern == "handoff" else "max_rounds") or raw.early_end is not None
    assert asked == list(range(1, ROUNDS))


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_the_outline_names_the_predicate(pattern: str) -> None:
    """A reader sees what may end the rounds; a stored run is resumed all the same if its name changes."""
    drawn, without = (built(pattern, predicate).outline() for predicate in (with_options, None))
    assert "terminate_when (with_options)" in str(drawn)
    assert "terminate_when" not in str(without)
    assert drawn.structure == without.structure
