"""`RecordingModel` and `ReplayModel`: record model calls to a cassette, and replay them without any call."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import threading
from collections import Counter, defaultdict, deque
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from flowdebate._util.files import open_private
from flowdebate._util.text import clean_text, one_line, without_keys
from flowdebate.errors import BadFile, CassetteMismatch, MalformedResponse, ModelError, ModelTimeout, problems_of
from flowdebate.models.cassette import Call, Header, as_line, asked, digest, new_call, read_cassette
from flowdebate.models.openai.clients import load
from flowdebate.models.wrapper import Wrapper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.models.base import Model, ModelRequest, ModelResponse


class RecordingModel(Wrapper):
    """Record each answer of `inner`, and each ModelError, to a new cassette at `path`, for `ReplayModel`.

    Around a model that retries by itself, such as `RecordingModel(OpenAIModel(…))`, a call is one line, however many
    requests were sent for it. Inside a policy that retries, such as `Retrying(RecordingModel(…))`, each request is a
    line, to be replayed as `Retrying(ReplayModel(…))`. A cancelled call leaves no line, unless it ran out of time.

    The file contains prompts and answers unchanged; a new one can be read by its owner only. API keys are not part of
    requests, and are redacted in errors. BadFile if `path` exists already (unless with `overwrite`), or cannot be
    written.
    """

    def __init__(self, inner: Model | str, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        super().__init__(inner)
        self.path: Path = Path(path)
        self._counting = threading.Lock()
        self._writing = threading.Lock()
        self._asked: Counter[str] = Counter()
        try:
            flags = os.O_WRONLY | (os.O_TRUNC if overwrite else os.O_EXCL)
            with os.fdopen(open_private(self.path, flags), "wb") as file:
                file.write(as_line(Header(model=clean_text(self.name), profile=self.profile)))
        except FileExistsError:
            raise BadFile(str(path), "already exists: record to another file, or pass overwrite=True") from None
        except (OSError, ValueError) as error:
            raise _unwritable(self.path, error) from error

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer as `inner` does, once the answer is recorded."""
        parts = asked(request)
        block = clean_text(request.block)
        sha256 = digest(block, parts)
        with self._counting:
            self._asked[sha256] += 1
            begun = {"block": block, "sha256": sha256, "occurrence": self._asked[sha256], "request": parts}
        before = len(request.attempts.made)
        began = asyncio.get_running_loop().time()
        with request.attempts.listening() as heard:

            async def record(outcome: ModelResponse | ModelError) -> None:
                attempts = request.attempts.made[before:]
                try:
                    call = new_call(begun, outcome, request.output, attempts=attempts, events=heard)
                except (ValueError, TypeError) as error:  # an answer with tokens that are no int, or the like
                    raise MalformedResponse(f"the answer cannot be recorded: {one_line(_reason(error))}") from None
                await load(self._write, as_line(call))

            try:
                response = await self.ask(request)
            except ModelError as error:
                await record(error)
                raise
            except asyncio.CancelledError:
                if _out_of_time(request, began):
                    await record(ModelTimeout(request.settings.timeout or 0, model=self.name, block=request.block))
                raise
            await record(response)
        return response

    def _write(self, line: bytes) -> None:
        """Append `line`, whole or not at all."""
        try:
            with self._writing, self.path.open("r+b", buffering=0) as file:
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


def _out_of_time(request: ModelRequest, began: float) -> bool:
    """Return whether a call was cancelled at its own deadline, not at one that a policy has set around it."""
    deadline, timeout = request.deadline, request.settings.timeout
    if deadline is None or timeout is None or asyncio.get_running_loop().time() < deadline:
        return False
    return deadline - began > 0.99 * timeout


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(f"{field} {problem}" for field, problem in problems_of(error, got=False))


def _unwritable(path: Path, error: Exception) -> BadFile:
    reason = error.strerror if isinstance(error, OSError) else error
    return BadFile(str(path), f"cannot be written ({reason})")


class ReplayModel:
    """Replay the cassette that `RecordingModel` wrote to `path`: the same answers and errors, at once and for free.

    Calls are matched by their request: concurrent calls may come in any order, and equal ones are replayed in the order
    of recording. A call that is not in the cassette is CassetteMismatch, which shows the difference to the nearest one.
    Each recorded call is replayed once; with `strict` False the last of equal calls is replayed again and again, so
    that one cassette serves any number of runs.

    A debate with the recorded seed has the same output and the same events, but for times and the run's id. An answer's
    text is streamed in one piece.

    BadFile for any other file. The file is read once, and never written.
    """

    tells_attempts = True

    def __init__(self, path: str | os.PathLike[str], *, strict: bool = True) -> None:
        self.path: str = str(path)
        header, self._calls = read_cassette(self.path)
        self.name: str = header.model
        """Name of the recorded model."""
        self.profile = header.profile
        """Profile of the recorded model's default prompts, without which they would not be found again."""
        self._strict = strict
        self._left: defaultdict[str, deque[int]] = defaultdict(deque)
        for index in sorted(range(len(self._calls)), key=lambda index: self._calls[index].occurrence):
            self._left[self._calls[index].sha256].append(index)
        self._given: set[int] = set()

    @property
    def remaining(self) -> int:
        """Number of recorded calls that were not replayed yet."""
        return len(self._calls) - len(self._given)

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return the recorded answer, or raise the recorded error."""
        call = self._take(request)
        if call is None:
            with request.attempts.sending(
                self.name, request
            ):  # a run that has reached its limit ends with LimitReached
                raise self._mismatch(request)
        for sent in call.sent:
            # LimitReached where the run may not send that many
            with request.attempts.sending(sent.model, request, asked_as=sent.asked_as) as attempt:
                attempt.usage, attempt.error = sent.usage, sent.error
        for notice in call.notices:
            request.attempts.tell(notice.event())
        if call.answer is None:
            assert call.error is not None  # noqa: S101 - a line has one or the other
            raise call.error.error()
        if request.on_text is not None and call.answer.text:
            request.on_text(call.answer.text)
        return call.answer.response(request.output)

    def assert_complete(self) -> None:
        """Raise CassetteMismatch while recorded calls were not replayed."""
        left = [index for index in range(len(self._calls)) if index not in self._given]
        if left:
            named = ", ".join(f"{self._calls[index].block!r} (line {index + 2})" for index in left[:_NAMED])
            more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
            message = f"{len(left)} of {len(self._calls)} calls of {self.path} were not asked for: {named}{more}"
            raise CassetteMismatch(message, model=self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path!r}: {len(self._given)} of {len(self._calls)} calls given>"

    def _take(self, request: ModelRequest) -> Call | None:
        left = self._left.get(digest(clean_text(request.block), asked(request)))
        if not left:
            return None
        index = left[0] if len(left) == 1 and not self._strict else left.popleft()
        self._given.add(index)
        return self._calls[index]

    def _mismatch(self, request: ModelRequest) -> CassetteMismatch:
        block = clean_text(request.block)
        unused = [call for index, call in enumerate(self._calls) if index not in self._given and call.block == block]
        if not unused:
            said = f"{self.path} holds no other call of this block"
        else:
            said = f"{self.path} does not hold this call; against the nearest one that it holds:"
            said += "".join(f"\n{line}" for line in _difference(request, unused))
        return CassetteMismatch(f"{said}\n(was it recorded with another seed?)", model=self.name, block=request.block)


_NAMED = 5
"""Maximum number of calls that `assert_complete` names."""


def _difference(request: ModelRequest, unused: list[Call]) -> list[str]:
    """Compare `request` with the most similar one of `unused`, in at most `_SHOWN` lines."""
    mine = _as_lines(asked(request))
    texts = [_as_lines(call.request) for call in unused[:_COMPARED]]
    nearest = max(texts, key=lambda text: difflib.SequenceMatcher(None, text, mine).quick_ratio())
    lines = difflib.unified_diff(nearest, mine, "recorded", "asked", n=1, lineterm="")
    shown = [one_line(line) for line in islice(lines, _SHOWN + 1)]
    return [*shown[:_SHOWN], "…"] if len(shown) > _SHOWN else shown


_SHOWN = 16
_COMPARED = 50
_LINES = 2_000
_WIDTH = 100


def _as_lines(request: Mapping[str, Any]) -> list[str]:
    """Format a request for comparison, with the lines of its prompts as lines."""
    text = without_keys(json.dumps(request, indent=1, ensure_ascii=False).replace("\\n", "\n"))
    pieces = (line[at : at + _WIDTH] for line in text.split("\n") for at in range(0, max(len(line), 1), _WIDTH))
    return list(islice(pieces, _LINES))
