"""Channel for following a run: a log of the run's events, and each reader's position in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, Self

from flowdebate._util.json_data import json_text
from flowdebate.runs.events import (
    CallFellBack,
    CallRetried,
    CallStarted,
    ModelCalled,
    RunFinished,
    TextDelta,
    TextWithdrawn,
)
from flowdebate.runs.result import RunHandle

# At most 25 updates per second, as documented in docs/service.md, so that pages are not rendered anew for every token.
_PACE = 0.04
"""Minimum interval in seconds between updates of streamed text; all readers share one timer."""
_START = b""


@dataclass(slots=True)
class Update:
    """An update from a followed run."""

    kind: Literal["event", "text", "reset", "end"]
    """Kind of the update. "event": an event was recorded. "text": a model wrote a piece of text. "reset": the events
    start over from the first one, because the mark does not belong to this run or the order of the events has changed.
    "end": the run is over or suspended.
    """
    event: Any = None
    """Event reported by the update: for "text", a `TextDelta`; for "reset" and "end", None."""
    mark: str | None = None
    """Mark of a recorded event; pass it as `follow(after=mark)` to continue after the event. None for live text, which
    is not recorded.
    """
    start: int = 0
    """Offset of the piece in a "text" update: the number of characters that precede it in the call's text."""
    _json: str | None = field(default=None, init=False, repr=False, compare=False)

    def to_json(self) -> str:
        """Convert the event to JSON, cached for all readers; a "text" update also includes its `start` as `from`."""
        if self._json is None:
            from flowdebate.events import wire_of

            data = {} if self.event is None else wire_of(self.event)
            if self.kind == "text":
                data["from"] = self.start
            self._json = json_text(data)
        return self._json


class _Text:
    """Text of a call's answer, which grows while the model is writing."""

    __slots__ = ("_last", "length", "pieces", "started")

    def __init__(self, started: TextDelta) -> None:
        self.started = started
        self.pieces: list[str] = []
        self.length = 0
        self._last = Update("text", started)
        """The piece sent most recently, cached because most readers get the same one."""

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)

    def whole(self) -> str:
        # pieces are joined only when read, because appending them one by one would take quadratic time
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def rest(self, sent: int) -> Update:
        """Return the text after the first `sent` characters."""
        last = self._last
        if last.start != sent or last.start + len(last.event.text) != self.length:
            started = self.started
            piece = TextDelta(block=started.block, text=self.whole()[sent:], path=started.path, at=started.at)
            last = self._last = Update("text", piece, start=sent)
        return last


class Channel:
    """Log of one run's events, shared by any number of readers, each with its own position.

    Slow readers do not delay the others, and the log is not copied for additional readers. The log contains a call's
    text only while the model is writing it; later readers find the text in the answer's event.
    """

    def __init__(self) -> None:
        self.log: list[Update | _Text] = []
        """Recorded events in order, with the text of ended calls for readers that joined before the call ended."""
        self.positions: dict[str, int] = {}
        """Log position after each marked event, keyed by mark."""
        self._digest = _START
        self.texts: dict[str, _Text] = {}
        self.calls: dict[str, tuple[int, CallStarted]] = {}
        """Calls in progress, keyed by path, each with a unique number."""
        self._numbers = 0
        self._version = 0
        self.generation: int = 0
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        """Timer that notifies readers of new text."""
        self.ended: bool = False
        self.readers: int = 0
        self.on_deserted: Callable[[], None] | None = None
        """Called when the last reader leaves."""

    @classmethod
    def of(cls, handle: RunHandle[Any]) -> Self:
        """Create a channel for a run executed by this process; it stays open from the run's first event to its last."""
        channel = cls()
        handle.listen(channel.publish)
        handle.on_end(channel.end)
        return channel

    # Writing

    def publish(self, event: object) -> None:
        """Add one of the run's events to the channel as it happens."""
        match event:
            # Not logged: replaying the journal does not produce this event, so marks would no longer match.
            case CallStarted():
                self.calls[event.path] = self._numbered(event)
            case TextDelta():
                text = self.texts.get(event.path)
                if text is None:
                    text = self.texts[event.path] = _Text(event)
                text.add(event.text)
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(_PACE, self._notify)
                return
            case CallRetried() | CallFellBack():
                self._close_text(event.path)
                self._append(event)
            # only for readers of live text, because replaying the journal does not produce this event
            case TextWithdrawn():
                if self.readers:
                    self._close_text(event.path)
                    self.log.append(Update("event", event))
                else:
                    self.texts.pop(event.path, None)
            case ModelCalled():
                self._close_text(event.path)
                self.calls.pop(event.path, None)
                self._append(event)
            case _:
                self._append(event)
        self._notify()

    def end(self) -> None:
        """Close the channel; readers finish once they have read all events."""
        self.ended = True
        self.calls.clear()
        self._notify()

    def update(self, events: Sequence[object], calls: Iterable[CallStarted]) -> None:
        """Update the channel of a run in another process, given the run's `events` and the `calls` in progress.

        Pass all of the run's events. Readers receive only the new ones; if the order of the earlier events has changed,
        readers start over.
        """
        recorded = [item.event for item in self.log if isinstance(item, Update) and item.mark is not None]
        if [_sort(event) for event in recorded] != [_sort(event) for event in _marked(events)][: len(recorded)]:
            self.log, self.positions, self._digest = [], {}, _START
            self.generation += 1
            recorded = []
        finished = events[-1:] if events and isinstance(events[-1], RunFinished) else []
        self.extend([*_marked(events)[len(recorded) :], *finished], calls)

    def extend(self, events: Iterable[object], calls: Iterable[CallStarted]) -> None:
        """Append the next events of a run executed by another process, and update the run's calls in progress."""
        for event in events:
            self._append(event)
        now = {call.path: call for call in calls}
        # A call keeps its number, which readers use to identify it.
        self.calls = {path: self.calls.get(path) or self._numbered(call) for path, call in now.items()}
        self._notify()

    def _numbered(self, call: CallStarted) -> tuple[int, CallStarted]:
        self._numbers += 1
        return self._numbers, call

    def _append(self, event: object) -> None:
        mark = None
        if not isinstance(event, RunFinished):  # a resumed run continues in the same log
            # The digest covers all earlier events, so a mark is not recognized if events from concurrent branches
            # arrived in a different order.
            kind, path = _sort(event)
            self._digest = blake2b(self._digest + f"{kind}\n{path}\n".encode(), digest_size=6).digest()
            mark = f"{len(self.positions) + 1}-{self._digest.hex()}"
            self.positions[mark] = len(self.log) + 1
        self.log.append(Update("event", event, mark))

    def _close_text(self, path: str) -> None:
        text = self.texts.pop(path, None)
        if text is not None and self.readers:  # readers that join later get the whole answer from the event
            self.log.append(text)

    def _notify(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._version += 1
        self._news.set()
        self._news.clear()

    # Reading

    @property
    def events(self) -> list[object]:
        return [item.event for item in self.log if isinstance(item, Update)]

    async def read(self, after: str | None = None) -> AsyncGenerator[Update]:
        """Yield the run's updates, from the beginning or after the mark `after`, until the run ends."""
        self.readers += 1
        try:
            while self._may_be_replayed(after):
                await self._news.wait()
            reader = _Reader(self, after)
            if reader.unknown:
                yield Update("reset")
            while True:
                version = self._version
                for update in reader.news():
                    yield update
                if self.ended and reader.is_done:
                    yield Update("end")
                    return
                # A changed version means that updates arrived while the reader was handling the last one.
                if self._version == version:
                    await self._news.wait()
        finally:
            self.readers -= 1
            if not self.readers and self.on_deserted is not None:
                self.on_deserted()

    def _may_be_replayed(self, mark: str | None) -> bool:
        """Return whether a resumed run may still replay the event at `mark`."""
        # calls in progress come after everything that has been recorded
        if self.ended or self._numbers or mark is None:
            return False
        # Marks come from clients, and int() rejects numbers with thousands of digits.
        place = mark.partition("-")[0][:9]
        return place.isdecimal() and int(place) > len(self.positions)


class _Reader:
    """A reader's position in a channel."""

    def __init__(self, channel: Channel, after: str | None) -> None:
        self._channel = channel
        self._generation = channel.generation
        self._joined = len(channel.log)
        position = 0 if after is None else channel.positions.get(after)
        self.unknown = position is None
        self._cursor = position or 0
        self._told: set[int] = set()
        """Numbers of the calls already announced to the reader."""
        self._sent: dict[str, tuple[_Text, int]] = {}
        """Text of each call in progress and the number of characters already sent to the reader, keyed by path."""

    @property
    def is_done(self) -> bool:
        return self._cursor >= len(self._channel.log) and self._generation == self._channel.generation

    def news(self) -> Iterable[Update]:
        """Yield everything this reader has not read yet: recorded events first, then calls in progress, then text."""
        channel = self._channel
        if self._generation != channel.generation:
            self._generation, self._cursor, self._joined = channel.generation, 0, 0
            yield Update("reset")
        while self._cursor < len(channel.log):
            item, index = channel.log[self._cursor], self._cursor
            self._cursor += 1
            if isinstance(item, Update):
                yield item
            elif index >= self._joined:
                yield from self._piece(item)
                self._sent.pop(item.started.path, None)
        # Iterate over a copy, because events arrive while the reader is handling one.
        for number, call in list(channel.calls.values()):
            if number not in self._told:
                self._told.add(number)
                yield Update("event", call)
        for text in list(channel.texts.values()):
            yield from self._piece(text)

    def _piece(self, text: _Text) -> Iterable[Update]:
        """Return the unread part of a call's text."""
        path = text.started.path
        known_text, sent = self._sent.get(path, (text, 0))
        if known_text is not text:
            sent = 0
        if text.length > sent:
            self._sent[path] = (text, text.length)
            yield text.rest(sent)


def _sort(event: object) -> tuple[str, str]:
    """Return the kind and path of an event, which together identify it within a run."""
    return getattr(event, "kind", type(event).__name__), getattr(event, "path", "")


def _marked(events: Sequence[object]) -> list[object]:
    return [event for event in events if not isinstance(event, RunFinished)]
