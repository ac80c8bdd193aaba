"""Retry loop shared by all models: conditions, backoff, and changes of the request.

The retries of the SDKs are off, so that every attempt is counted, bounded and reported here. Where
several nested models would retry a call, the outermost does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flowdebate._util.validation import check_count
from flowdebate.errors import (
    ConfigurationError,
    EmptyResponse,
    LostToThinking,
    ModelError,
    OutputTruncated,
    SchemaViolation,
)
from flowdebate.models.base import CallRetried, ModelRequest, ModelResponse

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retry policy: number of attempts and backoff.

    Waits grow by a factor of two from `first_wait` to `longest_wait`, each drawn between half and all of it. An
    endpoint's own `retry-after` is respected; if it is above `longest_wait`, the call is not retried. An answer that
    did not fit the schema is asked for again at once, with the reason. A call whose wait would pass its deadline is not
    retried.

    >>> Retry(attempts=5, first_wait=1).longest_wait
    60.0
    """

    attempts: int = 3
    """Maximum number of requests, the first one included."""
    first_wait: float = 0.5
    """Seconds."""
    longest_wait: float = 60.0
    """Seconds."""
    on: Callable[[ModelError], bool] | None = None
    """Predicate of retried errors; None for those whose `transient` is true."""
    sleep: Callable[[float], Awaitable[object]] = field(default=asyncio.sleep, repr=False, compare=False)
    """Function that waits; tests pass their own."""

    def __post_init__(self) -> None:
        check_count("Retry", attempts=self.attempts)
        for name in ("first_wait", "longest_wait"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < float("inf"):
                raise ConfigurationError("Retry", name, value, "a number of seconds >= 0")

    def wait_before(self, attempt: int, error: ModelError, *, random: Random) -> float | None:
        """Return the seconds to wait before request number `attempt`, after `error`; None for no retry."""
        if attempt > self.attempts or not (error.transient if self.on is None else self.on(error)):
            return None
        if isinstance(error, _AT_ONCE):
            return 0.0
        grown = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt - 2, 60))  # 2.0 ** 1024 overflows
        # drawn, since debaters whose endpoint refused them at the same moment would come back at the same moment
        drawn = grown * (0.5 + random.random() / 2)
        if error.retry_after is None:
            return drawn
        return None if error.retry_after > self.longest_wait else max(error.retry_after, drawn)


async def call_with_retries(
    once: Callable[[ModelRequest], Awaitable[ModelResponse]], request: ModelRequest, retry: Retry
) -> ModelResponse:
    """Call `once(request)` and retry it according to `retry`; raise the last error as it is."""
    request = replace(request, retried=True)
    seen: Counter[type[ModelError]] = Counter()
    number = 1
    while True:
        try:
            return await once(request)
        except ModelError as error:
            seen[type(error)] += 1
            number += 1
            if isinstance(error, _ONCE) and seen[type(error)] > 1:
                raise
            wait = retry.wait_before(number, error, random=request.attempts.random)
            if wait is None:
                raise
            if request.deadline is not None and asyncio.get_running_loop().time() + wait >= request.deadline:
                raise  # at once, while there is still time to ask another model
            failure = error  # Python unbinds `error` at the end of the block
        request = _amend(request, failure, seen)
        request.attempts.tell(
            CallRetried(
                block=request.block,
                model=failure.model,
                attempt=number,
                error=type(failure).__name__,
                message=failure.message,
                wait=wait,
            )
        )
        if wait:
            with request.attempts.waiting():
                await retry.sleep(wait)


def _amend(request: ModelRequest, error: ModelError, seen: Counter[type[ModelError]]) -> ModelRequest:
    """Return the request of a retry: with the reason, in the next structured mode, or with more room."""
    if isinstance(error, SchemaViolation) and request.output is not None:
        answer = (error.answer or "")[:_LONGEST_QUOTE]
        rejected = [{"role": "assistant", "content": answer}] if answer.strip() else []
        reason = {"role": "user", "content": REASK.replace("{problems}", error.message)}
        # one retry in the same mode, then the next mode
        skipped = request.skipped_modes + (seen[SchemaViolation] + 1) % 2
        return replace(request, messages=[*request.messages, *rejected, reason], skipped_modes=skipped)
    cut_off = isinstance(error, OutputTruncated) and (request.output is not None or isinstance(error, LostToThinking))
    if cut_off and request.settings.max_tokens:
        more = replace(request.settings, max_tokens=2 * request.settings.max_tokens)
        return replace(request, settings=more)
    return request


# What a model is told whose answer did not fit the schema.
REASK = "That cannot be used: {problems}. Answer again, with the corrected JSON and nothing else."

# Failures of the answer, not of the endpoint, which needs no time to recover: retried without a wait.
_AT_ONCE = (SchemaViolation, EmptyResponse, OutputTruncated)
# Retried once only: a model that is blank or cut off twice will not stop to be, and each answer is billed.
_ONCE = (EmptyResponse, OutputTruncated)
# Characters of the rejected answer that the model is shown: an endless one would not fit its context again.
_LONGEST_QUOTE = 20_000
