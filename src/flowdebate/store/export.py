"""Export and import of runs as JSON Lines, whose schema is published with the package."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flowdebate._util.files import open_private
from flowdebate.errors import BadFile, ConfigurationError, RunExists, StoreError, add_note, shown
from flowdebate.store.base import documents_of
from flowdebate.store.export_format import (
    LONGEST_LINE,
    LineReader,
    check_rows,
    documents_in,
    row_of,
    run_line,
    run_of,
    step_line,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from flowdebate.store.base import StepRow, Store, StoredRun


GONE = "null"
"""The body of a document that was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Result of an import."""

    added: tuple[str, ...] = ()
    """The ids of the imported runs, in the order of the file."""
    skipped: tuple[str, ...] = ()
    """The ids of runs that were already there and were left as they are."""


async def export_run(store: Store, run_id: str) -> AsyncIterator[str]:
    """Yield the run as lines without line ends: one for it and its documents, then one for each of its steps.

    A run that is being executed is exported as it is at this moment. RunNotFound; StoreError for a run with values that
    are not JSON data.
    """
    run = await store.run(run_id)
    rows = await store.steps(run_id)
    documents = await store.documents(documents_of(run_id))
    # A step may have been finished since the run was read.
    run = replace(run, steps=sum(row.seq is not None for row in rows))
    try:
        yield run_line(run, len(rows), {key: body for key, body in documents.items() if body != GONE})
        for row in rows:
            yield step_line(run_id, row)
    except ValueError as error:
        raise StoreError(store.name, f"run {run_id} cannot be exported: {error}") from error


async def _put_all(store: Store, collection: str, documents: Mapping[str, str]) -> None:
    """Add documents that are not there, or were deleted."""
    for key, body in documents.items():
        if not await store.put(collection, key, body):
            await store.put(collection, key, body, expected=GONE)


async def write_export(path: str | Path, store: Store, run_ids: Iterable[str], *, overwrite: bool = False) -> int:
    """Write the runs to the file `path`, which appears whole or not at all, for its owner alone; return their number.

    BadFile for a path that exists (unless with `overwrite`) or cannot be written.
    """
    target = Path(path)
    if not overwrite and await asyncio.to_thread(os.path.lexists, target):
        raise _taken(target)
    part = target.with_name(f".{target.name}.{os.urandom(4).hex()}.part")
    written = 0
    try:
        await asyncio.to_thread(_create, part)
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
    """Yield the lines of a file; BadFile for one that cannot be read, or for a line that is too long."""
    try:
        with Path(path).open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise BadFile(str(path), f"line {number}: it is longer than {LONGEST_LINE // 1_000_000} MB")
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
    """Add the runs in `lines` to `store`, without an owner; each of them whole or not at all.

    They stay marked as foreign (`RunHeader.foreign`): whoever wrote the file chose their inputs, plans and recorded
    answers. With `trusted`, for files that only your own programs can have written, they stay as the file has them.
    BadFile, with `source`, the line and the field, for anything but an export; RunExists for a run
    whose id is taken, unless `exists` is "skip". Runs before it in the file stay imported, and a note of the error
    names them.
    """
    if exists not in ("raise", "skip"):
        raise ConfigurationError("import_runs", "exists", exists, '"raise" or "skip"')
    done = Imported()
    runs = read_runs(lines, source)
    try:
        # Lines are read and checked in a thread: they may be many, and on a disk.
        while (found := await asyncio.to_thread(next, runs, None)) is not None:
            run, rows, documents = found
            run_id = run.header.run_id
            if not trusted:
                run = replace(run, header=replace(run.header, foreign=True, parent=_named(run.header.parent)))
            try:
                await store.add(run, rows)
            except RunExists:
                if exists == "raise":
                    raise
                done = replace(done, skipped=(*done.skipped, run_id))
            else:
                done = replace(done, added=(*done.added, run_id))
                await _put_all(store, documents_of(run_id), documents)
    except Exception as error:
        if done.added:
            add_note(error, f"imported before it: {', '.join(done.added)}")
        raise
    return done


def read_runs(
    lines: Iterable[str | bytes], source: str
) -> Iterator[tuple[StoredRun, list[StepRow], Mapping[str, str]]]:
    """Yield each run of an export with its steps and documents; BadFile with the number of the line."""
    pages = _Lines(lines)
    try:
        while (value := pages.next()) is not None:
            run, documents = run_of(value), documents_in(value)
            rows = [row_of(pages.step(run, index, value["rows"])) for index in range(value["rows"])]
            check_rows(run, rows)
            pages.no_step(run)
            yield run, rows, documents
    except ValueError as error:
        cut = "; the end of the file may have been cut off" if pages.ended() else ""
        raise BadFile(source, f"line {pages.number}: {error}{cut}") from None


class _Lines:
    """Line reader that counts, with one line of look-ahead."""

    def __init__(self, lines: Iterable[str | bytes]) -> None:
        self.number = 0
        self._lines = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
        self._ahead: tuple[int, str | bytes] | None = None
        self._reader = LineReader()

    def ended(self) -> bool:
        """Return whether there are no more lines."""
        if self._ahead is None:
            self._ahead = next(self._lines, None)
        return self._ahead is None

    def no_step(self, run: StoredRun) -> None:
        """Raise ValueError if another step follows: the run has more than its line says."""
        if self.ended() or self._ahead is None:
            return
        number, line = self._ahead
        try:
            kind = self._reader.read(line)["kind"]
        except ValueError:  # raised when its turn comes
            return
        if kind == "step":
            self.number = number
            raise ValueError(f"a line of kind 'run' must follow: run {shown(run.header.run_id)} has all its steps")

    def next(self, kind: str = "run") -> dict[str, Any] | None:
        """Read the next line, which must be of that kind; None at the end."""
        if self.ended() or self._ahead is None:
            return None
        (self.number, line), self._ahead = self._ahead, None
        value = self._reader.read(line)
        if value["kind"] != kind:
            raise ValueError(f"a line of kind {kind!r} must follow, got one of kind {value['kind']!r}")
        return value

    def step(self, run: StoredRun, index: int, steps: int) -> dict[str, Any]:
        """Read the next line, which must be a step of `run`."""
        value = self.next("step")
        run_id = run.header.run_id
        if value is None:
            raise ValueError(f"{steps} steps of run {shown(run_id)} must follow its line, got {index}")
        if value["run_id"] != run_id:
            raise ValueError(f"`run_id` must be {shown(run_id)}, whose steps follow here, got {shown(value['run_id'])}")
        return value


def _create(part: Path) -> None:
    os.close(open_private(part, os.O_WRONLY | os.O_EXCL))


def _append(part: Path, lines: Sequence[str]) -> None:
    with part.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write("".join(lines).encode())


def _publish(part: Path, target: Path, *, overwrite: bool) -> None:
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    if not overwrite:
        try:
            os.link(part, target)
        except FileExistsError:
            raise _taken(target) from None
        except OSError:  # a file system without links
            if os.path.lexists(target):
                raise _taken(target) from None
        else:
            return
    part.replace(target)


def _taken(path: Path) -> BadFile:
    return BadFile(str(path), "is there already: write to another file, or pass overwrite=True")


def _named(parent: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The name of an imported fork's parent, without which it is complete: a run of this store may have that id."""
    return None if parent is None else {"run": str(parent.get("run"))}
