"""What the process writes to: made safe for any text, and for a reader who leaves early."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from flowdebate.cli.text import printable
from flowdebate.errors import FlowDebateWarning

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

__all__ = ("WriteFailed", "leave_stdout", "prepare_streams", "tell", "warnings_told", "writing")


class WriteFailed(Exception):
    """Output could not be written; `reader_left` where that is because nobody reads on, which is no error."""

    def __init__(self, message: str, *, reader_left: bool = False) -> None:
        self.reader_left = reader_left
        super().__init__(message)


def prepare_streams() -> None:
    """Let stdout and stderr take any character, and be there even where the caller has closed them."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    logging.getLogger("flowdebate").addHandler(_Lines(logging.WARNING))


def tell(message: str) -> None:
    """Write `message` to stderr: nothing in it acts on a terminal, and its further lines are indented."""
    with suppress(OSError):  # where stderr is gone as well there is nobody to tell
        print(printable(message).replace("\n", "\n  "), file=sys.stderr, flush=True)  # noqa: T201 - a command's stderr


@contextmanager
def warnings_told() -> Iterator[None]:
    """Inside, warnings of the library are lines on stderr."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        tell(f"Warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", FlowDebateWarning)
        warnings.showwarning = show
        yield


@contextmanager
def writing() -> Iterator[None]:
    """Inside is nothing but writing to stdout or stderr: an OSError there is WriteFailed."""
    try:
        yield
    except BrokenPipeError as error:
        raise WriteFailed("nobody reads the output", reader_left=True) from error
    except OSError as error:
        raise WriteFailed(f"the output cannot be written: {error.strerror or error}") from error


def leave_stdout() -> None:
    """Drop what stdout still holds, so that the interpreter does not stumble over it when it ends."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


class _Lines(logging.Handler):
    """Log records as lines on stderr, without tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(f"{record.levelname.capitalize()}: {record.getMessage()}")
