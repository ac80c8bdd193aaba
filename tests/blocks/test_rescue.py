"""Tests for `rescue` and for the application's own exceptions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import generator, handler, router, sequencer
from flowdebate.errors import ConfigurationError, LoopLimitExceeded, OutputError
from flowdebate.testing import ScriptedModel

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.sequencer import Sequencer

KINDS: list[type[Exception]] = [Exception, ArithmeticError, ZeroDivisionError, LookupError, KeyError]


def empty(name: str = "all") -> Sequencer[Any, Any]:
    """Create a sequencer to build on."""
    return sequencer(name=name)


def raising_block(error: BaseException, name: str = "fails") -> Block[Any, Any]:
    """Create a block that raises `error`."""

    def fail(_: object) -> object:
        raise error

    return handler(fail, name=name)


@given(st.lists(st.sampled_from(KINDS), max_size=4), st.sampled_from(KINDS))
def test_first_matching_rescue_gets_the_exception(chain: list[type[Exception]], kind: type[Exception]) -> None:
    error = kind("x")
    block = empty().then(raising_block(error))
    for index, on in enumerate(chain):
        block = block.map(lambda value, index=index: (*value, f"map {index}") if isinstance(value, tuple) else 1 / 0)
        block = block.rescue(handler(lambda e, index=index: (e, index), name=f"r{index}"), on=on)
    rescuer = next((index for index, on in enumerate(chain) if issubclass(kind, on)), None)
    if rescuer is None:
        with pytest.raises(kind) as caught:
            block.run_sync(0)
        assert caught.value is error
    else:
        assert block.run_sync(0).output == (error, rescuer, *(f"map {i}" for i in range(rescuer + 1, len(chain))))


@given(st.lists(st.booleans(), min_size=1, max_size=4), st.data())
def test_rescue_catches_exceptions_in_nested_blocks(nesting: list[bool], data: st.DataObject) -> None:
    """If rescues are nested, the innermost one takes precedence, whatever the depth."""
    error = KeyError("deep")
    block: Block[Any, Any] = raising_block(error)
    takes = data.draw(st.lists(st.booleans(), min_size=len(nesting), max_size=len(nesting)))
    for depth, (max_concurrency, take) in enumerate(zip(nesting, takes, strict=True)):
        inner = empty(f"level {depth}")
        inner = inner.parallel({"x": block}).map(lambda value: value["x"]) if max_concurrency else inner.then(block)
        block = inner.rescue(lambda _, depth=depth: depth, on=KeyError if take else ZeroDivisionError)
    if True in takes:
        assert block.run_sync(0).output == takes.index(True)
    else:
        with pytest.raises(KeyError, match="deep"):
            block.run_sync(0)


def test_rescue_does_not_catch_later_exceptions() -> None:
    """A later rescue can catch an exception that an earlier rescue raised, and can read that exception's cause."""
    behind = empty().rescue(lambda _: "never").then(raising_block(KeyError("behind")))
    with pytest.raises(KeyError, match="behind"):
        behind.run_sync(0)
    first, second = KeyError("first"), ValueError("second")
    chained = empty().then(raising_block(first)).rescue(raising_block(second, "again"), on=KeyError)
    with pytest.raises(ValueError, match="second") as caught:
        chained.run_sync(0)
    assert caught.value.__context__ is first
    assert chained.rescue(lambda error: error, on=(ValueError, KeyError)).run_sync(0).output is second


@pytest.mark.parametrize("place", ["when", "over", "condition", "case", "map", "until"])
def test_rescue_catches_exceptions_in_step_functions(place: str) -> None:
    """An exception in a condition or a similar function counts as an exception in the step that uses it."""
    steps: dict[str, Any] = {
        "when": lambda: empty().map(abs).loop_back("abs", when=lambda _: 1 / 0, max_iterations=2),
        "over": lambda: empty().for_each(str, over=lambda _: 1 / 0),
        "condition": lambda: empty().then_if(lambda _: 1 / 0, str),
        "case": lambda: empty().branch((lambda _: 1 / 0, str)),
        "map": lambda: empty().map(lambda _: 1 / 0),
        "until": lambda: empty().do_until(str, lambda _: 1 / 0, max_iterations=2),
    }
    block = steps[place]().rescue(type, on=ZeroDivisionError)
    assert block.run_sync(5).output is ZeroDivisionError


@pytest.mark.parametrize(
    "on", [None, (), BaseException, asyncio.CancelledError, KeyboardInterrupt, (KeyError, 3), "KeyError"]
)
def test_only_exceptions_can_be_rescued(on: Any) -> None:
    with pytest.raises(ConfigurationError, match="a subclass of Exception"):
        empty().rescue(str, on=on)


def test_library_errors_can_be_rescued() -> None:
    endless = empty().do_while(lambda n: n + 1, lambda _: True, max_iterations=3).rescue(str, on=LoopLimitExceeded)
    assert (
        endless.run_sync(0).output
        == "block 'all' did not end within 3 iterations; if it needs more, raise `max_iterations`"
    )


class Frozen(Exception):
    """An exception that does not accept notes."""

    def add_note(self, note: str, /) -> None:
        raise TypeError(note)


@dataclass(frozen=True)
class Record(Exception):
    """An immutable exception."""

    code: int


class Mute(Exception):
    """An exception that cannot be converted to a string."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    "error", [RuntimeError("boom"), Frozen("boom"), Record(5), Mute(), ExceptionGroup("g", [KeyError(1)])], ids=repr
)
@pytest.mark.parametrize("max_concurrency", [False, True])
def test_application_exceptions_reach_the_caller_unchanged(error: Exception, max_concurrency: bool) -> None:  # noqa: FBT001
    failing = raising_block(error)
    block = empty().parallel({"a": failing, "b": failing}) if max_concurrency else empty().then(failing)
    with pytest.raises(type(error)) as caught:
        block.run_sync(0)
    assert caught.value is error


def test_note_names_the_innermost_block_and_its_path_once() -> None:
    """The note must not be part of the message, so that `pytest.raises(RuntimeError, match="boom")` still matches."""
    inner = empty("inner").then(raising_block(RuntimeError("boom")))
    pick = router(name="pick", choose=lambda _: "only", routes={"only": inner})
    outer = empty("outer").tap_each(empty("each").tap(pick), over=lambda _: [1])
    with pytest.raises(RuntimeError, match="boom") as caught:
        outer.run_sync(0)
    assert caught.value.__notes__ == ["in block 'fails' (at outer/each[0]/pick/inner/fails)"]


def test_note_names_the_sequencer_whose_function_failed() -> None:
    """A function passed to `map` is not a block, so the note names the sequencer that calls it."""
    with pytest.raises(ZeroDivisionError) as caught:
        empty().map(lambda n: 1 / n).run_sync(0)
    assert caught.value.__notes__ == ["in block 'all' (at all)"]


def test_block_is_named_even_if_there_are_other_notes() -> None:
    """A note added by other code does not mean that the block has already been named."""
    error = RuntimeError("boom")
    error.add_note("see the handbook")
    with pytest.raises(RuntimeError) as caught:
        empty().then(raising_block(error)).run_sync(0)
    assert caught.value.__notes__ == ["see the handbook", "in block 'fails' (at all/fails)"]


def test_model_errors_get_a_note_like_any_other_exception() -> None:
    with pytest.raises(RuntimeError, match="boom") as caught:
        empty().then(generator(name="ask")).run_sync("q", model=ScriptedModel(RuntimeError("boom")))
    assert caught.value.__notes__ == ["in block 'ask' (at all/ask)"]


@pytest.mark.parametrize("value", [5, None, object()])
def test_for_each_requires_an_iterable(value: object) -> None:
    with pytest.raises(OutputError, match="items to iterate over"):
        empty().for_each(str).run_sync(value)
