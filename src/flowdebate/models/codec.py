"""JSON codec for model calls: request digests, answers with their attempts, and errors.

Journals and cassettes share one record type for answers, `Answer`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic_core import PydanticSerializationError, to_json

import flowdebate.errors
from flowdebate._text import error_text, listed, problems_of
from flowdebate.models.base import (
    Attempt,
    FinishReason,
    Flag,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolCall,
    UnwrittenMessages,
    Usage,
)

if TYPE_CHECKING:
    from flowdebate.models.output import OutputSchema


ErrorT = TypeVar("ErrorT", bound=Exception)
RecordedT = TypeVar("RecordedT", bound="Recorded")

Origin = Literal["asked", "reused", "edited"]
"""Origin of an answer in a run: the model, the fork's parent run, or an edit made by the fork."""


def json_text(value: object) -> str:
    """Serialize `value` as JSON; raise ValueError, TypeError or RecursionError if it is not JSON data."""
    try:
        return to_json(value, serialize_unknown=False).decode()
    except PydanticSerializationError:  # half a surrogate pair, which JSON allows but UTF-8 does not
        return json.dumps(value)


def exact_json(value: object) -> str | None:
    """Serialize `value` as JSON; return None if reading it back would yield a different value."""
    try:
        text = json_text(value)
        same = _is_same(value, json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    return text if same else None


def _is_same(one: object, other: object) -> bool:
    """Return whether two values are equal as JSON data, including all their types: 1, 1.0 and True differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other


_LONG = 16_384
"""Minimum length, in characters, for a string to be hashed separately."""
_BEGINNINGS = 8
"""Number of prefixes to keep. Several are needed, because the debaters, the moderator and the judges each see their own
version of the growing transcript.
"""


class TextHasher:
    """Hasher for the long strings in a run's requests.

    The strings share prefixes, so only the new part of each one is hashed.
    """

    def __init__(self) -> None:
        self._beginnings: list[_Beginning] = []

    def hash(self, text: str) -> str:
        """Return the hash of `text`, regardless of which strings were hashed before."""
        best, shared = None, _LONG - 1
        for beginning in self._beginnings:
            if (alike := beginning.shared_with(text)) > shared:
                best, shared = beginning, alike
        if best is None:
            best = _Beginning("", blake2b(digest_size=16), text)
            self._beginnings = [best, *self._beginnings[: _BEGINNINGS - 1]]
        else:
            best.extend(text, shared)
        hasher = best.hasher.copy()
        hasher.update(_encoded(best.rest))
        return hasher.hexdigest()


class _Beginning:
    """Common prefix of two strings and the remainder of the later one."""

    __slots__ = ("hasher", "rest", "text")

    def __init__(self, text: str, hasher: blake2b, rest: str) -> None:
        self.text, self.hasher, self.rest = text, hasher, rest

    def shared_with(self, text: str) -> int:
        """Return the length of the prefix shared by `text` and the later string."""
        if not text.startswith(self.text):
            return 0
        low, high, start = 0, min(len(self.rest), len(text) - len(self.text)), len(self.text)
        while low < high:  # comparing slices is many times faster than comparing characters
            middle = (low + high + 1) // 2
            if text.startswith(self.rest[low:middle], start + low):
                low = middle
            else:
                high = middle - 1
        return start + low

    def extend(self, text: str, shared: int) -> None:
        """Extend the common prefix to `shared` characters of `text`, and keep the remainder of `text`."""
        self.hasher.update(_encoded(text[len(self.text) : shared]))
        self.text, self.rest = text[:shared], text[shared:]


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def digest_of(request: ModelRequest, texts: TextHasher | None = None) -> str:
    """Hash everything the model receives; two requests from a block are the same if their hashes are equal.

    `texts` is the hasher used for the run's earlier requests.
    """
    settings, texts = request.settings, texts or TextHasher()
    fields_sent: dict[str, Any] = {
        "messages": [_with_hashes(message, texts) for message in request.messages],
        "output": None if request.output is None else request.output.digest,
        "tools": [[tool.name, tool.description, tool.parameters] for tool in request.tools],
        "settings": [settings.temperature, settings.max_tokens, settings.effort, settings.extra],
        "form": [request.begins, request.sentences, request.choices],
    }
    return blake2b(json_text(fields_sent).encode(), digest_size=16).hexdigest()


def _with_hashes(value: Any, texts: TextHasher) -> Any:  # noqa: ANN401 - JSON data
    """Return `value` with each long string replaced by its hash."""
    if isinstance(value, str):
        return value if len(value) < _LONG else {"hash": texts.hash(value)}
    if isinstance(value, Mapping):
        return {key: _with_hashes(part, texts) for key, part in value.items()}
    return [_with_hashes(part, texts) for part in value] if isinstance(value, (list, tuple)) else value


Tokens: TypeAlias = tuple[int, int | None, int | None, int | None, int | None, int | None]
"""Token counts of a `Usage`, in the order of its fields."""
AttemptRow: TypeAlias = (
    tuple[str, str | None, float, float, Tokens, str | None]
    | tuple[str, str | None, float, float, Tokens, str | None, str]
)
"""An `Attempt` as a plain tuple, to save space in long debates; the last item is the text of an unusable answer."""


class Recorded(BaseModel):
    """Base class for records.

    Records are parsed strictly, because people edit cassettes and import other people's runs.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Answer(Recorded):
    """A recorded answer, as written by `call_row`."""

    text: str = ""
    finish: FinishReason = "stop"
    model: str | None = None
    usage: Tokens = (1, None, None, None, None, None)
    seconds: float = 0.0
    attempts: tuple[AttemptRow, ...] = ()
    asked_as: str | None = None
    flags: tuple[Flag, ...] = ()
    repaired: tuple[str, ...] = ()
    logprobs: dict[str, float] | None = None
    tool_calls: tuple[tuple[str, str, str], ...] = ()
    history: dict[str, JsonValue] | None = None
    data: JsonValue = None

    def response(self, output: OutputSchema | None) -> ModelResponse:
        """Build the response, with data validated by `output`.

        Raises SchemaViolation if the data does not match the schema.
        """
        schema = None if self.tool_calls else output
        return ModelResponse(
            text=self.text,
            # parsed as JSON, because in Python mode a strict schema accepts neither lists for tuples nor strings for
            # dates
            data=None if schema is None else schema.validate(json_text(self.data)),
            tool_calls=tuple(ToolCall(id=i, name=name, arguments=args) for i, name, args in self.tool_calls),
            history=self.history,
            finish=self.finish,
            usage=usage_of(self.usage),
            model=self.model,
            asked_as=self.asked_as,
            flags=self.flags,
            repaired=self.repaired,
            logprobs=self.logprobs,
            validated=schema,
        )


class StoredCall(Recorded):
    """A call in a journal: the block that made it, the requests sent, and the data for estimating their usage."""

    block: str
    role: str | None = None
    called: str
    """Name of the model that the block called."""
    seconds: float
    attempts: tuple[AttemptRow, ...]
    prompt: int | None = None
    """Length of the request in characters, if the server reported no token counts."""
    max_tokens: int | None = None
    """Token limit for the answer, if there was one and the server reported no token counts."""

    def request(self) -> ModelRequest:
        """Restore the parts of the request needed to estimate its usage."""
        messages = UnwrittenMessages((), str)  # never written, because only their length is known
        messages.recorded_characters = self.prompt or 0
        settings = ModelSettings(max_tokens=self.max_tokens)
        return ModelRequest(messages=messages, block=self.block, role=self.role, settings=settings)


class StoredAnswer(Answer, StoredCall):
    """An answer in a journal; default values are omitted."""

    text: str
    finish: FinishReason
    model: str | None
    usage: Tokens
    seconds: float
    attempts: tuple[AttemptRow, ...]
    origin: Origin = "asked"


class FailedCall(StoredCall):
    """An unanswered call in a journal."""

    error: str


def read_record(kind: type[RecordedT], text: str | bytes) -> RecordedT:
    """Parse a record; raise ValueError listing the first invalid fields."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(problems_text(error)) from None


def problems_text(error: ValidationError) -> str:
    """List the first three invalid fields of a record."""
    return listed(problems_of(error, got=False)[:3])


def attempts_row(attempts: Iterable[Attempt]) -> list[AttemptRow]:
    """Format attempts as JSON data."""
    rows: list[AttemptRow] = []
    for attempt in attempts:
        row = (
            attempt.model,
            attempt.asked_as,
            attempt.waited,
            attempt.seconds,
            tokens_of(attempt.usage),
            attempt.error,
        )
        rows.append(row if attempt.answer is None else (*row, attempt.answer))
    return rows


def attempts_of(rows: Iterable[AttemptRow]) -> list[Attempt]:
    """Restore the attempts written by `attempts_row`."""
    return [
        Attempt(
            model=model,
            asked_as=asked_as,
            waited=waited,
            seconds=seconds,
            usage=usage_of(usage),
            error=error,
            answer=answer[0] if answer else None,
        )
        for model, asked_as, waited, seconds, usage, error, *answer in rows
    ]


def call_row(
    response: ModelResponse, attempts: Sequence[Attempt], *, seconds: float, output: OutputSchema | None
) -> dict[str, object]:
    """Format an answered call and all its attempts as JSON data, in the form of an `Answer` record."""
    recorded: dict[str, object] = {
        "text": response.text,
        "finish": response.finish,
        "model": response.model,
        "usage": tokens_of(response.usage),
        "seconds": seconds,
        "attempts": attempts_row(attempts),
    }
    if response.asked_as is not None:
        recorded["asked_as"] = response.asked_as
    if response.flags:
        recorded["flags"] = response.flags
    if response.repaired:
        recorded["repaired"] = response.repaired
    if response.logprobs is not None:
        recorded["logprobs"] = response.logprobs
    if response.tool_calls:
        recorded["tool_calls"] = [(call.id, call.name, call.arguments) for call in response.tool_calls]
        if response.history is not None:
            recorded["history"] = response.history
    elif output is not None:
        recorded["data"] = output.dump(response.data)
    return recorded


def request_row(request: ModelRequest, model: str, attempts: Iterable[Attempt]) -> dict[str, object]:
    """Return what a `StoredCall` records about the request, except for its duration and its attempts."""
    recorded: dict[str, object] = {"block": request.block, "called": model}
    if request.role is not None:
        recorded["role"] = request.role
    if any(attempt.usage.total_tokens is None for attempt in attempts):
        recorded["prompt"] = request.characters
        if request.settings.max_tokens is not None:
            recorded["max_tokens"] = request.settings.max_tokens
    return recorded


def read_call(body: str) -> tuple[StoredAnswer, list[Attempt]]:
    """Parse an answer and its attempts from a journal; raise ValueError if `body` contains anything else."""
    answer = read_record(StoredAnswer, body)
    return answer, attempts_of(answer.attempts)


def called_models(body: str) -> tuple[str, ...]:
    """Return the models called to produce the answer in a `call_row`, in order; empty for an edited answer."""
    return tuple(str(attempt[0]) for attempt in json.loads(body).get("attempts", ()))


class Manner(NamedTuple):
    """Details of how a recorded answer was produced: the model, the repairs and the flags."""

    model: str
    repaired: tuple[str, ...]
    flags: tuple[str, ...]


def manner_of(body: str) -> Manner | None:
    """Return how the answer in a `call_row` was produced; None if the run obtained it without calling a model."""
    recorded = json.loads(body)
    models = called_models(body)
    if not models or recorded.get("origin", "asked") != "asked":
        return None
    return Manner(models[-1], tuple(recorded.get("repaired", ())), tuple(recorded.get("flags", ())))


def reused_text(body: str) -> str:
    """Return a copy of a `call_row`, marked as reused, for a run that takes the answer from another run."""
    return json_text({**json.loads(body), "origin": "reused"})


def edited_text(body: str, edit: object) -> str:
    """Return a `call_row` with its answer replaced by `edit`; raise ValueError if the edit is of the wrong kind.

    A structured answer can be replaced with JSON data or JSON text, any other answer only with text.
    """
    recorded = json.loads(body)
    edited = {"block": recorded["block"], "role": recorded.get("role"), "called": recorded["called"]}
    edited |= {"finish": "stop", "model": recorded["model"], "usage": tokens_of(Usage.zero()), "seconds": 0.0}
    edited |= {"attempts": [], "origin": "edited"}
    if "data" in recorded:
        data = json.loads(edit) if isinstance(edit, str) and not isinstance(recorded["data"], str) else edit
        return json_text({**edited, "text": json_text(data), "data": data})
    if not isinstance(edit, str) or not edit.strip():
        message = "text that is not blank"
        raise ValueError(message)
    return json_text({**edited, "text": edit})


def tokens_of(usage: Usage) -> Tokens:
    """Convert the token counts of `usage` to JSON data."""
    return (
        usage.calls,
        usage.prompt_tokens,
        usage.cached_tokens,
        usage.completion_tokens,
        usage.reasoning_tokens,
        usage.cache_written_tokens,
    )


def usage_of(tokens: Tokens) -> Usage:
    """Restore a `Usage` from the counts written by `tokens_of`."""
    calls, prompt, cached, completion, reasoning, cache_written = tokens
    return Usage(
        calls=calls,
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
        reasoning_tokens=reasoning,
        cache_written_tokens=cache_written,
    )


def failure_text(error: BaseException) -> str:
    """Serialize `error`, including its JSON-compatible attributes."""
    facts: dict[str, Any] = {}
    tuples: list[str] = []
    for name, value in vars(error).items():
        plain = _as_lists(value)
        if exact_json(plain) is not None:
            facts[name] = plain
            if isinstance(value, tuple):
                tuples.append(name)
    library_module = flowdebate.errors.__name__
    kind = next((base.__name__ for base in type(error).__mro__ if base.__module__ == library_module), "Exception")
    name, message = type(error).__name__, error_text(error)  # a custom __str__ may raise
    message = "" if message == name else message.removeprefix(f"{name}: ")
    return json_text({"kind": kind, "name": name, "said": message, "facts": facts, "tuples": tuples})


def failure_of(body: str) -> Exception:
    """Restore an error written by `failure_text`, with the same class name and message."""
    recorded = json.loads(body)
    is_known = recorded["kind"] in flowdebate.errors.__all__
    base: type[Exception] = getattr(flowdebate.errors, recorded["kind"]) if is_known else Exception
    name = recorded["name"]
    kind = base if base.__name__ == name else type(name, (base,), {"__module__": base.__module__})
    tuples = recorded["tuples"]
    facts = {name: tuple(value) if name in tuples else value for name, value in recorded["facts"].items()}
    return make_error(kind, recorded["said"], facts)


def make_error(kind: type[ErrorT], message: str, facts: Mapping[str, Any]) -> ErrorT:
    """Build an error without calling its constructor, because the constructor would compose a different message."""
    error = kind.__new__(kind)
    error.args = (message,)
    vars(error).update(facts)
    return error


def _as_lists(value: object) -> object:
    return [_as_lists(item) for item in value] if isinstance(value, (tuple, list)) else value
