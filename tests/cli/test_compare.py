"""`flowdebate compare`: text files, row files, output formats and errors."""

from __future__ import annotations

import csv
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app
from tests.models.server import completion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer.testing import Result


class Judge(BaseHTTPRequestHandler):
    """Judge that prefers the text containing "good", or the first text if there is no such text or more than one."""

    prompts: list[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        self.prompts.append(prompt)
        texts = dict(re.findall(r"^\[([A-F])\] (.*)$", prompt, re.MULTILINE))
        best = [label for label, text in texts.items() if "good" in text]
        winner = best[0] if len(best) == 1 else next(iter(texts))
        scores = {label: 80 if label == winner else 20 for label in texts}
        if "considering that criterion alone" in str(body["messages"]):
            scores = {label: {"correct": score, "clear": 50} for label, score in scores.items()}  # type: ignore[misc]
        answer = json.dumps({"reasoning": "R | *x*", "scores": scores, "verdict": "V."})
        data = json.dumps(completion(answer)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Log nothing to stderr."""


@pytest.fixture
def judge_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Serve a judge on the loopback interface, write text files and a CSV file, and return the judge's prompts."""
    monkeypatch.chdir(tmp_path)
    Judge.prompts = []
    for name, text in (("ours.txt", "A good answer."), ("theirs.txt", "An answer."), ("third.txt", "Another.")):
        (tmp_path / name).write_text(text)
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "left", "right"])
        rows.writerows([f"Q{number}?", f"{'x' * number} left", "right"] for number in range(200))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("FLOWDEBATE_TEST_URL", f"http://127.0.0.1:{server.server_address[1]}/v1")
    yield Judge.prompts
    server.shutdown()
    server.server_close()
    thread.join()


def run_command(*words: str, environment: dict[str, str] | None = None) -> Result:
    """Run the command in this process."""
    import os

    options = ("--base-url", os.environ["FLOWDEBATE_TEST_URL"], "--model", "staged", "--store", "runs.sqlite3")
    return CliRunner(env=environment).invoke(app, ["compare", *words, *options], catch_exceptions=False)


def test_files_are_compared_in_all_orders(judge_folder: list[str]) -> None:
    words = ("ours.txt", "theirs.txt", "third.txt", "--question", "Which?")
    result = run_command(*words)
    assert result.exit_code == 0
    assert "Better: ours" in result.output
    assert "6 of 6 ballots" in result.output
    assert not any("ours" in prompt for prompt in judge_folder)
    assert "| ours |" in run_command(*words, "--format", "markdown").output
    assert json.loads(run_command(*words, "--format", "json").output)["winner"] == "ours"
    assert len(judge_folder) == 6


def test_each_reason_is_on_a_separate_line(judge_folder: list[str]) -> None:
    """If the judge's preference depends on the order of the texts, each preference is shown with its own reason."""
    output = run_command("theirs.txt", "third.txt", "--question", "Which?").output
    assert "\n- For theirs: R | *x*" in output
    assert "\n- For third: R | *x*" in output
    assert len(judge_folder) == 2


@pytest.mark.slow
def test_rows_are_summarized_and_position_bias_is_found(judge_folder: list[str], tmp_path: Path) -> None:
    result = run_command("rows.csv", "--max-concurrency", "20", "--format", "json")
    table = json.loads(result.stdout)
    assert (table["rows"], len(judge_folder)) == (200, 400)
    (biased,) = table["judges"]
    assert biased["favors"] == "first"
    assert "favors the first place" in run_command("rows.csv").output
    assert len(judge_folder) == 400
    (tmp_path / "some.csv").write_text("".join((tmp_path / "rows.csv").read_text().splitlines(keepends=True)[:31]))
    for width in ("40", "80", "120"):
        result = run_command("some.csv", environment={"COLUMNS": width})
        assert "favors the first place" in " ".join(result.output.split())
        assert result.exit_code == 0
    assert (
        "\n- staged favors the first place: " in run_command("some.csv", "--format", "markdown").output
    )  # the judge's name is shown unchanged
    assert len(judge_folder) == 460


def test_rubric_has_one_column_per_criterion(judge_folder: list[str]) -> None:
    words = ("ours.txt", "theirs.txt", "--question", "Which?", "--criterion", "correct=3", "--criterion", "clear")
    assert "CORRECT  CLEAR" in run_command(*words).output
    assert json.loads(run_command(*words, "--format", "json").output)["sides"][0]["criteria"] == {
        "correct": 80,
        "clear": 50,
    }
    assert len(judge_folder) == 2


def test_truth_column_names_the_correct_text(judge_folder: list[str]) -> None:
    """An empty cell means that the truth is unknown. A name that matches no text in the row is an error."""
    lines = ["question,ours,theirs,label", "Q1?,One.,Two.,ours", "Q2?,One.,Two.,theirs", "Q3?,One.,Two.,"]
    Path("known.csv").write_text("\n".join(lines))
    table = json.loads(run_command("known.csv", "--truth", "label", "--format", "json").stdout)
    assert table["judges"][0]["truth"]["rows"] == 2
    assert "RIGHT IN ONE ORDER" in run_command("known.csv", "--truth", "label").output
    Path("known.csv").write_text("\n".join([*lines, "Q4?,One.,Two.,third"]))
    result = run_command("known.csv", "--truth", "label")
    assert "row 4: `label` must be the name of a text in the row: ours or theirs" in " ".join(result.output.split())
    assert judge_folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ours.txt", "--question", "Q?"), "two or more"),
        (("ours.txt", "theirs.txt"), "--question"),
        (("ours.txt", "ours.txt", "--question", "Q?"), "different files"),
        (("ours.txt", "nowhere.txt", "--question", "Q?"), "nowhere.txt"),
        (("ours.txt", "theirs.txt", "--question", "Q?", "--orders", "every"), "--orders"),
        (("ours.txt", "theirs.txt", "--question", "Q?", "--criterion", "clear=much"), "--criterion"),
        (("ours.txt", "theirs.txt", "--question", "Q?", "--criterion", "clear=0"), "--criterion"),
        (("rows.csv", "--question", "Q?"), "--question cannot be set for a file of rows"),
        (("rows.csv", "--side", "left"), "row 1"),
        (
            (*(f"{number}.txt" for number in range(21)), "--question", "Q?"),
            "FILE must contain 2 to 20 named texts (got 21)",
        ),
        (("rows.csv", "--side", "left", "--side", "lost"), "--side must be names of texts in the rows"),
        (("ours.txt", "blank.txt", "--question", "Q?"), "(got blank.txt)"),
        (("ours.txt", "theirs.txt", "--question", "Q?", "--reference", "blank.txt"), "--reference must not be blank"),
    ],
)
def test_invalid_input_is_rejected_before_any_call(
    judge_folder: list[str], words: tuple[str, ...], message: str
) -> None:
    Path("blank.txt").write_text(" \n")
    for number in range(21):
        Path(f"{number}.txt").write_text("An answer.")
    result = run_command(*words)
    assert result.exit_code not in (0, None)
    assert message in " ".join(result.output.split())
    assert judge_folder == []


def test_empty_cell_is_reported(judge_folder: list[str]) -> None:
    """The error names the row and the column, and suggests filling in the text or deleting the row."""
    Path("rows.csv").write_text("question,ours,theirs\nQ1?,One.,Two.\nQ2?,One.,\n")
    result = run_command("rows.csv")
    assert result.exit_code == 2
    assert "rows.csv: row 2: `theirs` is empty: fill in the text, or delete the row" in " ".join(result.stderr.split())
    assert judge_folder == []


def test_cell_can_be_as_long_as_an_answer(judge_folder: list[str]) -> None:
    """A cell may be as long as a book chapter, which exceeds the csv module's default limit."""
    Path("rows.csv").write_text(f'question,ours,theirs\nQ1?,"{"word " * 40_000}",One.\n')
    assert run_command("rows.csv").exit_code == 0
    assert judge_folder
