"""Server that never completes an answer, sending a byte or an event-stream comment every 20 ms, depending on the model.

It prints the port on which it listens.
"""

from __future__ import annotations

import asyncio
import contextlib

_BYTES = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n"
_EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        streams = b"comments" in await reader.readexactly(length)
        writer.write(_EVENTS if streams else _BYTES)
        while not writer.is_closing():
            writer.write(b": keep-alive\n\n" if streams else b" ")
            await writer.drain()
            await asyncio.sleep(0.02)
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
