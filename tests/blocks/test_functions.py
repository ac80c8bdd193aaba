"""Functions as blocks: supported and rejected signatures."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import generator, handler, router, sequencer
from flowdebate.errors import ConfigurationError
from flowdebate.runs.context import Context
from tests.ids import case_id

if TYPE_CHECKING:
    from collections.abc import Callable


class Doubler:
    """Callables of every kind, as methods of one class."""

    def __call__(self, value: int) -> int:
        return value * 2

    def method(self, value: int, ctx: Context) -> int:
        assert isinstance(ctx, Context)
        return value * 2

    async def later(self, value: int) -> int:
        return value * 2

    @classmethod
    def of_class(cls, value: int) -> int:
        return value * 2

    @staticmethod
    def static(value: int, ctx: Context) -> int:
        assert isinstance(ctx, Context)
        return value * 2


class AsyncDoubler:
    """A callable object that returns an awaitable."""

    async def __call__(self, value: int, ctx: Context) -> int:
        assert isinstance(ctx, Context)
        return value * 2


def times(factor: int, value: int, ctx: Context) -> int:
    """Multiply by a factor bound with `partial`."""
    assert isinstance(ctx, Context)
    return factor * value


async def times_later(value: int, *, factor: int) -> int:
    """Multiply asynchronously by a factor bound with `partial`."""
    return factor * value


def with_option(value: int, factor: int = 2) -> int:
    """Take an option, not the context, as the second parameter."""
    return value * factor


def with_optional_context(value: int, ctx: Context | None = None) -> int:
    """Take the context as an optional second parameter, identified by its annotation."""
    assert isinstance(ctx, Context)
    return value * 2


def anything(*args: Any) -> int:
    """Accept any positional arguments."""
    value, ctx = args
    assert isinstance(ctx, Context)
    return int(value * 2)


async def plain_later(value: int, ctx: Context) -> int:
    """Take value and context asynchronously."""
    assert isinstance(ctx, Context)
    return value * 2


SHAPES: dict[str, Callable[..., Any]] = {
    "lambda of value": lambda value: value * 2,
    "lambda of both": lambda value, ctx: value * 2 if isinstance(ctx, Context) else None,
    "async": plain_later,
    "object": Doubler(),
    "async object": AsyncDoubler(),
    "bound method": Doubler().method,
    "async method": Doubler().later,
    "class method": Doubler.of_class,
    "static method": Doubler.static,
    "partial": functools.partial(times, 2),
    "async partial": functools.partial(times_later, factor=2),
    "option": with_option,
    "optional context": with_optional_context,
    "star": anything,
    "builtin method": (2).__mul__,
    "lambda that gives a coroutine": lambda value, ctx: plain_later(value, ctx=ctx),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_supported_function_can_be_a_block(shape: str) -> None:
    function = SHAPES[shape]
    empty = sequencer(name="all")
    assert handler(function).run_sync(3).output == 6
    assert empty.then(function).run_sync(3).output == 6
    assert empty.map(function).run_sync(3).output == 6
    assert empty.for_each(function).run_sync([1, 2]).output == [2, 4]
    assert empty.parallel({"x": function}).run_sync(3).output == {"x": 6}
    assert empty.branch((function, str)).run_sync(3).output == "3"
    assert empty.for_each(str, over=range).then(len).run_sync(3).output == 3
    assert router(name="r", choose=lambda _: "x", routes={"x": function}).run_sync(3).output == 6


@pytest.mark.parametrize(
    ("function", "value", "output"),
    [(str, 5, "5"), (len, "abc", 3), (int, "5", 5), (list, "ab", ["a", "b"]), (sum, [1, 2], 3), (max, [1, 3], 3),
     (sorted, "ba", ["a", "b"]), (round, 2.5, 2), (print, "", None), (dict, [(1, 2)], {1: 2}), (str.upper, "a", "A")],
    ids=case_id,
)  # fmt: skip
def test_builtins_and_classes_are_called_with_only_the_input(function: Any, value: object, output: object) -> None:
    assert handler(function).run_sync(value).output == output


def none() -> None:
    """Take no arguments."""


def three(a: int, b: int, c: int) -> None:
    """Take too many arguments."""


def keyword(value: int, *, ctx: Context) -> None:
    """Take the context as a keyword-only argument."""


WRONG: list[Any] = [
    none,
    three,
    Doubler,
    keyword,
    functools.partial(three, c=1, b=2, a=3),
    5,
    None,
    "str",
    object(),
    handler(str),
]


@pytest.mark.parametrize("function", WRONG, ids=case_id)
def test_invalid_functions_are_rejected_when_the_pipeline_is_built(function: Any) -> None:
    empty = sequencer(name="all").then(str)
    attempts: dict[str, Callable[[], object]] = {
        "map": lambda: empty.map(function),
        "condition": lambda: empty.then_if(function, str),
        "condition of tap_if": lambda: empty.tap_if(function, str),
        "branch": lambda: empty.branch((function, str)),
        "when": lambda: empty.loop_back("str", when=function, max_iterations=2),
        "do_while": lambda: empty.do_while(str, function, max_iterations=2),
        "choose": lambda: router(name="r", choose=function, routes={"x": str}),
    }
    if function is not None:
        attempts["over"] = lambda: empty.for_each(str, over=function)
        attempts["handler"] = lambda: handler(function)
    if callable(function):
        attempts["prompt"] = lambda: generator(name="g", prompt=function)
    for attempt in attempts.values():
        with pytest.raises(ConfigurationError, match=r"a function of \(input\) or \(input, ctx\)"):
            attempt()


@pytest.mark.parametrize("function", [5, None, "str", object(), none, three, type(handler(str))], ids=case_id)
def test_non_blocks_are_rejected_when_the_pipeline_is_built(function: Any) -> None:
    empty = sequencer(name="all")
    for attempt in (
        lambda: empty.then(function),
        lambda: empty.tap(function),
        lambda: empty.parallel({"x": function}),
        lambda: empty.for_each(function),
        lambda: empty.branch((bool, function)),
        lambda: empty.rescue(function),
        lambda: router(name="r", choose=str, routes={"x": function}),
    ):
        with pytest.raises(ConfigurationError):
            attempt()


def test_decorated_functions_keep_their_name_or_get_a_custom_one() -> None:
    @handler
    def shout(text: str) -> str:
        return text.upper()

    @handler(name="whisper")
    def quiet(text: str, ctx: Context) -> str:
        return f"{text.lower()} {ctx.block} {ctx.path}"

    assert (shout.name, quiet.name) == ("shout", "whisper")
    assert shout.run_sync("For").output == "FOR"
    assert quiet.run_sync("For").output == "for whisper whisper"


def test_anonymous_functions_get_names_in_outlines_and_paths() -> None:
    """A lambda is named "function", and a callable object is named after its class."""
    assert handler(lambda value: value).name == "function"
    assert handler(Doubler()).name == "Doubler"
    assert handler(functools.partial(times, 2)).name == "partial"


@pytest.mark.parametrize("name", ["", "  ", "\n", 5, b"x", ("a",)])
def test_blocks_need_a_name(name: Any) -> None:
    for make in (
        lambda: handler(str, name=name),
        lambda: sequencer(name=name),
        lambda: router(name=name, choose=str, routes={"x": str}),
        lambda: generator(name=name),
    ):
        with pytest.raises(ConfigurationError, match=r"`name` (must not be blank|must be text|is required)"):
            make()


@pytest.mark.parametrize("bound", [0, -1, True, 1.0, "1"])
def test_bounds_must_be_positive_integers(bound: Any) -> None:
    empty = sequencer(name="all").then(str)
    for attempt in (
        lambda: empty.for_each(str, max_concurrency=bound),
        lambda: empty.tap_each(str, max_concurrency=bound),
        lambda: empty.parallel({"x": str}, max_concurrency=bound),
        lambda: empty.loop_back("str", when=bool, max_iterations=bound),
        lambda: empty.do_while(str, bool, max_iterations=bound),
        lambda: empty.do_until(str, bool, max_iterations=bound),
        lambda: generator(name="g", max_tool_rounds=bound),
    ):
        with pytest.raises(ConfigurationError, match="at least 1"):
            attempt()


def test_loops_require_a_bound() -> None:
    empty: Any = sequencer(name="all").then(str)
    attempts: list[Callable[[], object]] = [
        lambda: empty.loop_back("str", when=bool, max_iterations=None),
        lambda: empty.do_while(str, bool, max_iterations=None),
    ]
    for attempt in attempts:
        with pytest.raises(ConfigurationError, match="must be a whole number of at least 1"):
            attempt()


UNTYPED: Any = (sequencer, router, generator)
"""The block factories, typed as `Any` so that tests can make calls that a type checker would reject."""
_sequencer, _router, _generator = UNTYPED

ATTEMPTS: list[Any] = [
    lambda empty: empty.loop_back("missing", when=bool, max_iterations=2),
    lambda empty: empty.loop_back("str", when=bool, max_iterations=2).loop_back("str", when=bool, max_iterations=2),
    lambda empty: empty.loop_back("str", when=bool, max_iterations=2, label=" "),
    lambda empty: empty.branch(),
    lambda empty: empty.parallel([handler(str), handler(str)]),
    lambda empty: empty.parallel({1: str}),
    lambda _: _sequencer(name="x", state={}),
    lambda _: _sequencer(name="x", owns=["transcript"]),
    lambda _: _sequencer(name="x", resources={"a": 5}),
    lambda _: _router(name="r", choose=str, routes={}),
    lambda _: _router(name="r", choose=str, routes=[str]),
    lambda _: _router(name="r", choose=str, routes=[handler(str), handler(str)]),
    lambda _: _router(name="r", choose=str, routes={True: str}),
    lambda _: _generator(name="g", visibility={"server": True}),
    lambda _: _generator(name="g", visibility={"client": "yes"}),
    lambda _: _generator(name="g", transform="upper"),
    lambda _: _generator(name="g", uses=["search"]),
    lambda _: _generator(name="g", tools=str),
]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_errors_for_invalid_arguments_state_the_location(attempt: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        attempt(sequencer(name="all").then(str))
    assert " `" in str(caught.value)
    assert caught.value.location.split()[0] in {"sequencer", "router", "generator"}


@given(st.integers())
def test_sync_and_async_runs_are_equivalent(value: int) -> None:
    async def ask() -> Any:
        return (await handler(plain_later).run(value)).output

    assert asyncio.run(ask()) == handler(plain_later).run_sync(value).output == value * 2
