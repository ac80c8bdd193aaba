"""Server-sent events: frames that carry run updates and page fragments to readers, who may disconnect and reconnect."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, unquote

from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.exceptions import HTTPException

from flowdebate._util.json_data import json_text
from flowdebate.errors import FlowDebateError
from flowdebate.server.problems import problem_of
from flowdebate.web.run.live import LivePage

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from flowdebate.service.channel import Update
    from flowdebate.service.owned import OwnedService
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunDetails


_Item: TypeAlias = "tuple[str, Update | FlowDebateError]"
_Queue: TypeAlias = "asyncio.Queue[_Item | None]"

_LOG = logging.getLogger("flowdebate.server")
# This is a comment, which readers skip. It is sent because proxies close connections that stay silent for a minute or
# so.
_PING = b": ping\n\n"
# Browsers are told to reconnect after one second; their default is three or five seconds.
_RETRY = b"retry: 1000\n\n"
_AHEAD = 16
"""Maximum number of updates fetched in advance while the reader has not yet received earlier ones."""
_CHECKED = 5.0
"""Interval in seconds between checks that a public page's link is still valid."""
_PACE = 0.05
"""Seconds for which page fragments are collected before they are sent together."""
_AT_ONCE = 16
"""Maximum number of page fragments to create in one iteration of the event loop, for example when a long
run is opened.
"""
_BEHIND = 32
"""Maximum number of messages queued for a slow reader of a page; a reader who falls further behind gets the whole page
instead.
"""
_GOES_ON = ("queued", "running", "left_behind")
"""Statuses of runs that may continue, including abandoned runs, because a server may recover them."""
_KIND = re.compile(r'\{"kind":"(\w+)"')
# Otherwise, nginx holds back frames until its buffer is full.
_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


class EventStream(EventSourceResponse):
    """Response that sends frames until there are no more or the reader disconnects."""

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
    """A server's open streams, limited in number per run; they end when the server stops."""

    def __init__(self, *, ping: float = 15.0, maximum: int = 64) -> None:
        self._ping = ping
        self._most = maximum
        self._reading: Counter[str] = Counter()
        self._queues: set[_Queue] = set()
        self._pages: dict[str, _Following] = {}
        """Open pages, keyed by run."""
        self._public_pages: dict[str, _Following] = {}
        self._closed = False

    def close(self) -> None:
        """End all streams; readers can reconnect, even to another process, with the id of their last event."""
        self._closed = True
        for queue in self._queues:
            # A full queue has no room for the end marker; readers receive the dropped updates again when they
            # reconnect.
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(None)
        for page in (*self._pages.values(), *self._public_pages.values()):
            page.end()

    def _count(self, run_ids: Collection[str]) -> Callable[[], None]:
        """Count a new reader of the runs, and return a function that removes the reader from the count.

        Raises 429 if there are too many readers.
        """
        if any(self._reading[run_id] >= self._most for run_id in run_ids):
            detail = f"{self._most} people are already watching this run. Try again later."
            raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, detail, {"retry-after": "5"})
        self._reading.update(run_ids)
        return lambda: self._reading.subtract(run_ids)

    def page(
        self,
        service: Service,
        run_id: str,
        *,
        root: str = "",
        public: bool = False,
        is_valid: Callable[[], Awaitable[bool]] | None = None,
    ) -> EventStream:
        """Return a stream of page fragments for a run in progress, starting with the fragments created so far.

        All readers of the run's page share one follower, and all readers using its `public` links share another.
        Readers using links do not receive the record or the failures, and their streams end once `is_valid` returns
        False. `root` is the path below which all pages are served.
        """
        leave = self._count([run_id])
        pages = self._public_pages if public else self._pages
        following = pages.get(run_id)
        if following is None or following.is_over:
            following = pages[run_id] = _Following(service, run_id, root=root, public=public)
        return EventStream(self._page_chunks(following, pages, is_valid), ended=leave)

    async def _page_chunks(
        self,
        following: _Following,
        pages: dict[str, _Following],
        is_valid: Callable[[], Awaitable[bool]] | None,
    ) -> AsyncGenerator[bytes]:
        reader = following.join()
        # Pings are events here, because scripts cannot see comments. The page measures the time between pings to detect
        # a dead connection.
        ping = format_sse_event(data_str=json_text({"seconds": self._ping}), event="ping")
        clock = asyncio.get_running_loop().time
        checked = clock()
        try:
            yield _RETRY
            yield ping
            while not self._closed:
                try:
                    async with asyncio.timeout(self._ping):
                        await reader.news.wait()
                except TimeoutError:
                    chunk, was_over = ping, False
                else:
                    was_over = following.is_over  # read first, because the run may end while the reader takes its chunk
                    chunk = following.take(reader)
                if is_valid is not None and clock() - checked > _CHECKED:
                    if not await is_valid():
                        return
                    checked = clock()
                if chunk:
                    yield chunk
                if was_over:
                    return
        finally:
            following.leave(reader)
            if not following.readers and pages.get(following.run_id) is following:
                del pages[following.run_id]

    def stream(
        self, service: Service | OwnedService, marks: Mapping[str, str | None], *, texts: bool, several: bool = False
    ) -> EventStream:
        """Stream updates from several runs, each starting from its mark; raise 429 if a run has too many readers."""
        leave = self._count(marks.keys())
        frames = _Frames(marks, texts=texts, several=several)
        return EventStream(self._chunks(service, frames), ended=leave)

    async def _chunks(self, service: Service | OwnedService, frames: _Frames) -> AsyncGenerator[bytes]:
        """Yield frames, and pings during pauses, until all runs have ended or are waiting for a human."""
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
                if chunk := frames.of(item) + b"".join(map(frames.of, _available_items(queue))):
                    yield chunk
        finally:
            self._queues.discard(queue)
            # Let the followers leave their runs' channels before the response ends.
            pump.cancel()
            await asyncio.wait([pump])


def _available_items(queue: _Queue) -> Iterator[_Item]:
    """Yield the items currently in the queue, stopping at an end marker but leaving it in the queue."""
    while not queue.empty():
        item = queue.get_nowait()
        if item is None:
            queue.put_nowait(None)
            return
        yield item


async def _pump(service: Service | OwnedService, marks: Mapping[str, str | None], queue: _Queue) -> None:
    """Put the updates of all runs into `queue`, followed by None."""

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
    except ExceptionGroup:  # a bug in a follower ends only this stream; the reader reconnects
        _LOG.exception("a stream of events ended early")
    await queue.put(None)


class _Frames:
    """Builder of a stream's frames; if the stream follows several runs, each frame's id contains all their marks."""

    def __init__(self, marks: Mapping[str, str | None], *, texts: bool, several: bool) -> None:
        self.marks = dict(marks)
        self._texts = texts
        self._several = several

    def of(self, item: _Item) -> bytes:
        """Build the frame for an update, or for an error that ends a run; omit streamed text if it is disabled."""
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


@dataclass(eq=False, slots=True)
class _PageReader:
    """A reader of a page."""

    frames: list[bytes] = field(default_factory=list)
    is_behind: bool = True
    """True if the reader will get the whole page next, instead of the latest fragments."""
    news: asyncio.Event = field(default_factory=asyncio.Event)


class _Following:
    """A run followed on behalf of all readers of its page; every fragment and frame is created only once."""

    def __init__(self, service: Service, run_id: str, *, root: str, public: bool) -> None:
        self.run_id = run_id
        self._public = public
        self.readers: set[_PageReader] = set()
        self.is_over = False
        self._service = service
        self._root = root
        self._page: LivePage | None = None
        self._mark: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last = b""
        """The stream's last frame: "end", or the problem that ended the stream."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    def join(self) -> _PageReader:
        reader = _PageReader()
        self.readers.add(reader)
        if self._page is not None or self.is_over:
            reader.news.set()
        return reader

    def leave(self, reader: _PageReader) -> None:
        """Remove a reader; stop following the run when the last reader leaves."""
        self.readers.discard(reader)
        if not self.readers:
            self._task.cancel()
            self.end()

    def take(self, reader: _PageReader) -> bytes:
        """Return the frames that the reader has not received yet, joined together."""
        reader.news.clear()
        if reader.is_behind and self._page is not None:
            # send pending fragments to the other readers first; this reader gets them as part of the whole page
            self._flush()
            reader.is_behind, reader.frames = False, [self._frame(self._page.whole())]
        frames, reader.frames = reader.frames, []
        return b"".join([*frames, self._last])

    def end(self) -> None:
        """End the streams of all readers."""
        if self._timer is not None:
            self._timer.cancel()
        self.is_over = True
        for reader in self.readers:
            reader.news.set()

    async def _follow(self) -> None:
        try:
            details = await self._service.run(self.run_id)
            if details.status in _GOES_ON:
                self._page = self._new_page(details)
                async with aclosing(self._service.follow(self.run_id)) as updates:
                    async for update in updates:
                        self._take(update, details)
                        # An event can have many pieces, and other streams must not stall.
                        if self._page.waiting >= _AT_ONCE:
                            self._flush()
                            await asyncio.sleep(0)
                self._flush()
            self._last = format_sse_event(data_str="{}", event="end")
        except FlowDebateError as error:
            problem = "{}" if self._public else json_text(problem_of(error).model_dump(exclude_none=True))
            self._last = format_sse_event(data_str=problem, event="problem")
        except Exception:  # noqa: BLE001 - a piece that cannot be made ends the page, and not the server
            _LOG.exception("stopped following run %s", self.run_id)
        finally:
            self.end()

    def _new_page(self, details: RunDetails) -> LivePage:
        if self._public:
            return LivePage(details.document, public=True)
        link = f"{self._root}/runs/{quote(self.run_id, safe='')}/travel"
        return LivePage(details.document, link=link, manual=f"{self._root}/help/")

    def _take(self, update: Update, details: RunDetails) -> None:
        assert self._page is not None  # noqa: S101 - it is what is followed for
        if update.kind == "reset":
            # A page containing withdrawn events cannot be updated piecemeal.
            self._page, self._mark = self._new_page(details), None
            for reader in self.readers:
                reader.is_behind = True
        elif update.kind == "text":
            if self._page.take(update.event, update.start) or self._timer is not None:
                self._flush()
            if text := self._page.text(update.event.path):
                self._send(format_sse_event(data_str=text, event="text"))
        elif update.kind == "event":
            self._mark = update.mark or self._mark
            if self._page.take(update.event) and self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(_PACE, self._flush)

    def _flush(self) -> None:
        """Send the new fragments to the readers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._page is not None and (news := self._page.news()):
            self._send(self._frame(news))

    def _frame(self, message: str) -> bytes:
        return format_sse_event(data_str=message, event="page", id=self._mark)

    def _send(self, frame: bytes) -> None:
        for reader in self.readers:
            if not reader.is_behind and len(reader.frames) < _BEHIND:
                reader.frames.append(frame)
            else:
                reader.is_behind, reader.frames = True, []
            reader.news.set()


def joined_marks(marks: Iterable[str | None]) -> str:
    """Build the id of a frame for a connection that follows several runs.

    >>> joined_marks(["1-a", None, "3,4"]), split_marks("1-a,,3%2C4", 3)
    ('1-a,,3%2C4', ['1-a', None, '3,4'])
    """
    return ",".join(quote(mark or "", safe="") for mark in marks)


def split_marks(text: str | None, number: int) -> list[str | None]:
    """Split a frame's id into one mark per run.

    If `text` is None, every run's mark is None. Unless the id contains exactly `number` marks, every run gets an
    invalid mark.
    """
    if text is None:
        return [None] * number
    parts = text.split(",")
    return [unquote(part) or None for part in parts] if len(parts) == number else [text] * number
