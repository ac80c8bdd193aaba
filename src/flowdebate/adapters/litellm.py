"""Adapter for LiteLLM: `LiteLLM`, a model from any provider supported by LiteLLM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from flowdebate._util.validation import check_library
from flowdebate.adapters.translation import RETRY, AdaptedModel, framework_failures, sampling_of, usage_of
from flowdebate.errors import ConfigurationError, EmptyResponse
from flowdebate.models.base import ModelRequest, ModelResponse, ToolCall
from flowdebate.models.call import Retry, check_real_calls_allowed
from flowdebate.models.endings import read_finish

if TYPE_CHECKING:
    from litellm import ModelResponse as Answer

# Parameters that each request sets itself.
_OURS = frozenset({"messages", "model", "num_retries", "response_format", "stream", "tools"})
# Maximum time in seconds that a run waits for LiteLLM's callbacks when it ends.
_CALLBACK_SECONDS = 5.0


class LiteLLM(AdaptedModel):
    """A model identified by its LiteLLM name, for example "anthropic/claude-sonnet-4-5" or "bedrock/…".

    - `retry`: the retry policy; None to disable retries. LiteLLM's own retries are turned off, so that every request is
      counted.
    - `options`: parameters passed to `litellm.acompletion` for each call, such as `api_key`, `api_base`, `drop_params`
      or `mock_response`. A request's own settings take precedence.

    Tools and schemas are sent in the chat completions format, which LiteLLM translates for the provider.
    """

    takes_images: bool = True

    def __init__(self, model: str, *, retry: Retry | None = RETRY, **options: object) -> None:
        location = "LiteLLM"
        check_library(location, "litellm", library="LiteLLM", extra="litellm")
        if not isinstance(model, str) or not model.strip():
            raise ConfigurationError(location, "model", model, "must be a model name")
        for name in sorted(_OURS & set(options)):
            raise ConfigurationError(location, name, None, "cannot be set because each request sets it")
        super().__init__(location, f"litellm/{model}", retry)
        self._model = model
        self._options = options

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Send a single request."""
        if "mock_response" not in self._options:
            address = self._options.get("api_base")
            check_real_calls_allowed(self.name, base_url=address if isinstance(address, str) else None)
        import litellm

        parameters = self._parameters(request)
        with framework_failures():
            if request.output is None and request.on_text is not None:
                chunks = []
                async for chunk in await litellm.acompletion(**parameters, **_STREAMED):
                    chunks.append(chunk)
                    for choice in chunk.choices[:1]:
                        if choice.delta.content:
                            request.on_text(choice.delta.content)
                answer = litellm.stream_chunk_builder(chunks)
            else:
                answer = await litellm.acompletion(**parameters)
            return _response(answer)

    @asynccontextmanager
    async def open_connections(self) -> AsyncIterator[Self]:
        """Return a context manager that waits for LiteLLM's callbacks on exit; a run enters one for each model."""
        try:
            yield self
        finally:
            await wait_for_callbacks()

    def _parameters(self, request: ModelRequest) -> dict[str, Any]:
        parameters: dict[str, Any] = {**self._options, **sampling_of(request, effort="reasoning_effort")}
        if request.output is not None:
            schema = {"name": request.output.name, "schema": request.output.json_schema, "strict": False}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.tools:
            parameters["tools"] = [tool.to_openai() for tool in request.tools]
        messages = [dict(message) for message in request.messages]
        # set both, because LiteLLM and the provider's client retry independently
        return {**parameters, "model": self._model, "messages": messages, "num_retries": 0, "max_retries": 0}

    def __repr__(self) -> str:
        return f"LiteLLM({self._model!r})"


async def wait_for_callbacks() -> None:
    """Wait for the callbacks of earlier calls, because LiteLLM drops queued callbacks when the event loop closes.

    The wait lasts a few seconds at most and is skipped if the task is being cancelled.
    """
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

    task = asyncio.current_task()
    if task is None or task.cancelling():
        return
    await asyncio.sleep(0)  # give LiteLLM's task a chance to queue the callbacks
    queue = GLOBAL_LOGGING_WORKER._queue  # noqa: SLF001 - its flush() forgets those that have started
    if queue is not None and GLOBAL_LOGGING_WORKER._bound_loop is asyncio.get_running_loop():  # noqa: SLF001
        with suppress(TimeoutError):
            await asyncio.wait_for(queue.join(), _CALLBACK_SECONDS)


_STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


def _response(answer: Answer | None) -> ModelResponse:
    if answer is None or not answer.choices:
        raise EmptyResponse("the response has no choices")
    choice = answer.choices[0]
    calls = tuple(
        ToolCall(id=call.id or f"call_{index}", name=call.function.name, arguments=call.function.arguments or "{}")
        for index, call in enumerate(choice.message.tool_calls or ())
    )
    finish = read_finish(choice.finish_reason, calls=bool(calls))
    used = getattr(answer, "usage", None)
    cached = getattr(getattr(used, "prompt_tokens_details", None), "cached_tokens", None)
    return ModelResponse(
        text=choice.message.content or "",
        tool_calls=calls,
        finish=finish.reason,
        usage=usage_of(getattr(used, "prompt_tokens", None), getattr(used, "completion_tokens", None), cached),
        model=answer.model,
        flags=finish.flags,
    )
