"""`Timeout`: deadlines of a whole answer, its first text, and its pauses."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from flowdebate._util.validation import check_seconds
from flowdebate.errors import ConfigurationError, ModelTimeout
from flowdebate.models.call import within
from flowdebate.models.wrapper import PerRequestWrapper

if TYPE_CHECKING:
    from flowdebate.models.base import Model, ModelRequest, ModelResponse

__all__ = ("Timeout",)


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
            with suppress(RuntimeError):  # it has fired, or the answer is there already
                silence.reschedule(None if allowed is None else clock() + allowed)
            if listener is not None:
                listener(piece)

        try:
            async with silence:
                return await self.ask(replace(request, on_text=heard))
        except Exception as error:
            # as with every deadline: a TimeoutError of the model's own is none of ours
            if silence.expired() and allowed is not None:
                raise ModelTimeout(allowed, what="text") from error
            raise
