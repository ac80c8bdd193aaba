"""Export of runs from a store and import into another."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import BadFile, ConfigurationError, FlowDebateError, RunExists, RunNotFound, StoreError
from flowdebate.store.base import (
    RunHeader,
    StepKind,
    StepRow,
    StoredRun,
    StoredStatus,
    documents_of,
    pack_outcome,
    unpack_outcome,
)
from flowdebate.store.export import (
    GONE,
    Imported,
    export_run,
    export_schema,
    import_runs,
    read_export,
    write_export,
)
from flowdebate.store.memory import MemoryStore
from flowdebate.store.open import open_store
from flowdebate.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.store.base import Store

pytestmark = pytest.mark.anyio

DATA = Path(__file__).with_name("data")


def make_header(run_id: str = "r1", **changes: Any) -> RunHeader:
    """Return a run's header."""
    given_: dict[str, Any] = {
        "block": "rent",
        "seed": 7,
        "created_at": 100.0,
        "question": "Cap rents?",
        "input": "Cap?",
    }
    return RunHeader(run_id=run_id, **{**given_, "fingerprint": {"outline": "a\nb"}, **changes})


def make_run(run_id: str = "r1", *, steps: int = 0, **changes: Any) -> StoredRun:
    """Return a stored run."""
    return StoredRun(header=make_header(run_id), status="complete", updated_at=200.5, steps=steps, **changes)


def make_step(key: str, seq: int | None = None, body: str = '{"text": "No."}') -> StepRow:
    """Return a step, which is finished if it has a `seq`."""
    if seq is None:
        return StepRow(key=key, kind="call", request="ab", attempts=2, failures=("late",))
    return StepRow(key=key, kind="call", request="ab", seq=seq, at=150.0 + seq, body=body)


ROWS = [make_step("round[1]/con#0", 1), make_step("round[1]/pro#0", 2, "[1, 2]"), make_step("round[2]/con#0")]


async def filled_store(*run_ids: str) -> MemoryStore:
    """Return a store whose runs have three steps each, the last of which is open."""
    store = MemoryStore()
    for run_id in run_ids:
        await store.add(make_run(run_id, steps=2, outcome={"output": "Yes.", "usage": {"calls": 2}}), ROWS)
    return store


async def export_lines(store: Store, run_id: str = "r1") -> list[str]:
    return [line async for line in export_run(store, run_id)]


async def read_everything(store: Store) -> list[tuple[StoredRun, list[StepRow]]]:
    """Return all data about a store's runs."""
    return [(run, list(await store.steps(run.header.run_id))) for run in await store.runs()]


# Round trips

words = st.text(st.characters() | st.sampled_from("\x00\x1a\x85\u2028\ud800\udfff"), max_size=20)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
objects = st.none() | st.dictionaries(words, plain, max_size=3)
times = st.floats(allow_nan=False, allow_infinity=False).map(lambda at: at + 0.0)  # SQLite stores -0.0 as 0.0
counts = st.integers(0, 2**53 - 1)
headers = st.builds(
    RunHeader,
    run_id=words.filter(bool),
    block=words,
    seed=st.integers(),
    created_at=times,
    question=words,
    input=plain,
    fingerprint=st.dictionaries(words, words, max_size=3),
    model=plain,
    limits=st.none() | st.dictionaries(words, st.integers() | times, max_size=3),
    session=objects,
    labels=st.dictionaries(words, words, max_size=3),
    plan=objects,
    foreign=st.booleans(),
)
open_rows = st.builds(
    StepRow,
    key=words,
    kind=st.sampled_from(("call", "effect", "loss", "human")),
    request=st.none() | words,
    attempts=st.integers(1, 2**53 - 1),
    failures=st.lists(words, max_size=3).map(tuple),
)


@st.composite
def whole_runs(draw: st.DrawFn) -> tuple[StoredRun, list[StepRow]]:
    """Draw any run that a store can contain, with its steps in the store's order."""
    rows: list[StepRow] = draw(st.lists(open_rows, max_size=4, unique_by=lambda one: one.key))
    finished = draw(st.integers(0, len(rows)))
    done = [
        StepRow(
            key=one.key,
            kind=one.kind,
            request=one.request,
            attempts=one.attempts,
            failures=one.failures,
            seq=seq,
            at=draw(times),
            body=json.dumps(draw(plain), indent=draw(st.sampled_from((None, 1))), ensure_ascii=draw(st.booleans())),
        )
        for seq, one in enumerate(rows[:finished], start=1)
    ]
    rest = sorted(rows[finished:], key=lambda one: one.key)
    run = StoredRun(
        header=draw(headers),
        status=draw(st.sampled_from(("running", "complete", "failed", "awaiting", "dead_letter"))),
        updated_at=draw(times),
        steps=finished,
        recoveries=draw(counts),
        outcome=draw(objects),
    )
    return run, [*done, *rest]


many_runs = st.lists(whole_runs(), max_size=3, unique_by=lambda one: one[0].header.run_id)


@given(many_runs)
def test_runs_survive_export_and_import_between_stores(runs: list[tuple[StoredRun, list[StepRow]]]) -> None:
    check = jsonschema.Draft202012Validator(export_schema())

    async def there_and_back(folder: str) -> None:
        memory, sqlite, last = MemoryStore(), SqliteStore(f"{folder}/runs.sqlite3"), MemoryStore()
        for run, rows in runs:
            await memory.add(run, rows)
        ids = [run.header.run_id for run, _ in runs]
        assert await write_export(f"{folder}/one.jsonl", memory, ids) == len(ids)
        done = await import_runs(sqlite, read_export(f"{folder}/one.jsonl"), trusted=True)
        assert done == Imported(added=tuple(ids))
        assert await read_everything(sqlite) == await read_everything(memory)
        lines = [line for run_id in ids for line in await export_lines(sqlite, run_id)]
        assert "".join(f"{line}\n" for line in lines).encode() == b"".join(read_export(f"{folder}/one.jsonl"))
        assert all(check.is_valid(json.loads(line)) for line in lines)
        await import_runs(last, "\n".join(lines).splitlines(), trusted=True)
        assert await read_everything(last) == await read_everything(memory)
        await sqlite.close()

    with TemporaryDirectory() as folder:
        asyncio.run(there_and_back(folder))


async def test_file_in_the_first_format_stays_readable() -> None:
    """The file dates from when the format was created, and it is never rewritten."""
    store = MemoryStore()
    done = await import_runs(store, read_export(DATA / "run-export-1.jsonl"))
    assert done.added == ("20260101-rent", "20260102-trams")
    run, rows = (await read_everything(store))[-1]
    assert (run.header.question, run.status, run.steps) == ("Should rents be capped? — Überall!", "complete", 2)
    assert run.header.fingerprint == {"outline": "rent\n  pro\n  con", "models": "m"}
    assert run.outcome == {"output": "Yes.", "raw": None, "usage": {"calls": 2}, "seconds": 1.5, "error": None}
    assert [one.key for one in rows] == ["round[1]/pro#0", "round[1]/con#0", "round[2]/pro#0"]
    assert rows[0].body == '{"text":  "Cap them — at 3 %."}'
    assert rows[2] == StepRow(key="round[2]/pro#0", kind="call", request="cd", attempts=2, failures=("ModelTimeout",))
    assert (await store.run("20260102-trams")).status == "running"


async def test_run_in_progress_can_be_exported() -> None:
    """The export is a snapshot of the run. After an import, no process owns the run, so it can be resumed."""
    store, copy = MemoryStore(), MemoryStore()
    await store.create(make_header())
    await store.intend("r1", "a", "call", "ab")
    await store.commit("r1", "a", "call", "1", 2.0)
    await store.intend("r1", "b", "call", "cd")
    await import_runs(copy, await export_lines(store))
    assert not (await copy.run("r1")).owned
    assert (await copy.take("r1")).status == "running"
    assert list(await copy.steps("r1")) == list(await store.steps("r1"))


async def test_invalid_json_is_not_exported() -> None:
    store = MemoryStore()
    for number, given_ in enumerate((float("nan"), object(), {1, 2})):
        await store.create(make_header(f"r{number}", input=given_))
        with pytest.raises(StoreError, match=f"run r{number} cannot be exported"):
            await export_lines(store, f"r{number}")
    with pytest.raises(RunNotFound):
        await export_lines(store, "none")


# Rejected files


def change_line(line: str, *path: str, to: Any) -> str:
    """Return the line with the value at `path` replaced."""
    value = inner = json.loads(line)
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = to
    return json.dumps(value)


RUN_CHANGES: dict[str, tuple[tuple[str, ...], Any, str]] = {
    "a status that there is not": (("run", "status"), "done", "`run.status` must be queued, running, complete,"),
    "a seed that is no number": (
        ("run", "header", "seed"),
        "7",
        "`run.header.seed` must be a whole number \\(got 7\\)",
    ),
    "a bool as a seed": (("run", "header", "seed"), True, "`run.header.seed` must be a whole number \\(got true\\)"),
    "no id": (("run", "header", "run_id"), "", "`run.header.run_id` must not be empty"),
    "a label that is no text": (("run", "header", "labels"), {"a": 1}, "`run.header.labels.a` must be text"),
    "a field too many": (("run", "color"), "red", "`run.color` is not a known field"),
    "a negative count": (("run", "recoveries"), -1, "`run.recoveries` must be at least 0 \\(got -1\\)"),
    "a count that no store can hold": (("run", "recoveries"), 2**70, "`run.recoveries` must be at most 90071992547"),
    "a time beyond all": (("run", "updated_at"), 10**400, "`run.updated_at` must be a number of seconds"),
    "an outcome of another type": (("run", "outcome"), [], "`run.outcome` must be an object or null"),
    "another number of steps": (("run", "steps"), 1, "`run.steps` is 1, but the run has 2 finished steps"),
    "fewer rows than follow": (("rows",), 2, "step 3 does not exist: run r1 has only 2 steps, all listed above"),
    "more rows than follow": (("rows",), 4, "run r1 has 4 steps, but only 3 of them follow"),
    "another format": (
        ("format",),
        2,
        r"`format`: .* another version of flowdebate \(2; this version reads 1\). Import it with",
    ),
    "an older format": (
        ("format",),
        0,
        r"`format`: .* another version of flowdebate \(0; this version reads 1\). Import it with",
    ),
    "another format of headers": (
        ("run", "header", "format"),
        9,
        r"`run.header.format`: .* another .*\(9; this version reads 1\)",
    ),
    "no format": (("format",), None, "`format` is required: 1"),
    "another kind": (("kind",), "walk", r"`kind` must be run or step \(got walk\)"),
}
STEP_CHANGES: dict[str, tuple[tuple[str, ...], Any, str]] = {
    "a kind that there is not": (("row", "kind"), "walk", "`row.kind` must be call, effect, loss or human \\(got walk"),
    "no attempts": (("row", "attempts"), 0, "`row.attempts` must be at least 1 \\(got 0\\)"),
    "a body that is no JSON": (("row", "body"), "{", "`row.body` is not valid JSON: .* \\(got {\\)"),
    "a body that is too deep": (("row", "body"), "[" * 3000 + "]" * 3000, "nested more than|`row.body`"),
    "a place without a body": (("row", "body"), None, "`row.seq`, `row.at` and `row.body` must either all be null"),
    "a place twice": (("row", "seq"), 2, "`row.seq` must number the finished steps"),
    "the same key twice": (
        ("row", "key"),
        "round[1]/pro#0",
        "two steps of the run have the same `row.key`: round\\[1\\]/pro#0",
    ),
    "a step of another run": (
        ("run_id",),
        "r9",
        "`run_id` must be r1, because the steps of that run are not complete yet \\(got r9\\)",
    ),
}


async def test_run_with_another_plan_version_is_not_imported() -> None:
    """The error states both versions and suggests what to do."""
    lines = await export_lines(await filled_store("r1"))
    lines[0] = change_line(lines[0], "run", "header", "plan", to={"format": 2, "pattern": "debate", "options": {}})
    store, problem = (
        MemoryStore(),
        r"run r1 was exported by another version .*2; this version reads 1\). Import it with that version",
    )
    with pytest.raises(BadFile, match=problem):
        await import_runs(store, lines)
    assert await store.runs() == []


@pytest.mark.parametrize(("index", "name"), [(0, n) for n in RUN_CHANGES] + [(1, n) for n in STEP_CHANGES])
async def test_error_names_the_field_of_an_invalid_line(index: int, name: str) -> None:
    path, to, message = (RUN_CHANGES, STEP_CHANGES)[index][name]
    lines = await export_lines(await filled_store("r1"))
    lines[index] = change_line(lines[index], *path, to=to)
    await assert_rejected(lines, message)


HOSTILE: dict[str, tuple[Callable[[str], str | bytes], str]] = {
    "no JSON": (lambda line: "rents!", "line 3: not valid JSON: Expecting value at character 1"),
    "cut off": (lambda line: line[:-9], "line 3: not valid JSON"),
    "another value": (lambda line: "[1]", "line 3: `kind` must be"),
    "nested very deep": (lambda line: "[" * 3000 + "]" * 3000, "line 3: "),
    "nested very, very deep": (lambda line: '{"a":' * 300_000, "line 3: "),
    "NaN": (lambda line: line.replace('"attempts": 1', '"attempts": NaN'), "line 3: NaN is not a valid JSON number"),
    "Infinity": (
        lambda line: line.replace('"attempts": 1', '"attempts": -Infinity'),
        "line 3: -Infinity is not a valid JSON number",
    ),
    "a number without end": (lambda line: line.replace("152.0", "1e999"), "line 3: the number 1e999 is too large"),
    "very many digits": (
        lambda line: line.replace("152.0", "1" * 5000),
        "line 3: a number with 5,000 digits is too large",
    ),
    "a key twice": (
        lambda line: line.replace('"seq"', '"key": "x", "seq"'),
        "line 3: `key` occurs twice in one object",
    ),
    "half a pair as it is": (
        lambda line: line.replace("pro", "\ud83d"),
        "line 3: not valid Unicode",
    ),
    "no UTF-8": (lambda line: line.encode().replace(b"pro", b"\xff"), "line 3: not valid UTF-8 at byte "),
    "nothing but a null": (lambda line: "null", "line 3: `kind` is required"),
    "zero bytes": (lambda line: "\0" * 9, "line 3: not valid JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_line_is_rejected(name: str) -> None:
    change, message = HOSTILE[name]
    lines: list[str | bytes] = [*await export_lines(await filled_store("r1"))]
    lines[2] = change(str(lines[2]))
    await assert_rejected(lines, message)


async def assert_rejected(lines: list[Any], message: str) -> None:
    """Check that no kind of store keeps any of these lines, and that each keeps a valid run before them."""
    good = await export_lines(await filled_store("good"), "good")
    with TemporaryDirectory() as folder:
        for store in (MemoryStore(), SqliteStore(f"{folder}/runs.sqlite3")):
            with pytest.raises(BadFile, match=message) as caught:
                await import_runs(store, lines, source="some.jsonl")
            assert str(caught.value).startswith("some.jsonl: line ")
            assert len(str(caught.value)) < 700
            assert await read_everything(store) == []
            with pytest.raises(BadFile) as caught:
                await import_runs(store, [*good, *lines])
            assert caught.value.__notes__ == ["imported before it: good"]
            assert [run.header.run_id for run in await store.runs()] == ["good"]
            await store.close()


@given(st.data())
def test_damaged_file_yields_only_complete_runs(data: st.DataObject) -> None:
    """The file is truncated, or some of its bytes are changed.

    There is at most one error, and each imported run has all its steps.
    """

    async def befall() -> None:
        source, store = await filled_store("r1", "r2"), MemoryStore()
        lines = [*await export_lines(source, "r1"), *await export_lines(source, "r2")]
        content = "".join(f"{line}\n" for line in lines).encode()
        at = data.draw(st.integers(0, len(content)))
        end = data.draw(st.sampled_from((at, at + 1, len(content))))
        broken = content[:at] + data.draw(st.binary(max_size=4)) + content[end:]
        try:
            await import_runs(store, broken.splitlines(keepends=True))
        except FlowDebateError as error:
            assert isinstance(error, (BadFile, RunExists))  # noqa: PT017 - most draws raise, and some do not
        assert all(len(rows) == len(ROWS) and run.steps == 2 for run, rows in await read_everything(store))

    asyncio.run(befall())


async def test_truncated_export_is_reported() -> None:
    """The file may end in the middle of a line or between two lines."""
    lines = await export_lines(await filled_store("r1"))
    for cut in ([*lines[:-1], lines[-1][:20]], lines[:-1]):
        with pytest.raises(BadFile, match="the end of the file may have been cut off"):
            await import_runs(MemoryStore(), cut)


async def test_overlong_line_is_rejected_unread(tmp_path: Path) -> None:
    """The line is rejected before it can take up memory or time."""
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.truncate(65_000_000)
    with pytest.raises(BadFile, match=r"long\.jsonl: line 1: longer than 64 MB"):
        await import_runs(MemoryStore(), read_export(path))
    with pytest.raises(BadFile, match="line 1: longer than 64 million characters"):
        await import_runs(MemoryStore(), [" " * 64_000_000 + "1"])


async def test_existing_run_is_rejected_or_skipped() -> None:
    """The existing run does not change.

    If an import stops at such a run, the same file can be imported again with `exists="skip"`.
    """
    store, target = await filled_store("r2"), MemoryStore()
    lines = [
        line for one in ("r1", "r2", "r3") for line in await export_lines(await filled_store("r1", "r2", "r3"), one)
    ]
    await target.add(make_run("r2"), [])
    before = (await target.run("r2"), await target.steps("r2"))
    with pytest.raises(RunExists) as caught:
        await import_runs(target, lines)
    assert caught.value.run_id == "r2"
    assert caught.value.__notes__ == ["imported before it: r1"]
    assert await import_runs(target, lines, exists="skip") == Imported(added=("r3",), skipped=("r1", "r2"))
    assert (await target.run("r2"), await target.steps("r2")) == before
    with pytest.raises(RunExists):
        await import_runs(MemoryStore(), [*await export_lines(store, "r2"), *await export_lines(store, "r2")])
    with pytest.raises(ConfigurationError):
        await import_runs(target, lines, exists="overwrite")  # type: ignore[arg-type]


async def test_changes_made_by_text_editors_are_harmless() -> None:
    lines = await export_lines(await filled_store("r1"))
    store = MemoryStore()
    text = "\ufeff" + "\r\n\r\n".join(lines) + "\r\n\n"
    assert (await import_runs(store, text.encode().splitlines(keepends=True), trusted=True)).added == ("r1",)
    assert await read_everything(store) == await read_everything(await filled_store("r1"))
    assert await import_runs(store, []) == Imported()


# Files


def list_names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_export_is_written_atomically(tmp_path: Path) -> None:
    """If an export fails, the previous file stays intact and no temporary file is left behind."""
    path = tmp_path / "runs.jsonl"
    store = await filled_store("r1", "r2")
    with pytest.raises(RunNotFound):
        await write_export(path, store, ["r1", "none"])
    assert list_names(tmp_path) == []
    assert await write_export(path, store, ["r1"]) == 1
    before = path.read_bytes()
    with pytest.raises(BadFile, match="already exists"):
        await write_export(path, store, ["r2"])
    with pytest.raises(RunNotFound):
        await write_export(path, store, ["r2", "none"], overwrite=True)
    assert path.read_bytes() == before
    assert await write_export(path, store, ["r1", "r2"], overwrite=True) == 2
    assert path.read_bytes().startswith(before)
    assert list_names(tmp_path) == ["runs.jsonl"]


async def test_inaccessible_path_is_reported_as_a_bad_file(tmp_path: Path) -> None:
    store = await filled_store("r1")
    for path in (tmp_path / "none" / "runs.jsonl", tmp_path / ("x" * 300)):
        with pytest.raises(BadFile, match="cannot be written"):
            await write_export(path, store, ["r1"])
        with pytest.raises(BadFile, match="cannot be read"):
            await import_runs(store, read_export(path))
    with pytest.raises(BadFile, match="cannot be read"):
        await import_runs(store, read_export(tmp_path))


async def test_export_is_private_to_its_owner(tmp_path: Path, open_umask: None) -> None:
    """The export is private whatever the umask is, even if it replaces a public file."""
    path, store = tmp_path / "runs.jsonl", await filled_store("r1")
    for overwrite in (False, True):
        await write_export(path, store, ["r1"], overwrite=overwrite)
        assert os.name == "nt" or stat.filemode(path.stat().st_mode) == "-rw-------"
        path.chmod(0o644)


async def test_imported_run_stays_foreign(tmp_path: Path) -> None:
    """A run marked as foreign keeps the mark when it is exported and imported as trusted.

    No file can remove the mark.
    """
    path, store = tmp_path / "runs.sqlite3", SqliteStore(tmp_path / "runs.sqlite3")
    lines = await export_lines(await filled_store("r1"))
    assert "foreign" not in lines[0]
    await import_runs(store, [lines[0].replace('"format": 1}', '"foreign": false, "format": 1}'), *lines[1:]])
    await store.close()
    store, source = SqliteStore(path), MemoryStore()
    assert (await store.run("r1")).header.foreign
    await import_runs(source, await export_lines(store), trusted=True)
    assert (await source.run("r1")).header.foreign
    await store.close()


async def test_trusted_file_is_imported_unchanged() -> None:
    """The application's own runs are not marked as foreign."""
    store = MemoryStore()
    await import_runs(store, await export_lines(await filled_store("r1")), trusted=True)
    assert await read_everything(store) == await read_everything(await filled_store("r1"))


def test_export_schema_is_a_valid_json_schema() -> None:
    """The schema follows draft 2020-12. It contains the format version and the fields and values of the rows."""
    schema = export_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$defs"]["run_line"]["properties"]["format"]["const"] == 1
    assert list(schema["$defs"]["header"]["properties"]) == [field.name for field in fields(RunHeader)]
    assert list(schema["$defs"]["row"]["properties"]) == [field.name for field in fields(StepRow)]
    assert {*schema["$defs"]["run"]["properties"], "owned"} == {field.name for field in fields(StoredRun)}
    assert schema["$defs"]["run"]["properties"]["status"]["enum"] == list(get_args(StoredStatus))
    assert schema["$defs"]["row"]["properties"]["kind"]["enum"] == list(get_args(StepKind))


async def test_documents_of_a_run_are_exported_with_it() -> None:
    """Deleted documents are not exported.

    The import adds documents that the target store lacks, even if they were deleted there.
    """
    store, target = await filled_store("r1"), MemoryStore()
    for key, body in {"votes/a": '{"winner": "y\\u0000"}', "votes/b": "[1]", "votes/c": GONE}.items():
        assert await store.put(documents_of("r1"), key, body)
    await target.put(documents_of("r1"), "votes/b", GONE)
    lines = await export_lines(store)
    jsonschema.Draft202012Validator(export_schema()).validate(json.loads(lines[0]))
    await import_runs(target, lines)
    assert await target.documents(documents_of("r1")) == {"votes/b": "[1]", "votes/a": '{"winner": "y\\u0000"}'}
    assert "documents" not in json.loads((await export_lines(await filled_store("r1")))[0])


async def test_document_with_invalid_json_is_rejected() -> None:
    line, *steps = await export_lines(await filled_store("r1"))
    changed = json.dumps({**json.loads(line), "documents": {"votes/a": "{"}})
    store = MemoryStore()
    with pytest.raises(BadFile, match=r"line 1: `documents.votes/a` is not valid JSON"):
        await import_runs(store, [changed, *steps])
    assert await store.runs() == []


@pytest.mark.parametrize("name", ["runs.jsonl", "RUNS.NDJSON"])
def test_export_cannot_be_opened_as_a_store(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"`store` must be a Store, .*flowdebate import .*{name}"):
        open_store(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


OUTCOMES = st.dictionaries(
    st.sampled_from(["output", "raw", "output_is_raw", "error"]),
    st.sampled_from([None, True, 1, 1.0, "text", {"said": 1}, {"said": True}, {"said": 1.0}, ["a"]]),
)


@given(OUTCOMES)
def test_outcome_survives_storage(outcome: dict[str, Any]) -> None:
    """If the output equals the raw output, it is stored only once."""
    packed = json.loads(json.dumps(pack_outcome(outcome)))
    assert json.dumps(unpack_outcome(packed), sort_keys=True) == json.dumps(outcome, sort_keys=True)
    once = outcome.keys() & {"output", "raw", "output_is_raw"} == {"output", "raw"} and (
        json.dumps(outcome["output"]) == json.dumps(outcome["raw"])
    )
    assert ("output" in packed) is ("output" in outcome and not once)
