"""Algebraic laws of composition for arbitrary blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hypothesis import example, given
from hypothesis import strategies as st

from flowdebate import handler, sequencer
from flowdebate.blocks.base import Block, Outline
from flowdebate.errors import LoopLimitExceeded
from tests.blocks.pipelines import (
    SMALL,
    Add,
    Again,
    Boom,
    Fails,
    Journal,
    Outcome,
    Over,
    Pipeline,
    Rescue,
    Then,
    outcome_of,
    pipelines,
    recipes,
    result_of,
)

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from tests.blocks.pipelines import Recipe


def seq(*blocks: Block[Any, Any]) -> Sequencer[Any, Any]:
    """Build a stateless sequencer that passes its value through `blocks`."""
    pipeline: Sequencer[Any, Any] = sequencer(name="seq")
    for block in blocks:
        pipeline = pipeline.then(block)
    return pipeline


def have_same_result(one: Outcome, other: Outcome) -> bool:
    """Check that two runs have the same result, regardless of paths."""
    return replace(one, paths=()) == replace(other, paths=())


@given(pipelines(), SMALL)
@example(Pipeline("a", (Then(Fails("a", Boom)), Rescue(1, "b", Boom), Again(Over(0), 3, "loop"))), 0)
def test_pipelines_match_a_plain_evaluation_of_their_steps(recipe: Pipeline, value: int) -> None:
    journal = Journal()
    outcome = outcome_of(recipe.build(journal), value, journal)
    assert (outcome.output, outcome.error) == result_of(lambda: recipe.expected(value))


@given(recipes(), recipes(), recipes(), SMALL)
def test_then_is_associative(a: Recipe, b: Recipe, c: Recipe, value: int) -> None:
    """`a.then(b).then(c)` equals `a.then(seq(b, c))` in its output, failure, events and visible state."""
    journal = Journal()
    one, two, three = (recipe.build(journal) for recipe in (a, b, c))
    flat = outcome_of(seq(one, two, three), value, journal)
    assert have_same_result(flat, outcome_of(seq(one, seq(two, three)), value, journal))
    assert have_same_result(flat, outcome_of(seq(seq(one, two), three), value, journal))


@given(recipes(), SMALL)
def test_empty_sequencers_change_nothing(a: Recipe, value: int) -> None:
    journal = Journal()
    block = a.build(journal)
    alone = outcome_of(block, value, journal)
    assert have_same_result(alone, outcome_of(seq(seq(), block), value, journal))
    assert have_same_result(alone, outcome_of(seq(block, seq()), value, journal))
    assert outcome_of(seq(), value, journal).output == value


def some(n: int) -> int:
    """Return an arbitrary function of an int."""
    return n


@given(st.functions(like=some, returns=SMALL, pure=True), st.functions(like=some, returns=SMALL, pure=True), SMALL)
def test_two_maps_equal_the_map_of_their_composition(f: Any, g: Any, value: int) -> None:
    """`map(f).map(g)` equals `map(h)`, where `h` applies `f` and then `g`."""
    two: Sequencer[Any, Any] = sequencer(name="two").map(f).map(g)
    one: Sequencer[Any, Any] = sequencer(name="one").map(lambda n: g(f(n)))
    assert two.run_sync(value).output == one.run_sync(value).output


@given(recipes(failing=False), recipes(), SMALL)
def test_taps_change_nothing(a: Recipe, b: Recipe, value: int) -> None:
    journal = Journal()
    block = b.build(journal)
    tapped: Sequencer[Any, Any] = sequencer(name="tapped").tap(a.build(journal)).then(block)
    outcome = outcome_of(tapped, value, journal)
    alone = outcome_of(block, value, journal)
    assert (outcome.output, outcome.error) == (alone.output, alone.error)
    silent: Sequencer[Any, Any] = sequencer(name="silent").tap(lambda _: 99).then(block)
    assert have_same_result(outcome_of(silent, value, journal), alone)


@given(recipes(), st.booleans(), SMALL)
def test_then_if_and_tap_if_follow_the_condition(a: Recipe, holds: bool, value: int) -> None:  # noqa: FBT001
    """If the condition is true, `then_if` and `tap_if` act like `then` and `tap`; otherwise, they do nothing."""
    journal = Journal()
    block = a.build(journal)
    start: Sequencer[Any, Any] = sequencer(name="start")
    nothing = outcome_of(start, value, journal)
    then = outcome_of(start.then(block), value, journal) if holds else nothing
    tap = outcome_of(start.tap(block), value, journal) if holds else nothing
    assert have_same_result(outcome_of(start.then_if(lambda _: holds, block), value, journal), then)
    assert have_same_result(outcome_of(start.tap_if(lambda _: holds, block), value, journal), tap)


@given(
    st.lists(st.tuples(st.booleans(), recipes(depth=1)), min_size=1, max_size=4), st.none() | recipes(depth=1), SMALL
)
def test_branch_takes_the_first_matching_case(
    cases: list[tuple[bool, Recipe]], otherwise: Recipe | None, value: int
) -> None:
    """Conditions after the first match are not evaluated. If no case matches, `otherwise` runs if it was given."""
    journal = Journal()
    checked: list[int] = []

    def condition(index: int, *, holds: bool) -> Any:
        def ask(_: int) -> bool:
            checked.append(index)
            return holds

        return ask

    built = [recipe.build(journal) for _, recipe in cases]
    rest = None if otherwise is None else otherwise.build(journal)
    start: Sequencer[Any, Any] = sequencer(name="start")
    branch = start.branch(
        *((condition(i, holds=holds), block) for i, ((holds, _), block) in enumerate(zip(cases, built, strict=True))),
        otherwise=rest,
    )
    outcome = outcome_of(branch, value, journal)
    first = next((index for index, (holds, _) in enumerate(cases) if holds), None)
    assert checked == list(range(len(cases) if first is None else first + 1))
    expected_block = rest if first is None else built[first]
    assert have_same_result(outcome, outcome_of(start if expected_block is None else expected_block, value, journal))


@given(st.lists(recipes(failing=False, depth=1, pauses=2), max_size=4), st.none() | st.integers(1, 4), SMALL)
def test_parallel_returns_results_by_key(branches: list[Recipe], limit: int | None, value: int) -> None:
    journal = Journal()
    blocks = {f"key {index}": recipe.build(journal) for index, recipe in enumerate(branches)}
    start: Sequencer[Any, Any] = sequencer(name="start")
    together = outcome_of(start.parallel(blocks, max_concurrency=limit), value, journal)
    apart = {key: outcome_of(block, value, journal) for key, block in blocks.items()}
    assert together.output == {key: outcome.output for key, outcome in apart.items()}
    assert isinstance(together.output, dict)
    assert list(together.output) == list(blocks)
    emitted = Counter((event.label, event.value) for event in together.told)
    assert emitted == Counter((event.label, event.value) for outcome in apart.values() for event in outcome.told)


@given(recipes(failing=False, depth=1, pauses=2), st.lists(SMALL, max_size=5), st.none() | st.integers(1, 4))
def test_for_each_applies_the_block_to_each_item(a: Recipe, items: list[int], limit: int | None) -> None:
    journal = Journal()
    block = a.build(journal)
    start: Sequencer[Any, Any] = sequencer(name="start")
    expected = [a.expected(item) for item in items]
    assert start.for_each(block, max_concurrency=limit).run_sync(items).output == expected
    assert start.tap_each(block, max_concurrency=limit).run_sync(items).output is items
    assert start.for_each(block, over=lambda _: iter(items)).run_sync("anything").output == expected


@given(recipes(failing=False, depth=1), SMALL)
def test_steps_do_not_change_the_sequencer(a: Recipe, value: int) -> None:
    journal = Journal()
    block = a.build(journal)
    base: Sequencer[Any, Any] = sequencer(name="base").then(block)
    before = (base.steps, base.resources, str(base.outline()))
    grown = [
        base.then(block),
        base.tap(block),
        base.map(abs),
        base.parallel({"x": block}),
        base.for_each(block),
        base.branch((bool, block)),
        base.do_while(block, bool, max_iterations=1),
        base.loop_back(base.steps[0].key, when=bool, max_iterations=2),
        base.rescue(block),
    ]
    assert (base.steps, base.resources, str(base.outline())) == before
    assert all(len(longer.steps) == len(base.steps) + 1 for longer in grown)
    assert outcome_of(base, value, journal).output == a.expected(value)


@given(st.integers(1, 6), st.integers(0, 8))
def test_loop_back_never_exceeds_its_maximum_number_of_repetitions(bound: int, target: int) -> None:
    """The steps run once and are then repeated while `when` holds, up to `max_iterations` times.

    Reaching the maximum is not an error.
    """
    passed: list[int] = []
    values: list[int] = []

    def when(value: int) -> bool:
        values.append(value)
        return value < target

    def again(value: int) -> int:
        passed.append(value)
        return value + 1

    loop: Sequencer[Any, Any] = (
        sequencer(name="loop").then(again).loop_back("again", when=when, max_iterations=bound).map(str)
    )
    times = min(bound, max(target, 1))
    assert loop.run_sync(0).output == str(times)
    assert passed == list(range(times))
    # `when` is also called after the last pass, because it may record why the loop ends
    assert values == list(range(1, times + 1))


@given(st.integers(1, 5), st.lists(st.booleans(), min_size=5, max_size=5), st.booleans())
def test_loop_back_ends_despite_failures_inside(bound: int, fails: list[bool], late: bool) -> None:  # noqa: FBT001
    """A rescue inside the loop ends only the current pass, whereas a rescue after the loop ends the loop itself."""
    passed: list[int] = []

    def act(value: int) -> int:
        passed.append(value)
        if fails[len(passed) - 1]:
            raise Boom
        return value

    body: Sequencer[Any, Any] = sequencer(name="loop").then(handler(act, name="act"))
    if late:
        loop = body.loop_back("act", when=lambda _: True, max_iterations=bound).rescue(lambda _: -1)
        times = min(bound, fails.index(True) + 1 if True in fails else bound)
    else:
        loop = body.rescue(lambda _: -1).loop_back("act", when=lambda _: True, max_iterations=bound)
        times = bound
    loop.run_sync(0)
    assert len(passed) == times


def test_two_loops_in_one_sequencer_are_counted_separately() -> None:
    paths: list[str] = []
    note = handler(lambda value, ctx: paths.append(ctx.path), name="note")
    loops: Sequencer[Any, Any] = (
        sequencer(name="two")
        .tap(note)
        .loop_back("note", when=lambda _: True, max_iterations=2)
        .tap(note)
        .loop_back("note~2", when=lambda _: True, max_iterations=3)
    )
    loops.run_sync(0)
    assert paths == [
        "two/loop[1]/note",
        "two/loop[2]/note",
        "two/loop~2[1]/note~2",
        "two/loop~2[2]/note~2",
        "two/loop~2[3]/note~2",
    ]


def test_rescue_after_a_loop_does_not_shorten_the_next_loop() -> None:
    passed: list[str] = []

    def fails_in_the_second_pass(_: object) -> None:
        passed.append("first")
        if len(passed) > 1:
            raise Boom

    def forever(_: object) -> bool:
        return True

    loops: Sequencer[Any, Any] = (
        sequencer(name="two")
        .tap(handler(fails_in_the_second_pass, name="first"))
        .loop_back("first", when=forever, max_iterations=5)
        .rescue(lambda _: "rescued")
        .tap(handler(lambda _: passed.append("second"), name="second"))
        .loop_back("second", when=forever, max_iterations=3)
    )
    loops.run_sync(0)
    assert passed == ["first", "first", "second", "second", "second"]


def test_loop_counts_restart_at_each_entry() -> None:
    values: list[int] = []
    inner: Sequencer[Any, Any] = (
        sequencer(name="inner").tap(handler(values.append, name="see")).loop_back("see", when=bool, max_iterations=2)
    )
    outer: Sequencer[Any, Any] = sequencer(name="outer").for_each(inner, max_concurrency=1)
    outer.run_sync([1, 2, 3])
    assert values == [1, 1, 2, 2, 3, 3]


ADD = Add("add", 1)


@given(st.integers(1, 5), st.integers(-2, 8))
def test_do_while_and_do_until_end_or_raise(bound: int, goal: int) -> None:
    """From the second pass on, the block receives its own output.

    `LoopLimitExceeded` is raised if the loop does not end within the allowed number of passes.
    """
    journal = Journal()
    block = ADD.build(journal)
    start: Sequencer[Any, Any] = sequencer(name="start")
    times = max(goal, 1)
    for loop in (
        start.do_while(block, lambda n: n < goal, max_iterations=bound),
        start.do_until(block, lambda n: n >= goal, max_iterations=bound),
    ):
        journal.paths.clear()
        if times <= bound:
            assert loop.run_sync(0).output == times
        else:
            error = failure_of(loop)
            assert isinstance(error, LoopLimitExceeded)
            assert (error.block, error.limit) == ("start", bound)
        assert journal.paths == [f"start/add[{index}]" for index in range(1, min(times, bound) + 1)]


def failure_of(block: Block[Any, Any], value: object = 0) -> Exception | None:
    """Return the exception raised by a run."""
    try:
        block.run_sync(value)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    return None


@dataclass
class Adds(Block[int, int]):
    """An application block that is unhashable, like any dataclass that defines equality."""

    number: int

    def __post_init__(self) -> None:
        super().__init__("adds")

    async def act(self, value: int, _: Any, /) -> int:
        return value + self.number

    def outline(self) -> Outline:
        return Outline(text="adds", kind="handler")


def test_dataclasses_can_be_blocks() -> None:
    block = Adds(1)
    pair = seq(block, block)
    assert (block.run_sync(1).output, pair.run_sync(1).output) == (2, 3)
    block.number = 2
    assert (block.run_sync(1).output, pair.run_sync(1).output) == (3, 5)
