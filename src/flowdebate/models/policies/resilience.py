"""Resilience policies: retries, fallback models and deadlines."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from flowdebate._util.validation import check_seconds
from flowdebate.errors import ConfigurationError, ModelError, ModelTimeout, add_note, error_text
from flowdebate.models.base import CallFellBack
from flowdebate.models.call import answer, within
from flowdebate.models.retry import Retry
from flowdebate.models.wrapper import PerRequestWrapper, Wrapper, inner_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import Model, ModelRequest, ModelResponse


class Retrying(Wrapper):
    """Retry failed calls of `inner` according to `retry` (by default at most three requests).

    Use it for models that do not retry by themselves, such as your own. `OpenAIModel` retries by itself
    (`retry=`); of several nested retries only the outermost is active, so that attempts never multiply.

    >>> from flowdebate.testing import ScriptedModel
    >>> Retrying(ScriptedModel("Yes."), Retry(attempts=5)).retry.attempts
    5
    """

    def __init__(self, inner: Model | str, retry: Retry | None = None) -> None:
        super().__init__(inner)
        self.retry: Retry = Retry() if retry is None else retry


class Fallback(Wrapper):
    """Ask `models` in order: the next one after a provider failure of the previous one. Its name is the first model's.

    - `on`: predicate of errors after which the next model is asked; None for those that are the provider's fault. A
      missing key, or a test's script that does not fit, is the application's fault and is raised at once.

    Each model retries failed calls by itself before the next one is asked, unless an outer model retries the call as a
    whole. If all fail, the last error is raised, with the others as its notes.

    >>> Fallback("openai/gpt-5-mini", "anthropic/claude-sonnet-4-5", "local").name
    'openai/gpt-5-mini'
    """

    def __init__(self, *models: Model | str, on: Callable[[ModelError], bool] | None = None) -> None:
        if not models:
            raise ConfigurationError("Fallback", "models", models, "one model or more")
        if on is not None and not callable(on):
            raise ConfigurationError("Fallback", "on", on, "a function of the error, or None")
        super().__init__(models[0])
        self._models = (self.inner, *(inner_model(model, where="Fallback") for model in models[1:]))
        self._on = on

    def models(self) -> tuple[Model, ...]:
        """Return all models, in order."""
        return self._models

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return the answer of the first model that does not fail."""
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
            request.attempts.tell(event)
        raise AssertionError  # the last model has answered or failed

    def _applies(self, error: ModelError) -> bool:
        return error.providers_fault if self._on is None else bool(self._on(error))


class Timeout(PerRequestWrapper):
    """Set a deadline of `seconds` for each whole request of `inner`.

    - `first_text`: seconds until the first piece of text, and `between`: the longest pause between two pieces. With
      either, text is streamed even without a listener; a model that cannot stream has to finish within `first_text`.
      They apply to text only: structured answers, and requests with tools, have `seconds` alone.

    A later answer raises ModelTimeout. Where `inner` retries failed calls, each request has the deadline anew; the
    call's own, `ModelSettings.timeout`, covers all of them and the waits between.

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
        given = {name: value for name, value in options.items() if value is not None}
        if not given:
            raise ConfigurationError("Timeout", "seconds", None, "given, or first_text or between")
        check_seconds("Timeout", **given)
        self._seconds = seconds
        self._first_text = first_text
        self._between = between

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer in time, or raise ModelTimeout."""
        seconds = self._seconds
        if seconds is not None:
            deadline = asyncio.get_running_loop().time() + seconds
            if request.deadline is None or deadline < request.deadline:
                request = replace(request, deadline=deadline)
        paced = self._first_text is not None or self._between is not None
        if paced and request.output is None and not request.tools:
            return await within(seconds, self._paced(request))
        return await within(seconds, self.ask(request))

    async def _paced(self, request: ModelRequest) -> ModelResponse:
        clock = asyncio.get_running_loop().time
        listener = request.on_text
        allowed = self._first_text
        silence = asyncio.timeout(allowed)

        def heard(piece: str) -> None:
            nonlocal allowed
            allowed = self._between
            with suppress(RuntimeError):  # it has expired, or the answer has arrived
                silence.reschedule(None if allowed is None else clock() + allowed)
            if listener is not None:
                listener(piece)

        try:
            async with silence:
                return await self.ask(replace(request, on_text=heard))
        except Exception as error:
            # as with every deadline: the model's own TimeoutError must not pass for it
            if silence.expired() and allowed is not None:
                raise ModelTimeout(allowed, what="text") from error
            raise
