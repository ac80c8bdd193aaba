"""Streams whose write errors can be told apart from errors in the calling code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class WriteFailed(Exception):
    """Raised when output cannot be written.

    If `reader_left` is true, the reader closed the pipe, which is not an error.
    """

    def __init__(self, message: str, *, reader_left: bool = False) -> None:
        self.reader_left = reader_left
        super().__init__(message)


@contextmanager
def writing() -> Iterator[None]:
    """Convert OSError to WriteFailed in a `with` block that only writes to stdout or stderr."""
    try:
        yield
    except BrokenPipeError as error:
        raise WriteFailed("nothing is reading the output anymore", reader_left=True) from error
    except OSError as error:
        raise WriteFailed(f"the output cannot be written: {error.strerror or error}") from error


class CheckedStream:
    """Stream that raises WriteFailed if writing fails, because rich would end the process on a broken pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with writing():
            return self._stream.write(text)

    def flush(self) -> None:
        """Flush the written text."""
        with writing():
            self._stream.flush()
