"""pydantic-ai: `AgentModel` wraps an agent as a model, and `debate_tool` wraps a pattern as a tool for agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from flowdebate._util.validation import check_library
from flowdebate.adapters.tool import as_tool
from flowdebate.adapters.translation import (
    RETRY,
    AdaptedModel,
    chat_of,
    framework_failures,
    refuse_tools,
    sampling_of,
    system_of,
    usage_of,
)
from flowdebate.errors import ConfigurationError
from flowdebate.models.base import ModelRequest, ModelResponse
from flowdebate.models.endings import read_finish

if TYPE_CHECKING:
    from pydantic_ai import Agent, Tool

    from flowdebate.blocks.base import Block
    from flowdebate.models.call import Retry
    from flowdebate.runs.execute import RunOptions


class AgentModel(AdaptedModel):
    """A pydantic-ai agent usable as a model in any role; its calls are limited, retried, recorded and streamed.

    - `agent`: the agent, with its own instructions, tools and model; a request's system message is added to its
      instructions. It must not validate outputs itself, because roles such as judges have their own schemas.
    - `deps`: the agent's dependencies, the same for each call.
    - `name`: the name in errors, events and usage; None to use the agent's name.
    - `retry`: the retry policy; None to disable retries. Each retry also repeats the side effects of the agent's tools.

    An agent's run counts as one call, no matter how often the agent calls its model, but all tokens are counted.
    """

    def __init__(
        self, agent: Agent[Any, Any], *, deps: object = None, name: str | None = None, retry: Retry | None = RETRY
    ) -> None:
        location = "pydantic_ai.AgentModel"
        check_library(location, "pydantic_ai", library="pydantic-ai", extra="pydantic-ai")
        from pydantic_ai.agent import AbstractAgent

        if not isinstance(agent, AbstractAgent):
            raise ConfigurationError(location, "agent", agent, "must be a pydantic-ai Agent")
        super().__init__(location, name or f"pydantic-ai/{agent.name or 'agent'}", retry)
        self._agent = agent
        self._deps = deps

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Run the agent once."""
        from pydantic_ai import AgentRunResultEvent, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

        refuse_tools(self.name, request)
        options = self._options(request)
        with framework_failures():
            result: Any = None
            if request.output is None and request.on_text is not None:
                async with self._agent.run_stream_events(**options) as events:
                    async for event in events:
                        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                            request.on_text(event.part.content)
                        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                            request.on_text(event.delta.content_delta)
                        elif isinstance(event, AgentRunResultEvent):
                            result = event.result
            else:
                result = await self._agent.run(**options)
            used = result.usage
            usage = usage_of(used.input_tokens, used.output_tokens, used.cache_read_tokens)
            # the totals are incomplete unless the provider reported the usage of every request
            if getattr(used, "unmeasured_requests", 0):
                usage = usage_of(None, None)
            if request.output is None:
                finish = read_finish(getattr(result.response, "finish_reason", None), calls=False)
                return ModelResponse(text=result.output, finish=finish.reason, flags=finish.flags, usage=usage)
            return ModelResponse(data=result.output, usage=usage)

    def _options(self, request: ModelRequest) -> dict[str, Any]:
        from pydantic_ai import StructuredDict, messages
        from pydantic_ai.settings import ModelSettings

        chat = chat_of(request)
        # if the last message is an answer, there is no prompt: the agent continues from its history
        prompt = chat.pop()[1] if chat and chat[-1][0] == "user" else None
        history = [
            messages.ModelRequest(parts=[messages.UserPromptPart(text)])
            if role == "user"
            else messages.ModelResponse(parts=[messages.TextPart(text)])
            for role, text in chat
        ]
        return {
            "user_prompt": prompt,
            "message_history": history or None,
            "instructions": system_of(request) or None,
            "output_type": str if request.output is None else StructuredDict(request.output.json_schema),
            "model_settings": ModelSettings(**sampling_of(request)),
            "deps": self._deps,
            "infer_name": False,
        }


def debate_tool(
    pattern: Block[Any, Any], *, name: str | None = None, description: str | None = None, **options: Unpack[RunOptions]
) -> Tool[Any]:
    """Convert a pattern to a tool for `Agent(tools=[…])`, using `as_tool`; `options` are passed to `Block.run()`."""
    check_library("pydantic_ai.debate_tool", "pydantic_ai", library="pydantic-ai", extra="pydantic-ai")
    from pydantic_ai import Tool

    return Tool(as_tool(pattern, name=name, description=description, **options), takes_ctx=False)
