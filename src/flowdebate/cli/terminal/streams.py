"""Streams whose failures are told from those of the code that writes to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class WriteFailed(Exception):
    """Output could not be written; `reader_left` if the reader closed the pipe, which is no error."""

    def __init__(self, message: str, *, reader_left: bool = False) -> None:
        self.reader_left = reader_left
        super().__init__(message)


@contextmanager
def writing() -> Iterator[None]:
    """Inside is nothing but writing to stdout or stderr: an OSError there is WriteFailed, wherever it is caught."""
    try:
        yield
    except BrokenPipeError as error:
        raise WriteFailed("nobody reads the output", reader_left=True) from error
    except OSError as error:
        raise WriteFailed(f"the output cannot be written: {error.strerror or error}") from error


class CheckedStream:
    """A stream whose failures are WriteFailed; of a broken pipe rich would end the process, before its run is told."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with writing():
            return self._stream.write(text)

    def flush(self) -> None:
        """Let what was written be seen."""
        with writing():
            self._stream.flush()
