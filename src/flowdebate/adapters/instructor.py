"""instructor: `InstructorModel` calls a model through an instructor client, using its retries and validators."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from flowdebate._util.validation import check_count, check_library
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
from flowdebate.errors import ConfigurationError, ConnectionLost, EmptyResponse, LimitReached, SchemaViolation
from flowdebate.models.base import ModelRequest, ModelResponse, Usage
from flowdebate.models.call import Retry, check_real_calls_allowed

if TYPE_CHECKING:
    from instructor import Instructor

    from flowdebate.models.base import Sending

_UNREACHABLE = {"APIConnectionError", "APITimeoutError"}  # exception classes of the OpenAI and Anthropic clients
_ROOM = 4096
"""Default maximum number of tokens in an answer from Anthropic, whose API requires a limit."""


class InstructorModel(AdaptedModel):
    """A model called through an instructor client: `InstructorModel(instructor.from_provider("openai/gpt-5-mini"))`.

    - `client`: a client from `from_provider`, `from_openai`, `from_anthropic` and the like, sync or async.
    - `model`: the provider's name for the model; None to use the client's default.
    - `max_retries`: maximum number of times that instructor retries a request after an answer fails validation,
      including validation by your own validators.
    - `retry`: the retry policy for provider failures; None to disable retries. Retries by the provider's own client are
      turned off, so that every request is counted here and the run's limits apply.
    """

    tells_attempts = True

    def __init__(
        self, client: Instructor, model: str | None = None, *, max_retries: int = 3, retry: Retry | None = RETRY
    ) -> None:
        location = "InstructorModel"
        check_library(location, "instructor", library="instructor", extra="instructor")
        from instructor import Instructor

        if not isinstance(client, Instructor):
            raise ConfigurationError(
                location, "client", client, "must be an instructor client, such as from_provider(…)"
            )
        # from_provider() stores the model name in the function it wraps
        default = inspect.getclosurevars(inspect.unwrap(client.create_fn, stop=_has_default)).nonlocals.get(
            "default_model"
        )
        name = model or client.kwargs.get("model") or client.default_model or default
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(location, "model", model, "is required because the client has no default model")
        check_count(location, minimum=0, max_retries=max_retries)
        super().__init__(location, f"{client.provider.value}/{name.rpartition('/')[2]}", retry)
        self._client = client
        self._model = name
        self._max_retries = max_retries
        if client.client is not None and hasattr(client.client, "max_retries"):
            client.client.max_retries = 0

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Send the request; if an answer is invalid, send it again with the error, at most `max_retries` times."""
        refuse_tools(self.name, request)
        address = getattr(self._client.client, "base_url", None)
        check_real_calls_allowed(self.name, base_url=None if address is None else str(address))
        asking = _Asking(self.name, request)
        try:
            with framework_failures():
                answer = await self._create(request, asking)
        finally:
            asking.end()
        if isinstance(answer, BaseModel) and request.output is not None:
            return ModelResponse(data=answer.model_dump(mode="json", by_alias=True), usage=asking.usage)
        text = _text_of(answer)
        if request.on_text is not None and text:
            request.on_text(text)
        return ModelResponse(text=text, usage=asking.usage)

    async def _create(self, request: ModelRequest, asking: _Asking) -> Any:  # noqa: ANN401 - of any provider
        from instructor import AsyncInstructor
        from instructor.core import InstructorRetryException

        parameters = self._parameters(request)
        try:
            if request.output is None:
                asking.begin()
                answer = await self._ask(parameters)
                asking.note(answer)
                return answer
            parameters["hooks"] = asking.hooks()
            kind: Any = asking.policy(self._max_retries, sync=not isinstance(self._client, AsyncInstructor))
            return await self._ask({**parameters, "max_retries": kind})
        except InstructorRetryException as error:
            if asking.limit is not None:
                raise asking.limit from None
            cause = error.__cause__ or error
            if isinstance(cause, (ValidationError, json.JSONDecodeError)):
                raise SchemaViolation([("", str(cause))]) from error
            if type(cause).__name__ in _UNREACHABLE:
                raise ConnectionLost(f"{type(cause).__name__}: {cause}") from error
            raise cause from None

    async def _ask(self, parameters: dict[str, Any]) -> Any:  # noqa: ANN401 - of any provider
        from instructor import AsyncInstructor

        if isinstance(self._client, AsyncInstructor):
            return await self._client.create(**parameters)
        create: Callable[..., object] = self._client.create
        return await asyncio.to_thread(create, **parameters)

    def _parameters(self, request: ModelRequest) -> dict[str, Any]:
        from instructor import Provider

        effort = None if self._client.provider is Provider.ANTHROPIC else "reasoning_effort"
        parameters: dict[str, Any] = {**sampling_of(request, effort=effort), "model": self._model}
        parameters["response_model"] = None if request.output is None else request.output.model
        parameters["messages"] = [dict(message) for message in request.messages]
        if self._client.provider is Provider.ANTHROPIC:
            parameters.setdefault("max_tokens", _ROOM)
            if request.output is None:
                parameters["messages"] = [{"role": role, "content": text} for role, text in chat_of(request)]
                parameters["system"] = system_of(request)
        return parameters

    def __repr__(self) -> str:
        return f"InstructorModel({self.name!r})"


class _Asking:
    """Requests made for a single call; each one is counted in the run's event loop before it is sent."""

    def __init__(self, name: str, request: ModelRequest) -> None:
        self._name = name
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._sending: Sending | None = None
        self._attempt: Any = None
        self._over = False
        self.limit: LimitReached | None = None
        self.usage: Usage = Usage.unknown()

    def begin(self) -> None:
        """Count another request; raise LimitReached if it exceeds the run's limits."""
        if self._over:
            message = "the call is over"
            raise asyncio.CancelledError(message)
        self._close(None)
        sending = self._request.attempts.sending(self._name, self._request)
        try:
            self._attempt = sending.__enter__()
        except LimitReached as error:
            self.limit = error
            raise
        self._sending = sending

    def note(self, answer: object) -> None:
        """Record the token counts reported with an answer."""
        used = getattr(answer, "usage", None)
        prompt = getattr(used, "prompt_tokens", getattr(used, "input_tokens", None))
        completion = getattr(used, "completion_tokens", getattr(used, "output_tokens", None))
        details = getattr(used, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", getattr(used, "cache_read_input_tokens", None))
        self.usage = usage_of(prompt, completion, cached)
        if self._attempt is not None:
            self._attempt.usage = self.usage

    def end(self) -> None:
        """Mark the last request as finished, and prevent a thread that is still running from sending more requests."""
        self._over = True
        self._close(None)

    def hooks(self) -> Any:  # noqa: ANN401 - instructor's Hooks
        """Return hooks that record each answer's tokens and each failed request."""
        from instructor.core.hooks import Hooks

        hooks = Hooks()
        hooks.on("completion:response", lambda answer: self._in_loop(lambda: self.note(answer)))
        hooks.on("completion:error", lambda error, **_: self._in_loop(lambda: self._close(error)))
        return hooks

    def policy(self, max_retries: int, *, sync: bool) -> Any:  # noqa: ANN401 - tenacity's Retrying
        """Return a retry policy for instructor that retries invalid answers, counting each request in advance."""
        from instructor.core.exceptions import AsyncValidationError, ResponseParsingError
        from tenacity import AsyncRetrying, Retrying, retry_if_exception_type, stop_after_attempt

        invalid = (ValidationError, json.JSONDecodeError, AsyncValidationError, ResponseParsingError)
        return (Retrying if sync else AsyncRetrying)(
            stop=stop_after_attempt(max_retries + 1),
            retry=retry_if_exception_type(invalid),
            before=lambda _: self._in_loop(self.begin),
            reraise=True,
        )

    def _in_loop(self, act: Callable[[], None]) -> None:
        """Run `act` in the event loop, even when called from a sync client's thread."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            act()
            return

        async def later() -> None:
            act()

        call: Coroutine[Any, Any, None] = later()
        asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def _close(self, error: BaseException | None) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.__exit__(None if error is None else type(error), error, None)


def _has_default(function: Callable[..., object]) -> bool:
    return "default_model" in getattr(getattr(function, "__code__", None), "co_freevars", ())


def _text_of(answer: Any) -> str:  # noqa: ANN401 - of any provider
    """Return the text of a provider's answer; raise EmptyResponse if it has none."""
    choices = getattr(answer, "choices", None)
    parts = getattr(answer, "content", None)
    if choices:
        text = choices[0].message.content
    elif isinstance(parts, list):
        text = "".join(getattr(part, "text", "") for part in parts)
    else:
        text = getattr(answer, "output_text", None) or getattr(answer, "text", None)
    if not isinstance(text, str):
        raise EmptyResponse("the answer has no text")
    return text
