"""Call boundary for all models: deadlines, retries, answer validation, and error details.

In tests, calls to real models can be forbidden. The SDKs' own retries are turned off so that every attempt is counted,
limited and reported here. If several nested models would retry a call, only the outermost one does.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from random import Random
from types import coroutine
from typing import Any, NamedTuple, TypeVar, get_args
from urllib.parse import urlsplit

from flowdebate._text import clean_data, clean_text, is_blank, short_repr, without_keys
from flowdebate._util.validation import check_count, check_number
from flowdebate.errors import (
    BadAnswer,
    EmptyResponse,
    FlowDebateWarning,
    LostToThinking,
    MalformedResponse,
    ModelError,
    ModelTimeout,
    OutputTruncated,
    RealModelForbidden,
    ResponseTooLarge,
    SchemaViolation,
)
from flowdebate.models.base import (
    MAX_LOGPROB,
    MAX_REFUSED_LENGTH,
    Attempts,
    CallRetried,
    FinishReason,
    Flag,
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolCall,
    Usage,
    estimate_tokens,
    without_images,
)
from flowdebate.models.output import OutputSchema
from flowdebate.models.reading import find_object, repair_answer, repeats_key
from flowdebate.models.thinking import AnswerStream, remember_thinking, without_thinking


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retry policy: number of attempts and backoff.

    The wait doubles with each retry, from `first_wait` up to `longest_wait`, and jitter shortens it by up to half. An
    endpoint's `retry-after` is respected; if it exceeds `longest_wait`, the call is not retried. An answer that
    violates the schema is requested again immediately, with the reason stated in the request. A call is not retried if
    the wait would exceed its deadline.

    >>> Retry(attempts=5, first_wait=1).longest_wait
    60.0
    """

    attempts: int = 3
    """Maximum number of requests, including the first one."""
    first_wait: float = 0.5
    """Time in seconds before the first retry."""
    longest_wait: float = 60.0
    """Maximum time in seconds before a retry."""
    on: Callable[[ModelError], bool] | None = None
    """Predicate that selects the errors to retry; None to retry all errors whose `transient` is true."""
    sleep: Callable[[float], Awaitable[object]] = field(default=asyncio.sleep, repr=False, compare=False)
    """Function used to wait; tests can replace it."""

    def __post_init__(self) -> None:
        check_count("Retry", attempts=self.attempts)
        check_number("Retry", minimum=0, first_wait=self.first_wait, longest_wait=self.longest_wait)

    def wait_before(self, attempt: int, error: ModelError, *, random: Random) -> float | None:
        """Return how many seconds to wait between `error` and request number `attempt`; None to stop retrying."""
        if attempt > self.attempts or not (error.transient if self.on is None else self.on(error)):
            return None
        if isinstance(error, _AT_ONCE):
            return 0.0
        # cap the exponent: 2.0 ** 1024 overflows
        grown = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt - 2, 60))
        # add jitter; otherwise, debaters rejected together would also retry together
        drawn = grown * (0.5 + random.random() / 2)
        if error.retry_after is None:
            return drawn
        return None if error.retry_after > self.longest_wait else max(error.retry_after, drawn)


async def call_with_retries(
    once: Callable[[ModelRequest], Awaitable[ModelResponse]], request: ModelRequest, retry: Retry
) -> ModelResponse:
    """Call `once(request)`, retrying according to `retry`; if no attempt succeeds, raise the last error unchanged."""
    request = replace(request, retried=True)
    seen: Counter[type[ModelError]] = Counter()
    number = 1
    while True:
        try:
            return await once(request)
        except ModelError as error:
            seen[type(error)] += 1
            ignored = _ignores_mode(request, error, seen)
            number += not ignored  # switching to the next mode does not count as an attempt
            if isinstance(error, _ONCE) and seen[type(error)] > 1:
                raise
            wait = retry.wait_before(number, error, random=request.attempts.random)
            if wait is None:
                raise
            if request.deadline is not None and asyncio.get_running_loop().time() + wait >= request.deadline:
                raise  # raise at once, while there is still time to call another model
            failure = error  # keep a reference, because Python unbinds `error` at the end of the block
        request = _amend(request, failure, lower=ignored or seen[SchemaViolation] % 2 == 0)
        request.attempts.notify(
            CallRetried(
                block=request.block,
                model=failure.model,
                attempt=seen.total() + 1,
                error=type(failure).__name__,
                message=failure.message,
                wait=wait,
            )
        )
        if wait:
            with request.attempts.waiting():
                await retry.sleep(wait)


def _ignores_mode(request: ModelRequest, error: ModelError, seen: Counter[type[ModelError]]) -> bool:
    """Return whether the model appears to ignore its structured mode and there is another mode left to try."""
    if not isinstance(error, SchemaViolation) or seen[SchemaViolation] < _IGNORED or not request.attempts.modes_left:
        return False
    return error.answer is not None and find_object(error.answer) is None


_IGNORED = 2  # number of invalid answers before a model is assumed to ignore its mode; a single one may be a fluke


def _amend(request: ModelRequest, error: ModelError, *, lower: bool) -> ModelRequest:
    """Build the request for a retry, adding the reason for the rejection or raising the token limit.

    If `lower` is set, a rejected structured answer is requested again in the next structured mode.
    """
    if isinstance(error, SchemaViolation) and request.output is not None:
        answer = (error.answer or "")[:_MAX_QUOTE_LENGTH]
        rejected = [{"role": "assistant", "content": answer}] if answer.strip() else []
        reason = {"role": "user", "content": REASK.replace("{problems}", error.message)}
        messages = [*request.messages, *rejected, reason]
        return replace(request, messages=messages, skipped_modes=request.skipped_modes + lower)
    cut_off = isinstance(error, OutputTruncated) and (request.output is not None or isinstance(error, LostToThinking))
    if cut_off and not getattr(error, "stopped", False):
        attempts = request.attempts
        room = attempts.room or request.settings.max_tokens or _room_used(attempts)
        return replace(request, settings=replace(request.settings, max_tokens=2 * room))
    return request


def _room_used(attempts: Attempts) -> int:
    """Estimate the token limit at which the server truncated an answer."""
    return max([_ROOM, *(attempt.usage.completion_tokens or 0 for attempt in attempts.made[-1:])])


# Message sent to a model whose answer did not fit the schema.
REASK = "Your answer could not be used: {problems}. Answer again with the corrected JSON and nothing else."

# Failures of the answer rather than the endpoint: retried immediately, because the endpoint needs no time to recover.
_AT_ONCE = (SchemaViolation, EmptyResponse, OutputTruncated)
# Failures to retry only once: after two blank or truncated answers, more are likely, and each one is billed.
_ONCE = (EmptyResponse, OutputTruncated)
# Minimum token limit assumed when an answer is truncated and the request sets no limit; the retry doubles it.
_ROOM = 4_096
# Maximum length, in characters, of the rejected answer quoted in a retry; a longer quote could exceed the context
# window.
_MAX_QUOTE_LENGTH = 20_000


T = TypeVar("T")


async def within(seconds: float | None, call: Coroutine[Any, Any, T], *, latest: float | None = None) -> T:
    """Await `call` and raise ModelTimeout after `seconds`; None means no deadline.

    Time spent `in_queue` does not count, but the call ends no later than `latest` on the event loop's clock. The
    coroutine is started by hand, and a timer is set only once it first waits, because setting up `asyncio.timeout`
    takes longer than an immediate answer from a cache or a script.
    """
    if seconds is None:
        return await call
    deadline = _Deadline(seconds, latest)
    outer = _deadlines.get()
    _deadlines.set((*outer, deadline))
    try:
        try:
            waits = call.send(None)
        except StopIteration as done:
            answered: T = done.value
            return answered
        timer = deadline.timer = asyncio.timeout_at(deadline.end)
        try:
            async with timer:
                answered = await _rest(call, waits, timer)
        except Exception as error:
            # The call may turn its cancellation into another error, and its own TimeoutError must not be mistaken for
            # the deadline.
            if timer.expired():
                raise ModelTimeout(seconds) from error
            raise
        if timer.expired():  # the call swallowed its cancellation, but a late answer does not count
            raise ModelTimeout(seconds)
        return answered
    finally:
        _deadlines.set(outer)


class _Deadline:
    """A call's deadline on the event loop's clock; time spent in queues extends it, but never beyond `latest`."""

    __slots__ = ("_ends", "_latest", "_loop", "_queues", "_since", "timer")

    def __init__(self, seconds: float, latest: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends = self._loop.time() + seconds
        self._latest = latest
        self._queues = 0  # a call may wait in several queues at once
        self._since = 0.0
        self.timer: asyncio.Timeout | None = None

    @property
    def end(self) -> float | None:
        if self._queues:
            return self._latest
        return self._ends if self._latest is None else min(self._ends, self._latest)

    def queue(self, change: int) -> None:
        now = self._loop.time()
        if self._queues:
            self._ends += now - self._since
        self._queues, self._since = self._queues + change, now
        if self.timer is not None:
            # raised if the timer has expired, the call has ended, or the event loop has been closed
            with suppress(RuntimeError):
                self.timer.reschedule(self.end)


# Deadlines of the enclosing calls, outermost first: a turn's, a policy's, and the call's own.
_deadlines: ContextVar[tuple[_Deadline, ...]] = ContextVar("flowdebate_deadlines", default=())


@contextmanager
def in_queue(request: ModelRequest) -> Iterator[None]:
    """Pause all deadlines, except those of rounds and runs, while waiting for a model to start or become free."""
    outer_deadline, time = _deadlines.get(), asyncio.get_running_loop().time
    since = time()
    for deadline in outer_deadline:
        deadline.queue(+1)
    try:
        with request.attempts.waiting():
            yield
    finally:
        for deadline in outer_deadline:
            deadline.queue(-1)
        if request.deadline is not None:
            request.deadline += time() - since


# Time, in seconds, that a call has to clean up once its deadline has cancelled it; after that, the call is closed.
_CLEANING_UP = 1.0


class _Insistence:
    """Second attempt to cancel a call that ignored its cancellation at the deadline."""

    __slots__ = ("_task", "_timer", "over")

    def __init__(self) -> None:
        self.over = False
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(_CLEANING_UP, self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self.over = True
            self._task.cancel()

    def end(self) -> None:
        """Withdraw the second cancellation."""
        self._timer.cancel()
        if self.over and self._task is not None:
            self._task.uncancel()


@coroutine
def _rest(call: Coroutine[Any, Any, T], waits: object, timer: asyncio.Timeout) -> Generator[object, Any, T]:
    # Like awaiting a call that has already started and is waiting for `waits`, except that a late call is closed.
    insistence: _Insistence | None = None
    try:
        while True:
            try:
                step = partial(call.send, (yield waits))
            except BaseException as error:  # pass the error on: a cancellation, for example, must reach the call
                if insistence is not None and insistence.over:
                    with suppress(Exception):  # the call may ignore this as well
                        call.close()
                    raise
                if insistence is None and timer.expired():
                    insistence = _Insistence()
                step = partial(call.throw, error)
            try:
                waits = step()
            except StopIteration as done:
                answered: T = done.value
                return answered
    finally:
        if insistence is not None:
            insistence.end()


async def ask(model: Model, request: ModelRequest) -> ModelResponse:
    """Call `model` and return a validated answer.

    The text is valid Unicode, contains no thinking, and has at most `request.settings.max_chars` characters; the same
    holds for the text streamed to `request.on_text`. A text answer is not blank. The `data` of a structured answer is
    the result of `request.output.validate` (unless the model calls tools). Failed calls are retried according to the
    model's `retry`, if it has one.

    Raises ModelTimeout after `request.settings.timeout`, even if the model ignores the deadline, and LimitReached if
    the run has reached a limit. An unusable answer raises MalformedResponse, EmptyResponse, ResponseTooLarge,
    SchemaViolation, OutputTruncated or LostToThinking. The model's exceptions are raised unchanged, except that `model`
    and `block` of a ModelError are filled in.
    """
    timeout = request.settings.timeout
    if timeout is not None:
        deadline = asyncio.get_running_loop().time() + timeout
        request.deadline = deadline if request.deadline is None else min(deadline, request.deadline)
    stream = None
    if request.on_text is not None:
        stream = request.attempts.stream = AnswerStream(request.on_text, request.attempts, block=request.block)
        request = replace(request, on_text=stream)
    try:
        response = await within(timeout, answer(model, request))
    except ModelError as error:
        _complete(error, model, request, before=0)
        raise
    else:
        if stream is not None:
            stream.finish()
        return response
    finally:
        # break the reference cycle between stream and attempts; otherwise, neither would be freed promptly
        request.attempts.stream = None


async def answer(model: Model, request: ModelRequest) -> ModelResponse:
    """Call `model` from within another call, as wrappers do with their inner model.

    The model's `timeout` limits the total time of all attempts.
    """
    retry = getattr(model, "retry", None)
    if request.retried or not isinstance(retry, Retry):
        return await _once(model, request)
    timeout: float | None = getattr(model, "timeout", None)
    if timeout is not None:
        end = asyncio.get_running_loop().time() + timeout
        request = replace(request, deadline=end if request.deadline is None else min(end, request.deadline))
    before = len(request.attempts.made)
    try:
        return await within(timeout, call_with_retries(lambda again: _once(model, again), request, retry))
    except ModelTimeout as error:
        _complete(error, model, request, before=before)
        raise


def timeout_of(settings: ModelSettings) -> float | None:
    """Return the deadline in a model's settings; None if unset, in which case the request's own deadline applies.

    >>> timeout_of(ModelSettings(timeout=20))
    20
    >>> timeout_of(ModelSettings())
    """
    return None if settings.timeout == ModelSettings().timeout else settings.timeout


async def _once(model: Model, request: ModelRequest) -> ModelResponse:
    before = len(request.attempts.made)
    response: object = None
    try:
        if getattr(model, "tells_attempts", False):
            response = await model.request(request)
        else:
            with request.attempts.sending(model.name, request) as attempt:
                response = await model.request(request)
                usage = getattr(response, "usage", None)
                attempt.usage = usage if isinstance(usage, Usage) else attempt.usage
        return _check_answer(response, request)
    except ModelError as error:
        _complete(error, model, request, before=before)
        attempts = request.attempts.made
        if isinstance(error, BadAnswer) and len(attempts) > before and attempts[-1].answer is None:
            attempts[-1].answer = _refused_text(response, error)
        raise


def _complete(error: ModelError, model: Model, request: ModelRequest, *, before: int) -> None:
    """Add the model and block names to `error`, and record the error in the last attempt."""
    error.model = error.model or model.name
    error.block = error.block or request.block
    attempts = request.attempts.made
    # the attempt was recorded as successful or cancelled before its answer proved unusable or late
    if len(attempts) > before and (
        attempts[-1].error is None or (attempts[-1].error == "cancelled" and isinstance(error, ModelTimeout))
    ):
        attempts[-1].error = type(error).__name__


def _refused_text(response: object, error: BadAnswer) -> str | None:
    """Return the text of an unusable answer, which is kept so that readers can see what they paid for."""
    text: object = getattr(error, "answer", None) or getattr(error, "reason", None)
    if isinstance(response, ModelResponse):
        with suppress(ValueError, RecursionError):  # the data may be circular or nested too deeply
            data = None if response.data is None else json.dumps(response.data, ensure_ascii=False, default=str)
            text = data or response.text or text
    # a proxy may quote the API key in its error message
    return without_keys(clean_text(text[:MAX_REFUSED_LENGTH])) if isinstance(text, str) and text.strip() else None


def _check_answer(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """Return `response` or a cleaned copy; never modify it, because a model may return the same object twice."""
    if not isinstance(response, ModelResponse):
        raise _malformed("the answer", response, "a ModelResponse")
    text = _text_of(response, request.settings.max_chars)
    flags: list[Flag] = [] if text is response.text or text == response.text else ["cleaned"]
    if "<" in text or "[" in text or "\u25c1" in text or response.flags:
        response, text = _take_out_thinking(response, text, request)
    if response.usage.prompt_tokens is not None and _is_cut(request, response.usage):
        flags.append("prompt_cut")
        attempts = request.attempts.made
        _warn_of_cut(request.attempts.server, attempts[-1].model if attempts else response.model)
    repairs = list(response.repaired)
    calls = response.tool_calls
    data = response.data
    if calls:
        _check_calls(calls, request.settings.max_chars)
    elif request.choices:
        _check_logprobs(response.logprobs, request.choices)
    elif request.output is not None:
        if response.validated is request.output:  # already validated: a wrapper returns its inner model's answer
            return response
        data = _data_of(response, text, request, repairs)
    elif is_blank(text):
        raise EmptyResponse("the answer has no text")
    if not flags and text is response.text and data is response.data and (calls or request.output is None):
        return response
    validated = None if calls else request.output
    odd = tuple(dict.fromkeys((*response.flags, *flags)))
    repaired = tuple(dict.fromkeys(repairs))
    return replace(response, text=text, data=data, flags=odd, repaired=repaired, validated=validated)


def _is_cut(request: ModelRequest, usage: Usage) -> bool:
    """Return whether the server counted so few tokens that it must have truncated the prompt."""
    if not isinstance(usage.prompt_tokens, int):  # a custom model may report values of other types
        return False
    # some servers leave cached tokens out of the prompt count
    counted = usage.prompt_tokens + (usage.cached_tokens or 0)
    sent = estimate_tokens(sum(len(str(without_images(message.get("content")) or "")) for message in request.messages))
    return sent > _LONG_PROMPT and counted < sent / 2


_LONG_PROMPT = 1_500  # prompts with fewer tokens are not checked, because estimates of their length are too rough


@lru_cache(maxsize=1_000)
def _warn_of_cut(server: str | None, model: str | None) -> None:
    """Warn about a truncated prompt, once per model and address."""
    del server  # needed only as part of the cache key, to warn once per model and address
    warnings.warn(
        f"model {model!r} counted far fewer tokens than it was sent: the server probably truncated the prompt. Raise "
        "its context length (num_ctx in Ollama)",
        FlowDebateWarning,
        stacklevel=2,
    )


def _take_out_thinking(response: ModelResponse, text: str, request: ModelRequest) -> tuple[ModelResponse, str]:
    """Remove the thinking from an answer, and add its token count to the latest attempt.

    Also notes whether the opening tag was missing. Raises LostToThinking if the answer consists only of thinking.
    """
    if not request.choices:
        response = without_thinking(replace(response, text=text))
        text = response.text
    if "thought_aloud" not in response.flags:
        return response, text
    attempts = request.attempts
    thought = response.usage.reasoning_tokens
    if attempts.made:
        attempt = attempts.made[-1]
        if not attempt.usage.reasoning_tokens:
            attempt.usage = replace(attempt.usage, reasoning_tokens=thought)
        if "thought_unannounced" in response.flags:
            remember_thinking(attempts.server, attempt.model, unannounced=True)
    if is_blank(text) and response.data is None and not response.tool_calls:
        raise LostToThinking(room=request.settings.max_tokens, thought=thought, stopped=response.finish != "length")
    return response, text


def _text_of(response: ModelResponse, max_chars: int) -> str:
    """Return the text of an answer; raise an error if any other field of the answer is invalid."""
    if not isinstance(response.usage, Usage):
        raise _malformed("usage", response.usage, "a Usage")
    if response.finish not in get_args(FinishReason):
        raise _malformed("finish", response.finish, "'stop', 'length' or 'tool_calls'")
    text = response.text
    if not isinstance(text, str):
        raise _malformed("text", text, "a str")
    if len(text) > max_chars:
        raise ResponseTooLarge(max_chars, "characters")
    # a subclass of str may override formatting and comparison, so copy its characters into a plain str
    return clean_text(text if type(text) is str else "".join((text,)))  # noqa: FLY002


def _data_of(response: ModelResponse, text: str, request: ModelRequest, repairs: list[str]) -> object:
    assert request.output is not None  # noqa: S101 - the caller has looked
    if response.data is None and not text.strip():
        raise EmptyResponse("the answer is empty")
    try:
        data = text if response.data is None else clean_data(response.data)
    except RecursionError:
        raise MalformedResponse("the answer is nested too deeply") from None
    try:
        return _read_strictly(data, request.output)
    except SchemaViolation as violation:
        if response.finish == "length":
            raise OutputTruncated("the answer was cut off: raise max_tokens") from violation
        reading = repair_answer(data, request.output, violation)
    # a code fence is not a repair in "md_json" mode, which requests one
    repairs.extend(repair for repair in reading.repairs if (repair, response.asked_as) != ("code fence", "md_json"))
    return reading.data


def _read_strictly(answer: object, output: OutputSchema) -> object:
    """Validate an answer without repairs, rejecting duplicate fields as ambiguous."""
    if isinstance(answer, str) and repeats_key(answer):
        raise SchemaViolation((("", "the answer contains a duplicate field"),), answer=answer)
    return output.validate(answer)


def _check_calls(calls: Sequence[ToolCall], max_chars: int) -> None:
    """Check the types and sizes of tool calls; handling unknown tools is up to the caller."""
    if not isinstance(calls, (tuple, list)):
        raise _malformed("tool_calls", calls, "a sequence of ToolCall")
    for call in calls:
        if not isinstance(call, ToolCall):
            raise _malformed("tool_calls", call, "ToolCall objects")
        for name, value in (("id", call.id), ("name", call.name), ("arguments", call.arguments)):
            if not isinstance(value, str):
                raise _malformed(f"a tool call's {name}", value, "a str")
            if len(value) > max_chars:
                raise ResponseTooLarge(max_chars, "characters")


def _check_logprobs(logprobs: object, choices: Sequence[str]) -> None:
    is_valid = logprobs is None or (
        isinstance(logprobs, Mapping)
        and set(logprobs) == set(choices)
        and all(
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and math.isfinite(value)
            and value <= MAX_LOGPROB
            for value in logprobs.values()
        )
    )
    if not is_valid:
        raise _malformed("logprobs", logprobs, f"a log-probability for each of {list(choices)}, or None")


def _malformed(what: str, got: object, allowed: str) -> MalformedResponse:
    return MalformedResponse(f"{what} returned by a model must be {allowed}, got {short_repr(got)}")


# Guard against real model calls


class _Rule(NamedTuple):
    remote: bool
    local: bool


# One entry per `with` block; the innermost block applies to all threads and tasks, because test servers run in threads.
_rules: list[_Rule] = []
_lock = threading.Lock()


@contextmanager
def forbid_real_models(*, allow_local: bool = False) -> Iterator[None]:
    """Forbid real model calls inside the block: they raise RealModelForbidden.

    `allow_local` permits loopback endpoints.

    >>> with forbid_real_models():
    ...     check_real_calls_allowed("openai/gpt-5-mini")
    Traceback (most recent call last):
    flowdebate.errors.RealModelForbidden: ...
    """
    with _in_force(_Rule(remote=False, local=allow_local)):
        yield


@contextmanager
def allow_real_models() -> Iterator[None]:
    """Allow real model calls inside the block, even within `forbid_real_models`."""
    with _in_force(_Rule(remote=True, local=True)):
        yield


def check_real_calls_allowed(name: str, *, base_url: str | None = None) -> None:
    """Raise RealModelForbidden if calls to `base_url` (if None, the provider's default endpoint) are forbidden."""
    if not _rules:
        return
    with _lock:
        rule = _rules[-1] if _rules else None
    if rule is None or rule.remote or (rule.local and base_url is not None and is_loopback(base_url)):
        return
    raise RealModelForbidden(model=name)


def is_loopback(base_url: str) -> bool:
    """Return whether `base_url` refers to this machine.

    >>> is_loopback("http://localhost:11434/v1"), is_loopback("https://localhost.example.com")
    (True, False)
    """
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    loopback = {"localhost", "::1", "0.0.0.0"}  # noqa: S104 - compared with, never bound
    return host in loopback or host.startswith("127.")


@contextmanager
def _in_force(rule: _Rule) -> Iterator[None]:
    with _lock:
        _rules.append(rule)
    try:
        yield
    finally:
        with _lock:
            # compare by identity, because blocks in different threads may end in any order
            del _rules[max(index for index, other in enumerate(_rules) if other is rule)]
