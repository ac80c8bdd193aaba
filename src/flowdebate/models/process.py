"""Support for running programs: the prompt is passed on stdin, output is limited, and no processes are left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from flowdebate.errors import ModelUnavailable, ResponseTooLarge

_MAX_SIZE = 16_000_000  # maximum size of the output in bytes


class _Output(asyncio.SubprocessProtocol):
    """Output written by a program before it exits; the program's child processes may keep the pipes open longer."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = asyncio.Event()
        self._parts: dict[int, list[bytes]] = {1: [], 2: []}
        self._open = {1, 2}
        self._size = 0

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Store a chunk of the output; fail if the output is too large."""
        self._size += len(data)
        if self._size <= _MAX_SIZE:
            self._parts[fd].append(data)
        elif not self.ended.done():
            self.ended.set_exception(ResponseTooLarge(_MAX_SIZE, "bytes"))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Record that one stream has ended."""
        del exc  # a program may exit before it has read all of its input
        self._open.discard(fd)
        if not self._open:
            self.closed.set()

    def process_exited(self) -> None:
        """Record that the program has exited."""
        if not self.ended.done():
            self.ended.set_result(None)

    def text(self, fd: int) -> str:
        """Return the text written to one stream."""
        return b"".join(self._parts[fd]).decode(errors="replace")


_DRAIN = 1.0  # time in seconds allowed for reading what remains in the pipes after a program has exited
_GRACE = 0.5  # time in seconds between SIGTERM and SIGKILL; a call past its deadline has one second to clean up


async def run_program(command: Sequence[str], prompt: str, *, cwd: str, env: dict[str, str]) -> tuple[int, str, str]:
    """Run a program to completion, and return its exit code, stdout and stderr.

    The program's process group does not outlive the call: if the program is still running, the group receives SIGTERM,
    then SIGKILL half a second later.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, output = await loop.subprocess_exec(_Output, *command, cwd=cwd, env=env, start_new_session=True)
    except OSError as error:
        raise ModelUnavailable(f"{command[0]} cannot be started ({error.strerror or error})") from None
    try:
        stdin = transport.get_pipe_transport(0)
        if isinstance(stdin, asyncio.WriteTransport):
            stdin.write(prompt.encode(errors="replace"))
            stdin.close()  # takes effect once everything has been written
        await output.ended
        with suppress(TimeoutError):
            await asyncio.wait_for(output.closed.wait(), _DRAIN)
        return transport.get_returncode() or 0, output.text(1), output.text(2)
    finally:
        try:
            if transport.get_returncode() is None:
                _signal(transport, signal.SIGTERM)  # SIGTERM first, to let the program remove its temporary files
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(_exit_of(transport)), _GRACE)
        finally:
            _signal(transport, getattr(signal, "SIGKILL", signal.SIGTERM))
            transport.close()


async def _exit_of(transport: asyncio.SubprocessTransport) -> None:
    while transport.get_returncode() is None:  # noqa: ASYNC110 - the call that waited for its end was cancelled
        await asyncio.sleep(0.02)


def _signal(transport: asyncio.SubprocessTransport, number: signal.Signals) -> None:
    """Send a signal to a program and its whole process group."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(transport.get_pid(), number)
        elif transport.get_returncode() is None:
            transport.send_signal(number)
