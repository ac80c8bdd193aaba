"""Tool calls that small models write as text."""

from __future__ import annotations

import pytest

from flowdebate.models import ModelRequest, ModelResponse, ToolCall, ToolSpec
from flowdebate.models.openai.responses import with_tool_calls

REQUEST = ModelRequest(messages=[], block="b", tools=[ToolSpec(name="lookup", description="", parameters={})])
CALL = '{"name": "lookup", "arguments": {"q": "x"}}'
READ = ToolCall(id="call_0", name="lookup", arguments='{"q": "x"}')


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (CALL, 1),
        (f"```json\n{CALL}\n```", 1),
        (f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>{CALL}</tool_call>", 2),
        (f"<tools>{CALL.replace('arguments', 'parameters')}</tools>", 1),
    ],
)
def test_text_that_is_only_tool_calls_is_read_as_tool_calls(text: str, count: int) -> None:
    read = with_tool_calls(ModelResponse(text=text), REQUEST)
    assert (read.text, read.finish, len(read.tool_calls)) == ("", "tool_calls", count)
    assert read.tool_calls[0] == READ


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Cars pollute.",
        f"As I said: {CALL}",
        f"```json\n{CALL}\n```\nThat is what I would do.",
        CALL.replace("lookup", "never_offered"),
        '{"name": "lookup"}',
        '{"name": "lookup", "arguments": "x"}',
        '{"name": ["lookup"], "arguments": {}}',
        "[" * 100_000,
        f"<tool_call>{CALL}</tool_call><tool_call>no json</tool_call>",
    ],
)
def test_text_around_tool_calls_stays_text(text: str) -> None:
    """Quoting a tool call in an argument does not call the tool."""
    response = ModelResponse(text=text)
    assert with_tool_calls(response, REQUEST) is response


def test_no_text_is_read_as_a_call_if_no_tools_are_offered() -> None:
    """Only tools that were offered can be called."""
    response = ModelResponse(text=CALL)
    assert with_tool_calls(response, ModelRequest(messages=[], block="b")) is response
