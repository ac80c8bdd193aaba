"""`as_tool`, which turns a pattern into an async function that any agent framework can offer as a tool."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from flowdebate.blocks.base import Block
from flowdebate.blocks.functions import result_text
from flowdebate.errors import ConfigurationError
from flowdebate.runs.execute import RunOptions

_MAX_NAME_LENGTH = 64  # maximum length, in characters, of a tool name accepted by providers


def as_tool(
    pattern: Block[Any, Any],
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[RunOptions],
) -> Callable[[str], Awaitable[str]]:
    """Create an async function that runs `pattern` on a question and returns the result as text.

    Frameworks can read its name (by default, the pattern's), its annotations, and its docstring, which consists of
    `description` and a description of the argument. A string output is returned unchanged, and any other output as
    JSON. If a run ends without output because it reached a limit or is waiting for a human, the function returns a
    message saying so. Each call passes the same `options` to `Block.run()`. Errors in the run are raised.

    >>> from flowdebate import generator
    >>> from flowdebate.testing import ScriptedModel
    >>> ask = as_tool(generator(name="second-opinion"), model=ScriptedModel("No."))
    >>> ask.__name__, ask.__annotations__["return"]
    ('second_opinion', <class 'str'>)
    """
    location = "as_tool()"
    if not isinstance(pattern, Block):
        raise ConfigurationError(location, "pattern", pattern, "must be a pattern or another block")
    if options.get("run_id") is not None:
        raise ConfigurationError(location, "run_id", None, "cannot be set: each call is a separate run")
    called = re.sub(r"\W+", "_", pattern.name, flags=re.ASCII).strip("_") if name is None else name
    if not re.fullmatch(rf"[A-Za-z_]\w{{0,{_MAX_NAME_LENGTH - 1}}}", called, flags=re.ASCII):
        problem = f"must be at most {_MAX_NAME_LENGTH} letters, digits and underscores, and must not begin with a digit"
        raise ConfigurationError(location, "name", called, problem)
    tool_description = (
        description or f"Have {pattern.name!r} discuss a question from several sides, and return its result."
    )

    async def ask(question: str) -> str:
        result = await pattern.run(question, **options)
        if result.output is None:
            return f"No result: the run ended with the status {result.status!r}."
        return result_text(result.output)

    ask.__name__ = ask.__qualname__ = called
    ask.__doc__ = (
        f"{tool_description}\n\nArgs:\n    question: The question, with everything that is needed to discuss it.\n"
    )
    ask.__annotations__ = {"question": str, "return": str}
    return ask
