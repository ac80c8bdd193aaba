"""Files that the user names: read up to a size, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import sys
from pathlib import Path
from typing import Any, NoReturn

from flowdebate.cli.streams import WriteFailed
from flowdebate.errors import BadFile

__all__ = ("check_target", "parse_json", "parse_json_line", "parse_toml", "read_text", "write_whole")

_MEGABYTE = 1_000_000


def read_text(path: str, *, megabytes: int) -> str:
    """The UTF-8 text of the file at `path` ("-": of stdin); BadFile where there is none, or too much of it."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(megabytes * _MEGABYTE + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(megabytes * _MEGABYTE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise BadFile(path, f"cannot be read: {_reason(error)}") from None
    if len(data) > megabytes * _MEGABYTE:
        raise BadFile(path, f"is larger than {megabytes} MB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadFile(path, f"line {line}: is not UTF-8") from None


def parse_json(text: str, *, path: str) -> Any:  # noqa: ANN401 - any JSON
    """`text` as JSON; BadFile with the line."""

    def refuse(constant: str) -> NoReturn:
        raise BadFile(path, f"is not JSON: {constant} is no JSON value")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise BadFile(path, f"line {error.lineno}, column {error.colno}: is not JSON: {error.msg}") from None
    except RecursionError:
        raise BadFile(path, "is nested too deeply") from None
    except ValueError as error:
        raise BadFile(path, f"is not JSON: {error}") from None


def parse_json_line(line: str, *, path: str, number: int) -> Any:  # noqa: ANN401 - any JSON
    """Line `number` of a JSON Lines file; BadFile that names it."""

    def refuse(constant: str) -> NoReturn:
        message = f"{constant} is no JSON value"
        raise ValueError(message)

    try:
        return json.loads(line, parse_constant=refuse)
    except RecursionError:
        raise BadFile(path, f"line {number}: is nested too deeply") from None
    except ValueError as error:
        raise BadFile(path, f"line {number}: is not JSON: {error}") from None


def parse_toml(text: str, *, path: str) -> dict[str, Any]:
    """`text` as TOML; BadFile with the line."""
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadFile(path, f"is not TOML: {error}") from None
    except RecursionError:
        raise BadFile(path, "is nested too deeply") from None
    except ValueError as error:
        raise BadFile(path, f"is not TOML: {error}") from None


def check_target(path: Path) -> None:
    """BadFile if nothing can be written to `path`; asked before a debate is paid for."""
    try:
        folder = Path(os.path.realpath(path)).parent
        if path.is_dir():
            raise BadFile(str(path), "cannot be written: it is a folder")
        if not folder.is_dir():
            raise BadFile(str(path), f"cannot be written: there is no folder {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise BadFile(str(path), "cannot be written: permission denied")
    except (OSError, ValueError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(str(path), f"cannot be written: {_reason(error)}") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Put `content` at `path`: readers see what was there before, or all of it; WriteFailed if it cannot be."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        _write(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise WriteFailed(f"{path}: cannot be written: {_reason(error)}") from None


def _write(path: Path, data: bytes) -> None:
    if path.exists() and not path.is_file():  # a device or a pipe: a rename would put a file in its place
        path.write_bytes(data)
        return
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(data)
        if path.exists():
            part.chmod(stat.S_IMODE(path.stat().st_mode))
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
