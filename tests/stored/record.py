"""Record the stored runs read by `test_stored_runs`: `python -m tests.stored.record`.

Record them again only when the store's format is meant to change, along with its version number.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from flowdebate.cli.app import app
from tests.cli.siblings import ANSWERS
from tests.cli.stage import Stage

if TYPE_CHECKING:
    from typer.testing import Result

DATA = Path(__file__).with_name("data")
STORE = DATA / "runs.sqlite3"
EXPORT = DATA / "runs.jsonl"
SHOWN = DATA / "shown.json"
"""Pattern and expected output of the command for each run, keyed by run id."""

_SIDES = ("--debater", "pro=cap rents", "--debater", "con=free rents")
PATTERNS: dict[str, tuple[str, ...]] = {
    "debate": (*_SIDES, "--max-rounds", "2", "--moderator"),
    "deliberation": ("--max-rounds", "2"),
    "handoff": ("--max-turns", "3"),
    "consensus": ("--max-rounds", "1"),
    "round-robin": ("--max-rounds", "1", "--referee"),
    "council": ("--review", "all"),
    "critique": ("--critic", "Ada"),
    "review": ("--gate", "no confirmed blocker"),
}
"""Options of each pattern's run, keyed by the pattern's command."""


def _rank(schema: str) -> dict[str, Any]:
    """Rank all letters in the schema, in its order."""
    letters: list[str] = json.loads(re.findall(r'"enum": (\[[^]]*\])', schema)[0])
    return {"ranking": [{"answer": letter, "reason": "Sound."} for letter in letters]}


def serve_stage() -> Stage:
    """Start a server whose models give each block the same answer, whatever the order of calls."""
    answers = {word: answer[-1] if isinstance(answer, list) else answer for word, answer in ANSWERS.items()}
    more: dict[str, Any] = {
        "scores": {"reasoning": "It answered.", "scores": {"cap rents": 80, "free rents": 20}, "verdict": "Cap them."},
        "ranking": _rank,
        "rulings": {"rulings": [{"claim": "C1", "reason": "They are.", "quotes": [], "ruling": "does_not_hold"}]},
        "settledBy": {"claims": [{"claim": "Homes are not first.", "kind": "false", "place": "Homes first."}]},
        "dissent": {"answer": "Cap them at 3%.", "dissent": "How soon."},
        "next_agent_name": {"response": "Yes: homes first.", "next_agent_name": "Opponent"},
        "findings": {"findings": [{"title": "No figures", "claim": "Nobody says how many.", "severity": "major"}]},
    }
    decision = {"nextSpeakers": ["pro", "con"], "briefing": "Rents rose.", "newAngle": "Who pays?", "done": False}
    return Stage(turns=(("Homes ", "first."),), answers=more | answers | more, decision=decision)


def run_command(*arguments: str, store: Path) -> Result:
    """Run the command in this process, on the runs in `store`."""
    environment = {"TERM": "dumb", "NO_COLOR": "1", "FLOWDEBATE_STORE": str(store)}
    return CliRunner(env=environment).invoke(app, list(arguments), catch_exceptions=False)


def show_run(run_id: str, store: Path) -> dict[str, str]:
    """Return what `show` prints for a run: its steps, without the start time in local time, and its command's page."""
    steps, page = run_command("show", run_id, store=store), run_command("show", run_id, "--page", store=store)
    return {"steps": re.sub(r"\nStarted: .*", "", steps.stdout), "page": page.stdout}


def record_runs() -> None:
    """Record a run of each pattern, export all of them, and save the command's output."""
    DATA.mkdir(exist_ok=True)
    for path in (STORE, EXPORT, SHOWN):
        path.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder, serve_stage() as server:
        store = Path(folder) / STORE.name
        for verb, options in PATTERNS.items():
            ended = run_command(*server.options(*options, "--seed", "5", verb=verb), store=store)
            assert ended.exit_code == 0, ended.output
        with sqlite3.connect(store, isolation_level=None) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA page_size = 512")
            connection.execute("VACUUM")
        connection.close()
        STORE.write_bytes(store.read_bytes())
        run_command("export", "--all", "--out", str(EXPORT), store=store)
        runs = json.loads(run_command("runs", "--json", store=store).stdout)
        outputs = {run["runId"]: {"pattern": run["pattern"], **show_run(run["runId"], store)} for run in reversed(runs)}
        SHOWN.write_text(json.dumps(outputs, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record_runs()
