"""Codec of export files: runs and steps as lines of JSON, and back.

Lines that do not fit raise ValueError with the problem.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from flowdebate.errors import shown
from flowdebate.store.base import ROW_FORMAT, RunHeader, StepRow, StoredRun, header_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


EXPORT_FORMAT = 1
"""Format number of exports; older formats stay readable."""
LONGEST_LINE = 64_000_000
"""Characters of a line, or bytes of one that is not decoded yet."""
_DEEPEST = 200
"""Levels of nested lists and objects: stores and readers recurse."""
_ALLOWED = {
    "type": "of type {}",
    "enum": "{}",
    "const": "{}",
    "minimum": ">= {}",
    "maximum": "<= {}",
    "minLength": "not empty",
}
"""Descriptions of what a keyword of the schema allows."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_ENDS = str.maketrans({character: f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"})
"""Characters that some readers take for line ends; JSON has them in strings only."""


def export_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one line of an export.

    >>> export_schema()["title"]
    'flowdebate run export, format 1'
    """
    from importlib.resources import files

    text = files("flowdebate.store").joinpath(f"schema/run-export-{EXPORT_FORMAT}.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def run_line(run: StoredRun, rows: int, documents: Mapping[str, str] | None = None) -> str:
    """Format the line of `run`, which `rows` lines of steps follow; ValueError for values that are no JSON data."""
    values = {field.name: getattr(run, field.name) for field in fields(StoredRun) if field.name != "owned"}
    values["header"] = header_values(run.header)
    more = {"documents": dict(documents)} if documents else {}
    return _text({"kind": "run", "format": EXPORT_FORMAT, "rows": rows, "run": values, **more})


def step_line(run_id: str, row: StepRow) -> str:
    """Format the line of a step; ValueError for values that are no JSON data."""
    values = {field.name: getattr(row, field.name) for field in fields(StepRow)}
    return _text({"kind": "step", "run_id": run_id, "row": values})


def _text(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
        if _SURROGATE.search(text):  # stores keep them, UTF-8 has none
            text = json.dumps(value, allow_nan=False, default=_plain)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return text.translate(_LINE_ENDS)


def _plain(value: Any) -> Any:  # noqa: ANN401 - json.dumps asks for any type that it does not know
    """Convert a mapping that is no dict."""
    from collections.abc import Mapping

    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is no JSON data")


class LineReader:
    """Reader of lines that checks each against the schema."""

    def __init__(self) -> None:
        import jsonschema

        schema = export_schema()
        self._checks = {
            kind: jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}_line", "$defs": schema["$defs"]})
            for kind in ("run", "step")
        }

    def read(self, line: str | bytes) -> dict[str, Any]:
        """Parse and check a line; ValueError for one that does not fit."""
        value = strict_json(_decoded(line))
        if not isinstance(value, dict) or value.get("kind") not in ("run", "step"):
            kind = value.get("kind") if isinstance(value, dict) else value
            raise ValueError(f'`kind` must be "run" or "step", got {shown(kind)}')
        for name, written, known in _formats(value):
            if _is_newer(written, known):
                raise ValueError(
                    f"`{name}`: the run was exported by a newer version of flowdebate"
                    f" ({shown(written)}, known: {known})"
                )
        check = self._checks[value["kind"]]
        if not check.is_valid(value):
            raise ValueError(_describe(next(check.iter_errors(value))))
        _check_depth(value)
        return value


def strict_json(text: str) -> Any:  # noqa: ANN401 - JSON is of any type
    """Parse JSON; ValueError for anything invalid or ambiguous."""
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refused_constant, parse_float=_finite, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return value


def run_of(value: Mapping[str, Any]) -> StoredRun:
    """Build the run of a line that was read."""
    run = dict(value["run"])
    header = dict(run.pop("header"))
    header["created_at"] = _seconds("run.header.created_at", header["created_at"])
    run["updated_at"] = _seconds("run.updated_at", run["updated_at"])
    return StoredRun(header=RunHeader(**header), **run)


def documents_in(value: Mapping[str, Any]) -> dict[str, str]:
    """The documents in the line of a run that was read."""
    found: dict[str, str] = value.get("documents", {})
    for key, body in found.items():
        _check_body(body, field=f"documents.{key}")
    return found


def row_of(value: Mapping[str, Any]) -> StepRow:
    """Build the step of a line that was read."""
    row = dict(value["row"])
    if len({row[name] is None for name in ("seq", "at", "body")}) > 1:
        raise ValueError("`row.seq`, `row.at` and `row.body` must be null together, for a step that is open, or none")
    if row["body"] is not None:
        row["at"] = _seconds("row.at", row["at"])
        _check_body(row["body"])
    return StepRow(**{**row, "failures": tuple(row["failures"])})


def check_rows(run: StoredRun, rows: Sequence[StepRow]) -> None:
    """Raise ValueError if the rows do not match `run`."""
    finished = sorted(row.seq for row in rows if row.seq is not None)
    keys = [row.key for row in rows]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"`row.key` must be different for each step of a run, got {shown(twice)} twice")
    if len(finished) != run.steps:
        raise ValueError(
            f"`run.steps` must be the number of its finished steps, which is {len(finished)}, got {run.steps}"
        )
    if finished != list(range(1, len(finished) + 1)):
        raise ValueError("`row.seq` must be 1, 2, 3 and so on, each once in a run")


def _decoded(line: str | bytes) -> str:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"it is longer than {LONGEST_LINE // 1_000_000} million characters")
    try:
        text = line.decode() if isinstance(line, bytes) else line
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no UTF-8 at byte {error.start + 1}") from None
    if _SURROGATE.search(text):
        raise ValueError("it holds half of a surrogate pair, which is no text")
    return text.removeprefix("\ufeff")


def _formats(value: dict[str, Any]) -> list[tuple[str, object, int]]:
    run = value.get("run")
    header = run.get("header") if isinstance(run, dict) else None
    found = [("format", value.get("format"), EXPORT_FORMAT)]
    if isinstance(header, dict):
        found.append(("run.header.format", header.get("format"), ROW_FORMAT))
    return found


def _is_newer(written: object, known: int) -> bool:
    return isinstance(written, int) and not isinstance(written, bool) and written > known


def _describe(error: Any) -> str:  # noqa: ANN401 - jsonschema is not imported here
    """Describe a jsonschema error: where, allowed, got."""
    field = ".".join(str(part) for part in error.absolute_path)
    limit, got = error.validator_value, shown(error.instance)
    where = f"`{field}`" if field else "the line"
    phrase = _ALLOWED.get(error.validator)
    if phrase is not None:
        listed = limit if isinstance(limit, list) else [limit]
        return f"{where} must be {phrase.format(' or '.join(map(str, listed)))}, got {got}"
    if error.validator == "required":
        missing = [name for name in limit if name not in error.instance]
        return f"{where} must have `{missing[0]}`, and has {shown(sorted(error.instance))}"
    known = error.schema.get("properties", {})
    other = [name for name in error.instance if name not in known]
    return f"{where} may have {', '.join(known)}, got {shown(other[0])}"


def _check_depth(value: object) -> None:
    level, depth = [value], 0
    while level:
        if depth > _DEEPEST:
            raise ValueError(_TOO_DEEP)
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, (dict, list))
        ]


def _check_body(body: str, *, field: str = "row.body") -> None:
    """Check that a body is JSON: it is stored as it is, and an unreadable one would end the resumed run."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`{field}` must be JSON, got {shown(body)}: {error}") from None
    _check_depth(value)


def _seconds(field: str, value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"`{field}` must be a number of seconds, got {shown(value)}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{shown(twice)[1:-1]}` occurs twice in one object")
    return found


def _refused_constant(name: str) -> Any:  # noqa: ANN401 - it never returns
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {shown(text)[1:-1]} is too large")
    return value


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"a number of {len(text):,} digits is too large") from None


_TOO_DEEP = f"lists and objects are nested more than {_DEEPEST} deep"
