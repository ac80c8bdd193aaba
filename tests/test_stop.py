"""Stop conditions in isolation: combination, naming, and parsing from text."""

from __future__ import annotations

import asyncio
import operator
import subprocess
import sys
from contextlib import suppress
from functools import partial, reduce
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import flowdebate
from flowdebate import stop
from flowdebate.errors import ConfigurationError, OutputError
from flowdebate.measures import Embeddings, Jaccard

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

NAMES = "abc"


def make_leaf(name: str) -> stop.Condition:
    """Create a sync or async condition that returns the context's value for its name."""

    async def later(ctx: Any) -> bool:
        return bool(ctx.true[name])

    def now(ctx: Any) -> bool:
        return bool(ctx.true[name])

    return stop.when(later if name == "b" else now, name=name)


def evaluate(condition: stop.Condition, true: dict[str, bool]) -> str | None:
    """Return the reason that `condition` gives for these answers."""
    ctx: Any = SimpleNamespace(true=true, scope=SimpleNamespace(sequencer=None))
    reason = asyncio.run(condition.reason(ctx))
    assert asyncio.run(condition(ctx)) is (reason is not None)
    return reason


Shape = Any
"""Shape of a condition: a name, "~" with a shape, or "|" or "&" with two shapes."""
SHAPES: SearchStrategy[Shape] = st.recursive(
    st.sampled_from(NAMES),
    lambda inner: st.tuples(st.just("~"), inner) | st.tuples(st.sampled_from("|&"), inner, inner),
    max_leaves=6,
)
ANSWERS = st.fixed_dictionaries({name: st.booleans() for name in NAMES})
OPERATORS: dict[str, Callable[..., Any]] = {"|": operator.or_, "&": operator.and_}


def build_condition(shape: Shape, make: Callable[[str], Any] = make_leaf) -> Any:
    """Build the condition with this shape from leaves created by `make`."""
    match shape:
        case ("~", inner):
            return ~build_condition(inner, make)
        case (sign, one, other):
            return OPERATORS[sign](build_condition(one, make), build_condition(other, make))
        case name:
            return make(name)


def is_true(shape: Shape, true: dict[str, bool]) -> bool:
    """Evaluate the shape with Python's logic."""
    match shape:
        case ("~", inner):
            return not is_true(inner, true)
        case (sign, one, other):
            return bool(OPERATORS[sign](is_true(one, true), is_true(other, true)))
        case name:
            return true[name]


def mirror(shape: Shape) -> Shape:
    """Return the shape with the members of each combination reversed."""
    match shape:
        case ("~", inner):
            return ("~", mirror(inner))
        case (sign, one, other):
            return (sign, mirror(other), mirror(one))
        case name:
            return name


@given(SHAPES, ANSWERS)
def test_combinations_follow_boolean_logic(shape: Shape, true: dict[str, bool]) -> None:
    assert (evaluate(build_condition(shape), true) is not None) == is_true(shape, true)


@given(SHAPES, SHAPES, SHAPES, ANSWERS)
def test_conditions_obey_the_laws_of_logic(one: Shape, two: Shape, three: Shape, true: dict[str, bool]) -> None:
    """The laws tested are commutativity, associativity, distributivity and De Morgan's laws."""
    a, b, c = build_condition(one), build_condition(two), build_condition(three)
    for same in (
        (a | b, b | a),
        (a & b, b & a),
        ((a | b) | c, a | (b | c)),
        ((a & b) & c, a & (b & c)),
        (a & (b | c), a & b | a & c),
        (a | b & c, (a | b) & (a | c)),
        (~(a | b), ~a & ~b),
        (~(a & b), ~a | ~b),
        (~~a, a),
        (a | a, a),
        (a & a, a),
    ):
        first, second = (evaluate(condition, true) is not None for condition in same)
        assert first == second, same
    assert (a | b) | c == a | (b | c)


@given(SHAPES, ANSWERS)
def test_order_of_members_never_changes_the_decision(shape: Shape, true: dict[str, bool]) -> None:
    """The order affects only which of several reasons is reported."""
    assert (evaluate(build_condition(shape), true) is None) == (evaluate(build_condition(mirror(shape)), true) is None)


@given(SHAPES, ANSWERS)
def test_reported_reason_is_a_condition_that_is_true(shape: Shape, true: dict[str, bool]) -> None:
    reason = evaluate(build_condition(shape), true)
    if reason is not None:
        formula = reason.replace("~", " not ").replace("&", "and").replace("|", "or")
        assert eval(formula, {}, dict(true)) is True, reason  # noqa: S307 - names, signs and parentheses


def test_reason_names_one_member_of_a_disjunction_or_both_of_a_conjunction() -> None:
    a, b, c = map(make_leaf, NAMES)
    assert evaluate(a | b, {"a": True, "b": True}) == "a"
    assert evaluate(a | b, {"a": False, "b": True}) == "b"
    assert evaluate(a & b, {"a": True, "b": True}) == "a & b"
    assert evaluate((a | b) & c, {"a": False, "b": True, "c": True}) == "b & c"
    assert evaluate(~a | b, {"a": False, "b": False}) == "~a"
    assert evaluate(~(a | b), {"a": False, "b": False}) == "~(a | b)"


READABLE = st.one_of(
    st.integers(1, 10**9).map(stop.tokens),
    st.integers(1, 10**6).map(stop.rounds),
    st.floats(1e-9, 1e9).map(stop.seconds),
    st.floats(0, 1).map(stop.converged),
    st.floats(0, 1).map(stop.repeated),
    st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=30)
    .filter(lambda name: name.strip() != "" and name.isprintable())
    .map(stop.flag),
)


@given(SHAPES, st.lists(READABLE, min_size=3, max_size=3))
def test_name_can_be_parsed_back_into_the_condition(shape: Shape, leaves: list[stop.Condition]) -> None:
    """Names are unambiguous, so stored stop reasons and plans keep their meaning."""
    condition = build_condition(shape, lambda name: leaves[NAMES.index(name)])
    assume(len(str(condition)) <= 1_000)
    assert stop.parse(str(condition)) == condition


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("tokens(20_000) | seconds(120) & rounds(2)", stop.tokens(20_000) | stop.seconds(120) & stop.rounds(2)),
        (" ( tokens(1)|rounds(2) ) & ~flag('busy') ", (stop.tokens(1) | stop.rounds(2)) & ~stop.flag("busy")),
        ("tokens(1)\n| rounds(2)", stop.tokens(1) | stop.rounds(2)),
        ("seconds(1.5)", stop.seconds(1.5)),
    ],
)
def test_conditions_can_be_parsed_from_text(text: str, same: stop.Condition) -> None:
    """As in Python, & binds more tightly than |."""
    assert stop.parse(text) == same


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tokens(20000) | secnds(120)",
            r"contains an unknown condition at character 17 .*Did you mean seconds\?",
        ),
        ("rounds(0)", r"has an invalid argument in rounds\(…\) at character 8 .*must be at least 1"),
        (
            "rounds(2) & converged(90)",
            r"has an invalid argument in converged\(…\) at character 23 .*must be between 0 and 1",
        ),
        ("tokens(5) or rounds(2)", r"must use `\|` for `or`, `&` for `and`, and `~` for `not` at character 1"),
        ("not rounds(2)", r"must use `\|` for `or`, `&` for `and`, and `~` for `not` at character 1"),
        ("rounds", r"must pass one number to each condition, such as tokens\(20000\) or rounds\(2\), at character 1"),
        ("rounds()", r"must pass one number to each condition"),
        ("rounds(1, 2)", r"must pass one number to each condition"),
        ("rounds(number=1)", r"must pass one number to each condition"),
        ("'ü' | rounds(1)", r"must pass one number to each condition, .*, at character 1 "),
        ("flag('ü') | 7", r"must pass one number to each condition, .*, at character 13 "),
        ("rounds(exit())", r"must pass a plain number or string to rounds\(…\) at character 8"),
        ("__import__('os').system('true')", r"must pass one number to each condition"),
        ("rounds(1) |", r"conditions joined by `\|`, `&` or `~` at character"),
        ("rounds(1) rounds(2)", r"conditions joined by `\|`, `&` or `~` at character"),
        ("", r"a condition such as tokens\(20000\) \| rounds\(2\), of at most 1,000 characters"),
        ("~" * 2_000 + "rounds(1)", r"at most 1,000 characters"),
        ("(" * 400 + "rounds(1)" + ")" * 400, r"conditions joined by"),
        ("rounds(1)\x00", r"conditions joined by"),
        ("when(print)", r"contains an unknown condition at character 1"),
    ],
)
def test_invalid_conditions_are_rejected_with_their_position(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        stop.parse(text)


WORDS = ["rounds", "tokens", "(", ")", "|", "&", "~", "1", "'x'", ".", ",", "[", "]", "lambda", ":"]


@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_any_text_yields_a_condition_or_a_configuration_error(text: str) -> None:
    with suppress(ConfigurationError):
        assert isinstance(stop.parse(text), stop.Condition)


ROUND: Any = stop.rounds(1)


def yield_nothing(ctx: object) -> Any:
    """Yield, although a bool is required."""
    yield ctx


WRONG: dict[str, Callable[[], object]] = {
    "tokens": lambda: stop.tokens(0),
    "tokens of a float": lambda: stop.tokens(1.5),  # type: ignore[arg-type]
    "seconds": lambda: stop.seconds(float("nan")),
    "rounds": lambda: stop.rounds(True),  # noqa: FBT003
    "flag": lambda: stop.flag(" "),
    "flag of two lines": lambda: stop.flag("a\nb"),
    "converged": lambda: stop.converged(1.1),
    "repeated": lambda: stop.repeated(-0.1),
    "similarity": lambda: stop.converged(0.9, similarity="jaccard"),  # type: ignore[arg-type]
    "when": lambda: stop.when(lambda: True),  # type: ignore[arg-type,misc]
    "when without a call": lambda: stop.when(stop.rounds),  # type: ignore[arg-type]
    "when with a generator": lambda: stop.when(yield_nothing),
    "when with a pattern's reason": lambda: stop.when(lambda _: True, name="max_rounds"),
    "when with a name of two lines": lambda: stop.when(lambda _: True, name="a\nb"),
    "a combination with text": lambda: stop.rounds(1) | "rounds(2)",  # type: ignore[operator]
    "a combination with a bool": lambda: True & stop.rounds(1),  # type: ignore[operator]
    "a combination with a condition that is not called": lambda: stop.rounds(1) | stop.tokens,  # type: ignore[operator]
    "or": lambda: ROUND or ROUND,
    "and": lambda: ROUND and ROUND,
    "not": lambda: not ROUND,
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_invalid_operands_are_rejected_immediately(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        make()


def always_true(_: object) -> bool:
    """Return True, since only the name of the function matters."""
    return True


def test_functions_compose_on_either_side() -> None:
    """A condition takes its name from its function; a lambda is named "predicate"."""
    assert str(always_true | stop.rounds(2)) == "always_true | rounds(2)"
    assert str(stop.rounds(2) & always_true) == "rounds(2) & always_true"
    assert str((lambda _: True) & stop.rounds(2)) == "predicate & rounds(2)"
    assert str(stop.when(partial(always_true))) == "predicate"
    assert evaluate(stop.when(always_true) & make_leaf("a"), {"a": True}) == "always_true & a"


def test_error_about_a_non_bool_answer_names_the_condition() -> None:
    """The condition is named even if it is part of a combination and follows a condition that is true."""
    with pytest.raises(OutputError, match="must return True or False: got 'no' from my rule"):
        evaluate(make_leaf("a") | stop.when(lambda _: "no", name="my rule"), {"a": True})  # type: ignore[arg-type,return-value]


def test_error_in_a_condition_names_the_condition() -> None:
    """The application's own exception is raised unchanged, except for an added note."""
    with pytest.raises(ZeroDivisionError) as caught:
        evaluate(make_leaf("a") & stop.when(lambda _: bool(1 / 0), name="my rule"), {"a": False})
    assert "in the stop condition my rule" in caught.value.__notes__


def test_measure_without_its_library_is_rejected_immediately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error is raised before any paid round. By default, the best installed measure is used."""
    monkeypatch.setattr("flowdebate._util.validation.find_spec", lambda _: None)
    monkeypatch.setattr("flowdebate.measures.similarity.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"flowdebate\[similarity\]"):
        stop.converged(0.9, similarity=Embeddings())
    assert str(stop.converged(0.9)) == "converged(0.9)"
    assert str(stop.converged(0.9, similarity=Jaccard())) == "converged(0.9, similarity=jaccard)"


def test_stop_is_imported_on_first_use() -> None:
    assert flowdebate.stop is stop
    code = "import sys, flowdebate; assert 'flowdebate.stop' not in sys.modules; str(flowdebate.stop.rounds(2))"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)  # noqa: S603 - its own code


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=8), ANSWERS)
def test_many_members_form_one_combination(names: list[str], true: dict[str, bool]) -> None:
    """A long chain of `|` must not become deeply nested."""
    condition = reduce(operator.or_, map(make_leaf, names))
    assert (evaluate(condition, true) is not None) == any(true[name] for name in names)
