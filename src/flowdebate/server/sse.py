"""Server-sent events: updates of runs as frames, for any number of readers who come and go."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, unquote

from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.exceptions import HTTPException

from flowdebate._util.json_data import json_text
from flowdebate.errors import FlowDebateError
from flowdebate.server.problems import problem_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping

    from starlette.types import Receive, Scope, Send

    from flowdebate.service.channel import Update
    from flowdebate.service.owned import OwnedService
    from flowdebate.service.service import Service


_Item: TypeAlias = "tuple[str, Update | FlowDebateError]"
_Queue: TypeAlias = "asyncio.Queue[_Item | None]"

_LOG = logging.getLogger("flowdebate.server")
_PING = b": ping\n\n"
_RETRY = b"retry: 1000\n\n"
_MOST = 64
"""Readers of one run."""
_AHEAD = 16
"""Updates that are taken before the reader has got those before them."""
_KIND = re.compile(r'\{"kind":"(\w+)"')
_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


class EventStream(EventSourceResponse):
    """Response that sends frames until there are no more, or the reader leaves."""

    def __init__(self, frames: AsyncGenerator[bytes], *, ended: Callable[[], None]) -> None:
        super().__init__(frames, headers=_HEADERS)
        self._frames = frames
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self._frames):
                await super().__call__(scope, receive, send)
        finally:
            self._ended()


class Readers:
    """All open streams of a server: so many for each run at most, and all ended when the server stops."""

    def __init__(self, *, ping: float = 15.0, most: int = _MOST) -> None:
        self._ping = ping
        self._most = most
        self._reading: Counter[str] = Counter()
        self._queues: set[_Queue] = set()
        self._closed = False

    def close(self) -> None:
        """End all streams; readers may come back, to another process, with the last id that they have seen."""
        self._closed = True
        for queue in self._queues:
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(None)

    def stream(
        self, service: Service | OwnedService, marks: Mapping[str, str | None], *, texts: bool, several: bool = False
    ) -> EventStream:
        """The response that follows runs, each from behind its mark; 429 where a run has too many readers."""
        if any(self._reading[run_id] >= self._most for run_id in marks):
            detail = f"The run has {self._most} readers already."
            raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, detail, {"retry-after": "5"})
        self._reading.update(marks.keys())
        frames = _Frames(marks, texts=texts, several=several)
        return EventStream(self._chunks(service, frames), ended=lambda: self._reading.subtract(marks.keys()))

    async def _chunks(self, service: Service | OwnedService, frames: _Frames) -> AsyncGenerator[bytes]:
        """Frames of runs, until all have ended or wait for a human; with pings where nothing happens."""
        queue: _Queue = asyncio.Queue(_AHEAD)
        pump = asyncio.create_task(_pump(service, dict(frames.marks), queue))
        self._queues.add(queue)
        try:
            yield _RETRY
            while not self._closed:
                try:
                    async with asyncio.timeout(self._ping):
                        item = await queue.get()
                except TimeoutError:
                    yield _PING
                    continue
                if item is None:
                    return
                if chunk := frames.of(item) + b"".join(map(frames.of, _there(queue))):
                    yield chunk
        finally:
            self._queues.discard(queue)
            pump.cancel()
            await asyncio.wait([pump])


def _there(queue: _Queue) -> Iterator[_Item]:
    """The items that are there already; the end stays in the queue."""
    while not queue.empty():
        item = queue.get_nowait()
        if item is None:
            queue.put_nowait(None)
            return
        yield item


async def _pump(service: Service | OwnedService, marks: Mapping[str, str | None], queue: _Queue) -> None:
    """Put the updates of all runs into `queue`, and None after them."""

    async def follow(run_id: str, mark: str | None) -> None:
        try:
            async with aclosing(service.follow(run_id, after=mark)) as updates:
                async for update in updates:
                    await queue.put((run_id, update))
        except FlowDebateError as error:
            await queue.put((run_id, error))

    try:
        async with asyncio.TaskGroup() as group:
            for run_id, mark in marks.items():
                group.create_task(follow(run_id, mark))
    except ExceptionGroup:
        _LOG.exception("a stream of events has ended early")
    await queue.put(None)


class _Frames:
    """Makes the frames of one stream; the ids of those of several runs hold the marks of all of them."""

    def __init__(self, marks: Mapping[str, str | None], *, texts: bool, several: bool) -> None:
        self.marks = dict(marks)
        self._texts = texts
        self._several = several

    def of(self, item: _Item) -> bytes:
        """The frame of an update, or of the error that ends a run; empty for a text where none are wanted."""
        run_id, update = item
        if isinstance(update, FlowDebateError):
            return self._frame(run_id, "problem", json_text(problem_of(update).model_dump(exclude_none=True)))
        if update.kind == "text" and not self._texts:
            return b""
        data = update.to_json()
        kind = _KIND.match(data)
        return self._frame(run_id, update.kind if kind is None else kind[1], data, update.mark)

    def _frame(self, run_id: str, event: str, data: str, mark: str | None = None) -> bytes:
        if self._several:
            rest = data.removeprefix("{")
            data = f'{{"runId":{json_text(run_id)}{"" if rest == "}" else ","}{rest}'
        if mark is not None:
            self.marks[run_id] = mark
            mark = joined_marks(self.marks.values()) if self._several else mark
        return format_sse_event(data_str=data, event=event, id=mark)


def joined_marks(marks: Iterable[str | None]) -> str:
    """The id of a frame on a connection for several runs.

    >>> joined_marks(["1-a", None, "3,4"]), split_marks("1-a,,3%2C4", 3)
    ('1-a,,3%2C4', ['1-a', None, '3,4'])
    """
    return ",".join(quote(mark or "", safe="") for mark in marks)


def split_marks(given: str | None, number: int) -> list[str | None]:
    """The marks in such an id, for each of a `number` of runs; an id of other runs is unknown to each of them."""
    if given is None:
        return [None] * number
    parts = given.split(",")
    return [unquote(part) or None for part in parts] if len(parts) == number else [given] * number
