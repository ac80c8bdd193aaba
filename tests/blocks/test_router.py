"""Tests for `router`, which selects a block at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import handler, router
from flowdebate.errors import OutputError
from tests.blocks.pipelines import SMALL, Journal, outcome_of, recipes
from tests.ids import case_id

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from tests.blocks.pipelines import Recipe


def word_block(word: str) -> Block[Any, str]:
    """Create a block that returns `word`."""
    return handler(lambda _: word, name=word)


@given(st.dictionaries(st.text(max_size=2), recipes(depth=1), min_size=1, max_size=3), SMALL, st.data())
def test_routers_act_like_the_chosen_block(routes: dict[str, Recipe], value: int, data: st.DataObject) -> None:
    journal = Journal()
    blocks = {key: recipe.build(journal) for key, recipe in routes.items()}
    key = data.draw(st.sampled_from(sorted(routes)))

    async def later(_: object) -> str:
        return key

    alone = outcome_of(blocks[key], value, journal)
    for choose in (lambda _: key, later, lambda _: blocks[key]):
        routed = outcome_of(router(name="r", choose=choose, routes=blocks), value, journal)
        assert (routed.output, routed.error, routed.told) == (alone.output, alone.error, alone.told)


def test_routes_can_be_a_list_of_blocks() -> None:
    one, two = word_block("one"), word_block("two")
    pick = router(name="r", choose=lambda value: {1: one, 2: "two"}[value], routes=[one, two])
    assert [pick.run_sync(1).output, pick.run_sync(2).output] == ["one", "two"]


def test_routes_can_be_functions() -> None:
    """A block made from a function is named after the router and the route's key."""
    pick = router(name="r", choose=lambda _: "b", routes={"b": str}, otherwise=lambda value, ctx: ctx.block)
    assert pick.routes["b"].name == "r-b"
    assert (
        router(name="r", choose=lambda _: "?", routes={"b": str}, otherwise=lambda _, ctx: ctx.block).run_sync(0).output
        == "r-otherwise"
    )


STRANGE = ["missing", "", None, 5, True, ["yes"], {"a": 1}, word_block("yes"), object()]


@pytest.mark.parametrize("choice", STRANGE, ids=case_id)
def test_unknown_choices_select_the_otherwise_block_or_raise_an_error(choice: object) -> None:
    """A block that has the same name as a route but is a different object does not count as that route."""
    routes = {"yes": word_block("aye"), "no": word_block("nay")}
    strict = router(name="r", choose=lambda _: choice, routes=routes)
    with pytest.raises(OutputError, match=r"block 'r' must return one of its routes: chose .*; available: yes or no"):
        strict.run_sync(0)
    lax = router(name="r", choose=lambda _: choice, routes=routes, otherwise=word_block("perhaps"))
    assert lax.run_sync(0).output == "perhaps"


def test_block_given_as_otherwise_can_be_chosen_directly() -> None:
    rest = word_block("rest")
    assert router(name="r", choose=lambda _: rest, routes={"a": str}, otherwise=rest).run_sync(0).output == "rest"


def test_exceptions_while_choosing_a_route_are_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        router(name="r", choose=lambda n: 1 / n, routes={"a": str}).run_sync(0)
    assert caught.value.__notes__ == ["in block 'r' (at r)"]
