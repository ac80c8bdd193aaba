"""Cassette files: recorded model calls as JSON, one line for each call after a header.

A line has the request, its hash, its number among equal requests, and the answer or the error. All of it is data,
validated when it is read: a line that does not fit raises BadFile with its number.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from flowdebate import errors
from flowdebate._util.text import clean_data, clean_text, one_line, without_keys
from flowdebate.errors import BadFile, ModelError, error_text, problems_of
from flowdebate.models.base import CallFellBack, CallRetried, CircuitChanged, FinishReason, ModelResponse, ToolCall
from flowdebate.models.codec import make_error
from flowdebate.models.output import one_object
from flowdebate.models.usage import Usage
from flowdebate.prompts.template import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from flowdebate.models.base import ModelRequest
    from flowdebate.models.output import OutputSchema
    from flowdebate.models.usage import Attempt


CLASSES: dict[str, type[ModelError]] = {
    name: found
    for name, found in vars(errors).items()
    if name in errors.__all__ and isinstance(found, type) and issubclass(found, ModelError)
}
"""Classes that a recorded error may have."""

_FORMAT = "flowdebate.cassette"
_VERSION = 1
_LARGEST = 100_000_000
"""Maximum bytes of a file."""


def _redacted(value: Any) -> Any:  # noqa: ANN401 - other values stay
    return without_keys(clean_text(value)) if isinstance(value, str) else value


Redacted = Annotated[str, BeforeValidator(_redacted)]
"""Text without anything that looks like a key."""


class _Strict(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, strict=True)


class Header(_Strict):
    """First line of the file."""

    format: Literal["flowdebate.cassette"] = "flowdebate.cassette"
    version: Literal[1] = 1
    model: str
    """Name of the recorded model."""
    profile: Profile = Field(default="full", exclude_if=lambda profile: profile == "full")
    """Profile of its default prompts."""


class Failure(_Strict):
    """A `ModelError`, without anything that looks like a key."""

    kind: str
    """Class of `flowdebate.errors`."""
    message: Redacted
    model: Redacted | None = None
    block: Redacted | None = None
    transient: bool = False
    status: int | None = None
    retry_after: float | None = None
    quota_exhausted: bool = False
    seconds: float | None = None
    limit: int | None = None
    unit: Redacted | None = None
    reason: Redacted | None = None
    problems: tuple[tuple[Redacted, Redacted], ...] | None = None
    answer: Redacted | None = None
    rounds: int | None = None

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.kind not in CLASSES:
            problem = "no such error"
            raise ValueError(problem)
        missing = [name for name, needed in FACTS[self.kind].items() if needed and getattr(self, name) is None]
        if missing:
            problem = f"{self.kind} needs {', '.join(missing)}"
            raise ValueError(problem)
        return self

    @classmethod
    def of(cls, error: ModelError) -> Failure:
        """Convert `error` to data; a class of the application becomes the library's class that it is derived from."""
        kind = next(base.__name__ for base in type(error).__mro__ if CLASSES.get(base.__name__) is base)
        try:
            facts = {name: getattr(error, name, None) for name in (*_COMMON, *FACTS[kind])}
            return cls.model_validate({"kind": kind, **facts})
        except ValidationError:  # an application's own, with facts of other types
            return cls(kind="ModelError", message=error_text(error), transient=bool(error.transient))

    def error(self) -> ModelError:
        """Build the error as it was raised."""
        facts = {name: getattr(self, name) for name in (*_COMMON, *FACTS[self.kind])}
        return make_error(CLASSES[self.kind], self.message, facts)


_COMMON = tuple(name for name in signature(ModelError).parameters if name in Failure.model_fields)

FACTS = {
    name: {
        fact: parameter.default is Parameter.empty
        for fact, parameter in signature(kind).parameters.items()
        if fact in Failure.model_fields and fact not in _COMMON
    }
    for name, kind in CLASSES.items()
}
"""Facts of each class besides those of `ModelError`, and whether they are required."""

_EVENTS: dict[str, Any] = {kind.kind: kind for kind in (CallRetried, CallFellBack, CircuitChanged)}


class Notice(_Strict):
    """Event of a model call."""

    kind: str
    facts: dict[str, JsonValue]

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        self.event()
        return self

    @classmethod
    def of(cls, event: Any) -> Notice | None:  # noqa: ANN401 - an event of any kind
        """Convert `event` to data; None for an event of another kind."""
        if type(event) not in _EVENTS.values():
            return None
        try:
            return cls(kind=event.kind, facts={name: _redacted(value) for name, value in asdict(event).items()})
        except ValidationError:  # an application's error with a message that is no text
            return None

    def event(self) -> object:
        """Build the event; ValueError where the facts do not fit."""
        if self.kind not in _EVENTS:
            problem = "no such kind of event"
            raise ValueError(problem)
        event: object = TypeAdapter(_EVENTS[self.kind]).validate_json(json.dumps(self.facts), strict=True)
        return event


class Sent(_Strict):
    """Request that was sent for a call: an `Attempt` without its times."""

    model: str
    asked_as: str | None = None
    usage: Usage = Usage.unknown()
    error: str | None = None


class Answer(_Strict):
    """A `ModelResponse`."""

    text: str = ""
    data: str | None = None
    """JSON of a structured answer; None where the output schema reads it from `text`."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: FinishReason = "stop"
    usage: Usage = Usage.unknown()
    model: str | None = None
    asked_as: str | None = None
    flags: tuple[str, ...] = ()
    logprobs: dict[str, float] | None = None

    def response(self, output: OutputSchema | None) -> ModelResponse:
        """Build the response; SchemaViolation where its data does not fit `output`."""
        parts: dict[str, Any] = {name: getattr(self, name) for name in Answer.model_fields}
        parts["data"] = None if self.data is None or output is None else output.validate(self.data)
        return ModelResponse(**parts)


def _data_text(response: ModelResponse, output: OutputSchema) -> str | None:
    """Return JSON from which `output` reads the answer's data; None where it reads it from the answer's text."""
    found = one_object(response.text)
    for text in (response.text, found):
        if text and _reads_as(output, text, response.data):
            return None if text is response.text else text
    try:
        text = clean_text(json.dumps(output.dumped(response.data, fallback=str), ensure_ascii=False))
        output.validate(text)
    except Exception:  # noqa: BLE001 - an application's own serializers and validators
        return found
    return text


def _reads_as(output: OutputSchema, text: str, data: object) -> bool:
    try:
        read = output.validate(text)
        return type(read) is type(data) and bool(read == data)
    except Exception:  # noqa: BLE001 - an application's own validators and comparisons
        return False


class Call(_Strict):
    """Line after the first: one call with its answer or error."""

    block: str
    sha256: str
    """Digest of `block` and `request`."""
    occurrence: int = Field(ge=1)
    """Number among equal requests, in the order in which they were made."""
    request: dict[str, JsonValue]
    answer: Answer | None = None
    error: Failure | None = None
    sent: tuple[Sent, ...] = ()
    notices: tuple[Notice, ...] = ()
    """Events that the run's readers got meanwhile."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.answer is None) == (self.error is None):
            problem = "either an answer or an error is required"
            raise ValueError(problem)
        if self.sha256 != digest(self.block, self.request):
            problem = "the request is not the one that was recorded (sha256)"
            raise ValueError(problem)
        return self


def asked(request: ModelRequest) -> dict[str, JsonValue]:
    """Return the parts of `request` that an answer may depend on, as JSON.

    They are messages, tools, output schema, choices, form and settings.

    Not among them: the deadline, the largest answer, listeners, and the descriptions of tools.
    """
    settings = request.settings
    parts: dict[str, Any] = {"messages": _plain(request.messages)}
    if request.tools:
        parts["tools"] = [{"name": tool.name, "parameters": _plain(tool.parameters)} for tool in request.tools]
    if request.output is not None:
        parts["output"] = _plain(request.output_schema)
    if request.choices:
        parts["choices"] = _plain(request.choices)
    if request.begins:
        parts["begins"] = clean_text(request.begins)
    if request.sentences is not None:
        parts["sentences"] = request.sentences
    chosen = {"temperature": settings.temperature, "max_tokens": settings.max_tokens, "extra": settings.extra or None}
    if given := {name: _plain(value) for name, value in chosen.items() if value is not None}:
        parts["settings"] = given
    return parts


def digest(block: str, request: Mapping[str, JsonValue]) -> str:
    """Hash a request; replayed requests are found by it."""
    return hashlib.sha256(json.dumps([block, request], sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> JsonValue:  # noqa: ANN401, PLR0911 - messages may contain any value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return f"<{type(value).__name__}>"


def new_call(
    opening: Mapping[str, Any],
    outcome: ModelResponse | ModelError,
    output: OutputSchema | None,
    *,
    attempts: Iterable[Attempt],
    events: Iterable[object],
) -> Call:
    """Make a call's line from its first fields, `opening`; ValueError for an answer that could not be read back."""
    line: dict[str, Any] = dict(opening)
    if isinstance(outcome, ModelError):
        line["error"] = Failure.of(outcome).model_dump()
    else:
        line["answer"] = _fields(outcome, Answer)
        line["answer"]["tool_calls"] = [asdict(call) for call in outcome.tool_calls]
        line["answer"]["data"] = None if output is None or outcome.tool_calls else _data_text(outcome, output)
    line["sent"] = [_fields(attempt, Sent) for attempt in attempts]
    line["notices"] = [notice.model_dump() for event in events if (notice := Notice.of(event)) is not None]
    return Call.model_validate_json(json.dumps(clean_data(line)))


def _fields(value: ModelResponse | Attempt, kind: type[BaseModel]) -> dict[str, Any]:
    """Return those attributes of `value` that `kind` has, with its usage as data."""
    return {name: getattr(value, name) for name in kind.model_fields} | {"usage": asdict(value.usage)}


def as_line(part: Header | Call) -> bytes:
    """Format a line of the file."""
    data = part.model_dump(mode="json", exclude_defaults=isinstance(part, Call))
    return json.dumps(data, ensure_ascii=False).encode() + b"\n"


def read_cassette(path: str | Path) -> tuple[Header, list[Call]]:
    """Read the file at `path`; BadFile, with the line, for anything that `RecordingModel` did not write."""
    first, *lines = _lines(Path(path))
    header = _header(path, first)
    calls: list[Call] = []
    seen: set[tuple[str, int]] = set()
    for number, line in enumerate(lines, start=2):
        try:
            call = Call.model_validate_json(line)
        except ValidationError as error:
            raise _bad_line(path, number, _problems(error), last=number == len(lines) + 1) from None
        if (call.sha256, call.occurrence) in seen:
            raise _bad_line(path, number, "this call was there before")
        seen.add((call.sha256, call.occurrence))
        calls.append(call)
    return header, calls


def _lines(path: Path) -> list[bytes]:
    try:
        if not path.is_file():
            raise BadFile(str(path), "is no file" if path.exists() else "does not exist")
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        raise BadFile(str(path), f"cannot be read ({one_line(str(error))})") from error
    if len(content) > _LARGEST:
        raise BadFile(str(path), f"is larger than {_LARGEST // 1_000_000} MB")
    return content.removesuffix(b"\n").split(b"\n")


def _header(path: str | Path, line: bytes) -> Header:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise _bad_line(path, 1, "it is no JSON, so the file is no cassette") from None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise _bad_line(path, 1, f"the file is no cassette (format {_FORMAT!r})")
    version = found.get("version")
    if isinstance(version, int) and version > _VERSION:
        raise _bad_line(path, 1, "the cassette was written by a newer version of flowdebate")
    try:
        return Header.model_validate_json(line)
    except ValidationError as error:
        raise _bad_line(path, 1, _problems(error)) from None


def _problems(error: ValidationError) -> str:
    return "; ".join(f"`{field}` {what}" if field else what for field, what in problems_of(error, got=False)[:3])


def _bad_line(path: str | Path, number: int, problem: str, *, last: bool = False) -> BadFile:
    hint = "; the last line may have been cut off" if last else ""
    return BadFile(str(path), f"line {number}: {one_line(problem)}{hint}")
