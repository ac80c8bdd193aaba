"""Readers for text, JSON and TOML files. They limit file sizes and include line numbers in errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from flowdebate._text import problems_of, typed
from flowdebate.errors import BadFile

if TYPE_CHECKING:
    from pydantic import ValidationError


MEGABYTES = 1
"""Maximum size of a plan file or a schema file, in megabytes."""
_MEGABYTE = 1_000_000


def read_plan_file(path: str) -> dict[str, Any]:
    """Read a plan from a TOML file, or from a JSON file if the suffix is .json; raise BadFile if it is invalid."""
    suffix = Path(path).suffix.lower()
    if suffix in (".yaml", ".yml"):
        raise BadFile(path, "YAML files are not supported: write TOML or JSON")
    text = read_text(path, megabytes=MEGABYTES)
    content = parse_json(text, path=path) if suffix == ".json" else parse_toml(text, path=path)
    if not isinstance(content, dict):
        raise BadFile(path, f"must contain a JSON object (got {typed(content)})")
    return content


def read_text(path: str, *, megabytes: int) -> str:
    """Read the file at `path` ("-" for stdin) as UTF-8 text.

    Raises BadFile if the file is missing, too large or not UTF-8.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(megabytes * _MEGABYTE + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(megabytes * _MEGABYTE + 1)
    except (OSError, ValueError) as error:  # ValueError: the path contains a NUL character
        raise BadFile(path, f"cannot be read: {reason_of(error)}") from None
    if len(data) > megabytes * _MEGABYTE:  # checked after reading, because a pipe or device has no size
        raise BadFile(path, f"is larger than {megabytes} MB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadFile(path, f"line {line}: not valid UTF-8") from None


def parse_json(text: str, *, path: str, number: int | None = None) -> Any:  # noqa: ANN401 - any JSON
    """Parse `text` as JSON, or as line `number` of a JSON Lines file; raise BadFile with the line number on error."""
    line = "is " if number is None else f"line {number}: "

    def refuse(constant: str) -> NoReturn:
        raise BadFile(path, f"{line}not valid JSON: {constant} is not a valid JSON number")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise BadFile(path, f"{line}nested too deeply") from None
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError) and number is None:
            raise BadFile(path, f"line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}") from None
        raise BadFile(path, f"{line}not valid JSON: {error}") from None


def parse_toml(text: str, *, path: str) -> dict[str, Any]:
    """Parse `text` as TOML; raise BadFile with the line number on error."""
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadFile(path, f"is not valid TOML: {error}") from None
    except RecursionError:
        raise BadFile(path, "is nested too deeply") from None
    except ValueError as error:
        raise BadFile(path, f"is not valid TOML: {error}") from None


def problem_of(error: ValidationError) -> str:
    """Describe the first problem in a pydantic error, naming the field, and state how many more there are."""
    (field, problem), *rest = problems_of(error)
    more = f" (and {len(rest)} more)" if rest else ""
    return f"`{field}` {problem}{more}" if field else f"{problem}{more}"


def reason_of(error: Exception) -> str:
    """Explain why a file cannot be used, quoting the operating system's error message."""
    # str() of an OSError repeats its number and the path, but the path is already in the message.
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
