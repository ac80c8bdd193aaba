"""Export and import of runs as JSON Lines, following a schema published with the package.

The first part of the module handles files; the second part converts runs and steps to lines of JSON, and back. Invalid
lines raise a ValueError describing the problem.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn

from flowdebate._text import add_note, counted, is_deeper, typed, unknown_choice
from flowdebate._util.files import open_private
from flowdebate.errors import BadFile, ConfigurationError, RunExists, StoreError
from flowdebate.store.base import (
    PLAN_FORMAT,
    ROW_FORMAT,
    RunHeader,
    StepRow,
    Store,
    StoredRun,
    documents_of,
    header_values,
    pack_outcome,
    unpack_outcome,
)

GONE = "null"
"""Body stored to mark a document as deleted."""
EXPORT_FORMAT = 1
"""Version number of the export format."""
MAX_LINE_LENGTH = 64_000_000
"""Maximum length of a line in an export, in characters (or in bytes before decoding)."""
_DEEPEST = 200
"""Maximum nesting depth of lists and objects; limited because stores and readers process them recursively."""
_TOO_DEEP = f"lists and objects are nested more than {_DEEPEST} levels deep"
_BOUNDS = {"minimum": "at least", "maximum": "at most"}
_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
"""Names of the JSON types."""
_RUN_FIELDS = tuple(field_.name for field_ in fields(StoredRun) if field_.name != "owned")
_ROW_FIELDS = tuple(field_.name for field_ in fields(StepRow))
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_END = re.compile("[\x85\u2028\u2029]")
_LINE_ENDS = str.maketrans({character: f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"})
"""Characters that some readers treat as line breaks, and that JSON allows only inside strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Result of an import."""

    added: tuple[str, ...] = ()
    """Ids of the imported runs, in the order they appear in the file."""
    skipped: tuple[str, ...] = ()
    """Ids of runs that already existed and were left unchanged."""


async def export_run(store: Store, run_id: str) -> AsyncIterator[str]:
    """Yield the lines of a run's export: one for the run and its documents, then one per step.

    The lines have no trailing newline. A run in progress is exported in its current state. Raises RunNotFound, and
    StoreError if the run contains values that are not JSON data.
    """
    run = await store.run(run_id)
    rows = await store.steps(run_id)
    documents = await store.documents(documents_of(run_id))
    # Count the finished steps again, because a step may have finished after the run was read.
    run = replace(run, steps=sum(row.seq is not None for row in rows))
    values = {name: getattr(run, name) for name in _RUN_FIELDS} | {"header": header_values(run.header)}
    values["outcome"] = pack_outcome(run.outcome)
    present = {key: body for key, body in documents.items() if body != GONE}
    more = {"documents": present} if present else {}
    try:
        yield _text({"kind": "run", "format": EXPORT_FORMAT, "rows": len(rows), "run": values, **more})
        for row in rows:
            yield _text({"kind": "step", "run_id": run_id, "row": {name: getattr(row, name) for name in _ROW_FIELDS}})
    except ValueError as error:
        raise StoreError(store.name, f"run {run_id} cannot be exported: {error}") from error


async def write_export(path: str | Path, store: Store, run_ids: Iterable[str], *, overwrite: bool = False) -> int:
    """Write the runs to the file `path`, and return the number of runs written.

    The file is written either completely or not at all, and only its owner can read it. Raises BadFile if the path
    exists (unless `overwrite` is set) or cannot be written.
    """
    target = Path(path)
    if not overwrite and await asyncio.to_thread(os.path.lexists, target):
        raise _file_exists_error(target)
    part = target.with_name(f".{target.name}.{os.urandom(4).hex()}.part")
    written = 0
    try:
        # Write to a temporary file first, so that `path` never contains a partial export.
        await asyncio.to_thread(lambda: os.close(open_private(part, os.O_WRONLY | os.O_EXCL)))
        for run_id in run_ids:
            lines = [f"{line}\n" async for line in export_run(store, run_id)]
            await asyncio.to_thread(_append, part, lines)
            written += 1
        await asyncio.to_thread(_publish, part, target, overwrite=overwrite)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadFile(str(path), f"cannot be written ({reason})") from error
    finally:
        with suppress(OSError, ValueError):
            part.unlink(missing_ok=True)
    return written


def read_export(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of an export file; raise BadFile if the file is unreadable or a line is too long."""
    try:
        with Path(path).open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_LENGTH + 1):
                number += 1
                if len(line) > MAX_LINE_LENGTH:
                    raise BadFile(str(path), f"line {number}: longer than {MAX_LINE_LENGTH // 1_000_000} MB")
                yield line
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadFile(str(path), f"cannot be read ({reason})") from error


async def import_runs(
    store: Store,
    lines: Iterable[str | bytes],
    *,
    source: str = "import",
    exists: Literal["raise", "skip"] = "raise",
    trusted: bool = False,
) -> Imported:
    """Add the runs in `lines` to `store`, as runs without an owner; each is added completely or not at all.

    The runs are marked as foreign (`RunHeader.foreign`), because the author of the file chose their inputs, plans and
    recorded answers. With `trusted`, they are not marked; use it only for files written by your own programs. Raises
    BadFile, stating `source`, the line and the field, if the lines are not an export; and RunExists if a run's id is
    already taken, unless `exists` is "skip". Runs before the conflicting one stay imported, and are listed in a note on
    the error.
    """
    if exists not in ("raise", "skip"):
        raise ConfigurationError("import_runs", "exists", exists, choices=("raise", "skip"))
    done = Imported()
    runs = read_runs(lines, source)
    try:
        # Read and check lines in a thread, because there may be many of them, and reading them may involve the disk.
        while (run_import := await asyncio.to_thread(next, runs, None)) is not None:
            run, rows, documents = run_import
            run_id = run.header.run_id
            _check_plan(run, source)
            if not trusted:
                parent = run.header.parent
                # Keep only the parent's id: the fork is self-contained, and a different run in this store may have that
                # id.
                parent = None if parent is None else {"run": str(parent.get("run"))}
                run = replace(run, header=replace(run.header, foreign=True, parent=parent))
            try:
                await store.add(run, rows)
            except RunExists:
                if exists == "raise":
                    raise
                done = replace(done, skipped=(*done.skipped, run_id))
            else:
                done = replace(done, added=(*done.added, run_id))
                await _add_documents(store, documents_of(run_id), documents)
    except Exception as error:
        if done.added:
            add_note(error, f"imported before it: {', '.join(done.added)}")
        raise
    return done


def _append(part: Path, lines: Sequence[str]) -> None:
    with part.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write("".join(lines).encode())


def _publish(part: Path, target: Path, *, overwrite: bool) -> None:
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    if not overwrite:
        try:
            os.link(part, target)  # this fails if the target exists, whereas a rename would replace it
        except FileExistsError:
            raise _file_exists_error(target) from None
        except OSError:  # the file system does not support links
            if os.path.lexists(target):
                raise _file_exists_error(target) from None
        else:
            return
    part.replace(target)


def _file_exists_error(path: Path) -> BadFile:
    return BadFile(str(path), "already exists: write to another file, or pass overwrite=True")


def read_runs(
    lines: Iterable[str | bytes], source: str
) -> Iterator[tuple[StoredRun, list[StepRow], Mapping[str, str]]]:
    """Yield each run in an export with its steps and documents.

    Raises BadFile with the line number if a line is invalid.
    """
    read = _line_reader()
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    number, current = 0, None
    try:
        for number, line in numbered:  # noqa: B007 - errors name it
            try:
                value = read(line)
            except ValueError:
                # An invalid line does not invalidate the complete runs that precede it.
                if current is not None and current.is_whole():
                    yield current.run, current.rows, current.documents
                    current = None
                raise
            if value["kind"] == "step" and current is not None:
                current.add(value)
            else:
                if current is not None and current.is_whole():
                    yield current.run, current.rows, current.documents
                    current = None
                current = _begin(value, current)
        if current is not None:
            current.check_whole()
    except ValueError as error:
        is_cut = next(numbered, None) is None and not (current is not None and current.is_whole())
        cut = "; the end of the file may have been cut off" if is_cut else ""
        raise BadFile(source, f"line {number}: {error}{cut}") from None
    if current is not None:
        yield current.run, current.rows, current.documents


async def _add_documents(store: Store, collection: str, documents: Mapping[str, str]) -> None:
    for key, body in documents.items():
        # Documents outlive runs: keep existing documents unless they were deleted.
        if not await store.put(collection, key, body):
            await store.put(collection, key, body, expected=GONE)


@dataclass(slots=True)
class _Reading:
    """A run whose steps are still being read from an export."""

    run: StoredRun
    documents: Mapping[str, str]
    steps: int
    """Number of step lines to expect, according to the run's own line."""
    rows: list[StepRow] = field(default_factory=list)

    def is_whole(self) -> bool:
        return len(self.rows) == self.steps

    def check_whole(self) -> None:
        if not self.is_whole():
            run_id, count = self.run.header.run_id, len(self.rows)
            raise ValueError(f"run {run_id} has {counted(self.steps, 'step')}, but only {count} of them follow")

    def add(self, value: Mapping[str, Any]) -> None:
        """Add the step from a parsed line; raise ValueError if no more steps are expected or the run ID differs."""
        run_id = self.run.header.run_id
        if self.is_whole():
            number, known = self.steps + 1, counted(self.steps, "step")
            raise ValueError(f"step {number} does not exist: run {run_id} has only {known}, all listed above")
        if value["run_id"] != run_id:
            reason = f"because the steps of that run are not complete yet (got {typed(value['run_id'])})"
            raise ValueError(f"`run_id` must be {run_id}, {reason}")
        row = dict(value["row"])
        if len({row[name] is None for name in ("seq", "at", "body")}) > 1:
            raise ValueError(
                "`row.seq`, `row.at` and `row.body` must either all be null (for an unfinished step) or all have values"
            )
        if row["body"] is not None:
            row["at"] = _seconds("row.at", row["at"])
            _check_body(row["body"])
        self.rows.append(StepRow(**{**row, "failures": tuple(row["failures"])}))
        if self.is_whole():
            _check_rows(self.run, self.rows)


def _begin(value: Mapping[str, Any], before: _Reading | None) -> _Reading:
    """Start reading the run from a parsed line; raise ValueError if the previous run, `before`, is incomplete."""
    expected = "run" if before is None else "step"
    if value["kind"] != expected:
        raise ValueError(f'`kind` must be "{expected}" here (got {value["kind"]})')
    run = dict(value["run"])
    header = dict(run.pop("header"))
    header["created_at"] = _seconds("run.header.created_at", header["created_at"])
    header["seed"] = int(header["seed"])  # JSON Schema counts 1e308 as an integer, but Python parses it as a float
    run["updated_at"] = _seconds("run.updated_at", run["updated_at"])
    run["outcome"] = unpack_outcome(run["outcome"])
    documents: Mapping[str, str] = value.get("documents", {})
    for key, body in documents.items():
        _check_body(body, field=f"documents.{key}")
    begun = _Reading(StoredRun(header=RunHeader(**header), **run), documents, value["rows"])
    if begun.is_whole():
        _check_rows(begun.run, ())
    return begun


def export_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) for one line of an export.

    >>> export_schema()["title"]
    'flowdebate run export, format 1'
    """
    from importlib.resources import files

    text = files("flowdebate.store").joinpath(f"schema/run-export-{EXPORT_FORMAT}.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _text(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
        if _SURROGATE.search(text):  # stores can hold surrogates, but UTF-8 cannot encode them
            text = json.dumps(value, allow_nan=False, default=_plain)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return text if text.isascii() or not _LINE_END.search(text) else text.translate(_LINE_ENDS)


def _plain(value: object) -> dict[Any, Any]:
    """Convert a mapping other than a dict to a dict; used as the JSON encoder's fallback."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON-serializable")


@cache  # cached, because many files may be verified or imported
def _line_reader() -> Callable[[str | bytes], dict[str, Any]]:
    """Create a function that parses and checks a line, raising ValueError if the line is invalid."""
    import jsonschema

    schema = export_schema()
    checks = {
        kind: jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}_line", "$defs": schema["$defs"]})
        for kind in ("run", "step")
    }

    def read(line: str | bytes) -> dict[str, Any]:
        value = _parse_line(line)
        if not isinstance(value, dict) or value.get("kind") not in ("run", "step"):
            kind = value.get("kind") if isinstance(value, dict) else value
            raise ValueError(unknown_choice("`kind`", kind, ("run", "step")))
        _check_formats(value)
        check = checks[value["kind"]]
        if not check.is_valid(value):
            raise ValueError(_describe(next(check.iter_errors(value))))
        _check_depth(value)
        return value

    return read


def _check_formats(value: dict[str, Any]) -> None:
    """Reject lines in another version's format with a clear message; the schema check would only call them invalid."""
    run = value.get("run")
    header = run.get("header") if isinstance(run, dict) else None
    for name, holder, newest in (("format", value, EXPORT_FORMAT), ("run.header.format", header, ROW_FORMAT)):
        written = holder.get("format") if isinstance(holder, dict) else None
        if isinstance(written, int) and not isinstance(written, bool) and written != newest:
            problem = (
                f"the run was exported by another version of flowdebate ({typed(written)}; this version reads {newest})"
            )
            raise ValueError(f"`{name}`: {problem}. Import it with that version")


def _check_plan(run: StoredRun, source: str) -> None:
    """Reject plans in another version's format, because this version's front ends could not read them."""
    written = (run.header.plan or {}).get("format", PLAN_FORMAT)
    if written != PLAN_FORMAT:
        formats = f"plan format {typed(written)}; this version reads {PLAN_FORMAT}"
        problem = f"was exported by another version of flowdebate ({formats})"
        raise BadFile(source, f"run {run.header.run_id} {problem}. Import it with that version")


def _parse_line(line: str | bytes) -> object:
    """Parse a line of JSON; raise ValueError for invalid or ambiguous text."""
    if len(line) > MAX_LINE_LENGTH:
        raise ValueError(f"longer than {MAX_LINE_LENGTH // 1_000_000} million characters")
    try:
        text = line.decode() if isinstance(line, bytes) else line
    except UnicodeDecodeError as error:
        raise ValueError(f"not valid UTF-8 at byte {error.start + 1}") from None
    if _SURROGATE.search(text):
        raise ValueError("not valid Unicode")
    try:
        value: object = json.loads(
            text.removeprefix("\ufeff"),  # Windows editors put a byte order mark at the start of a file
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {_reason(error)}") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return value


def _check_rows(run: StoredRun, rows: Sequence[StepRow]) -> None:
    """Raise ValueError if a run's step rows are inconsistent with each other or with `run`."""
    finished = sorted(row.seq for row in rows if row.seq is not None)
    keys = [row.key for row in rows]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"two steps of the run have the same `row.key`: {typed(twice)}")
    if len(finished) != run.steps:
        raise ValueError(f"`run.steps` is {run.steps}, but the run has {counted(len(finished), 'finished step')}")
    if finished != list(range(1, len(finished) + 1)):
        raise ValueError("`row.seq` must number the finished steps of the run: 1, 2, 3 and so on")


def _describe(error: Any) -> str:  # noqa: ANN401 - jsonschema is not imported here
    """Describe a jsonschema error: the field, the problem and the invalid value."""
    path = [str(part) for part in error.absolute_path]
    field, limit, received = f"`{'.'.join(path)}`", error.validator_value, f"(got {typed(error.instance)})"
    match error.validator:
        case "required":
            missing = next(name for name in limit if name not in error.instance)
            return f"`{'.'.join([*path, missing])}` is missing"
        case "additionalProperties":
            unknown = next(name for name in error.instance if name not in error.schema.get("properties", {}))
            return f"`{'.'.join([*path, unknown])}` is not a known field"
        case "type":
            kinds = " or ".join(_TYPES.get(kind, kind) for kind in ([limit] if isinstance(limit, str) else limit))
            return f"{field} must be {kinds} {received}"
        case "minLength":
            return f"{field} must not be empty"
        case "minimum" | "maximum":
            return f"{field} must be {_BOUNDS[error.validator]} {limit} {received}"
        case _:
            return unknown_choice(field, error.instance, map(str, limit if isinstance(limit, list) else [limit]))


def _reason(error: Exception) -> str:
    """Explain why a string is not valid JSON, and where the error is."""
    return f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else "too deep"


def _check_depth(value: object) -> None:
    if is_deeper(value, _DEEPEST):
        raise ValueError(_TOO_DEEP)


def _check_body(body: str, *, field: str = "row.body") -> None:
    """Check that the body of a step or document is JSON, because it is stored unchanged.

    An invalid step body would make the resumed run fail.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`{field}` is not valid JSON: {_reason(error)} (got {typed(body)})") from None
    _check_depth(value)


def _seconds(field: str, value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"`{field}` must be a number of seconds (got {typed(value)})") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{typed(twice)}` occurs twice in one object")
    return mapping


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a valid JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {typed(text)} is too large")
    return value


def _integer(text: str) -> int:
    try:  # Python refuses to parse numbers with thousands of digits, because that takes quadratic time
        return int(text)
    except ValueError:
        raise ValueError(f"a number with {len(text):,} digits is too large") from None
