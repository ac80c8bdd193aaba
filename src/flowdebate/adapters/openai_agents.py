"""OpenAI Agents SDK: `AgentModel` wraps an agent as a model, and `debate_tool` wraps a pattern as a tool for agents."""

from __future__ import annotations

from dataclasses import replace
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

if TYPE_CHECKING:
    from agents import Agent, FunctionTool, RunConfig, RunResult, RunResultStreaming
    from agents.agent_output import AgentOutputSchemaBase

    from flowdebate.blocks.base import Block
    from flowdebate.models.call import Retry
    from flowdebate.models.output import OutputSchema
    from flowdebate.runs.execute import RunOptions


class AgentModel(AdaptedModel):
    """OpenAI Agents SDK agent usable as a model in any role; its calls are limited, retried, recorded and streamed.

    - `agent`: the agent, with its own instructions, tools, handoffs, guardrails and model; a request's system message
      follows its instructions. If a role has a schema, it becomes the agent's output type for the call.
    - `context`: the agent's context, the same for each call.
    - `run_config`: a `RunConfig`, for example for tracing; a request's settings are added to it.
    - `name`: the name in errors, events and usage; None to use the agent's name.
    - `retry`: the retry policy; None to disable retries. Each retry also repeats the side effects of the agent's tools.

    An agent's run counts as one call, no matter how often the agent calls its model, but all tokens are counted.
    """

    def __init__(
        self,
        agent: Agent[Any],
        *,
        context: object = None,
        run_config: RunConfig | None = None,
        name: str | None = None,
        retry: Retry | None = RETRY,
    ) -> None:
        location = "openai_agents.AgentModel"
        check_library(location, "agents", library="the OpenAI Agents SDK", extra="openai-agents")
        from agents import Agent, RunConfig

        if not isinstance(agent, Agent):
            raise ConfigurationError(location, "agent", agent, "must be an Agent from the OpenAI Agents SDK")
        super().__init__(location, name or f"openai-agents/{agent.name}", retry)
        self._agent = agent
        self._context = context
        self._run_config = run_config or RunConfig()

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Run the agent once."""
        from agents import ModelSettings, Runner

        refuse_tools(self.name, request)
        agent = self._agent
        if request.output is not None:
            agent = agent.clone(output_type=_output_type(request.output))
        settings = request.settings
        sampling = sampling_of(replace(request, settings=replace(settings, extra={})))
        # the agent's ModelSettings accepts only known fields, so provider-specific ones are passed here
        if settings.extra:
            sampling["extra_args"] = dict(settings.extra)
        own_settings = ModelSettings(**sampling)
        run_settings = self._run_config.model_settings
        config = replace(
            self._run_config,
            model_settings=own_settings if run_settings is None else run_settings.resolve(own_settings),
        )
        options = {"context": self._context, "run_config": config}
        system = system_of(request)
        chat_messages = [*([("system", system)] if system else []), *chat_of(request)]
        messages: list[Any] = [{"role": role, "content": text} for role, text in chat_messages]
        with framework_failures():
            result: RunResult | RunResultStreaming
            if request.output is None and request.on_text is not None:
                result = Runner.run_streamed(agent, messages, **options)
                try:
                    async for event in result.stream_events():
                        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                            request.on_text(event.data.delta)
                except BaseException:
                    result.cancel()  # stop the agent as well, because it runs in a separate task
                    raise
            else:
                result = await Runner.run(agent, messages, **options)
            used = result.context_wrapper.usage
            usage = usage_of(used.input_tokens, used.output_tokens, used.input_tokens_details.cached_tokens)
            return ModelResponse(text=str(result.final_output), usage=usage)


def debate_tool(
    pattern: Block[Any, Any], *, name: str | None = None, description: str | None = None, **options: Unpack[RunOptions]
) -> FunctionTool:
    """Convert a pattern to a tool for `Agent(tools=[…])`, using `as_tool`; `options` are passed to `Block.run()`."""
    check_library("openai_agents.debate_tool", "agents", library="the OpenAI Agents SDK", extra="openai-agents")
    from agents import function_tool

    return function_tool(as_tool(pattern, name=name, description=description, **options))


def _output_type(schema: OutputSchema) -> AgentOutputSchemaBase:
    """Return an agent output type for `schema` that leaves the answer as text, so that this library can validate it."""
    from agents.agent_output import AgentOutputSchemaBase

    class Answer(AgentOutputSchemaBase):
        def is_plain_text(self) -> bool:
            return False

        def name(self) -> str:
            return schema.name

        def json_schema(self) -> dict[str, Any]:
            return schema.json_schema

        def is_strict_json_schema(self) -> bool:
            return False  # not strict, because strict schemas cannot have optional fields, and some of ours do

        def validate_json(self, json_str: str) -> str:
            return json_str

    return Answer()
