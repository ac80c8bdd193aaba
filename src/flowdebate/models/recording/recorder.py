"""`RecordingModel`: a model whose answers are kept in a file, so that they can be replayed."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from flowdebate._util.text import clean_text, one_line
from flowdebate.errors import BadFile, MalformedResponse, ModelError, ModelTimeout, problems_of
from flowdebate.models.attempts import Attempts
from flowdebate.models.base import ToolCall
from flowdebate.models.openai.clients import load
from flowdebate.models.output import one_object
from flowdebate.models.recording.cassette import Answer, Call, Failure, Header, Notice, Sent, as_line, asked, digest
from flowdebate.models.wrapper import Wrapper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from flowdebate.models.attempts import Attempt, Sending
    from flowdebate.models.base import Model, ModelRequest, ModelResponse
    from flowdebate.models.output import OutputSchema

__all__ = ("RecordingModel",)


class RecordingModel(Wrapper):
    """Writes each answer of `inner`, and each ModelError, into a new cassette at `path`; `ReplayModel` gives them back.

    A call is one line, however often `inner` repeated it, and with what was sent for it:
    `RecordingModel(OpenAIModel(…))`.
    Inside of a policy that repeats, such as `Retrying(RecordingModel(…))`, each request is a line of its own, and is
    replayed as `Retrying(ReplayModel(…))`. A call that is cancelled leaves no line, but for one that ran out of time.

    The file holds prompts and answers as they are; no API key, since requests have none, and what looks like one is
    taken out of errors. BadFile if `path` is there already (unless with `overwrite`), or cannot be written.
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
        """Answer as `inner` does, once that is written down."""
        kept = asked(request)
        block = clean_text(request.block)
        sha256 = digest(block, kept)
        with self._counting:
            self._asked[sha256] += 1
            occurrence = self._asked[sha256]
        account = _Account(request.attempts)
        call = Call(block=block, sha256=sha256, occurrence=occurrence, request=kept, answer=Answer())
        began = asyncio.get_running_loop().time()
        try:
            response = await self.ask(replace(request, attempts=account))
        except ModelError as error:
            await self._keep(call, account, answer=None, error=Failure.of(error))
            raise
        except asyncio.CancelledError:
            if _out_of_time(request, began):
                late = ModelTimeout(request.settings.timeout or 0, model=self.name, block=request.block)
                await self._keep(call, account, answer=None, error=Failure.of(late))
            raise
        await self._keep(call, account, answer=_answer(response, request.output))
        return response

    async def _keep(self, call: Call, account: _Account, **outcome: Any) -> None:  # noqa: ANN401 - fields of Call
        whole = call.model_copy(update={"sent": account.sent(), "notices": tuple(account.notices), **outcome})
        line = as_line(whole)
        try:
            Call.model_validate_json(line)
        except ValidationError as error:  # an answer with tokens that are no int, or the like
            problems = "; ".join(f"{field} {problem}" for field, problem in problems_of(error, got=False))
            raise MalformedResponse(f"the answer cannot be recorded: {one_line(problems)}") from None
        await load(self._write, line)

    def _write(self, line: bytes) -> None:
        """Add `line`, whole or not at all."""
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
    """Whether a call was cancelled because its own deadline has passed, not one that a policy has set around it."""
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


class _Account(Attempts):
    """The account of one call, as what is around it has it; remembers what it was told by this call alone."""

    __slots__ = ("_around", "_begun", "notices")

    def __init__(self, around: Attempts) -> None:
        super().__init__()
        self.made = around.made
        self._around = around
        self._begun: list[Attempt] = []
        self.notices: list[Notice] = []

    def sending(self, model: str, request: ModelRequest, *, asked_as: str | None = None) -> Sending:
        sending = self._around.sending(model, request, asked_as=asked_as)
        self._begun.append(sending.attempt)
        return sending

    def tell(self, event: object) -> None:
        notice = Notice.of(event)
        if notice is not None:
            self.notices.append(notice)
        self._around.tell(event)

    @property
    def random(self) -> Random:
        return self._around.random

    def take_waited(self) -> float:
        return self._around.take_waited()

    def add_waited(self, seconds: float) -> None:
        self._around.add_waited(seconds)

    def sent(self) -> tuple[Sent, ...]:
        """The requests of this call that count: a wrapper's is told by the model inside of it."""
        counted = {id(attempt) for attempt in self.made}
        return tuple(
            Sent.model_construct(
                model=clean_text(attempt.model),
                asked_as=_text(attempt.asked_as),
                usage=attempt.usage,
                error=_text(attempt.error),
            )
            for attempt in self._begun
            if id(attempt) in counted
        )


def _answer(response: ModelResponse, output: OutputSchema | None) -> Answer:
    """What is kept of an answer; its parts are looked at once it is to be written."""
    return Answer.model_construct(
        text=response.text,
        data=None if output is None or response.tool_calls else _json_of(response, output),
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


def _json_of(response: ModelResponse, output: OutputSchema) -> str | None:
    """JSON of which `output` makes the answer's data again; None where it makes it of the answer's text."""
    fits: list[str] = []
    for text in _candidates(response):
        try:
            made = output.validate(text)
        except Exception:  # noqa: BLE001, S112 - an application's own validators
            continue
        if _equal(made, response.data):
            return None if text is response.text else text
        fits.append(text)
    return fits[0] if fits else None


def _equal(one: object, other: object) -> bool:
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # noqa: BLE001 - an application's own comparisons
        return False


def _candidates(response: ModelResponse) -> Iterator[str]:
    from pydantic_core import to_jsonable_python

    if response.text.strip():
        yield response.text
        found = one_object(response.text)
        if found is not None:
            yield found
    for by_alias in (True, False):
        try:
            plain = to_jsonable_python(response.data, by_alias=by_alias, fallback=str)
        except Exception:  # noqa: BLE001 - an application's own serializers
            return
        yield clean_text(json.dumps(plain, ensure_ascii=False))
        yield clean_text(json.dumps({"value": plain}, ensure_ascii=False))


def _text(value: object) -> str | None:
    return clean_text(value) if isinstance(value, str) else None
