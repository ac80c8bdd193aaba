"""pydantic-ai: `AgentModel`, an agent as a model, and `debate_tool`, a pattern as a tool of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from flowdebate._util.validation import check_library
from flowdebate.adapters.tool import as_tool
from flowdebate.adapters.translation import (
    chat_of,
    check_retry,
    framework_failures,
    refuse_tools,
    sampling_of,
    system_of,
    usage_of,
)
from flowdebate.errors import ConfigurationError
from flowdebate.models.base import ModelResponse
from flowdebate.models.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai import Agent, Tool

    from flowdebate.blocks.base import Block
    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.options import RunOptions


_RETRY = Retry()


class AgentModel:
    """A pydantic-ai agent as a model, in any role: counted, limited, retried, recorded and streamed like any other.

    - `agent`: keeps its own instructions, tools and model; the system message of a request is added to its
      instructions. It must not validate outputs itself, since a judge's have a schema of their own.
    - `deps`: its dependencies, the same for each call.
    - `name`: in errors, events and usage; None for that of the agent.
    - `retry`: the retry policy; None for no retries. What the agent's tools do is done again with each retry.

    One run of the agent is one call, however often it asks its model; all its tokens are counted.
    """

    gives_logprobs = False

    def __init__(
        self, agent: Agent[Any, Any], *, deps: object = None, name: str | None = None, retry: Retry | None = _RETRY
    ) -> None:
        where = "pydantic_ai.AgentModel"
        check_library(where, "pydantic_ai", library="pydantic-ai", extra="pydantic-ai")
        from pydantic_ai.agent import AbstractAgent

        if not isinstance(agent, AbstractAgent):
            raise ConfigurationError(where, "agent", agent, "an Agent of pydantic-ai")
        self.name: str = name or f"pydantic-ai/{agent.name or 'agent'}"
        self.retry: Retry | None = check_retry(where, retry)
        self._agent = agent
        self._deps = deps

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Run the agent once."""
        refuse_tools(self.name, request)
        options = self._options(request)
        with framework_failures():
            if request.output is None and request.on_text is not None:
                result = await self._streamed(options, request.on_text)
            else:
                result = await self._agent.run(**options)
            return _response(result, structured=request.output is not None)

    def _options(self, request: ModelRequest) -> dict[str, Any]:
        from pydantic_ai import StructuredDict
        from pydantic_ai.settings import ModelSettings

        chat = chat_of(request)
        prompt = chat.pop()[1] if chat and chat[-1][0] == "user" else None
        return {
            "user_prompt": prompt,
            "message_history": _history(chat),
            "instructions": system_of(request) or None,
            "output_type": str if request.output is None else StructuredDict(request.output.json_schema),
            "model_settings": ModelSettings(**sampling_of(request)),
            "deps": self._deps,
            "infer_name": False,
        }

    async def _streamed(self, options: dict[str, Any], on_text: Callable[[str], None]) -> Any:  # noqa: ANN401 - AgentRunResult
        from pydantic_ai import AgentRunResultEvent, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

        result = None
        async with self._agent.run_stream_events(**options) as events:
            async for event in events:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    on_text(event.part.content)
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    on_text(event.delta.content_delta)
                elif isinstance(event, AgentRunResultEvent):
                    result = event.result
        return result

    def __repr__(self) -> str:
        return f"<AgentModel {self.name!r}>"


def debate_tool(
    pattern: Block[Any, Any], *, name: str | None = None, description: str | None = None, **options: Unpack[RunOptions]
) -> Tool[Any]:
    """`as_tool(pattern)` as a tool for `Agent(tools=[…])`; `options` are those of `Block.run()`."""
    check_library("pydantic_ai.debate_tool", "pydantic_ai", library="pydantic-ai", extra="pydantic-ai")
    from pydantic_ai import Tool

    return Tool(as_tool(pattern, name=name, description=description, **options), takes_ctx=False)


def _history(chat: list[tuple[str, str]]) -> list[Any] | None:
    from pydantic_ai import messages

    return [
        messages.ModelRequest(parts=[messages.UserPromptPart(text)])
        if role == "user"
        else messages.ModelResponse(parts=[messages.TextPart(text)])
        for role, text in chat
    ] or None


def _response(result: Any, *, structured: bool) -> ModelResponse:  # noqa: ANN401 - AgentRunResult
    used = result.usage
    unmeasured = getattr(used, "unmeasured_requests", 0)
    usage = (
        usage_of(*(None,) * 2)
        if unmeasured
        else usage_of(used.input_tokens, used.output_tokens, used.cache_read_tokens)
    )
    if structured:
        return ModelResponse(data=result.output, usage=usage)
    return ModelResponse(text=result.output, usage=usage)
