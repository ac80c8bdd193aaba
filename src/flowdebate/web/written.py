"""Requests to start a run, written as a plan file, a Python program, or a shell command."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from flowdebate.patterns import find_pattern

_WIDE = 88
"""Maximum line width in a generated program: the default of common Python formatters."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PROGRAM = """import asyncio

from flowdebate.service import Service


async def hold(service):
    run = await service.begin({arguments})
    return await service.wait(run.run_id)


async def main():
    async with Service({patterns}) as service:
        run = await hold(service)
        print(run.status, run.document.to_json())


if __name__ == "__main__":
    asyncio.run(main())
"""


def as_toml(request: Mapping[str, Any]) -> str | None:
    r"""Format a request as a plan file for `flowdebate PATTERN --file`; return None if the pattern is not built in.

    >>> print(as_toml({"pattern": "debate", "question": "Rent?", "options": {"debaters": [{"name": "Ann"}]}}), end="")
    pattern = "debate"
    question = "Rent?"
    <BLANKLINE>
    [[debaters]]
    name = "Ann"
    """
    info = find_pattern(request["pattern"])
    if info is None:
        return None
    plan = {"pattern": info.name, info.subject: request["question"], **(request.get("options") or {})}
    plan |= {key: request[key] for key in ("seed",) if request.get(key) is not None}
    tables = {  # In TOML, tables must come after all plain values.
        key: value
        for key, value in plan.items()
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    }
    # TOML has no null, so options left at None are omitted.
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plan.items() if key not in tables and value is not None]
    for key, entries in tables.items():
        for entry in entries:
            lines += ["", f"[[{_key(key)}]]"]
            lines += [f"{_key(name)} = {_value(value)}" for name, value in entry.items() if value is not None]
    return "\n".join([*lines, ""])


def as_python(request: Mapping[str, Any]) -> str:
    """Format a request as a Python program that starts the run and waits for it."""
    options = {key: value for key, value in (request.get("options") or {}).items() if value is not None}
    keywords = {"options": options or None, "seed": request.get("seed"), "labels": request.get("labels") or None}
    arguments_given = [_literal(request["pattern"], 8), _literal(request["question"], 8)]
    arguments_given += [f"{name}={_literal(value, 8)}" for name, value in keywords.items() if value is not None]
    arguments = "".join(f"\n        {argument}," for argument in arguments_given)
    patterns = f"{{{_line(request['pattern'])}: pattern}}" if find_pattern(request["pattern"]) is None else ""
    program = _PROGRAM.replace("{patterns}", patterns).replace("{arguments}", f"{arguments}\n    ")
    return f"# `pattern` is the block that your application registers.\n{program}" if patterns else program


def as_curl(request: Mapping[str, Any], url: str) -> str:
    """Format a request as a `curl` command that sends it to `url`.

    >>> print(as_curl({"pattern": "debate"}, "http://localhost/api/v1/runs"))
    curl http://localhost/api/v1/runs -H "Authorization: Bearer $TOKEN" --json '{"pattern": "debate"}'
    """
    body = {key: value for key, value in request.items() if value is not None}
    text = shlex.quote(json.dumps(body, ensure_ascii=False))
    return f'curl {shlex.quote(url)} -H "Authorization: Bearer $TOKEN" --json {text}'


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(_value(item) for item in value if item is not None)}]"
        case dict():
            pairs = (f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None)
            return f"{{{', '.join(pairs)}}}"
        case _:
            return repr(value)


def _text(text: str) -> str:
    """Format a basic TOML string: like a JSON string, but without surrogate pairs."""
    # JSON does not escape DEL, but TOML does not allow it in strings.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _literal(value: object, indent: int) -> str:
    """Format a value as Python code, using several lines if it is too long for one."""
    short = _line(value)
    if len(short) + indent < _WIDE or not isinstance(value, (list, dict)):
        return short
    inner = " " * (indent + 4)
    if isinstance(value, dict):
        lines = [f"{inner}{_line(key)}: {_literal(item, indent + 4)}," for key, item in value.items()]
    else:
        lines = [f"{inner}{_literal(item, indent + 4)}," for item in value]
    opening, right = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opening, *lines, f"{' ' * indent}{right}"])


def _line(value: object) -> str:
    match value:
        case str() if value.isprintable():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"[{', '.join(map(_line, value))}]"
        case dict():
            return f"{{{', '.join(f'{_line(key)}: {_line(item)}' for key, item in value.items())}}}"
        case _:
            return repr(value)
