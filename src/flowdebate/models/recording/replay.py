"""`ReplayModel`: answers from a cassette, without any call."""

from __future__ import annotations

import difflib
import json
from collections import defaultdict, deque
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from flowdebate._util.text import clean_text, one_line, without_keys
from flowdebate.errors import CassetteMismatch
from flowdebate.models.base import ModelResponse
from flowdebate.models.recording.cassette import asked, digest, read_cassette

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from flowdebate.models.base import Flag, ModelRequest
    from flowdebate.models.recording.cassette import Answer, Call, Sent

__all__ = ("ReplayModel",)


class ReplayModel:
    """Replay the cassette that `RecordingModel` wrote to `path`: the same answers and errors, at once and for free.

    Calls are matched by their request: concurrent calls may come in any order, and equal ones are replayed in the order
    of recording. A call that is not in the cassette is CassetteMismatch, which shows the difference to the nearest one.
    Each recorded call is replayed once; with `strict` False the last of equal calls is replayed again and again, so
    that one cassette serves any number of runs.

    A debate with the recorded seed has the same output and the same events, but for times and the run's id. An answer's
    text is streamed in one piece.

    BadFile for what is no cassette. The file is read once, and never written.
    """

    tells_attempts = True

    def __init__(self, path: str | os.PathLike[str], *, strict: bool = True) -> None:
        self.path = str(path)
        header, self._calls = read_cassette(self.path)
        self.name = header.model
        """Name of the recorded model."""
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
            with request.attempts.sending(self.name, request):  # a run that has reached its limit ends in that
                raise self._mismatch(request)
        for sent in call.sent:
            _send_again(sent, request)
        for notice in call.notices:
            request.attempts.tell(notice.event())
        if call.answer is None:
            assert call.error is not None  # noqa: S101 - a line has one or the other
            raise call.error.error()
        if request.on_text is not None and call.answer.text:
            request.on_text(call.answer.text)
        return _response(call.answer, request)

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


def _send_again(sent: Sent, request: ModelRequest) -> None:
    """Account for a recorded request; LimitReached where the run may not send that many."""
    with request.attempts.sending(sent.model, request, asked_as=sent.asked_as) as attempt:
        attempt.usage, attempt.error = sent.usage, sent.error


def _response(answer: Answer, request: ModelRequest) -> ModelResponse:
    data = None
    if answer.data is not None and request.output is not None:
        data = request.output.validate(answer.data)
    return ModelResponse(
        text=answer.text,
        data=data,
        tool_calls=answer.tool_calls,
        finish=answer.finish,
        usage=answer.usage,
        model=answer.model,
        asked_as=answer.asked_as,
        flags=cast("tuple[Flag, ...]", answer.flags),  # a newer version may know more of them
    )


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
