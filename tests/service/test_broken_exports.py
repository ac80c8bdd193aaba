"""Exports with values of the wrong type: each is rejected, or imported as a run that breaks nothing else."""

from __future__ import annotations

import asyncio
import copy
import io
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.cli.stored.run_view import run_data, show_run, show_table, step_data
from flowdebate.cli.terminal.page import Page
from flowdebate.errors import BadFile, FlowDebateError, ProviderFailed
from flowdebate.service.evidence import evidence_of
from flowdebate.service.service import Service
from flowdebate.store.export import export_run, import_runs, read_runs
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel
from flowdebate.ui.steps import StepState
from flowdebate.web.run.sheet import Sheet
from tests.cases import slow_but_first
from tests.runs.durable.patterns import answer_to

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flowdebate.models.base import ModelRequest

WRONG: list[Any] = [None, -1, "x", {"x": None}]
LINES = range(6)
"""Indexes of the lines for the run and for each of its calls."""


def answer(request: ModelRequest) -> str | dict[str, Any]:
    """Answer a request in a short debate."""
    if request.output_schema is not None:
        return {"reasoning": "Both have a point.", "winner": None, "verdict": "Wait a week."}
    return f"{request.block} is sure."


async def exported_lines() -> list[str]:
    """Return the exported lines of a debate that has a vote."""
    store = MemoryStore()
    async with Service(store=store, model=FunctionModel(answer)) as service:
        await service.begin("debate", "Should we ship?", options={"max_rounds": 1}, run_id="r")
        assert (await service.wait("r")).status == "complete"
        await service.vote("r", "reader-1", None, why="Neither.")
        return [line async for line in export_run(store, "r")]


async def exported_pattern(pattern: str) -> list[str]:
    """Run the pattern and return the exported lines of the run. A debate has two ballots and a vote."""
    store = MemoryStore()
    sides = [{"name": "ann", "stance": "cap rents"}, {"name": "bob", "stance": "build homes"}]
    async with Service(store=store, model=FunctionModel(answer_to)) as service:
        options = {"debaters": sides, "schedule": "swap", "max_rounds": 1} if pattern == "debate" else None
        await service.begin(pattern, "Should rents be capped?", options=options, run_id="r", seed=1)
        await service.wait("r")
        if pattern == "debate":
            await service.vote("r", "reader-1", "cap rents", why="It was shorter.")
        return [line async for line in export_run(store, "r")]


def value_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the path of each value in a line, including JSON inside text."""
    if path:
        yield path
    if path and (path[-1] == "body" or path[-2:-1] == ("failures",)) and isinstance(value, str):
        yield from (place for place in value_paths(json.loads(value), (*path, "JSON")) if place[-1] != "JSON")
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from value_paths(inner, (*path, key))


def replace_value(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    """Return the value with the part at one path replaced."""
    if not path:
        return to
    if path[0] == "JSON":
        return json.dumps(replace_value(json.loads(value), path[1:], to))
    value = copy.copy(value)
    value[path[0]] = replace_value(value[path[0]], path[1:], to)
    return value


@pytest.mark.parametrize("index", slow_but_first(LINES))
def test_invalid_value_breaks_only_its_run(index: int) -> None:
    """Each value in an export is replaced with a value of the wrong type.

    Either the import rejects the export and names the location, or the run can be listed, shown and verified as usual.
    `make soak-attacks` tries every combination.
    """

    async def tried() -> tuple[int, int]:
        lines = await exported_lines()
        assert len(lines) == len(LINES)
        line, accepted, rejections = json.loads(lines[index]), 0, 0
        for place, path in enumerate(value_paths(line)):
            for wrong in (WRONG[place % 2], WRONG[2 + place % 2]):
                mutated = [*lines[:index], json.dumps(replace_value(line, path, wrong)), *lines[index + 1 :]]
                try:
                    accepted += await survives(mutated)
                except BadFile:
                    rejections += 1
                except Exception as error:
                    raise AssertionError(f"{path} as {wrong!r}") from error
        return accepted, rejections

    accepted, rejections = asyncio.run(tried())
    assert accepted
    assert rejections


@pytest.mark.parametrize(
    ("pattern", "place", "wrong"),
    [
        ("debate", "header.seed", 1e308),
        ("debate", "outcome.raw.question", "\ud800"),
        ("debate", "outcome.raw.transcript.0.agentName", "\ud800"),
        ("consensus", "outcome.raw.analytics.relationships.0.severity", None),
    ],
)
def test_subtly_invalid_value_breaks_only_its_run(pattern: str, place: str, wrong: Any) -> None:
    """Subtly invalid values include a float instead of an integer, a lone surrogate, and a missing mean."""
    lines = asyncio.run(exported_pattern(pattern))
    path = tuple(int(part) if part.isdigit() else part for part in ("run", *place.split(".")))
    line = json.dumps(replace_value(json.loads(lines[0]), path, wrong))
    assert asyncio.run(survives([line, *lines[1:]]))


def test_invalid_value_in_a_failed_call_breaks_only_its_run() -> None:
    """The journal of a failed run stores its failures as text, which anybody could have altered."""

    def fails(request: ModelRequest) -> str | dict[str, Any]:
        if "con" in request.block:
            raise ProviderFailed("503", status=503)
        return answer(request)

    async def failed() -> list[str]:
        store = MemoryStore()
        async with Service(store=store, model=FunctionModel(fails)) as service:
            await service.begin("debate", "Should we ship?", options={"max_rounds": 1}, run_id="r")
            assert (await service.wait("r")).status == "failed"
            return [line async for line in export_run(store, "r")]

    async def tried() -> None:
        lines = await failed()
        [index] = [at for at, line in enumerate(lines) if json.loads(line).get("row", {}).get("failures")]
        line = json.loads(lines[index])
        inside = [path for path in value_paths(line) if "failures" in path]
        assert len(inside) > 8
        for path in inside:
            for wrong in (*WRONG, "{", "null", "[]", '{"attempts": 3}'):
                mutated = [*lines[:index], json.dumps(replace_value(line, path, wrong)), *lines[index + 1 :]]
                with suppress(BadFile):
                    await survives(mutated)

    asyncio.run(tried())


async def survives(lines: list[str]) -> bool:
    """Import the run from the lines, then list, show and verify it; return True if nothing breaks.

    Showing and verifying may fail with a readable error. Raise BadFile if the lines cannot be imported.
    """
    store = MemoryStore()
    await import_runs(store, lines)
    [run] = await store.runs()
    steps = await store.steps(run.header.run_id)
    page = Page(io.StringIO(), ())
    async with Service(store=store) as service:
        assert len((await service.runs()).runs) == 1
        await service.audited()
        run_data(run, complete=True)
        show_table([[run]], page, now=1e9)
        for step in steps:
            step_data(step)
        try:
            await asyncio.to_thread(show_run, run, steps, page)
            details = await service.run(run.header.run_id)
            if details.document is not None:
                votes = await service.votes(run.header.run_id)
                states = [StepState.of(step) for step in steps]
                Sheet.of(details.document, details=details, steps=states, events=(), votes=votes)
            for entry in read_runs(lines, "export"):
                await (await evidence_of(*entry)).check(same_version=False)
        except FlowDebateError:  # allowed, since the error has a readable message
            return True
    return True


@pytest.mark.parametrize(
    ("path", "wrong"),
    [("usage.calls", None), ("usage", 3), ("usage.prompt_tokens", "many"), ("seconds", "long"), ("error", ["no"])],
)
def test_error_names_the_outcome_field_that_has_a_wrong_type(path: str, wrong: Any) -> None:
    """The error is raised before anything is stored."""
    lines = asyncio.run(exported_lines())
    place = ("run", "outcome", *path.split("."))
    lines[0] = json.dumps(replace_value(json.loads(lines[0]), place, wrong))
    with pytest.raises(BadFile, match=rf"line 1: `run\.outcome\.{path}` must be "):
        asyncio.run(import_runs(MemoryStore(), lines))


def test_stored_run_with_a_broken_outcome_does_not_break_lists() -> None:
    async def listed() -> tuple[Any, ...]:
        [(run, rows, _)] = read_runs(await exported_lines(), "export")
        store = MemoryStore()
        assert run.outcome is not None
        run.outcome.update(usage={"calls": None}, seconds="long", error=["no"])  # type: ignore[attr-defined]
        await store.add(run, rows)
        async with Service(store=store) as service:
            [state] = (await service.runs()).runs
            details = await service.run("r")
            return state.usage, state.seconds, state.error, details.problem

    usage, seconds, error, problem = asyncio.run(listed())
    assert (usage, seconds, error) == (None, None, "['no']")
    assert "`seconds` must be a number (got long)" in problem


def test_verify_and_import_report_the_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both commands print a single sentence and exit with the code for an unusable file.

    Exit code 1 would mean that the report does not follow from its journal.
    """
    lines = asyncio.run(exported_lines())
    lines[0] = json.dumps(replace_value(json.loads(lines[0]), ("run", "outcome", "usage", "calls"), None))
    (tmp_path / "broken.jsonl").write_text("\n".join(lines))
    for command in (["runs", "verify"], ["import"]):
        result = CliRunner().invoke(
            app, [*command, str(tmp_path / "broken.jsonl")], env={"FLOWDEBATE_STORE": "memory:"}
        )
        assert result.exit_code == 2
        assert "`run.outcome.usage.calls` must be a whole number (got null)" in result.stderr

    async def fails(_: str) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("flowdebate.web.report.verify_file", fails)
    result = CliRunner().invoke(app, ["runs", "verify", str(tmp_path / "broken.jsonl")])
    assert result.exit_code == 2
    assert "cannot be verified: ZeroDivisionError: by nothing" in result.stderr
