"""Imported runs: what their plans name is used only after the user has said so."""

from __future__ import annotations

import json
import os
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from flowdebate._util.option_types import Reach, Text
from flowdebate.cli.app import app
from flowdebate.patterns import PATTERNS
from flowdebate.ui.options import FilePath, OutputOptions, PlanOptions

from .stage import OnTerminal, Stage
from .test_run import SIDES
from .test_stored import command, ended_early

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SECRET = "The vault opens at noon."  # noqa: S105 - of nobody
KEY = "sk-of-the-user"


@pytest.fixture
def theirs() -> Iterator[Stage]:
    """The server of whoever wrote the file."""
    with Stage() as on:
        yield on


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the user."""
    path = tmp_path / "material.txt"
    path.write_text(SECRET)
    return path


def forged(theirs: Stage, tmp_path: Path, *, asked: bool = False, **options: Any) -> tuple[str, Path]:
    """An unfinished run on the server `theirs`, and its export, with other `options` in the plan.

    Unless models were `asked`, it has no step yet: a recorded answer would not fit to other prompts.
    """
    store = ("--store", str(tmp_path / "theirs.db"))
    run_id = ended_early(theirs, *store)
    head, *steps = command("export", run_id, *store).stdout.splitlines()
    line = json.loads(head)
    line["run"]["header"]["plan"]["options"].update(options)
    if not asked:
        steps, line["rows"], line["run"]["steps"] = [], 0, 0
    file = tmp_path / "gift.jsonl"
    file.write_text("\n".join([json.dumps(line), *steps]) + "\n")
    theirs.bodies.clear()
    theirs.headers.clear()
    return run_id, file


def change_plan(file: Path, change: Mapping[str, Any]) -> None:
    """Change the plan of the run in the export `file`."""
    head, *steps = file.read_text().splitlines()
    line = json.loads(head)
    line["run"]["header"]["plan"].update(change)
    file.write_text("\n".join([json.dumps(line), *steps]) + "\n")


@pytest.mark.parametrize("how", [("--last",), ("RUN",)], ids=["last", "by id"])
def test_an_imported_run_reaches_nobody_and_reads_nothing_unasked(
    how: tuple[str, ...], theirs: Stage, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal it is refused, with what it would use and what to type; then that is what it takes."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    run_id, file = forged(theirs, tmp_path, sources=[str(secret)])
    assert command("import", str(file)).exit_code == 0
    how = tuple(run_id if each == "RUN" else each for each in how)
    refused = command("resume", *how, "--max-calls", "9", "--allow-changes")
    assert refused.exit_code == 2
    assert theirs.bodies == []
    for said in (run_id, theirs.base_url, str(secret), f"flowdebate resume {run_id} --trust-plan"):
        assert said in refused.stderr
    assert refused.stdout == ""
    trusted = command("resume", *how, "--max-calls", "9", "--allow-changes", "--trust-plan")
    assert trusted.exit_code == 0, trusted.stderr
    assert {headers["authorization"] for headers in theirs.headers} == {f"Bearer {KEY}"}
    assert SECRET in json.dumps(theirs.bodies)


def test_what_is_given_again_is_used_and_what_is_not_is_asked_for(theirs: Stage, secret: Path, tmp_path: Path) -> None:
    """The user's own server takes the place of theirs; a file that the plan names is still not read."""
    run_id, file = forged(theirs, tmp_path, sources=[str(secret)])
    command("import", str(file))
    with Stage() as mine:
        own = ("--base-url", mine.base_url, "--max-calls", "9", "--allow-changes")
        refused = command("resume", run_id, *own)
        assert (refused.exit_code, mine.bodies) == (2, [])
        assert str(secret) in refused.stderr
        assert theirs.base_url not in refused.stderr
        assert command("resume", run_id, *own, "--trust-plan").exit_code == 0
        assert len(mine.bodies) > 0
    assert theirs.bodies == []


def test_a_server_given_again_is_enough_where_nothing_else_is_named(theirs: Stage, tmp_path: Path) -> None:
    """Texts of sources and schemas inside the file are its content: nothing else is used for them."""
    content: dict[str, Any] = {
        "sources": {"report": "Homes first."},
        "output_schema": {"type": "object"},
        "synthesizer": True,
    }
    run_id, file = forged(theirs, tmp_path, **content)
    command("import", str(file))
    with Stage() as mine:
        result = command("resume", run_id, "--base-url", mine.base_url, "--max-calls", "9", "--allow-changes")
    assert result.exit_code == 0, result.stderr
    assert theirs.bodies == []


@pytest.mark.parametrize("verb", ["resume", "fork"])
def test_an_imported_run_starts_no_program_unasked(
    verb: str, theirs: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused with the program's name, and `--trust-plan` starts it."""
    program = tmp_path / "bin" / "opencode"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("OPENCODE_API_KEY", "of-nobody")
    run_id, file = forged(theirs, tmp_path, base_url=None, model="cli/opencode")
    command("import", str(file))
    words = ["resume"] if verb == "resume" else ["runs", "fork"]
    refused = command(*words, run_id, "--max-calls", "9")
    assert (refused.exit_code, (tmp_path / "started").exists()) == (2, False)
    assert "--model 'cli/opencode'" in refused.stderr
    command(*words, run_id, "--max-calls", "9", "--trust-plan", *(["--allow-changes"] if verb == "resume" else []))
    assert (tmp_path / "started").exists()


def test_a_terminal_shows_what_is_named_and_asks(theirs: Stage, tmp_path: Path) -> None:
    """Only a yes goes on."""
    run_id, file = forged(theirs, tmp_path)
    command("import", str(file))
    for answer, code in (("n", 2), ("y", 0)):
        with OnTerminal("resume", run_id, "--max-calls", "9") as terminal:
            terminal.until("Use them? [y/N]:")
            assert f"--base-url {theirs.base_url}" in terminal.seen
            assert theirs.bodies == []
            terminal.write(f"{answer}\n")
            assert terminal.end() == code
        assert bool(theirs.bodies) is (answer == "y")


def test_an_answer_to_an_imported_run_reaches_nobody_unasked(theirs: Stage, secret: Path, tmp_path: Path) -> None:
    """The answer is recorded; resuming the run needs what `resume` needs."""
    store = ("--store", str(tmp_path / "theirs.db"))
    held = command(*theirs.options("--human", "pro", *SIDES, "--max-rounds", "1", "--suspend", "--json", *store))
    run_id = json.loads(held.stdout)["runId"]
    file = tmp_path / "gift.jsonl"
    file.write_text(command("export", run_id, *store).stdout)
    theirs.bodies.clear()
    command("import", str(file))
    refused = command("runs", "answer", run_id, "Homes first.")
    assert (refused.exit_code, theirs.bodies) == (2, [])
    assert f"flowdebate resume {run_id} --trust-plan" in refused.stderr
    assert command("resume", run_id, "--trust-plan").exit_code == 0
    assert len(theirs.bodies) > 0


def test_showing_an_imported_run_reads_none_of_its_files(theirs: Stage, secret: Path, tmp_path: Path) -> None:
    """The page and the report have what was recorded; a path in the plan is not opened, whatever it names."""
    run_id, file = forged(theirs, tmp_path, asked=True, sources=[str(secret), "missing"], output_schema="/dev/zero")
    command("import", str(file))
    report = tmp_path / "report.md"
    for arguments in (
        ("show", run_id),
        ("show", run_id, "--page"),
        ("runs", "report", run_id, "--markdown", str(report), "--html", str(tmp_path / "report.html")),
        ("show", run_id, "--json"),
    ):
        done = command(*arguments)
        assert done.exit_code == 0, done.stderr
    assert "Homes first." in report.read_text()
    assert theirs.bodies == []


def test_a_run_of_one_s_own_store_is_resumed_unasked(theirs: Stage) -> None:
    """Its plan is what the user typed."""
    run_id = ended_early(theirs)
    assert command("resume", run_id, "--max-calls", "9").exit_code == 0


def test_a_plan_file_is_the_user_s_own(theirs: Stage, secret: Path, tmp_path: Path) -> None:
    """`run PLAN` uses the addresses and paths in it."""
    plan = tmp_path / "plan.toml"
    options = {
        "pattern": "debate",
        "question": "Should we ship?",
        "model": "staged",
        "base_url": theirs.base_url,
        "max_rounds": 1,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**options, "sources": [secret.name]}.items()]
    plan.write_text("\n".join(lines))
    assert command("run", str(plan), "--no-store").exit_code == 0
    assert SECRET in json.dumps(theirs.bodies)


@pytest.mark.parametrize(
    "change",
    [{"options": []}, {"options": None}, {"withheld": 5}, {"pattern": 7}],
    ids=str,
)
def test_a_plan_that_no_version_wrote_is_an_error(change: dict[str, Any], theirs: Stage, tmp_path: Path) -> None:
    """One message and exit code 2, not a traceback."""
    run_id, file = forged(theirs, tmp_path)
    change_plan(file, change)
    assert command("import", str(file)).exit_code == 0
    result = command("resume", run_id)
    assert (result.exit_code, theirs.bodies) == (2, [])
    assert result.stderr.startswith("Error: ")


@pytest.mark.parametrize("written", ["2", None])
def test_a_plan_of_another_version_is_not_imported(written: str | None, theirs: Stage, tmp_path: Path) -> None:
    """The error says which format the plan has, and nothing is stored."""
    run_id, file = forged(theirs, tmp_path)
    change_plan(file, {"format": written})
    result = command("import", str(file))
    assert (result.exit_code, theirs.bodies) == (2, [])
    assert f"run {run_id} was exported by another version of flowdebate (plan format {written!r}" in result.stderr
    assert command("show", run_id).exit_code == 2


# Options


def unsaid(kind: Any, about: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The types of text inside `kind` that do not say what they reach."""
    origin, parts = get_origin(kind), get_args(kind)
    said = any(isinstance(each, Reach) for each in about)
    if origin is Annotated:
        yield from unsaid(parts[0], (*about, *parts[1:]))
    elif origin in (Union, UnionType, list):
        for part in parts:
            yield from unsaid(part, about)
    elif origin is dict:
        yield from unsaid(parts[1], about)
    elif isinstance(kind, type) and issubclass(kind, BaseModel) and not said:
        for field in kind.model_fields.values():
            yield from unsaid(field.annotation, tuple(field.metadata))
    elif not said and kind not in (bool, int, float, NoneType) and origin is not Literal:
        yield kind


def unsaid_fields(options: type[BaseModel]) -> list[str]:
    """The options that may hold a text without saying what it reaches."""
    fields = options.model_fields.items()
    return [name for name, field in fields if list(unsaid(field.annotation, tuple(field.metadata)))]


@pytest.mark.parametrize("name", PATTERNS)
def test_each_option_of_a_plan_says_what_its_text_reaches(name: str) -> None:
    """A new option is text, a path or an address by its type."""
    assert unsaid_fields(PATTERNS[name].load_page().options) == []


def test_an_option_that_does_not_say_it_is_found() -> None:
    """The test above can fail: plain strings, also inside of lists, tables and entries."""

    class Entry(BaseModel):
        name: Text
        picture: str

    class Wrong(OutputOptions):
        own: str | None = None
        many: list[str] | None = None
        table: dict[str, Any] | None = None
        entries: list[Entry] | None = None
        right: Text | int | Literal["a"] | None = None

    assert unsaid_fields(Wrong) == ["own", "many", "table", "entries"]


def test_what_does_not_say_it_counts_as_both() -> None:
    """An option that was forgotten is asked for, not used."""

    class Own(PlanOptions):
        plain: list[dict[str, str]] | None = None
        path: dict[str, FilePath] | None = None
        text: Text | None = None

    said = {"plain": [{"a": "x"}], "path": {"b": "/y"}, "text": "t", "base_url": "http://h/v1", "record": "r"}
    options = Own.read({}, file=said)
    assert options.reached("server") == {"base_url": ["http://h/v1"], "plain": ["x"]}
    assert options.reached("file") == {"record": ["r"], "plain": ["x"], "path": ["/y"]}
    assert Own.read({"base_url": "http://mine/v1"}, file=said).reached("server") == {"plain": ["x"]}


def test_the_paths_and_addresses_of_all_patterns_are_these() -> None:
    """So that a reviewer sees a new one."""
    found = set()
    for info in PATTERNS.values():
        options = info.load_page().options
        for name, field in options.model_fields.items():
            kinds = list(_reaches(field.annotation, tuple(field.metadata)))
            found |= {(name, kind) for kind in kinds if kind not in ("nothing", "model")}
    assert found == {
        ("base_url", "server"),
        ("diff", "file"),
        ("output_schema", "file"),
        ("record", "file"),
        ("replay", "file"),
        ("sources", "file"),
    }


def _reaches(kind: Any, about: tuple[Any, ...]) -> Iterator[str]:
    yield from (each.of for each in about if isinstance(each, Reach))
    if get_origin(kind) is Annotated:
        yield from _reaches(get_args(kind)[0], tuple(get_args(kind)[1:]))
    else:
        for part in get_args(kind):
            yield from _reaches(part, ())
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for field in kind.model_fields.values():
            yield from _reaches(field.annotation, tuple(field.metadata))


def test_the_help_of_resume_and_answer_names_the_option() -> None:
    """`--trust-plan`, for scripts."""
    for words in (["resume"], ["runs", "answer"]):
        assert "--trust-plan" in CliRunner().invoke(app, [*words, "--help"]).stdout
