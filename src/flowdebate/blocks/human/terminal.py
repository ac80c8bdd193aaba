"""Terminal interface for humans that reads answers without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO
from weakref import WeakKeyDictionary

from flowdebate.blocks.human.prompt import kind_of
from flowdebate.errors import ConfigurationError, OutputError

if TYPE_CHECKING:
    from flowdebate.runs.suspend import HumanRequest


_LINE = 100_000  # maximum length of a line in bytes; longer lines are truncated
# Locks keyed by event loop: the process has only one terminal, so requests are shown one at a time.
_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def ask_in_terminal(request: HumanRequest) -> object:
    """Show `request` on the terminal (stderr) and return the typed answer: `human(name=…, ask=ask_in_terminal)`.

    A plain-text answer ends at an empty line or at the end of the input; if the answer has fields, one line is read for
    each field. If an answer is invalid, the reason is shown and the human is asked again. Ctrl-C cancels the run.
    Raises OutputError if the input ends before any text or before the last field.
    """
    try:
        typed = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        raise ConfigurationError("ask_in_terminal()", "stdin", sys.stdin, "must be a terminal or a pipe") from None
    lock = _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with lock:
        return await Terminal(typed, sys.stderr).ask(request)


class Terminal:
    """Terminal that writes requests to the stream `shown` and reads answers from the file descriptor `typed`."""

    def __init__(self, typed: int, output: TextIO) -> None:
        self._typed = typed
        self._shown = output

    async def ask(self, request: HumanRequest) -> object:
        """Show `request`, ask again until the answer is valid, and return the answer."""
        self._print(f"\n{request.to_read}\n\n[{request.block}] {request.expects}\n")
        problem = request.problem
        while True:
            if problem is not None:
                self._print(f"Please answer again: {problem}\n")
            answer = await self._text(request) if request.schema is None else await self._fields(request)
            try:
                request.check(answer)
            except OutputError as error:
                problem = str(error)
            else:
                return answer

    async def _text(self, request: HumanRequest) -> str:
        """Read lines until the first empty one."""
        self._print("(end with an empty line)\n")
        lines: list[str] = []
        while (line := await self._line("> ")) is not None and (line or not lines):
            if line:
                lines.append(line)
        if line is None and not lines:
            raise _ended(request)
        return "\n".join(lines)

    async def _fields(self, request: HumanRequest) -> dict[str, Any]:
        schema: Mapping[str, Any] = request.schema or {}
        definitions = schema.get("$defs", {})
        data: dict[str, Any] = {}
        for name, part in schema.get("properties", {}).items():
            line = await self._line(f"{name} ({kind_of(part, definitions)}): ")
            if line is None:
                raise _ended(request)
            if line or name in schema.get("required", ()):
                data[name] = value_typed(line, part, definitions)
        return data

    def _print(self, text: str) -> None:
        self._shown.write(text)
        self._shown.flush()

    async def _line(self, prompt: str) -> str | None:
        """Return the next line without its line ending, or None at end of file."""
        self._print(prompt)
        loop = asyncio.get_running_loop()
        line: asyncio.Future[bytes] = loop.create_future()

        def give(typed: bytes) -> None:
            if not line.done():  # if the run was cancelled, nobody is waiting for the line
                line.set_result(typed)

        def read() -> None:
            typed = bytearray()
            # read byte by byte, because another reader may be waiting for the next line
            while len(typed) < _LINE and not typed.endswith(b"\n") and (byte := os.read(self._typed, 1)):
                typed += byte
            with contextlib.suppress(RuntimeError):  # if the loop has been closed, nobody is waiting for the line
                loop.call_soon_threadsafe(give, bytes(typed))

        # a daemon thread, so that waiting for a line that is never typed does not keep the process alive
        threading.Thread(target=read, name="flowdebate-terminal", daemon=True).start()
        typed = await line
        return typed.decode(errors="replace").rstrip("\r\n") if typed else None


def _ended(request: HumanRequest) -> OutputError:
    return OutputError(request.block, "an answer", [("", "is missing because the input has ended")], by_person=True)


def value_typed(line: str, part: Mapping[str, Any], definitions: Mapping[str, Any]) -> object:
    """Convert `line` to a field's value; if that fails, return the text unchanged, so that validation rejects it.

    >>> value_typed("yes", {"type": "boolean"}, {}), value_typed("ann, bob", {"type": "array"}, {})
    (True, ['ann', 'bob'])
    """
    choices = part.get("anyOf") or part.get("oneOf")
    if choices and line in ("", "null") and any(choice.get("type") == "null" for choice in choices):
        return None
    if choices:
        return value_typed(line, next(choice for choice in choices if choice.get("type") != "null"), definitions)
    if "$ref" in part:
        return value_typed(line, definitions.get(part["$ref"].rpartition("/")[2], {}), definitions)
    if part.get("type") in ("boolean", "string") or line in part.get("enum", ()):
        return _YES_NO.get(line.casefold(), line) if part.get("type") == "boolean" else line
    try:
        return json.loads(line)
    except ValueError:  # people separate list items with commas
        is_list = part.get("type") == "array"
        return [item.strip() for item in line.split(",") if item.strip()] if is_list else line


_YES_NO = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
