"""Error messages of the command: a single line with a remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Callable

MISUSE = {
    "debate": 'Give a question, for example: flowdebate debate "Should we cap rents?"; '
    "or set `question` in the --file file.",
    "council": 'Give a question, for example: flowdebate council "Should we cap rents?"; '
    "or set `question` in the --file file.",
    "handoff": 'Give a proposition, for example: flowdebate handoff "Homework should be abolished"; '
    "or set `proposition` in the --file file.",
    "consensus": 'Give a task, for example: flowdebate consensus "Name the product"; or set `task` in the --file file.',
    "debate Q --max-rounds 0": "--max-rounds must be at least 1 (got 0).",
    "debate Q --debater pro": "--debater must be NAME=STANCE (got pro).",
    "debate Q --max-seconds -1": "--max-seconds must be greater than 0 (got -1.0).",
    "debate Q --on-flip x": "--on-flip must be average, abstain, tie or human (got x).",
    "debate Why? --human pro": "The question does not say what the sides are: "
    "define them with --debater NAME=STANCE so that a human can argue for one.",
    "debate Q --store x --no-store": "--store cannot be combined with --no-store.",
    "debate Q --record a --replay b": "--replay cannot be combined with --record.",
    "debate Q --base-url http://x/v1": "--model is required with --base-url: specify a model on the server at http://x/v1.",
    "debate Q --model openai:gpt-5-mini": None,
    "debate Q --output-schema none.json": "none.json: cannot be read: No such file or directory",
    "debate Q --file none.toml": "none.toml: cannot be read: No such file or directory",
    "run none.toml": 'The plan file none.toml does not exist. To debate a question: flowdebate debate "…"',
    "batch none.txt": "none.txt: cannot be read: No such file or directory",
    "resume": "Say which run: flowdebate resume RUN, or --last. To list stored runs: flowdebate runs",
    "resume abcd --last": "A run ID cannot be combined with --last. To list stored runs: flowdebate runs",
    "resume --last": "There is no interrupted run to resume in STORE.",
    "resume --last --model local": "A different --model changes the run: add --allow-changes.",
    "resume abc": "There is no run abc. Type at least the first 4 characters of its ID.",
    "resume abcd": "store STORE: there is no run abcd. To list stored runs: flowdebate runs",
    "runs answer abcd yes --json 1": "TEXT cannot be combined with --json DATA.",
    "show": "Say which run: flowdebate show RUN, or --last. To list stored runs: flowdebate runs",
    "show --last": "There is no run in STORE.",
    "show abcd": "store STORE: there is no run abcd. To list stored runs: flowdebate runs",
    "runs --limit 0": "--limit must be at least 1 (got 0).",
    "runs delete": "Say which runs to delete: their IDs, or --older-than DAYS, --status STATUS or --label NAME=VALUE.",
    "runs delete abcd --status failed": "Run IDs cannot be combined with --older-than, --status or --label.",
    "export": "Say which runs to export: their IDs, or --all.",
    "export abcd --all": "Run IDs cannot be combined with --all.",
    "import none.jsonl": None,
    "runs render none.json": "none.json: cannot be read: No such file or directory",
    "eval audit --data x --pattern debate": "--pattern cannot be combined with --data.",
    "serve --budget-cost 5": "--budget-cost needs model prices: add --price IN/OUT.",
    "serve --budget-calls 0": "--budget-calls must be at least 1 (got 0).",
    "mcp --app a:b --budget-tokens 9": "--budget-tokens cannot be combined with --app: the Service defines them.",
    "runs queue a:b submit": "submit requires a QUESTION; --run-id and --priority are only for submit.",
    "runs queue a:b show Q": "submit requires a QUESTION; --run-id and --priority are only for submit.",
    "runs queue a:b resume --priority 3": "submit requires a QUESTION; --run-id and --priority are only for submit.",
    "runs queue a:b submit Q --priority 101": "--priority must be between 0 and 100 (got 101).",
    "eval audit --schedule full": "--schedule requires --rejudge.",
}
"""Error message expected for each command line; if it is None, only the format is checked."""
TYPER = {
    "debat Q": ("unknown command debat. Did you mean debate?",),
    "debate Q --moderater": ("unknown option --moderater. Did you mean --moderator?",),
    "debate Q --xyzzy": ("unknown option --xyzzy.\n",),
    "runs render": ("FILE is required.",),
    "debate Q --max-rounds x": ("--max-rounds must be a whole number (got x).",),
}
"""Parts of the parser's error messages."""


@pytest.mark.parametrize("line", MISUSE)
def test_misuse_is_reported_in_one_sentence_with_a_remedy(
    line: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, line.split(), catch_exceptions=False)
    message = result.stderr.replace(str(store), "STORE")
    assert (result.exit_code, result.stdout, message.count("\n")) == (2, "", 1)
    assert message.startswith("Error: ")
    assert not [part for part in ("got None", "got True", "command line:", "Traceback") if part in message]
    if MISUSE[line] is not None:
        assert message == f"Error: {MISUSE[line]}\n"


@pytest.mark.parametrize("line", TYPER)
def test_typos_get_a_suggestion(line: str) -> None:
    result = CliRunner().invoke(app, line.split(), catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (2, "")
    assert all(part in result.stderr for part in TYPER[line])


@pytest.mark.parametrize(
    "suggestion", ["openai:gpt-5-mini", "openai / gpt-5-mini", "OpenAI/gpt-5-mini", "opnai/gpt-5-mini"]
)
@pytest.mark.parametrize("option", ["--model", "--fallback", "--panel"])
def test_mistyped_model_name_gets_a_suggestion(option: str, suggestion: str) -> None:
    result = CliRunner().invoke(app, ["debate", "Should we ship?", option, suggestion], catch_exceptions=False)
    assert result.exit_code == 2
    assert "Did you mean openai/gpt-5-mini?" in result.stderr


def test_eval_benefit_shows_how_to_install_its_requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowdebate.cli.benefit.find_spec", lambda _: None)
    result = CliRunner().invoke(app, ["eval", "benefit", "x.csv"], catch_exceptions=False)
    assert result.exit_code == 2
    assert result.stderr == 'Error: `flowdebate eval benefit` needs scipy: pip install "flowdebate[audit]"\n'


FILES: dict[str, Callable[[object], list[object]]] = {
    "run plan.json": lambda value: [
        value,
        {"pattern": value},
        {"pattern": "debate", "question": value},
        {"pattern": "debate", "question": "Q?", "debaters": [value]},
        {"pattern": "debate", "question": "Q?", "phases": value},
        {"pattern": "debate", "question": "Q?", "audience": value},
        {"pattern": "debate", "question": "Q?", "terminate_when": value},
        {"pattern": "consensus", "task": "Q?", "topology": value},
    ],
    "runs render saved.json": lambda value: [
        value,
        {"pattern": value, "raw": {}},
        {"pattern": "debate", "raw": value},
    ],
    "import runs.jsonl": lambda value: [value, {"kind": value}, {"kind": "run", "format": 1, "run": value, "rows": 0}],
    "batch rows.jsonl": lambda value: [value, {"question": value}, {"question": "Q?", "sources": value or 1}],
    "eval benefit rows.jsonl": lambda value: [
        {"question": "Q?", "answer": value},
        {"question": "Q?", "answer": "x", "choices": value},
    ],
    "eval audit --data rows.jsonl": lambda value: [
        value,
        {"item": "a", "order": value},
        {"item": "a", "order": ["x", "y"], "choice": value or "z"},
        {"item": "a", "order": ["x", "y"], "lengths": value or 1},
    ],
    "eval critic rows.jsonl": lambda value: [{"question": value, "answer": "a", "right": True}],
    "compare rows.jsonl": lambda value: [{"question": value, "one": "a", "two": "b"}],
    "debate Q? --output-schema schema.json": lambda value: [[value]],
    "debate Q? --replay cassette.jsonl": lambda value: [value],
}
"""Contents of files that no command can read, each with one misplaced value."""
PYTHON_WORDS = re.compile(
    r"(?<!\w)'|, got |\b(?:None|True|False|NoneType|str|int|bool|float|dict|tuple)\b|Input should|Field required"
)
"""Terms from Python and its libraries that error messages must not use, since each file format has its own terms."""


@pytest.mark.parametrize("line", FILES)
def test_file_errors_avoid_python_terms(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the file and quotes values exactly as they appear in it."""
    monkeypatch.chdir(tmp_path)
    # the command would otherwise look for a model after reading a valid file
    monkeypatch.setenv("FLOWDEBATE_MODEL", "no/model")
    *_, file = line.split()
    for value in (3, [], [1], {"a": None}):
        for content in FILES[line](value):
            Path(file).write_text(json.dumps(content))
            result = CliRunner().invoke(app, line.split(), catch_exceptions=False)
            assert (result.exit_code, result.stdout) == (2, ""), content
            assert not PYTHON_WORDS.search(result.stderr), result.stderr
            assert file in result.stderr or "the row of" in result.stderr or "Give a" in result.stderr
