"""Streams for readers on whose behalf a run was started, and cancellation of the run once the last reader leaves."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from anyio import CancelScope

from flowdebate._text import clean_text
from flowdebate.errors import FlowDebateError

if TYPE_CHECKING:
    from starlette.requests import Request

    from flowdebate.service.channel import Update
    from flowdebate.service.owned import OwnedService
    from flowdebate.service.service import Service


PING = b": ping\n\n"
"""Frame sent to keep an idle stream alive."""
T = TypeVar("T")


class Audience:
    """Readers on whose behalf runs were started.

    `pause` is the number of seconds after which an idle stream sends a ping.
    """

    def __init__(self, *, pause: float = 15.0) -> None:
        self.pause = pause
        self.readers: Counter[str] = Counter()
        """Number of readers, keyed by run."""
        self.closed: asyncio.Event = asyncio.Event()
        # The event loop keeps only weak references to tasks, so without this set, a task could be lost before it
        # cancels its run.
        self._cancelling: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """End all streams without cancelling any run, because the server is stopping."""
        self.closed.set()

    def join(self, service: Service | OwnedService, run_id: str, *, cancel: bool = True) -> Reader:
        """Add a reader to the run; the caller must call `leave` when the reader leaves."""
        return Reader(self, service, run_id, cancel=cancel)

    def cancel(self, service: Service | OwnedService, run_id: str) -> None:
        """Cancel a run that has no readers."""

        async def cancel() -> None:
            with suppress(FlowDebateError):  # the run has ended in the meantime, or another process is executing it
                if (await service.run(run_id)).status in ("running", "queued"):
                    await service.cancel(run_id)

        task = asyncio.get_running_loop().create_task(cancel())
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)


class Reader:
    """Reader on whose behalf a run was started; the run is cancelled if all of its readers leave early.

    Chat clients cannot stop an answer except by disconnecting. The cancelled run stays in the store and can be resumed.
    """

    def __init__(self, audience: Audience, service: Service | OwnedService, run_id: str, *, cancel: bool) -> None:
        self._audience = audience
        self._service = service
        self._run_id = run_id
        self._cancels = cancel
        audience.readers[run_id] += 1

    def leave(self) -> None:
        audience, run_id = self._audience, self._run_id
        audience.readers[run_id] -= 1
        if not audience.readers[run_id]:
            del audience.readers[run_id]
            if self._cancels and not audience.closed.is_set():
                audience.cancel(self._service, run_id)

    async def updates(self) -> AsyncGenerator[Update | None, None]:
        """Yield the run's updates, and None during pauses; end early if the server stops."""
        items = self._service.follow(self._run_id)
        closed = asyncio.ensure_future(self._audience.closed.wait())
        upcoming = asyncio.ensure_future(anext(items, None))
        try:
            while not closed.done():
                # `wait_for` would cancel the read during a pause and could lose an update
                await asyncio.wait(
                    {upcoming, closed}, timeout=self._audience.pause, return_when=asyncio.FIRST_COMPLETED
                )
                if not upcoming.done():
                    yield None
                elif (item := upcoming.result()) is not None:
                    upcoming = asyncio.ensure_future(anext(items, None))
                    yield item
                else:
                    # The run has ended or is waiting for a human, so it no longer matters if the client leaves.
                    self._cancels = False
                    return
        finally:
            upcoming.cancel()
            closed.cancel()
            # If a client leaves, this task is cancelled even at this point, but the follower still has to be closed.
            with CancelScope(shield=True):
                await asyncio.wait({upcoming})
                await items.aclose()


async def cancel_on_disconnect(request: Request, work: Awaitable[T]) -> T | None:
    """Return the result of `work`; if the client disconnects first, cancel `work` and return None."""
    # Servers notice that a client has disconnected only while streaming, and nothing would be sent here for minutes.
    doing = asyncio.ensure_future(work)

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        doing.cancel()
        leaving.cancel()


def data_frame(data: object) -> bytes:
    r"""Encode JSON data as a frame, replacing Unicode characters that some clients would reject.

    >>> data_frame({"text": "no \ud83d end"})
    b'data: {"text":"no \xef\xbf\xbd end"}\n\n'
    """
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # NaN and infinity are converted to text because JSON cannot represent them
        text = json.dumps(json.loads(json.dumps(data), parse_constant=str), ensure_ascii=False)
    return f"data: {clean_text(text)}\n\n".encode()
