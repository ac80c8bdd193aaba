"""Imported runs: references in their plans are used only with the user's consent."""

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
from .test_stored import run_command, run_to_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SECRET = "The vault opens at noon."  # noqa: S105 - of nobody
KEY = "sk-of-the-user"


@pytest.fixture
def sender_stage() -> Iterator[Stage]:
    """Serve the models used by the author of the imported file."""
    with Stage() as on:
        yield on


@pytest.fixture
def private_file(tmp_path: Path) -> Path:
    """Write a private file owned by the user."""
    path = tmp_path / "material.txt"
    path.write_text(SECRET)
    return path


def export_forged_run(
    sender_stage: Stage, tmp_path: Path, *, answered: bool = False, **options: Any
) -> tuple[str, Path]:
    """Export an unfinished run that uses the server `sender_stage`, with the given `options` in its plan.

    Steps are exported only if `answered` is true. Changed options change the prompts, so recorded answers would no
    longer match.
    """
    store = ("--store", str(tmp_path / "theirs.db"))
    run_id = run_to_limit(sender_stage, *store)
    head, *steps = run_command("export", run_id, *store).stdout.splitlines()
    line = json.loads(head)
    line["run"]["header"]["plan"]["options"].update(options)
    if not answered:
        steps, line["rows"], line["run"]["steps"] = [], 0, 0
    file = tmp_path / "gift.jsonl"
    file.write_text("\n".join([json.dumps(line), *steps]) + "\n")
    sender_stage.bodies.clear()
    sender_stage.headers.clear()
    return run_id, file


def change_plan(file: Path, change: Mapping[str, Any]) -> None:
    """Change the plan of the run in the export `file`."""
    head, *steps = file.read_text().splitlines()
    line = json.loads(head)
    line["run"]["header"]["plan"].update(change)
    file.write_text("\n".join([json.dumps(line), *steps]) + "\n")


@pytest.mark.parametrize("how", [("--last",), ("RUN",)], ids=["last", "by id"])
def test_imported_run_uses_no_reference_without_consent(
    how: tuple[str, ...], sender_stage: Stage, private_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server is contacted and no file is read.

    Without a terminal, the error lists the references and the options that permit them.
    """
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    run_id, file = export_forged_run(sender_stage, tmp_path, sources=[str(private_file)])
    assert run_command("import", str(file)).exit_code == 0
    how = tuple(run_id if word == "RUN" else word for word in how)
    result = run_command("resume", *how, "--max-calls", "9", "--allow-changes")
    assert result.exit_code == 2
    assert sender_stage.bodies == []
    for name in (run_id, sender_stage.base_url, str(private_file), f"flowdebate resume {run_id} --trust-plan"):
        assert name in result.stderr
    assert result.stdout == ""
    trusted = run_command("resume", *how, "--max-calls", "9", "--allow-changes", "--trust-plan")
    assert trusted.exit_code == 0, trusted.stderr
    assert {headers["authorization"] for headers in sender_stage.headers} == {f"Bearer {KEY}"}
    assert SECRET in json.dumps(sender_stage.bodies)


def test_options_given_again_replace_references(sender_stage: Stage, private_file: Path, tmp_path: Path) -> None:
    """A server given by the user replaces the one that the sender named in the plan.

    All other references still require consent. For example, a file named in the plan is not read.
    """
    run_id, file = export_forged_run(sender_stage, tmp_path, sources=[str(private_file)])
    run_command("import", str(file))
    with Stage() as receiver:
        options = ("--base-url", receiver.base_url, "--max-calls", "9", "--allow-changes")
        result = run_command("resume", run_id, *options)
        assert (result.exit_code, receiver.bodies) == (2, [])
        assert str(private_file) in result.stderr
        assert sender_stage.base_url not in result.stderr
        assert run_command("resume", run_id, *options, "--trust-plan").exit_code == 0
        assert len(receiver.bodies) > 0
    assert sender_stage.bodies == []


def test_giving_the_server_again_is_enough_if_there_are_no_other_references(
    sender_stage: Stage, tmp_path: Path
) -> None:
    """The source texts and schemas are part of the export, so the user only has to provide a server."""
    content: dict[str, Any] = {
        "sources": {"report": "Homes first."},
        "output_schema": {"type": "object"},
        "synthesizer": True,
    }
    run_id, file = export_forged_run(sender_stage, tmp_path, **content)
    run_command("import", str(file))
    with Stage() as receiver:
        result = run_command("resume", run_id, "--base-url", receiver.base_url, "--max-calls", "9", "--allow-changes")
    assert result.exit_code == 0, result.stderr
    assert sender_stage.bodies == []


@pytest.mark.parametrize("verb", ["resume", "fork"])
def test_imported_run_starts_no_program_without_consent(
    verb: str, sender_stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "opencode"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("OPENCODE_API_KEY", "of-nobody")
    run_id, file = export_forged_run(sender_stage, tmp_path, base_url=None, model="cli/opencode")
    run_command("import", str(file))
    words = ["resume"] if verb == "resume" else ["runs", "fork"]
    result = run_command(*words, run_id, "--max-calls", "9")
    assert (result.exit_code, (tmp_path / "started").exists()) == (2, False)
    assert "--model cli/opencode" in result.stderr
    run_command(*words, run_id, "--max-calls", "9", "--trust-plan", *(["--allow-changes"] if verb == "resume" else []))
    assert (tmp_path / "started").exists()


def test_references_are_listed_and_confirmed_in_a_terminal(sender_stage: Stage, tmp_path: Path) -> None:
    run_id, file = export_forged_run(sender_stage, tmp_path)
    run_command("import", str(file))
    for answer, code in (("n", 2), ("y", 0)):
        with OnTerminal("resume", run_id, "--max-calls", "9") as terminal:
            terminal.until("Use them? [y/N]:")
            assert f"--base-url {sender_stage.base_url}" in terminal.seen
            assert sender_stage.bodies == []
            terminal.write(f"{answer}\n")
            assert terminal.end() == code
        assert bool(sender_stage.bodies) is (answer == "y")


def test_answer_to_an_imported_run_contacts_no_server_without_consent(
    sender_stage: Stage, private_file: Path, tmp_path: Path
) -> None:
    """Although the answer is recorded, resuming the run still requires consent."""
    store = ("--store", str(tmp_path / "theirs.db"))
    result = run_command(
        *sender_stage.options("--human", "pro", *SIDES, "--max-rounds", "1", "--suspend", "--json", *store)
    )
    run_id = json.loads(result.stdout)["runId"]
    file = tmp_path / "gift.jsonl"
    file.write_text(run_command("export", run_id, *store).stdout)
    sender_stage.bodies.clear()
    run_command("import", str(file))
    result = run_command("runs", "answer", run_id, "Homes first.")
    assert (result.exit_code, sender_stage.bodies) == (2, [])
    assert f"flowdebate resume {run_id} --trust-plan" in result.stderr
    assert run_command("resume", run_id, "--trust-plan").exit_code == 0
    assert len(sender_stage.bodies) > 0


def test_showing_an_imported_run_reads_no_file_named_in_its_plan(
    sender_stage: Stage, private_file: Path, tmp_path: Path
) -> None:
    """The page and the report show only what was recorded, so no file named in the plan is opened."""
    run_id, file = export_forged_run(
        sender_stage, tmp_path, answered=True, sources=[str(private_file), "missing"], output_schema="/dev/zero"
    )
    run_command("import", str(file))
    report = tmp_path / "report.md"
    for arguments in (
        ("show", run_id),
        ("show", run_id, "--page"),
        ("runs", "report", run_id, "--markdown", str(report), "--html", str(tmp_path / "report.html")),
        ("show", run_id, "--json"),
    ):
        result = run_command(*arguments)
        assert result.exit_code == 0, result.stderr
    assert "Homes first." in report.read_text()
    assert sender_stage.bodies == []


def test_local_run_is_resumed_without_consent(sender_stage: Stage) -> None:
    """A local run's plan was written by the user, so it is trusted."""
    run_id = run_to_limit(sender_stage)
    assert run_command("resume", run_id, "--max-calls", "9").exit_code == 0


def test_plan_file_is_trusted(sender_stage: Stage, private_file: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    options = {
        "pattern": "debate",
        "question": "Should we ship?",
        "model": "staged",
        "base_url": sender_stage.base_url,
        "max_rounds": 1,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**options, "sources": [private_file.name]}.items()]
    plan.write_text("\n".join(lines))
    assert run_command("run", str(plan), "--no-store").exit_code == 0
    assert SECRET in json.dumps(sender_stage.bodies)


@pytest.mark.parametrize(
    "change",
    [{"options": []}, {"options": None}, {"withheld": 5}, {"pattern": 7}],
    ids=str,
)
def test_malformed_plan_is_rejected(change: dict[str, Any], sender_stage: Stage, tmp_path: Path) -> None:
    run_id, file = export_forged_run(sender_stage, tmp_path)
    change_plan(file, change)
    assert run_command("import", str(file)).exit_code == 0
    result = run_command("resume", run_id)
    assert (result.exit_code, sender_stage.bodies) == (2, [])
    assert result.stderr.startswith("Error: ")


@pytest.mark.parametrize("version", ["2", None])
def test_plan_with_another_version_is_not_imported(version: str | None, sender_stage: Stage, tmp_path: Path) -> None:
    run_id, file = export_forged_run(sender_stage, tmp_path)
    change_plan(file, {"format": version})
    result = run_command("import", str(file))
    assert (result.exit_code, sender_stage.bodies) == (2, [])
    assert (
        f"run {run_id} was exported by another version of flowdebate (plan format {version or 'null'}" in result.stderr
    )
    assert run_command("show", run_id).exit_code == 2


def undeclared_types(kind: Any, metadata: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield the text types within `kind` that do not declare what they can reach, such as files or servers."""
    origin, parts = get_origin(kind), get_args(kind)
    has_reach = any(isinstance(item, Reach) for item in metadata)
    if origin is Annotated:
        yield from undeclared_types(parts[0], (*metadata, *parts[1:]))
    elif origin in (Union, UnionType, list):
        for part in parts:
            yield from undeclared_types(part, metadata)
    elif origin is dict:
        yield from undeclared_types(parts[1], metadata)
    elif isinstance(kind, type) and issubclass(kind, BaseModel) and not has_reach:
        for field in kind.model_fields.values():
            yield from undeclared_types(field.annotation, tuple(field.metadata))
    elif not has_reach and kind not in (bool, int, float, NoneType) and origin is not Literal:
        yield kind


def undeclared_fields(options: type[BaseModel]) -> list[str]:
    """Return the text options that do not declare what they can reach."""
    fields = options.model_fields.items()
    return [name for name, field in fields if list(undeclared_types(field.annotation, tuple(field.metadata)))]


@pytest.mark.parametrize("name", PATTERNS)
def test_every_plan_option_declares_its_reach(name: str) -> None:
    """An option that can name a file or a server must declare this, since an imported plan needs consent to use it."""
    assert undeclared_fields(PATTERNS[name].load_page().options) == []


def test_undeclared_option_is_detected() -> None:
    """The test plants undeclared strings at every depth of the plan to verify that the check itself works."""

    class Entry(BaseModel):
        name: Text
        picture: str

    class Wrong(OutputOptions):
        label: str | None = None
        many: list[str] | None = None
        table: dict[str, Any] | None = None
        entries: list[Entry] | None = None
        right: Text | int | Literal["a"] | None = None

    assert undeclared_fields(Wrong) == ["label", "many", "table", "entries"]


def test_undeclared_option_counts_as_both_a_file_and_a_server() -> None:
    """An undeclared option could name either of the two, so it requires the user's consent."""

    class UndeclaredOptions(PlanOptions):
        plain: list[dict[str, str]] | None = None
        path: dict[str, FilePath] | None = None
        text: Text | None = None

    settings = {"plain": [{"a": "x"}], "path": {"b": "/y"}, "text": "t", "base_url": "http://h/v1", "record": "r"}
    options = UndeclaredOptions.read({}, file=settings)
    assert options.reached("server") == {"base_url": ["http://h/v1"], "plain": ["x"]}
    assert options.reached("file") == {"record": ["r"], "plain": ["x"], "path": ["/y"]}
    assert UndeclaredOptions.read({"base_url": "http://mine/v1"}, file=settings).reached("server") == {"plain": ["x"]}


def test_options_that_reach_files_or_servers_are_listed() -> None:
    reachable = set()
    for info in PATTERNS.values():
        options = info.load_page().options
        for name, field in options.model_fields.items():
            kinds = list(_reaches(field.annotation, tuple(field.metadata)))
            reachable |= {(name, kind) for kind in kinds if kind not in ("nothing", "model")}
    assert reachable == {
        ("base_url", "server"),
        ("diff", "file"),
        ("output_schema", "file"),
        ("record", "file"),
        ("replay", "file"),
        ("sources", "file"),
    }


def _reaches(kind: Any, metadata: tuple[Any, ...]) -> Iterator[str]:
    yield from (item.of for item in metadata if isinstance(item, Reach))
    if get_origin(kind) is Annotated:
        yield from _reaches(get_args(kind)[0], tuple(get_args(kind)[1:]))
    else:
        for part in get_args(kind):
            yield from _reaches(part, ())
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for field in kind.model_fields.values():
            yield from _reaches(field.annotation, tuple(field.metadata))


def test_help_for_resume_and_answer_mentions_the_option() -> None:
    """A script cannot give consent interactively, so it needs `--trust-plan`."""
    for words in (["resume"], ["runs", "answer"]):
        assert "--trust-plan" in CliRunner().invoke(app, [*words, "--help"]).stdout
