"""The stores of all editions, and how a run of them is resumed."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from flowdebate import submit_answer
from flowdebate.store import SqliteStore, stored_archive

from .command import VERDICT, command, stage
from .patterns import PATTERNS, QUESTION, Speaker, said_by_human

if TYPE_CHECKING:
    from flowdebate.store import Store

    from .patterns import Case

DATA = Path(__file__).with_name("data")
SECOND_DATA = DATA / "second"
"""The same files of the second edition, which knows councils."""
THIRD_DATA = DATA / "third"
"""The same files of the third edition, whose prompts say each rule once."""
FOURTH_DATA = DATA / "fourth"
"""The same files of the fourth edition: of reviews."""
FIFTH_DATA = DATA / "fifth"
"""The same files of the fifth edition: of debates, whose prompts were shortened again."""
STORE = DATA / "runs.sqlite3"
EXPORT = DATA / "runs.jsonl"
EXPECTED = DATA / "expected.json"
"""By the id of a run: how it was stored, and what it comes to when it is resumed."""
SHOWN = DATA / "shown.json"
"""By the id of a run: how the command shows it."""
PROMPTS = DATA / "prompts.json"
"""By the name of a pattern: all that its models are told in one run."""
ARCHIVE = "city"


def copied(folder: Path, *, data: Path = DATA) -> Path:
    """A copy of the store in `data`, with what its process has left beside it."""
    path, made = folder / STORE.name, data / STORE.name
    for old in folder.glob(f"{STORE.name}*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copyfile(made, path)
    owners = made.with_name(f"{STORE.name}-owners")
    if owners.exists():
        shutil.copytree(owners, path.with_name(owners.name))
    return path


def read(path: Path) -> Any:
    """The JSON of a file."""
    return json.loads(path.read_text(encoding="utf-8"))


def timeless(value: Any) -> Any:
    """`value` without how long anything took."""
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in ("seconds", "runId")}
    return [timeless(part) for part in value] if isinstance(value, list) else value


async def resume(case: Case, run_id: str, store: Store, *, allow_changes: bool = False) -> dict[str, Any]:
    """What a run of a program comes to: what is asked for, its raw output, events, steps and tasks."""
    spoken = case.speaker(later=True)
    spoken.archive = stored_archive(store, name=ARCHIVE)
    people: list[str] = []
    result = await case.made(spoken).resume(run_id, model=spoken.model(), store=store, allow_changes=allow_changes)
    while result.status == "awaiting":
        for request in result.pending:
            people.append(request.place)
            said = said_by_human(request.block, request.place, request.schema)
            await submit_answer(store, run_id, said, place=request.place)
        result = await case.made(spoken).resume(run_id, model=spoken.model(), store=store, allow_changes=allow_changes)
    return {
        "status": result.status,
        "raw": timeless(result.raw.to_wire()),
        "calls": len(spoken.asked),
        "people": people,
        "events": [kind_of(event) for event in result.events],
        "steps": sorted(step.key for step in await store.steps(run_id)),
        "tasks": sorted(
            [task.goal, task.status, task.assignee] for trail in result.task_collections for task in trail.list()
        ),
    }


def kind_of(event: Any) -> str:
    """What an event calls itself."""
    return str(event.kind)


def resume_by_command(
    run_id: str, store: Path, *, awaiting: bool = False, allow_changes: bool = False
) -> dict[str, Any]:
    """What a run of the command comes to: what is asked for, and the document."""
    with stage() as on:
        if awaiting:
            answered = command("answer", run_id, "--json", VERDICT, "--later", store=store)
            assert answered.exit_code == 0, answered.stderr
        options = ("--base-url", on.base_url, "--max-calls", "99", "--json", *["--allow-changes"] * allow_changes)
        result = command("resume", run_id, *options, store=store)
        assert result.exit_code in (0, 3), result.stderr
        document = timeless(json.loads(result.stdout))
        document.pop("models", None)  # documents did not say which models answered
        steps = of_store(store, lambda opened: opened.steps(run_id))
        return {
            "status": document["status"],
            "document": document,
            "calls": len(on.bodies),
            "steps": sorted(step.key for step in steps),
        }


def of_store(store: Path, work: Any) -> Any:
    """What `work(store)` gives, of a store that is opened and closed for it."""

    async def act() -> Any:
        opened = SqliteStore(store)
        try:
            return await work(opened)
        finally:
            await opened.close()

    return asyncio.run(act())


async def ids_of(store: Store) -> list[str]:
    """The ids of all runs, the oldest first."""
    return [run.header.run_id for run in reversed(await store.runs())]


async def archived(store: Store) -> dict[str, Any]:
    """What the archive holds."""
    archive = stored_archive(store, name=ARCHIVE)
    names = ("ann", "bob", "cy")
    told_of = {
        "debates": await archive.past_debates.recent(QUESTION, limit=9),
        "patterns": await archive.critique_patterns.successful(limit=9),
        "ratings": await archive.ratings.of(names),
        "positions": {name: await archive.positions.of(name) for name in names},
        "personas": {name: await archive.personas.of(name) for name in names},
    }
    return json.loads(to_json(told_of))  # type: ignore[no-any-return]


def prompts_of(pattern: str, profile: str = "full") -> list[Any]:
    """Who is told what in one run of a pattern that nothing disturbs, by a model of `profile`."""
    spoken = Speaker()
    model: Any = spoken.model()
    model.profile = profile
    PATTERNS[pattern](spoken).run_sync(QUESTION, model=model, seed=7, store=False)
    return [[request.block, json.loads(to_json(request.messages))] for request in spoken.asked]


def listed(store: Path) -> str:
    """How the command lists the runs."""
    return command("runs", "--limit", "999", store=store).stdout


async def told(store: Store, run_id: str) -> dict[str, Any]:
    """How a run is stored: its status, its raw output as it was, the keys of its steps in order."""
    run, steps = await store.run(run_id), await store.steps(run_id)
    return {
        "status": run.status,
        "raw": None if run.outcome is None else run.outcome["raw"],
        "steps": [[step.key, step.kind, step.body is not None] for step in steps],
    }


def shown(run_id: str, store: Path) -> dict[str, str]:
    """How the command shows a run: step by step, as a page, as a report."""
    report = store.with_name("report.md")
    report.unlink(missing_ok=True)
    steps = command("show", run_id, store=store)
    page = command("show", run_id, "--page", store=store)
    command("report", run_id, "--markdown", str(report), store=store)
    texts = {"steps": steps.stdout, "page": page.stdout, "report": report.read_text() if report.exists() else ""}
    if page.exit_code:
        texts["page"] = page.stderr
    # when it started is no part of it, and reports did not say which models answered
    return {name: re.sub(r"\n( *Started|- Models?): .*", "", text) for name, text in texts.items()}
