"""The `Model` protocol, together with requests, responses, settings, usage and events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, get_args, overload, runtime_checkable

from flowdebate._util.json_data import SPARSE
from flowdebate._util.validation import check_choice
from flowdebate._util.wire import BlockEvent
from flowdebate.errors import (
    ConnectionLost,
    ContentFiltered,
    ModelUnavailable,
    ProviderFailed,
    RequestRejected,
)
from flowdebate.prompts import Profile, check_profile

if TYPE_CHECKING:
    from types import TracebackType

    from flowdebate.models.output import OutputSchema
    from flowdebate.models.thinking import AnswerStream

IMAGE_TOKENS = 1_600
"""Approximate number of tokens per image: Anthropic's maximum, since other providers count fewer."""


def estimate_tokens(characters: int) -> int:
    """Estimate the number of tokens in `characters` characters, at four characters per token.

    >>> estimate_tokens(400)
    100
    """
    return characters // 4


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Usage:
    """Number of calls and the tokens they used. A token count of None means unknown, not zero.

    >>> Usage(calls=1, prompt_tokens=10, cached_tokens=4, completion_tokens=2) + Usage(calls=1)
    Usage(calls=2, prompt_tokens=None, cached_tokens=None, completion_tokens=None)
    """

    calls: int = 0
    """Number of requests sent."""
    prompt_tokens: int | None = None
    """Prompt tokens, including cached tokens."""
    cached_tokens: int | None = None
    """Prompt tokens read from the server's cache."""
    completion_tokens: int | None = None
    """Tokens in the answers, including thinking."""
    reasoning_tokens: int | None = field(default=None, metadata=SPARSE)
    """Completion tokens spent on thinking."""
    cache_written_tokens: int | None = field(default=None, metadata=SPARSE)
    """Prompt tokens written to the server's cache, if the server charges for them."""

    def __repr__(self) -> str:
        counts = [(count_field.name, getattr(self, count_field.name)) for count_field in fields(self)]
        fields_shown = [f"{name}={count}" for place, (name, count) in enumerate(counts) if place < _ALWAYS or count]
        return f"Usage({', '.join(fields_shown)})"

    @classmethod
    def unknown(cls) -> Usage:
        """Return the usage of a single call whose token counts the server did not report."""
        return _UNKNOWN

    @classmethod
    def zero(cls) -> Usage:
        """Return a `Usage` in which all counts are zero."""
        return _NONE

    @property
    def total_tokens(self) -> int | None:
        """Sum of prompt and completion tokens; None if either is unknown."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        """Add the counts; a count that is unknown in either operand is unknown in the sum."""
        if not self.calls:
            return other
        if not other.calls:
            return self
        parts = {}
        for name in _PARTS:  # inlined because it runs for each event: a function call would cost more than the addition
            one, two = getattr(self, name), getattr(other, name)
            parts[name] = None if one is None or two is None else one + two
        return Usage(calls=self.calls + other.calls, **parts)


_PARTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "cache_written_tokens")
_ALWAYS = 4  # number of counts that are always shown, even if unknown or 0

# immutable, so all calls may share it
_NONE = Usage(
    calls=0, prompt_tokens=0, cached_tokens=0, completion_tokens=0, reasoning_tokens=0, cache_written_tokens=0
)
_UNKNOWN = Usage(calls=1)
_NO_TOKENS = replace(_NONE, calls=1)


MAX_REFUSED_LENGTH = 20_000


@dataclass(slots=True, kw_only=True)
class Attempt:
    """Request sent to a model, whether or not it was answered."""

    model: str
    """The model's name."""
    asked_as: str | None = None
    """Structured mode used for the request; None for a plain-text answer, or if the model does not report the mode."""
    waited: float = 0.0
    """Time in seconds spent waiting before the request was sent, because of a retry, a rate limit or a concurrency
    limit.
    """
    seconds: float = 0.0
    """Duration of the request in seconds."""
    usage: Usage = _UNKNOWN
    """Usage of the request: one call, plus token counts if the server reports them."""
    error: str | None = None
    """Class name of the error, or "cancelled" for a cancelled request; None if the request succeeded."""
    answer: str | None = None
    """Text of an unusable answer, truncated to `MAX_REFUSED_LENGTH` characters; None if the answer was usable."""


def total_usage(attempts: Sequence[Attempt]) -> Usage:
    """Sum the usage of `attempts`."""
    if len(attempts) == 1:
        return attempts[0].usage
    total = Usage.zero()
    for attempt in attempts:
        total += attempt.usage
    return total


class Meter(Protocol):
    """Counter that enforces a run's limits on requests."""

    def reserve(self, model: str, request: ModelRequest) -> object:
        """Reserve capacity for a request before it is sent; raise LimitReached if the request would exceed a limit."""

    def settle(self, reserved: object, attempt: Attempt) -> None:
        """Replace a reservation with the attempt's actual usage."""

    def release(self, reserved: object) -> None:
        """Release the reservation for an unsent request."""


class Attempts:
    """Attempts made for one call, in order; the request carries them through all wrappers."""

    __slots__ = ("_meter", "_notify", "_random", "_seed", "made", "modes_left", "room", "server", "stream", "waited")

    def __init__(
        self, *, meter: Meter | None = None, notify: Callable[[object], None] | None = None, seed: object = None
    ) -> None:
        self.made: list[Attempt] = []
        self.server: str | None = None
        """Address that the last request was sent to, without secrets; None if the model does not report it."""
        self.modes_left: int = 0
        """Number of structured-output modes that have not been tried yet with the last model."""
        self.room: int | None = None
        """Token limit for the answer to the last request; None if there was none or the model does not report it."""
        self.stream: AnswerStream | None = None
        """Stream that forwards the answer to the listener, restarted for each request; None if nobody is listening."""
        self._meter = meter
        self._notify = notify
        self._seed = seed
        self.waited: float = 0.0
        self._random: Random | None = None

    def belong_to(self, *, meter: Meter | None, notify: Callable[[object], None] | None, seed: object) -> Attempts:
        """Bind the attempts to a run (its limits, event listeners and seed), and return them."""
        self._meter, self._notify, self._seed = meter, notify, seed
        return self

    def sending(self, model: str, request: ModelRequest, *, asked_as: str | None = None) -> Sending:
        """Account for one request: `with attempts.sending(...) as attempt:`.

        Raises LimitReached if the run has reached one of its limits.
        """
        return Sending(self, self._meter, model, request, asked_as)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Add the time spent inside the block to the waiting time of the next request: `with attempts.waiting():`."""
        since = time.perf_counter()
        try:
            yield
        finally:
            self.waited += time.perf_counter() - since

    @contextmanager
    def listening(self) -> Iterator[list[object]]:
        """Collect the events emitted inside the block; the run's listeners receive them as well."""
        heard: list[object] = []
        outer = self._notify

        def notify(event: object) -> None:
            heard.append(event)
            if outer is not None:
                outer(event)

        self._notify = notify
        try:
            yield heard
        finally:
            self._notify = outer

    def notify(self, event: object) -> None:
        """Pass `event` to the run's listeners."""
        if self._notify is not None:
            self._notify(event)

    @property
    def random(self) -> Random:
        """Random number generator for jitter, seeded with the call's path in the run for reproducibility."""
        if self._random is None:
            self._random = Random(None if self._seed is None else str(self._seed))  # noqa: S311 - jitter
        return self._random

    @property
    def usage(self) -> Usage:
        return total_usage(self.made)


class Sending:
    """Context manager for one request. It yields the `Attempt`; the sender sets its `usage` once known.

    This is a class because every call uses it, and `contextmanager` would take five times as long.
    """

    __slots__ = ("_attempts", "_made_before", "_meter", "_request", "_reserved", "_since", "attempt")

    def __init__(
        self, attempts: Attempts, meter: Meter | None, model: str, request: ModelRequest, asked_as: str | None
    ) -> None:
        self._attempts = attempts
        self._meter = meter
        self._request = request
        self.attempt: Attempt = Attempt(model=model, asked_as=asked_as)

    def __enter__(self) -> Attempt:
        if self._meter is not None:
            self._reserved: object = self._meter.reserve(self.attempt.model, self._request)
        self.attempt.waited, self._attempts.waited = self._attempts.waited, 0.0
        self._made_before = len(self._attempts.made)
        if self._attempts.stream is not None:
            self._attempts.stream.begin(self._attempts.server, self.attempt.model)
        self._since = time.perf_counter()
        return self.attempt

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        attempt = self.attempt
        attempt.seconds = time.perf_counter() - self._since
        if len(self._attempts.made) != self._made_before:
            # the request went through a custom wrapper, and its inner model has already recorded it
            if self._meter is not None:
                self._meter.release(self._reserved)
            return
        if error is not None:
            gone = isinstance(error, (asyncio.CancelledError, GeneratorExit))
            attempt.error = "cancelled" if gone else type(error).__name__
            # these failures happen before a model runs; any others may have cost tokens
            unreachable = isinstance(error, ModelUnavailable) and not isinstance(error, ConnectionLost)
            refused = isinstance(error, (ContentFiltered, ProviderFailed)) and error.status is not None
            if unreachable or refused or isinstance(error, RequestRejected):
                attempt.usage = _NO_TOKENS
        self._attempts.made.append(attempt)
        if self._meter is not None:
            self._meter.settle(self._reserved, attempt)


Message = dict[str, Any]
"""Chat message in the chat completions format: `{"role": …, "content": …}`."""

MAX_LOGPROB = 1e-3  # maximum log-probability, slightly above 0 because servers round

Effort: TypeAlias = Literal["low", "medium", "high"]
"""Amount of thinking before an answer."""

FinishReason = Literal["stop", "length", "tool_calls"]
"""Reason why an answer ended: it is complete, it was truncated, or it calls tools."""

Flag = Literal[
    "cleaned",
    "more_choices",
    "other_model",
    "other_request",
    "prompt_cut",
    "template_tokens",
    "thought_aloud",
    "thought_unannounced",
    "unknown_finish",
    "usage_unknown",
    "without_effort",
    "without_max_tokens",
    "without_temperature",
    "without_tools",
]
"""Irregularity in an otherwise usable answer.

Possible irregularities: invalid characters were replaced; only the first of several answers was used; another model
answered; the answer was recorded for an earlier form of the request; the server counted far fewer tokens than it
received; chat template tokens were removed from the end; thinking was removed from the text; the removed thinking had
no opening tag; the finish reason is unknown; the server reported no token counts; or the request succeeded only without
its effort, limit, temperature or tools, because the server rejected them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Settings for a call; if a setting is None, the model decides."""

    temperature: float | None = None
    max_tokens: int | None = None
    """Maximum length of the answer in tokens, including thinking."""
    effort: Effort | None = None
    """Amount of thinking. Calling a model that does not support it raises ConfigurationError."""
    timeout: float | None = 300.0
    """Deadline in seconds for the whole call, including retries and backoff, but excluding the time a local engine
    takes to start or to finish other calls.

    None means no deadline.
    """
    max_chars: int = 200_000
    """Maximum length of the answer in characters; a longer answer raises `ResponseTooLarge`."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Additional request parameters, under the provider's own names."""

    def __post_init__(self) -> None:
        if self.effort is not None:
            check_choice("ModelSettings", get_args(Effort), effort=self.effort)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Description of a tool, as presented to a model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema for the arguments, of type "object"."""

    def to_openai(self) -> dict[str, Any]:
        """Convert the tool to the chat completions format, dropping redundant titles from the schema.

        >>> spec = ToolSpec(name="look_up", description="Look it up.", parameters={"type": "object"})
        >>> spec.to_openai()["function"]["name"]
        'look_up'
        """
        from flowdebate.models.output import drop_titles

        function = {"name": self.name, "description": self.description, "parameters": drop_titles(self.parameters)}
        return {"type": "function", "function": function}


def arguments_text(arguments: str) -> str:
    """Return a tool call's arguments as JSON, or as an empty object if the model wrote nothing or null."""
    return "{}" if arguments.strip() in ("", "null") else arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Tool call requested by a model; `arguments` is the model's unvalidated JSON."""

    id: str
    name: str
    arguments: str

    def to_openai(self) -> dict[str, Any]:
        """Convert the call to the chat completions format, where arguments are required."""
        function = {"name": self.name, "arguments": arguments_text(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(slots=True, kw_only=True)
class ModelRequest:
    """Request for a single answer from a model."""

    messages: Sequence[Message]
    block: str
    """Name of the calling block."""
    role: str | None = None
    """Role of the block in its pattern, for example "judge"; None if it has no role."""
    output: OutputSchema | None = None
    """Schema for the answer; None for plain text."""
    tools: Sequence[ToolSpec] = ()
    choices: Sequence[str] = ()
    """Allowed answers, each a single token such as "A"; empty if any answer is allowed.

    The response includes their `logprobs` if the model reports them.
    """
    settings: ModelSettings = field(default_factory=ModelSettings)
    begins: str = ""
    """Opening words of a text answer (a prefill).

    Models that support prefill begin their answer with these words; other models answer without them.
    """
    sentences: int | None = None
    """Maximum number of sentences in a text answer, for models that can enforce it; None for no maximum."""
    on_text: Callable[[str], None] | None = None
    """Callback that receives chunks of text as they arrive; None if nobody is listening.

    If it has `begin` and `finish` methods, they are called at the beginning and the end of an answer.
    """
    attempts: Attempts = field(default_factory=Attempts)
    """Requests sent so far for this call; wrappers pass this object on to their inner models."""
    deadline: float | None = None
    """Time on the event loop's clock by which the whole call must end; None if there is no deadline."""
    retried: bool = False
    """True if an outer model is already retrying this call; only the outermost retry loop is active."""
    words: int | None = None
    """Word limit stated in the prompt; None if there is none. A model with a small context window reserves space for an
    answer of this length.
    """
    skipped_modes: int = 0
    """Number of structured modes to skip because earlier answers in those modes did not fit the schema."""

    @property
    def characters(self) -> int:
        """Total length of all messages in characters.

        Each image counts as `IMAGE_TOKENS` tokens, at four characters per token.
        """
        messages, total = self.messages, 0
        if isinstance(messages, UnwrittenMessages) and messages.recorded_characters is not None:
            return messages.recorded_characters
        for message in messages:
            content = message.get("content") or ""
            for part in content if isinstance(content, list) else ({"text": content},):
                total += IMAGE_TOKENS * 4 if "image_url" in part else len(str(part.get("text", "")))
        return total

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema for the answer; None for plain text."""
        return None if self.output is None else self.output.json_schema


class UnwrittenMessages(Sequence[Message]):
    """Messages for a request whose answer is already recorded; the last message is rendered only when accessed."""

    __slots__ = ("_before", "_messages", "_write", "recorded_characters")

    def __init__(self, before: Sequence[Message], write: Callable[[], str]) -> None:
        self._before = before
        self._write = write
        self._messages: Sequence[Message] | None = None
        self.recorded_characters: int | None = None
        """Length of the messages in characters, as recorded with the answer; None if it was not recorded."""

    def _written(self) -> Sequence[Message]:
        if self._messages is None:
            self._messages = [*self._before, {"role": "user", "content": self._write()}]
        return self._messages

    def __len__(self) -> int:
        return len(self._written())

    @overload
    def __getitem__(self, index: int, /) -> Message: ...
    @overload
    def __getitem__(self, index: slice, /) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice, /) -> Message | Sequence[Message]:
        return self._written()[index]


@dataclass(slots=True, kw_only=True)
class ModelResponse:
    """Answer from a model: text, data for a request with an `output` schema, or tool calls."""

    text: str = ""
    data: object = None
    """Structured answer: an instance validated by `output`, plain data, or None if `text` contains the JSON."""
    tool_calls: Sequence[ToolCall] = ()
    history: Message | None = None
    """Message as the server sent it, if it contains more than text and tool calls.

    Servers require signed thinking, for example, to be sent back along with tool results.
    """
    finish: FinishReason = "stop"
    usage: Usage = field(default_factory=Usage.unknown)
    model: str | None = None
    """Model name reported by the endpoint."""
    id: str | None = field(default=None, compare=False)
    """ID assigned by the endpoint; it is not stored with the run."""
    asked_as: str | None = None
    """Structured mode used for the request, if the model has several modes."""
    logprobs: Mapping[str, float] | None = None
    """Log-probability of each of the request's `choices`; None if the model does not return them."""
    flags: tuple[Flag, ...] = ()
    """Irregularities in the answer, which is still usable."""
    repaired: tuple[str, ...] = ()
    """Short descriptions of the repairs made to a structured answer, for example "code fence"; empty if
    none were made.
    """
    validated: OutputSchema | None = field(default=None, repr=False, compare=False)
    """Schema already used to validate `data`; set by the library, not by models."""

    def message(self) -> Message:
        """Return the assistant message to send back along with the results of its tool calls."""
        came = self.history or {}
        calls = {call["id"]: call for call in came.get("tool_calls", ())}
        return {
            "role": "assistant",
            "content": self.text or None,
            **came,
            "tool_calls": [calls.get(call.id) or call.to_openai() for call in self.tool_calls],
        }


@runtime_checkable
class Model(Protocol):
    """Protocol for all models: a name and a `request` method. There is no base class to inherit from.

    An optional attribute `profile` selects the default prompts: "concise" for a small model, "full" otherwise.
    `context_tokens` is the maximum number of tokens in a prompt and its answer combined, if known. A model that cannot
    return `logprobs` sets `gives_logprobs = False`, and a model that can read images sets `takes_images = True`. If the
    model has an async `check_ready` method, a run awaits it before the first call; it raises the same errors as that
    call would for a missing key, program or login. A model's exceptions reach the caller of the run: errors from
    `flowdebate.errors` unchanged, all others as application errors.
    """

    @property
    def name(self) -> str:
        """Name of the model in errors, events and usage."""

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Send a single request, without retrying it, and return the answer."""


def profile_of(model: Model) -> Profile:
    """Return the prompt profile for `model`: its `profile` attribute, or "full".

    An attribute that is not a string is assumed to be unrelated and is ignored. Raises ConfigurationError for an
    unknown profile.
    """
    profile = getattr(model, "profile", None)
    if not isinstance(profile, str):
        return "full"
    check_profile(f"model {model.name!r}", profile)
    return "concise" if profile == "concise" else "full"


def context_of(model: Model) -> int | None:
    """Return the maximum number of tokens in a prompt and its answer combined: `model.context_tokens`.

    Returns None if the number is unknown.
    """
    tokens = getattr(model, "context_tokens", None)
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def without_images(content: object) -> object:
    """Return a message's content for display: its parts joined as text, with a placeholder for each image."""
    if not isinstance(content, list):
        return content
    return "\n".join("(an image)" if "image_url" in part else str(part.get("text", part)) for part in content)


async def check_ready(model: Model) -> None:
    """Call `check_ready` on `model`, if the method exists, to detect a missing key, program or login early."""
    check: Callable[[], Awaitable[None]] | None = getattr(model, "check_ready", None)
    if check is not None:
        await check()


def accepts_images(model: Model) -> bool:
    """Return whether `model` accepts images: its `takes_images` attribute, or False if it has none."""
    return getattr(model, "takes_images", False) is True


@dataclass(slots=True, kw_only=True)
class CallRetried(BlockEvent):
    """A call failed and will be retried after `wait` seconds; discard any text streamed so far."""

    kind: ClassVar[str] = "call_retried"
    block: str
    """Name of the calling block."""
    model: str | None
    """The model's name; None if unknown."""
    attempt: int
    """Number of the upcoming attempt; the first retry is attempt 2."""
    error: str
    """Class name of the error."""
    message: str
    """The error's message."""
    wait: float
    """Time in seconds until the retry."""


@dataclass(slots=True, kw_only=True)
class TextWithdrawn(BlockEvent):
    """Text already streamed turned out to be thinking and must be discarded; the answer follows (live only)."""

    kind: ClassVar[str] = "text_withdrawn"
    block: str
    """Name of the calling block."""


@dataclass(slots=True, kw_only=True)
class CallFellBack(BlockEvent):
    """A model failed permanently, so a fallback is called; discard any text streamed by the failed model."""

    kind: ClassVar[str] = "call_fell_back"
    block: str
    """Name of the calling block."""
    model: str
    """The failed model."""
    to: str
    """The fallback model."""
    error: str
    """Class name of the error."""
    message: str
    """The error's message."""


CircuitState: TypeAlias = Literal["closed", "open", "half_open"]
"""State of a circuit: calls are allowed, calls are rejected, or a few trial calls are allowed."""


@dataclass(slots=True, kw_only=True)
class CircuitChanged(BlockEvent):
    """A circuit breaker changed state."""

    kind: ClassVar[str] = "circuit_changed"
    block: str
    """The name of the block whose call changed the state."""
    model: str
    """The model's name."""
    before: CircuitState
    """The previous state."""
    after: CircuitState
    """The new state."""
