"""Models that wrap other models: the base class `Wrapper`, and policies for retries, fallbacks and deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Self

from flowdebate._text import add_note, error_text
from flowdebate._util.validation import check_seconds
from flowdebate.errors import ConfigurationError, ModelError, ModelTimeout
from flowdebate.models.base import (
    CallFellBack,
    Effort,
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    accepts_images,
    check_ready,
    context_of,
    profile_of,
)
from flowdebate.models.call import Retry, answer, within
from flowdebate.models.resolve import resolve_model
from flowdebate.prompts import Profile


class Wrapper:
    """Base class for a model that wraps `inner`: override `request` to act before, after, or instead of `ask`.

    A wrapper uses its inner model's name and connections. `inner` may be a model name, but not an intent.

    >>> class Polite(Wrapper):
    ...     async def request(self, request):
    ...         response = await self.ask(request)
    ...         return response
    >>> Polite("ollama/gemma3").name
    'ollama/gemma3'
    """

    tells_attempts = True
    """Always true, because inner models record the attempts."""

    def __init__(self, inner: Model | str) -> None:
        self.inner: Model = inner_model(inner, location=type(self).__name__)

    @property
    def name(self) -> str:
        """Name of the inner model, used in errors, events and usage."""
        return self.inner.name

    @property
    def profile(self) -> Profile:
        """Profile that selects the inner model's default prompts."""
        return profile_of(self.inner)

    @property
    def context_tokens(self) -> int | None:
        """The inner model's maximum number of tokens in a prompt and its answer combined."""
        return context_of(self.inner)

    @property
    def gives_logprobs(self) -> bool:
        """True if the inner model may return log-probabilities."""
        return bool(getattr(self.inner, "gives_logprobs", True))

    @property
    def takes_effort(self) -> bool:
        """True if the inner model has a setting for the amount of thinking."""
        return bool(getattr(self.inner, "takes_effort", True))

    @property
    def takes_images(self) -> bool:
        """True if all models the wrapper may call accept images."""
        return all(map(accepts_images, self.models()))

    async def check_ready(self) -> None:
        """Check that the inner model can be called; other models are not checked, because they may never be needed."""
        await check_ready(self.inner)

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Forward the request to the inner model."""
        return await self.ask(request)

    async def ask(self, request: ModelRequest) -> ModelResponse:
        """Return a validated answer from the inner model, which retries failed calls unless an outer model does so."""
        return await answer(self.inner, request)

    def models(self) -> tuple[Model, ...]:
        """Return the models the wrapper may call."""
        return (self.inner,)

    @asynccontextmanager
    async def open_connections(self) -> AsyncIterator[Self]:
        """Keep the connections of all wrapped models open within the `async with` block."""
        async with AsyncExitStack() as stack:
            for model in self.models():
                opened = getattr(model, "open_connections", None)
                if opened is not None:
                    await stack.enter_async_context(opened())
            yield self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.models()))})"


def inner_model(spec: Model | str, *, location: str) -> Model:
    """Resolve a wrapper's inner model; raise ConfigurationError for an intent or an invalid value."""
    if spec is None or (isinstance(spec, str) and spec.startswith("intent/")):
        raise ConfigurationError(
            location, "model", spec, "must be a Model or a model name, because only runs resolve intents"
        )
    return resolve_model(spec)


class PerRequestWrapper(Wrapper):
    """Wrapper whose `request` is called for every single request to `inner`, including each retry.

    >>> from flowdebate.models import OpenAIModel, Retry
    >>> PerRequestWrapper(OpenAIModel("gemma3", retry=Retry(attempts=5))).retry.attempts
    5
    """

    @property
    def retry(self) -> Retry | None:
        """The inner model's retry policy; the caller applies it around this wrapper."""
        return getattr(self.inner, "retry", None)

    @property
    def timeout(self) -> float | None:
        """The inner model's deadline for all attempts at a call; the caller applies it around this wrapper."""
        return getattr(self.inner, "timeout", None)


class Thinking(PerRequestWrapper):
    """Set how much `inner` thinks, unless the request already sets this.

    Raises ConfigurationError if the model has no such setting.

    >>> Thinking("openai/gpt-5-mini", "high").name
    'openai/gpt-5-mini'
    """

    def __init__(self, inner: Model | str, effort: Effort) -> None:
        super().__init__(inner)
        self.effort: Effort = ModelSettings(effort=effort).effort or effort
        if not self.takes_effort:
            problem = f"is not supported by {self.name}"
            raise ConfigurationError("Thinking", "effort", effort, problem)

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        if request.settings.effort is None:
            request = replace(request, settings=replace(request.settings, effort=self.effort))
        return await self.ask(request)


class Retrying(Wrapper):
    """Retry failed calls to `inner` according to `retry` (at most three requests by default).

    Use this wrapper for models without retries, such as custom ones. `OpenAIModel` has its own retries (`retry=`); when
    retry loops are nested, only the outermost is active, so attempts never multiply.

    >>> from flowdebate.testing import ScriptedModel
    >>> Retrying(ScriptedModel("Yes."), Retry(attempts=5)).retry.attempts
    5
    """

    def __init__(self, inner: Model | str, retry: Retry | None = None) -> None:
        super().__init__(inner)
        self.retry: Retry = Retry() if retry is None else retry


class Fallback(Wrapper):
    """Call `models` in order, moving on whenever a provider fails. The fallback is named after the first model.

    - `on`: predicate that selects the errors after which the next model is called; None for errors caused by the
      provider. A missing key, or a mismatched script in a test, is the application's fault and is raised immediately.

    Each model makes its own retries before the next one is called, unless an outer model retries the call as a whole.
    If all fail, the last error is raised, with the others attached as notes.

    >>> Fallback("openai/gpt-5-mini", "anthropic/claude-sonnet-4-5", "local").name
    'openai/gpt-5-mini'
    """

    def __init__(self, *models: Model | str, on: Callable[[ModelError], bool] | None = None) -> None:
        if not models:
            raise ConfigurationError("Fallback", "models", models, "must contain at least one model")
        if on is not None and not callable(on):
            raise ConfigurationError("Fallback", "on", on, "must be a function that takes the error")
        super().__init__(models[0])
        self._models = (self.inner, *(inner_model(model, location="Fallback") for model in models[1:]))
        self._on = on

    def models(self) -> tuple[Model, ...]:
        """Return all models, in order."""
        return self._models

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        failed: list[str] = []
        for model, following in zip(self._models, (*self._models[1:], None), strict=True):
            try:
                return await answer(model, request)
            except Exception as error:
                if following is None or not isinstance(error, ModelError) or not self._applies(error):
                    for earlier in failed:
                        add_note(error, earlier)
                    raise
                failed.append(f"before that, {error_text(error)}")
                event = CallFellBack(
                    block=request.block,
                    model=model.name,
                    to=following.name,
                    error=type(error).__name__,
                    message=error.message,
                )
            request.attempts.notify(event)
        raise AssertionError  # unreachable: the last model has answered or failed

    def _applies(self, error: ModelError) -> bool:
        return error.providers_fault if self._on is None else bool(self._on(error))


class Timeout(PerRequestWrapper):
    """Set a deadline of `seconds` for each complete request to `inner`.

    - `first_text`: maximum time in seconds until the first chunk of text, and `between`: maximum pause between two
      chunks. If either is set, text is streamed even without a listener; a model that cannot stream has to finish
      within `first_text`. Both apply only to text: structured answers, and requests with tools, are limited only by
      `seconds`.

    Requests that exceed the deadline raise ModelTimeout. If `inner` retries failed calls, the deadline applies to each
    request; the call's own deadline, `ModelSettings.timeout`, covers all requests and the waits between them.

    >>> Timeout("ollama/gemma3", 60, first_text=20, between=5).name
    'ollama/gemma3'
    """

    def __init__(
        self,
        inner: Model | str,
        seconds: float | None = None,
        *,
        first_text: float | None = None,
        between: float | None = None,
    ) -> None:
        super().__init__(inner)
        options = {"seconds": seconds, "first_text": first_text, "between": between}
        overrides = {name: value for name, value in options.items() if value is not None}
        if not overrides:
            raise ConfigurationError("Timeout", "seconds", None, "is required unless `first_text` or `between` is set")
        check_seconds("Timeout", overrides)
        self._seconds = seconds
        self._first_text = first_text
        self._between = between

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        seconds = self._seconds
        if seconds is not None:
            deadline = asyncio.get_running_loop().time() + seconds
            if request.deadline is None or deadline < request.deadline:
                request = replace(request, deadline=deadline)
        paced = self._first_text is not None or self._between is not None
        streams = paced and request.output is None and not request.tools
        return await within(seconds, self._ask_for_pieces(request) if streams else self.ask(request))

    async def _ask_for_pieces(self, request: ModelRequest) -> ModelResponse:
        clock = asyncio.get_running_loop().time
        listener = request.on_text
        allowed = self._first_text
        silence = asyncio.timeout(allowed)

        def restart_timer(piece: str) -> None:
            nonlocal allowed
            allowed = self._between
            with suppress(RuntimeError):  # raised if the timer has expired or the answer has arrived
                silence.reschedule(None if allowed is None else clock() + allowed)
            if listener is not None:
                listener(piece)

        try:
            async with silence:
                return await self.ask(replace(request, on_text=restart_timer))
        except Exception as error:
            # a TimeoutError raised by the model must not be mistaken for this deadline
            if silence.expired() and allowed is not None:
                raise ModelTimeout(allowed, what="text") from error
            raise
