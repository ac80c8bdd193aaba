"""Types of blocks and their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

from pydantic import BaseModel

from flowdebate import generator, handler, sequencer
from flowdebate.blocks.functions import Handler
from flowdebate.blocks.generator import Generator
from flowdebate.blocks.sequencer import Sequencer
from flowdebate.runs.result import RunHandle, RunResult

if TYPE_CHECKING:
    from flowdebate.models.base import ModelResponse
    from flowdebate.runs.context import Context


class Plan(BaseModel):
    """Output of a planner."""

    steps: list[str]


def count(text: str, ctx: Context) -> int:
    """Return the length of `text`."""
    return len(text)


async def count_later(text: str, ctx: Context) -> float:
    """Return the length of `text`."""
    return float(len(text))


def list_steps(plan: Any, response: ModelResponse, ctx: Context) -> list[str]:
    """List the steps of a plan."""
    return [str(plan)]


def check_a_handler_has_the_types_of_its_function() -> None:
    assert_type(handler(count), Handler[str, int])
    assert_type(handler(count_later, name="late"), Handler[str, float])
    assert_type(handler(count).run_sync("rents").output, int)


async def check_a_generator_has_the_requested_type() -> None:
    """The output type is text, the schema's type, or the return type of `transform`."""
    assert_type(generator(name="a", prompt="Say it.", max_tool_rounds=2), Generator[str])
    assert_type(generator(name="a", output_schema=Plan, model="local"), Generator[Plan])
    assert_type(generator(name="a", output_schema=Plan, transform=list_steps), Generator[list[str]])
    assert_type(generator(name="a", output_schema={"type": "object"}), Generator[Any])
    assert_type(await generator(name="a").run("?"), RunResult[str])
    assert_type(generator(name="a", output_schema=Plan).start("?"), RunHandle[Plan])


def check_a_sequencer_has_the_type_of_its_last_block() -> None:
    """A `tap` keeps the type, and `then` changes it."""
    planner = generator(name="a", output_schema=Plan)
    pipeline = sequencer(name="all").then(planner)
    assert_type(pipeline, Sequencer[Any, Plan])
    assert_type(pipeline.tap(handler(count)), Sequencer[Any, Plan])
    assert_type(pipeline.for_each(planner), Sequencer[Any, list[Plan]])
    assert_type(pipeline.parallel({"one": planner}).run_sync("?").output, dict[str, Any])
