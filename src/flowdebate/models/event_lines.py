"""Server-sent events as openai can read them in time that grows with their length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.errors import MalformedResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ("event_lines",)

_LINES = 100
"""Of one event, which usually has one."""


async def event_lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """`parts` of an event stream, cut after whole lines; MalformedResponse for an event that does not end.

    openai copies all that it has of an event for each further line or part of one, so that a server could keep a
    process busy. What holds no data is left out: comments, ids and the like, of which openai makes events without any.
    """
    rest: list[bytes] = []
    lines = 0
    async for part in parts:
        cut = part.rfind(b"\n") + 1
        if not cut:
            rest.append(part)
            continue
        whole = b"".join((*rest, part[:cut]))
        rest = [part[cut:]] if cut < len(part) else []
        kept = []
        for line in whole.split(b"\n")[:-1]:
            blank = not line.strip()
            if not blank and not (line.startswith(b"data:") and line[5:].strip()):
                continue
            lines = 0 if blank else lines + 1
            if lines > _LINES:
                raise MalformedResponse("an event of the stream does not end")
            kept.append(line)
        if kept:
            yield b"\n".join((*kept, b""))
    if rest:
        yield b"".join(rest)
