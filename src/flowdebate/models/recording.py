"""`RecordingModel` and `ReplayModel`: record model calls to a cassette, and replay them without making any calls.

A cassette has a header and one line of JSON per call: the request, its hash, its position among equal requests, and
either the error or the answer (in the same form as in a journal; see `codec.call_row`). If `exchanges` is set, the line
also contains the call's HTTP requests and responses. Because people edit cassettes, everything in them is validated: an
invalid line raises BadFile with the line number and the field.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
import os
import re
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from inspect import Parameter, signature
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from flowdebate import errors
from flowdebate._text import clean_data, clean_text, error_text, one_line, redact, without_keys
from flowdebate._util.files import open_private
from flowdebate._util.json_data import json_data
from flowdebate.errors import BadFile, CassetteMismatch, MalformedResponse, ModelError, ModelTimeout
from flowdebate.models.base import (
    Attempt,
    CallFellBack,
    CallRetried,
    CircuitChanged,
    Model,
    ModelRequest,
    ModelResponse,
)
from flowdebate.models.codec import (
    Answer,
    AttemptRow,
    Recorded,
    attempts_of,
    attempts_row,
    call_row,
    json_text,
    make_error,
    read_record,
)
from flowdebate.models.openai.clients import load
from flowdebate.models.openai.endpoint import Exchange, is_refusal, record_exchanges
from flowdebate.models.output import OutputSchema
from flowdebate.models.reading import find_object
from flowdebate.models.wrapper import Wrapper
from flowdebate.prompts import Profile

# Maximum size of a cassette in bytes, to keep a file that is not a cassette from exhausting memory.
_MAX_SIZE = 100_000_000

# Cassette lines


def _without_keys(value: object) -> object:
    return without_keys(clean_text(value)) if isinstance(value, str) else value


Redacted = Annotated[str, BeforeValidator(_without_keys)]
"""Text in which API keys are redacted, because a custom model's errors may contain one."""


class Header(Recorded):
    """First line of a cassette."""

    format: Literal["flowdebate.cassette"] = "flowdebate.cassette"
    version: Literal[1] = 1
    model: str
    profile: Profile = Field(default="full", exclude_if=lambda profile: profile == "full")
    """Profile that selects the recorded model's default prompts, kept so that a replay builds the same requests."""


CLASSES: dict[str, type[ModelError]] = {
    name: error_class
    for name, error_class in vars(errors).items()
    if name in errors.__all__ and isinstance(error_class, type) and issubclass(error_class, ModelError)
}
"""Error classes allowed in a cassette; no other objects may be created from an untrusted file."""


class Failure(Recorded):
    """A recorded `ModelError`: one of `CLASSES`, with attributes of known types. In a journal, any class is allowed."""

    kind: str
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
    room: int | None = None
    thought: int | None = None
    stopped: bool | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.kind not in CLASSES:
            problem = f"has an unknown `kind` of error: {self.kind}"
            raise ValueError(problem)
        missing = [name for name, needed in FACTS[self.kind].items() if needed and getattr(self, name) is None]
        if missing:
            problem = f"has no `{missing[0]}`, which {self.kind} requires"
            raise ValueError(problem)
        return self

    @classmethod
    def of(cls, error: ModelError) -> Failure:
        """Convert `error`, replacing an application-defined error class with the library class it derives from."""
        kind = next(base.__name__ for base in type(error).__mro__ if CLASSES.get(base.__name__) is base)
        try:
            facts = {name: getattr(error, name, None) for name in (*_COMMON, *FACTS[kind])}
            return cls.model_validate({"kind": kind, **facts})
        except ValidationError:  # a custom error may have attributes of other types
            return cls(kind="ModelError", message=error_text(error), transient=bool(error.transient))

    def error(self) -> ModelError:
        """Rebuild the original error."""
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
"""Attributes that each error class has in addition to those of every `ModelError`, and whether each is required."""

# Events that a call reports to the run's listeners; a replay repeats them.
_EVENTS: dict[str, Any] = {kind.kind: kind for kind in (CallRetried, CallFellBack, CircuitChanged)}


class Notice(Recorded):
    """Event recorded during a model call."""

    kind: str
    facts: dict[str, JsonValue]

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        self.event()
        return self

    def event(self) -> object:
        """Rebuild the event; raise ValueError if `kind` is unknown or the facts do not match it."""
        if self.kind not in _EVENTS:
            problem = f"has an unknown `kind` of event: {self.kind}"
            raise ValueError(problem)
        event: object = TypeAdapter(_EVENTS[self.kind]).validate_json(json.dumps(self.facts), strict=True)
        return event


class HttpExchange(Recorded):
    """HTTP request and response, without headers."""

    sent: dict[str, JsonValue]
    status: int = Field(ge=100, le=599)
    kind: str
    """Content type of the response."""
    body: str

    @classmethod
    def of(cls, exchange: Exchange) -> HttpExchange:
        """Convert `exchange`; raise ValueError if its request is not JSON."""
        body = clean_text(exchange.body)
        return cls(sent=json.loads(exchange.sent), status=exchange.status, kind=exchange.kind, body=body)

    @property
    def refuses(self) -> bool:
        """Return whether the response rejects the request."""
        return is_refusal(self.status, self.body)


class Call(Recorded):
    """Cassette line for one call and its answer or error."""

    block: str
    sha256: str
    """Digest of `block` and `request`."""
    occurrence: int = Field(ge=1)
    """Position of the call among calls with equal requests, in chronological order, starting at 1."""
    request: dict[str, JsonValue]
    answer: Answer | None = None
    error: Failure | None = None
    attempts: tuple[AttemptRow, ...] = ()
    """Attempts made for a failed call; for other calls, the answer contains them."""
    notices: tuple[Notice, ...] = ()
    exchanges: tuple[HttpExchange, ...] = ()
    """Recorded HTTP exchanges, in order."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.answer is None) == (self.error is None):
            problem = "needs an `answer` or an `error`, not both"
            raise ValueError(problem)
        if self.sha256 != hash_request(self.block, self.request):
            problem = "`request` was changed after it was recorded: `sha256` does not match"
            raise ValueError(problem)
        return self


def _response_of(answer: Answer, output: OutputSchema | None) -> ModelResponse:
    """Build the recorded response. If the answer contains no data, its text is parsed later, as for any other model."""
    return answer.response(None if answer.data is None else output)


def describe_request(request: ModelRequest) -> dict[str, JsonValue]:
    """Return the parts of `request` that an answer may depend on, as JSON.

    These are the messages, tools, output schema, choices, form and settings, but not the deadline, the maximum length
    of the answer, listeners, or tool descriptions. A journal hashes more (`codec.digest_of`), because it finds steps by
    path and uses the hash only to detect changes, whereas a cassette finds requests by hash alone.
    """
    request_settings = request.settings
    settings = {
        "temperature": request_settings.temperature,
        "max_tokens": request_settings.max_tokens,
        "extra": request_settings.extra or None,
    }
    parts: dict[str, Any] = {
        "messages": request.messages,
        "tools": [{"name": tool.name, "parameters": tool.parameters} for tool in request.tools] or None,
        "output": request.output_schema,
        "choices": request.choices or None,
        "begins": request.begins or None,
        "sentences": request.sentences,
        "settings": {name: value for name, value in settings.items() if value is not None} or None,
    }
    plain: dict[str, JsonValue] = json_data(
        {name: part for name, part in parts.items() if part is not None}, largest=_MAX_SIZE
    )
    return plain


def hash_request(block: str, request: Mapping[str, JsonValue]) -> str:
    """Hash a request for lookup in a replay."""
    return hashlib.sha256(json.dumps([block, request], sort_keys=True).encode()).hexdigest()


# Recording


class RecordingModel(Wrapper):
    """Record each answer from `inner`, and each ModelError, in a new cassette at `path`, for `ReplayModel`.

    Wrapped around a model with its own retries, as in `RecordingModel(OpenAIModel(…))`, it writes one line per call, no
    matter how many requests were sent. Inside a retry policy, as in `Retrying(RecordingModel(…))`, it writes one line
    per request, to be replayed as `Retrying(ReplayModel(…))`. A cancelled call is not recorded, unless it reached its
    deadline.

    The file contains prompts and answers unchanged; a newly created file is readable only by its owner. API keys are
    not part of requests, and are redacted in errors. Raises BadFile if `path` already exists (unless `overwrite` is
    set) or cannot be written.

    If `exchanges` is set, the file is meant to be shared: it also contains the bodies of all HTTP requests and
    responses, as the server wrote them but without headers. Host addresses, keys and home directories are redacted.
    `flowdebate.testing.serve_recording` then answers as the recorded server did.
    """

    def __init__(
        self, inner: Model | str, path: str | os.PathLike[str], *, overwrite: bool = False, exchanges: bool = False
    ) -> None:
        super().__init__(inner)
        self.path: Path = Path(path)
        self._exchanges = exchanges
        self._counting = threading.Lock()
        self._writing = threading.Lock()
        self._asked: Counter[str] = Counter()
        try:
            flags = os.O_WRONLY | (os.O_TRUNC if overwrite else os.O_EXCL)
            with os.fdopen(open_private(self.path, flags), "wb") as file:
                name = clean_text(self.name)
                file.write(_as_line(Header(model=_anonymous(name) if exchanges else name, profile=self.profile)))
        except FileExistsError:
            raise BadFile(str(path), "already exists: record to another file, or pass overwrite=True") from None
        except (OSError, ValueError) as error:
            raise _unwritable(self.path, error) from error

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        parts = describe_request(request)
        block = clean_text(request.block)
        sha256 = hash_request(block, parts)
        # number identical requests in the order in which they are sent, so that a replay answers them in the same order
        with self._counting:
            self._asked[sha256] += 1
            opening = {"block": block, "sha256": sha256, "occurrence": self._asked[sha256], "request": parts}
        before = len(request.attempts.made)
        started = asyncio.get_running_loop().time()
        with request.attempts.listening() as heard, record_exchanges() as exchanges:

            async def record(outcome: ModelResponse | ModelError) -> None:
                attempts = request.attempts.made[before:]
                try:
                    call = _new_call(
                        opening,
                        outcome,
                        request.output,
                        attempts=attempts,
                        events=heard,
                        exchanges=exchanges if self._exchanges else None,
                        host=_host_of(request.attempts.server),
                    )
                except (ValueError, TypeError) as error:  # for example, an answer with non-integer token counts
                    raise MalformedResponse(f"the answer cannot be recorded: {one_line(str(error))}") from None
                await load(self._write, _as_line(call))

            try:
                response = await self.ask(request)
            except ModelError as error:
                await record(error)
                raise
            except asyncio.CancelledError:
                if _is_out_of_time(request, started):
                    await record(ModelTimeout(request.settings.timeout or 0, model=self.name, block=request.block))
                raise
            await record(response)
        return response

    def _write(self, line: bytes) -> None:
        """Append `line` completely or not at all.

        If writing fails, for example because the disk is full, a partially written line is removed.
        """
        try:
            with (
                self._writing,
                self.path.open("r+b", buffering=0) as file,
            ):  # "r+b", so that a deleted file is not recreated
                end = file.seek(0, os.SEEK_END)
                rest = memoryview(line)
                try:
                    while rest:
                        rest = rest[file.write(rest) :]
                except BaseException:
                    file.truncate(end)
                    raise
        except OSError as error:
            raise _unwritable(self.path, error) from error


def _is_out_of_time(request: ModelRequest, started: float) -> bool:
    """Return whether a call was cancelled at its own deadline rather than an enclosing policy's."""
    deadline, timeout = request.deadline, request.settings.timeout
    if deadline is None or timeout is None or asyncio.get_running_loop().time() < deadline:
        return False
    # an enclosing policy's deadline would come before the full timeout has elapsed
    return deadline - started > 0.99 * timeout


def _new_call(
    opening: Mapping[str, Any],
    outcome: ModelResponse | ModelError,
    output: OutputSchema | None,
    *,
    attempts: Iterable[Attempt],
    events: Iterable[object],
    exchanges: Sequence[Exchange] | None = None,
    host: str = "",
) -> Call:
    """Build the cassette line for a call, starting with the fields in `opening`.

    Raises ValueError if the line could not be read back. If `exchanges` is set, the line never contains `host`.
    """
    line: dict[str, Any] = {**opening, "notices": []}
    # without times, so that recording the same answers produces the same file
    new_attempts = [replace(attempt, waited=0.0, seconds=0.0) for attempt in attempts]
    if isinstance(outcome, ModelError):
        line |= {"error": Failure.of(outcome).model_dump(), "attempts": attempts_row(new_attempts)}
    else:
        answer = line["answer"] = call_row(outcome, new_attempts, seconds=0.0, output=None)
        if output is not None and not outcome.tool_calls:
            answer["data"] = _data_of(outcome, output)
    for event in events:
        if isinstance(event, (CallRetried, CallFellBack, CircuitChanged)):
            facts = {name: _without_keys(value) for name, value in asdict(event).items()}
            with suppress(ValidationError):  # an application's error may have a message that is not a string
                line["notices"].append(Notice.model_validate({"kind": event.kind, "facts": facts}).model_dump())
    if exchanges is not None:
        line["exchanges"] = [HttpExchange.of(exchange).model_dump() for exchange in exchanges]
        opening_fields = {name: line[name] for name in opening}  # a replay finds the request by its digest
        secrets = [secret for exchange in exchanges for secret in exchange.secrets]
        line = {**_anonymous(line, host, secrets), **opening_fields}
    return read_record(Call, json.dumps(clean_data(line)))


def _host_of(address: str | None) -> str:
    return urlsplit(address or "").hostname or ""


# Matches URLs (in JSON, a backslash may precede a slash), IP addresses, email addresses, account names, and host names
# that are private, end in a common domain or have a port.
_ADDRESSES = re.compile(
    r"""(?<![\w+-])[a-z][a-z0-9+.-]{0,15}:(?:\\?/){2}(?:\\/|[^\s"'<>\\)\]},;])*"""
    r"""|\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?|\[(?=[0-9a-f]{0,4}:[0-9a-f]{0,4}:)[0-9a-f:.]{2,45}\](?::\d+)?"""
    r"""|(?<![\w-])(?:[a-z0-9-]{1,63}\.){1,9}(?:local|internal|lan|intranet|corp|home|arpa|com|net|org|edu|gov|io|ai"""
    r"""|dev|cloud|co|eu|uk|de|fr|nl|ch|cn|jp|kr|au|ca)\b(?::\d+)?(?:/[^\s"'<>\\)\]},;]*)?"""
    r"""|(?<![\w-])(?:localhost:\d+|[a-z][a-z0-9-]{0,62}(?:\.[a-z0-9-]{1,63}){0,9}:\d{4,5}\b)"""
    r"""|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,9}"""
    r"""|\b(?:org|proj|acct|account|user|team)[-_][A-Za-z0-9]{8,}""",
    re.IGNORECASE,
)
# Home directories, where many servers keep their models.
_HOME = re.compile(r"((?:/home/|/Users/|[A-Za-z]:(?:\\)+Users(?:\\)+))[^/\\\s\"']+")


def _anonymous(value: Any, host: str = "", secrets: Iterable[str] = ()) -> Any:  # noqa: ANN401 - JSON data
    """Copy JSON data, redacting keys, `secrets`, addresses, the host name `host`, and users' home directories.

    >>> _anonymous({"error": "no answer from http://10.0.0.7:8000/v1, gpu-7:8000 or gpu-7.lan"})
    {'error': 'no answer from [address], [address] or [address]'}
    """
    if isinstance(value, dict):
        return {name: _anonymous(part, host, secrets) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_anonymous(part, host, secrets) for part in value]
    if not isinstance(value, str):
        return value
    text = _HOME.sub(r"\1[user]", _ADDRESSES.sub("[address]", without_keys(redact(value, secrets))))
    if re.search(r"[.\d-]", host):  # any other host name may be an ordinary word, such as "model"
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?::\d+)?(?![\w-])", "[address]", text, flags=re.IGNORECASE)
    return text


def _data_of(response: ModelResponse, output: OutputSchema) -> JsonValue:
    """Return the answer as JSON data that `output` can validate; None if the answer's text suffices."""
    with suppress(Exception):  # custom validators and comparisons may raise anything
        read = output.validate(response.text)
        if type(read) is type(response.data) and read == response.data:
            return None
    with suppress(Exception):  # custom serializers and validators may raise anything
        data: JsonValue = clean_data(output.dump(response.data, fallback=str))
        output.validate(json_text(data))
        return data
    json_object = find_object(response.text)
    return None if json_object is None or json_object == response.text else json.loads(json_object)


def _as_line(part: Header | Call) -> bytes:
    data = part.model_dump(mode="json", exclude_defaults=isinstance(part, Call))
    return json.dumps(data, ensure_ascii=False).encode() + b"\n"


def _unwritable(path: Path, error: Exception) -> BadFile:
    reason = error.strerror if isinstance(error, OSError) else error
    return BadFile(str(path), f"cannot be written ({reason})")


# Replaying


class ReplayModel:
    """Replay the cassette that `RecordingModel` wrote to `path`: the same answers and errors, immediately and for free.

    Calls are matched by their request: concurrent calls may come in any order, and equal calls are replayed in the
    recorded order. A call missing from the cassette raises CassetteMismatch, showing how it differs from the nearest
    call. Each recorded call is replayed once. If `strict` is False, the last of several equal calls is replayed
    repeatedly, so one cassette serves any number of runs.

    A debate run with the recorded seed produces the same output and the same events, except for times and the run id.
    An answer's text is streamed as a single chunk.

    The file is read once and never written. Raises BadFile if the file is not a valid cassette.
    """

    tells_attempts = True
    takes_images = True

    def __init__(self, path: str | os.PathLike[str], *, strict: bool = True) -> None:
        self.path: str = str(path)
        header, self._calls = _read_cassette(self.path)
        self.name: str = header.model
        self.profile = header.profile
        """Profile that selects the recorded model's default prompts; a replay needs it to build the same requests."""
        self._strict = strict
        self._left: defaultdict[str, deque[int]] = defaultdict(deque)
        for index in sorted(range(len(self._calls)), key=lambda index: self._calls[index].occurrence):
            self._left[self._calls[index].sha256].append(index)
        self._given: set[int] = set()

    @property
    def remaining(self) -> int:
        """Number of recorded calls not yet replayed."""
        return len(self._calls) - len(self._given)

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return the recorded answer, or raise the recorded error."""
        calls_left = self._left.get(hash_request(clean_text(request.block), describe_request(request)))
        if not calls_left:
            # counts as a sent request, so that a run at its limit ends with LimitReached, as in the recording
            with request.attempts.sending(self.name, request):
                raise self._mismatch(request)
        index = calls_left[0] if len(calls_left) == 1 and not self._strict else calls_left.popleft()
        self._given.add(index)
        call = self._calls[index]
        for sent in attempts_of(call.attempts if call.answer is None else call.answer.attempts):
            # raises LimitReached if the run may not send that many requests
            with request.attempts.sending(sent.model, request, asked_as=sent.asked_as) as attempt:
                attempt.usage, attempt.error, attempt.answer = sent.usage, sent.error, sent.answer
        for notice in call.notices:
            request.attempts.notify(notice.event())
        if call.answer is None:
            assert call.error is not None  # noqa: S101 - a line has one or the other
            raise call.error.error()
        if request.on_text is not None and call.answer.text:
            request.on_text(call.answer.text)
        return _response_of(call.answer, request.output)

    def assert_complete(self) -> None:
        """Raise CassetteMismatch unless all recorded calls were replayed."""
        unused = [index for index in range(len(self._calls)) if index not in self._given]
        if unused:
            description = ", ".join(f"{self._calls[index].block} (line {index + 2})" for index in unused[:_NAMED])
            more = f" and {len(unused) - _NAMED} more" if len(unused) > _NAMED else ""
            message = f"{len(unused)} of {len(self._calls)} calls in {self.path} were not made: {description}{more}"
            raise CassetteMismatch(message, model=self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path!r}: {len(self._given)} of {len(self._calls)} calls given>"

    def _mismatch(self, request: ModelRequest) -> CassetteMismatch:
        block = clean_text(request.block)
        unused = [call for index, call in enumerate(self._calls) if index not in self._given and call.block == block]
        if not unused:
            message = f"{self.path} contains no other call of this block"
        else:
            request_lines = _as_lines(describe_request(request))
            texts = [_as_lines(call.request) for call in unused[:_COMPARED]]
            nearest = max(texts, key=lambda text: difflib.SequenceMatcher(None, text, request_lines).quick_ratio())
            lines = difflib.unified_diff(nearest, request_lines, "recorded", "asked", n=1, lineterm="")
            diff_lines = [one_line(line) for line in islice(lines, _SHOWN + 1)]
            diff_lines = [*diff_lines[:_SHOWN], "…"] if len(diff_lines) > _SHOWN else diff_lines
            message = f"{self.path} does not contain this call; difference from the closest recorded call:"
            message += "".join(f"\n{line}" for line in diff_lines)
        return CassetteMismatch(
            f"{message}\n(was it recorded with another seed?)", model=self.name, block=request.block
        )


# Maximum number of calls listed by `assert_complete`.
_NAMED = 5
# Maximum number of diff lines in an error message.
_SHOWN = 16
# Maximum number of the block's calls to compare a request with.
_COMPARED = 50
# Maximum number of lines to compare per request, and of characters per line: difflib takes quadratic time.
_LINES, _WIDTH = 2_000, 100


def _as_lines(request: Mapping[str, Any]) -> list[str]:
    """Format a request for comparison, splitting its prompts into lines."""
    text = without_keys(json.dumps(request, indent=1, ensure_ascii=False).replace("\\n", "\n"))
    pieces = (line[at : at + _WIDTH] for line in text.split("\n") for at in range(0, max(len(line), 1), _WIDTH))
    return list(islice(pieces, _LINES))


# Reading


def _read_cassette(path: str) -> tuple[Header, list[Call]]:
    """Parse the file at `path`; raise BadFile with the line number for anything `RecordingModel` did not write."""
    try:
        if not Path(path).is_file():
            raise BadFile(path, "is not a file" if Path(path).exists() else "does not exist")
        with Path(path).open("rb") as file:
            content = file.read(_MAX_SIZE + 1)
    except (OSError, ValueError) as error:
        raise BadFile(path, f"cannot be read ({one_line(str(error))})") from error
    if len(content) > _MAX_SIZE:
        raise BadFile(path, f"is larger than {_MAX_SIZE // 1_000_000} MB")
    first, *lines = content.removesuffix(b"\n").split(b"\n")
    header = _header(path, first)
    calls: list[Call] = []
    seen: set[tuple[str, int]] = set()
    for number, line in enumerate(lines, start=2):
        try:
            call = read_record(Call, line)
        except ValueError as error:
            hint = "; the last line may have been cut off" if number == len(lines) + 1 else ""
            raise _bad_line(path, number, str(error), hint) from None
        if (call.sha256, call.occurrence) in seen:
            raise _bad_line(path, number, "duplicates a call on an earlier line")
        seen.add((call.sha256, call.occurrence))
        calls.append(call)
    return header, calls


def read_exchanges(path: str | os.PathLike[str]) -> list[HttpExchange]:
    """Return the HTTP exchanges in the cassette at `path`, in call order; raise BadFile if it has none."""
    return [exchange for call in _read_cassette(str(path))[1] for exchange in call.exchanges]


def _header(path: str, line: bytes) -> Header:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        raise _bad_line(path, 1, "not valid JSON, so the file is not a cassette") from None
    if not isinstance(header, dict) or header.get("format") != "flowdebate.cassette":
        raise _bad_line(path, 1, "the file is not a cassette")
    version = header.get("version")
    if isinstance(version, int) and version != (current := Header.model_fields["version"].default):
        raise _bad_line(
            path, 1, f"the cassette has format {version}, but only format {current} is supported: record it again"
        )
    try:
        return read_record(Header, line)
    except ValueError as error:
        raise _bad_line(path, 1, str(error)) from None


def _bad_line(path: str, number: int, problem: str, hint: str = "") -> BadFile:
    return BadFile(path, f"line {number}: {one_line(problem)}{hint}")


class PlayedModel(ReplayModel):
    """Play back a cassette for an audience: each block's answers in order, streamed at `words` words per second.

    Requests are not compared with the recorded ones, so a cassette still plays after prompts have changed. If a block
    makes more requests than were recorded, CassetteMismatch is raised.
    """

    def __init__(self, path: str | os.PathLike[str], *, words: float) -> None:
        super().__init__(path, strict=False)
        self._words = words

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return the block's next answer, word by word if there is a listener."""
        candidates = (
            at for at, call in enumerate(self._calls) if at not in self._given and call.block == request.block
        )
        index = next(candidates, None)
        if index is None or (answer := self._calls[index].answer) is None:
            return await super().request(request)
        self._given.add(index)
        response = _response_of(answer, request.output)
        with request.attempts.sending(self.name, request) as attempt:
            attempt.usage = response.usage
            for word in re.findall(r"\s*\S+", answer.text or ""):
                if request.on_text is not None:
                    request.on_text(word)
                    await asyncio.sleep(1 / self._words)
        return response
