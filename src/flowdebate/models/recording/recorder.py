"""`RecordingModel`: records a model's answers to a cassette, for `ReplayModel`."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from flowdebate._util.text import clean_text, one_line
from flowdebate.errors import BadFile, MalformedResponse, ModelError, ModelTimeout, problems_of
from flowdebate.models.base import ToolCall
from flowdebate.models.openai.clients import load
from flowdebate.models.output import one_object
from flowdebate.models.recording.cassette import Answer, Call, Failure, Header, Notice, Sent, as_line, asked, digest
from flowdebate.models.wrapper import Wrapper

if TYPE_CHECKING:
    from flowdebate.models.base import Model, ModelRequest, ModelResponse
    from flowdebate.models.output import OutputSchema
    from flowdebate.models.usage import Attempt

__all__ = ("RecordingModel",)


class RecordingModel(Wrapper):
    """Record each answer of `inner`, and each ModelError, to a new cassette at `path`, for `ReplayModel`.

    Around a model that retries by itself, such as `RecordingModel(OpenAIModel(…))`, a call is one line, whatever was
    sent for it. Inside a policy that retries, such as `Retrying(RecordingModel(…))`, each request is a line of its own,
    to be replayed as `Retrying(ReplayModel(…))`. A cancelled call leaves no line, unless it ran out of time.

    The file holds prompts and answers as they are. Requests have no API key, and what looks like one is removed from
    errors. BadFile if `path` exists already (unless with `overwrite`), or cannot be written.
    """

    def __init__(self, inner: Model | str, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        super().__init__(inner)
        self.path = Path(path)
        self._counting = threading.Lock()
        self._writing = threading.Lock()
        self._asked: Counter[str] = Counter()
        try:
            with self.path.open("wb" if overwrite else "xb") as file:
                file.write(as_line(Header(model=clean_text(self.name))))
        except FileExistsError:
            raise BadFile(str(path), "is there already: record to another file, or pass overwrite=True") from None
        except (OSError, ValueError) as error:
            raise _unwritable(self.path, error) from error

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer as `inner` does, once the answer is recorded."""
        parts = asked(request)
        block = clean_text(request.block)
        sha256 = digest(block, parts)
        with self._counting:
            self._asked[sha256] += 1
            occurrence = self._asked[sha256]
        call = Call(block=block, sha256=sha256, occurrence=occurrence, request=parts, answer=Answer())
        before = len(request.attempts.made)
        began = asyncio.get_running_loop().time()
        with request.attempts.listening() as heard:

            async def record(**outcome: Any) -> None:  # noqa: ANN401 - fields of Call
                sent = tuple(map(_sent, request.attempts.made[before:]))
                notices = tuple(notice for event in heard if (notice := Notice.of(event)) is not None)
                await self._record(call.model_copy(update={"sent": sent, "notices": notices, **outcome}))

            try:
                response = await self.ask(request)
            except ModelError as error:
                await record(answer=None, error=Failure.of(error))
                raise
            except asyncio.CancelledError:
                if _out_of_time(request, began):
                    late = ModelTimeout(request.settings.timeout or 0, model=self.name, block=request.block)
                    await record(answer=None, error=Failure.of(late))
                raise
            await record(answer=_answer(response, request.output))
        return response

    async def _record(self, call: Call) -> None:
        line = as_line(call)
        try:
            Call.model_validate_json(line)
        except ValidationError as error:  # an answer with tokens that are no int, or the like
            problems = "; ".join(f"{field} {problem}" for field, problem in problems_of(error, got=False))
            raise MalformedResponse(f"the answer cannot be recorded: {one_line(problems)}") from None
        await load(self._write, line)

    def _write(self, line: bytes) -> None:
        """Append `line`, whole or not at all."""
        with self._writing:
            try:
                with self.path.open("r+b", buffering=0) as file:
                    end = file.seek(0, os.SEEK_END)
                    try:
                        _write_all(file, line)
                    except BaseException:
                        file.truncate(end)
                        raise
            except OSError as error:
                raise _unwritable(self.path, error) from error


def _out_of_time(request: ModelRequest, began: float) -> bool:
    """Return whether a call was cancelled at its own deadline, not at one that a policy has set around it."""
    deadline, timeout = request.deadline, request.settings.timeout
    if deadline is None or timeout is None or asyncio.get_running_loop().time() < deadline:
        return False
    return deadline - began > 0.99 * timeout


def _write_all(file: Any, line: bytes) -> None:  # noqa: ANN401 - an unbuffered file
    rest = memoryview(line)
    while rest:
        rest = rest[file.write(rest) :]


def _unwritable(path: Path, error: Exception) -> BadFile:
    reason = error.strerror if isinstance(error, OSError) else error
    return BadFile(str(path), f"cannot be written ({reason})")


def _sent(attempt: Attempt) -> Sent:
    return Sent.model_construct(
        model=clean_text(attempt.model),
        asked_as=_text(attempt.asked_as),
        usage=attempt.usage,
        error=_text(attempt.error),
    )


def _answer(response: ModelResponse, output: OutputSchema | None) -> Answer:
    """Convert an answer to data; it is checked as a whole before it is written."""
    return Answer.model_construct(
        text=response.text,
        data=None if output is None or response.tool_calls else _data_text(response, output),
        tool_calls=tuple(
            ToolCall(id=clean_text(call.id), name=clean_text(call.name), arguments=clean_text(call.arguments))
            for call in response.tool_calls
        ),
        finish=response.finish,
        usage=response.usage,
        model=_text(response.model),
        asked_as=_text(response.asked_as),
        flags=tuple(clean_text(flag) for flag in response.flags if isinstance(flag, str)),
    )


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
        made = output.validate(text)
        return type(made) is type(data) and bool(made == data)
    except Exception:  # noqa: BLE001 - an application's own validators and comparisons
        return False


def _text(value: object) -> str | None:
    return clean_text(value) if isinstance(value, str) else None
