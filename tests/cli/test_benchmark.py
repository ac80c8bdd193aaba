"""`flowdebate review --benchmark`: reviews of changes with planted faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app
from tests.models.server import completion

from .stage import Stage

if TYPE_CHECKING:
    from typer.testing import Result


def make_diff(path: str, *added: str) -> str:
    """Return a diff that adds a file."""
    lines = "\n".join(f"+{line}" for line in added)
    return f"diff --git a/{path} b/{path}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(added)} @@\n{lines}\n"


CHANGES: list[dict[str, Any]] = [
    {
        "id": "1",
        "language": "python",
        "diff": make_diff("a.py", "def last(items):", "    return items[len(items)]"),
        "faults": [{"file": "a.py", "line": 2, "endLine": 2, "kind": "off-by-one"}],
    },
    {
        "id": "2",
        "language": "python",
        "diff": make_diff("b.py", "def find(db, name):", '    return db.execute(f"SELECT {name}")'),
        "faults": [{"file": "b.py", "line": 2, "endLine": 2, "kind": "injection"}],
    },
    {"id": "3", "language": "python", "diff": make_diff("c.py", "def one():", "    return 1"), "faults": []},
]
RAISED = {
    ("ann-model", "a.py"): ("Off-by-one error", "The index is out of range.", 2),
    ("ann-model", "c.py"): ("No docstring", "Readers must guess.", 1),
    ("bob-model", "b.py"): ("SQL injection", "The name is part of the statement.", 2),
}
VERDICTS = {("bob-model", "a.py"): "confirm", ("bob-model", "c.py"): "refute", ("ann-model", "b.py"): "unsure"}


class Reviewers(Stage):
    """Two reviewers of known quality: each finds one fault, and one of the two faults is confirmed."""

    async def _answer(self, exchange: Any) -> None:
        if refusal := self.refuse(exchange.body):
            await exchange.json(refusal[1], status=refusal[0])
            return
        schema, prompt = json.dumps(exchange.body.get("response_format", {})), json.dumps(exchange.body["messages"])
        path = next(name for name in ("a.py", "b.py", "c.py") if name in prompt)
        model = exchange.body["model"]
        if '"verdicts"' in schema:
            verdict = {"finding": "F1", "verdict": VERDICTS[model, path], "reason": "So it is.", "quote": None}
            answer: dict[str, Any] = {"verdicts": [verdict]}
        elif '"answers"' in schema:
            answer = {"answers": [{"finding": "F1", "stands": True, "reason": "It matters."}]}
        elif (model, path) in RAISED:
            title, claim, line = RAISED[model, path]
            place = {"file": path, "line": line, "end_line": None, "quote": None, "suggestion": None}
            answer = {"findings": [{"title": title, "claim": claim, "severity": "major", **place}]}
        else:
            answer = {"findings": []}
        await exchange.json(completion(json.dumps(answer)))


@pytest.fixture
def write_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a file with three changes in the working folder of the command."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "changes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in CHANGES))
    return str(path)


def run_benchmark(stage: Stage | None, *more: str) -> Result:
    """Run a benchmark in this process."""
    url = "http://127.0.0.1:9/v1" if stage is None else stage.base_url
    reviewers = ("--reviewer", "Ann=ann-model", "--reviewer", "Ben=bob-model", "--model", "merger=ann-model")
    options = ("--base-url", url, *reviewers, "--store", "runs.sqlite3", "--seed", "1")
    return CliRunner().invoke(app, ["review", "--benchmark", *more, *options], catch_exceptions=False)


def test_reviewer_rates_match_a_manual_calculation(write_changes: str) -> None:
    with Reviewers() as stage:
        result = run_benchmark(stage, write_changes, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)["benchmark"]
    assert (report["changes"], report["faults"], report["leftOut"]) == (3, 2, 0)
    raised, confirmed = report["raised"], report["confirmed"]
    # the Wilson interval for 2 of 2 begins at 2 / (2 + 1.96²), and for 1 of 2 it is .5 ± .405
    assert raised["recall"] == {"value": 1, "n": 2, "low": pytest.approx(0.342, abs=0.001), "high": 1}
    assert confirmed["recall"]["value"] == 0.5
    assert confirmed["recall"]["low"] == pytest.approx(0.095, abs=0.001)
    # counts 0, 0, 1: mean 1/3, variance 1/3, standard error 1/3
    assert raised["falseFindings"]["value"] == pytest.approx(1 / 3)
    assert raised["falseFindings"]["high"] == pytest.approx(1 / 3 + 1.96 / 3, abs=0.001)
    assert raised["falseOnClean"]["value"] == 1
    # no false finding in three changes: ln(40) / 3
    assert confirmed["falseFindings"] == {"value": 0, "n": 3, "low": 0, "high": pytest.approx(1.2296, abs=0.001)}
    assert report["recallByKind"] == {"injection": [1, 1, 0], "off-by-one": [1, 1, 1]}


def test_repeated_command_continues_without_repeating_calls(write_changes: str) -> None:
    """Failed reviews are repeated.

    Complete reviews are read from the store, even if the answer key has been corrected since.
    """
    with Reviewers(refuse=lambda body: (503, {}) if "c.py" in json.dumps(body["messages"]) else None) as stage:
        first = run_benchmark(stage, write_changes, "--on-failure", "fail", "--attempts", "1")
        assert first.exit_code == 1
        assert "2 changes, 2 planted faults; 1 change without a complete review" in first.output
        stage.refuse = lambda _: None
        calls = len(stage.bodies)
        second = run_benchmark(stage, write_changes, "--on-failure", "fail")
        assert second.exit_code == 0
        assert len(stage.bodies) > calls
        assert all("c.py" in json.dumps(body["messages"]) for body in stage.bodies[calls:])
        calls = len(stage.bodies)
        keys = [{**change, "faults": [{**fault, "line": 1} for fault in change["faults"]]} for change in CHANGES]
        Path(write_changes).write_text("".join(json.dumps(key) + "\n" for key in keys))
        third = run_benchmark(stage, write_changes, "--on-failure", "fail")
        assert len(stage.bodies) == calls
    for text in ("Recall", "without cross-examination", "100% (34% to 100%)", "50% (9% to 91%)", "off-by-one"):
        assert text.casefold() in third.output.casefold()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.jsonl"], "missing.jsonl"),
        ([], "evidence/review_faults.jsonl"),
        (["changes.jsonl", "--diff", "main"], "--benchmark cannot be combined with --"),
        (["changes.jsonl", "--format", "sarif"], "--format cannot be combined with --benchmark"),
    ],
)
@pytest.mark.usefixtures("write_changes")
def test_single_review_options_are_rejected(arguments: list[str], message: str) -> None:
    result = run_benchmark(None, *arguments)
    assert result.exit_code in (1, 2)
    assert message in result.output


def test_error_for_an_unknown_fault_kind_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "changes.jsonl"
    faults = [{**CHANGES[0]["faults"][0], "kind": "typo"}]
    path.write_text(json.dumps(CHANGES[2]) + "\n" + json.dumps({**CHANGES[0], "faults": faults}))
    result = run_benchmark(None, str(path))
    assert "line 2: `faults.kind` must be" in result.output
    assert "(got typo)" in result.output
    assert "13 others" in result.output
