"""`flowdebate batch`: questions, calls, results, and resuming a batch."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import date
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.cli.asking import ProgressLines, Totals, open_progress
from flowdebate.cli.batch_files import headers_of, open_out, read_rows
from flowdebate.errors import BadFile
from flowdebate.models.base import Usage
from flowdebate.runs.batch import BatchItem, BatchSummary
from flowdebate.ui.tables import csv_line, read_cell, safe_cell
from tests.processes import start_process

from .siblings import serve_stage
from .stage import PATIENCE, OnTerminal, Stage, clean_environment, find_command
from .test_terminal import PAGE_ESCAPES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

QUESTIONS = 'id,question\n1,Cap rents?\n2,"Ban cars,\nall of them?"\n3,Tea?\n'
SHORT = ("--max-rounds", "1")


@pytest.fixture
def question_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the command in a folder with questions."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.csv").write_text(QUESTIONS)
    (tmp_path / "sides.toml").write_text(
        "schedule = 'single'\n[[debaters]]\nname='pro'\nstance='yes'\n[[debaters]]\nname='con'\nstance='no'"
    )
    return tmp_path


def batch_options(stage: Stage, *more: str) -> list[str]:
    """Return the arguments for a batch on this stage."""
    short = SHORT if "--pattern" in more or "--file" in more else (*SHORT, "--no-synthesizer")
    if "--file" not in more and ("--pattern" not in more or "debate" in more):
        short = (*short, "--file", "sides.toml")
    return ["batch", *more, "--model", "staged", "--base-url", stage.base_url, "--store", "runs.sqlite3", *short]


def run_batch(stage: Stage, *more: str, text: str | None = None) -> Result:
    """Run a batch in this process."""
    return CliRunner().invoke(app, batch_options(stage, *more), input=text, catch_exceptions=False)


def list_warnings(result: Result) -> str:
    """Return stderr without the progress lines."""
    return re.sub(r"^.* done; .*\n", "", result.stderr, flags=re.MULTILINE)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON lines keyed by index."""
    return sorted((json.loads(line) for line in path.read_text().splitlines()), key=lambda line: line["index"])


@pytest.mark.parametrize("pattern", ["debate", "deliberation", "handoff", "consensus", "round-robin"])
def test_each_pattern_runs_a_batch_and_pays_for_it_once(question_folder: Path, pattern: str) -> None:
    code = 3 if pattern == "deliberation" else 0  # the first rounds reach no decision
    with serve_stage() as played:
        first = run_batch(played, "q.csv", "--pattern", pattern, "--out", "r.csv")
        calls, content = len(played.bodies), (question_folder / "r.csv").read_text()
        second = run_batch(played, "q.csv", "--pattern", pattern, "--out", "r.csv")
        assert len(played.bodies) == calls > 0
    assert (first.exit_code, second.exit_code, list_warnings(first)) == (code, code, "")
    assert "Questions: 3\n" in first.stdout
    assert "Questions: 3 (3 done before)\n" in second.stdout
    assert (question_folder / "r.csv").read_text() == content
    rows = sorted(csv.DictReader(io.StringIO(content)), key=lambda row: row["index"])
    assert [(row["id"], row["question"]) for row in rows] == [
        ("1", "Cap rents?"),
        ("2", "Ban cars,\nall of them?"),
        ("3", "Tea?"),
    ]
    assert all(row["status"] == "complete" and int(row["calls"]) > 0 and row["run_id"] for row in rows)


def test_json_lines_contain_the_whole_document(question_folder: Path) -> None:
    (question_folder / "q.jsonl").write_text('{"question": "Cap rents?", "tags": ["a"]}\n\n"Tea?"\n')
    with Stage() as played:
        result = run_batch(played, "q.jsonl", "--out", "r.jsonl", "--batch-id", "rents")
    assert (result.exit_code, list_warnings(result)) == (0, "")
    first, second = read_lines(question_folder / "r.jsonl")
    assert (first["row"], second["row"], second["question"]) == ({"tags": ["a"]}, {}, "Tea?")
    assert (first["runId"], first["status"], first["answer"]) == ("rents-0", "complete", "Both are right.")
    assert (first["decision"], first["error"]) == ("no winner", None)
    page = CliRunner().invoke(app, ["runs", "render", "-"], input=json.dumps(first["document"]))
    assert page.stdout.startswith("Question: Cap rents?\n")
    stored_page = CliRunner().invoke(app, ["show", "rents-1", "--page", "--store", "runs.sqlite3"])
    assert stored_page.stdout.startswith("Question: Tea?\n")
    assert "  pro: yes\n" in stored_page.stdout


def test_questions_come_from_stdin_and_results_go_to_stdout(question_folder: Path) -> None:
    """The summary goes to stderr, so that stdout contains nothing but results."""
    with Stage() as played:
        result = run_batch(played, "-", "--out", "-", "--limit", "1", text="Cap rents?\n\nTea?\n")
        objects = run_batch(played, "-", text='{"question": "Tea?"}\n')
    assert [json.loads(line)["question"] for line in result.stdout.splitlines()] == ["Cap rents?"]
    assert "Questions: 1\n" in result.stderr
    assert "Questions: 1\n" in objects.stdout
    assert sorted(path.name for path in question_folder.iterdir() if path.is_file()) == [
        "q.csv",
        "runs.sqlite3",
        "sides.toml",
    ]


def test_failed_questions_do_not_stop_the_batch_and_are_retried(question_folder: Path) -> None:
    with Stage(broken=(0,)) as played:
        failed = run_batch(played, "q.csv", "--out", "r.jsonl", "--max-concurrency", "1", "--attempts", "1")
        calls = len(played.bodies)
        statuses = [line["status"] for line in read_lines(question_folder / "r.jsonl")]
        second = run_batch(played, "q.csv", "--out", "r.jsonl", "--max-concurrency", "1", "--attempts", "1")
        assert (calls, len(played.bodies)) == (1 + 3 + 3, 1 + 3 + 3 + 3)
    assert (failed.exit_code, second.exit_code) == (1, 0)
    assert statuses == ["failed", "complete", "complete"]
    assert "Question 1 failed (Cap rents?): ProviderFailed: " in failed.stderr
    assert failed.stderr.endswith("To retry failed questions, run the same command again\n")
    assert "Errors: ProviderFailed 1\n" in failed.stdout
    assert [line["status"] for line in read_lines(question_folder / "r.jsonl")] == ["complete"] * 3


def test_questions_beyond_a_limit_have_no_result(question_folder: Path) -> None:
    with Stage() as played:
        limited = run_batch(played, "q.csv", "--max-calls", "1", "--batch-id", "each", "--out", "each.jsonl")
        total = run_batch(played, "q.csv", "--max-total-calls", "3", "--max-concurrency", "1", "--batch-id", "all")
        more = run_batch(played, "q.csv", "--max-total-tokens", "60", "--max-concurrency", "1", "--batch-id", "all")
    assert (limited.exit_code, total.exit_code, more.exit_code) == (3, 3, 3)
    assert "Limit reached: 3\n" in limited.stdout
    assert "calls=1" in read_lines(question_folder / "each.jsonl")[0]["error"]
    assert "Questions: 3 (2 not done)\n" in total.stdout
    assert "with a higher --max-total-calls" in total.stderr
    assert "Questions: 3 (1 not done, 1 done before)\n" in more.stdout
    assert not Totals().reached(BatchSummary(total=None, usage=Usage.unknown()))
    assert not Totals(tokens=1).reached(BatchSummary(total=None, usage=Usage.unknown()))


def test_pattern_options_come_from_a_file(question_folder: Path) -> None:
    """Sides can have their own models, and the path of the schema is relative to the options file.

    Each file is loaded only once for all questions.
    """
    (question_folder / "answer.json").write_text('{"type": "object", "properties": {"answer": {"type": "integer"}}}')
    (question_folder / "plan.toml").write_text(
        'output_schema = "answer.json"\nmoderator = true\nmax_rounds = 5\n[[debaters]]\nname = "ann"\nstance = "for"\n'
        'model = "ann-model"\n[[debaters]]\nname = "bob"\nstance = "against"\n'
    )
    decision = {"nextSpeakers": ["ann", "bob"], "briefing": "B.", "newAngle": None, "done": True}
    verdict = {"reasoning": "r", "winner": "against", "verdict": "v"}
    with Stage(decision=decision, verdict=verdict) as played:
        result = run_batch(played, "q.csv", "--file", "plan.toml", "--out", "r.jsonl")
        models = [body["model"] for body in played.bodies]
    assert (result.exit_code, list_warnings(result)) == (0, "")
    assert "Found: bob 3\n" in result.stdout
    assert models.count("ann-model") == 3
    assert json.loads(read_lines(question_folder / "r.jsonl")[0]["answer"]) == {"answer": 42}


@pytest.mark.parametrize(
    ("content", "form", "problem"),
    [
        ("", "csv", "has no questions"),
        ("question\n", "csv", "has no questions"),
        ("\n\n", "text", "has no questions"),
        ("a,b\n1,2\n", "csv", "line 1: there is no column `question`; columns: `a`, `b`"),
        ("a,a,question\n", "csv", "line 1: the column `a` occurs twice"),
        ('question,b\n"x\ny",2\n\nz\n', "csv", "line 5 has 1 cell, but the header has 2"),
        ("id,question\n1,x\n2, \n", "csv", "line 3: `question` must not be blank"),
        ('question\n"x\n', "csv", "line 2: not valid CSV"),
        ('"x"\n{"question": 3}\n', "jsonl", "line 2: `question` must be text (got 3)"),
        ('{"ask": "x"}\n', "jsonl", "line 1: `question` is missing"),
        ("[1]\n", "jsonl", "line 1: expected an object with a `question` key, or a string (got [1])"),
        ("{\n", "jsonl", "line 1: not valid JSON"),
        ('{"question": "x", "n": NaN}\n', "jsonl", "line 1: not valid JSON: NaN is not a valid JSON number"),
        ("[" * 100_000, "jsonl", "line 1: nested too deeply"),
    ],
)
def test_invalid_row_is_rejected_before_any_call(question_folder: Path, content: str, form: str, problem: str) -> None:
    (question_folder / "bad").write_text(content)
    with Stage() as played:
        result = run_batch(played, "bad", "--format", form, "--out", "r.jsonl")
        assert played.bodies == []
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: bad: {problem}")
    assert not (question_folder / "r.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--pattern", "duel"), "There is no pattern duel. Patterns: debate, "),
        (("--max-concurrency", "0"), "--max-concurrency must be at least 1"),
        (("--batch-id", " "), "--batch-id must not be blank"),
        (("--format", "xml"), "--format must be csv, "),
        (("--seed", "x"), "--seed must be a whole number (got x)."),
        (("--max-calls", "0"), "--max-calls must be at least 1"),
        (
            ("--pattern", "handoff", "--synthesizer"),
            "handoff has no --synthesizer option.",
        ),
        (("--file", "recorded.toml"), "recorded.toml: `record` cannot be set for a batch"),
        (("--file", "replayed.toml"), "replayed.toml: `replay` cannot be set for a batch"),
        (("--out", "r.txt"), "r.txt: cannot be written: its name must end in .jsonl or .csv"),
        (("--out", "no/r.csv"), "no/r.csv: cannot be written: there is no folder"),
        (("--out", "other.jsonl"), "other.jsonl: contains results of another batch (z-0 instead of "),
        (("--out", "broken.jsonl"), "broken.jsonl: line 1 is not a batch result"),
        (("--out", "other.csv"), "other.csv: line 1: the header does not match the results of this batch"),
        (("--out", "broken.csv"), "broken.csv: contains rows that are not batch results"),
    ],
)
def test_invalid_options_produce_one_message(question_folder: Path, options: tuple[str, ...], problem: str) -> None:
    (question_folder / "recorded.toml").write_text('record = "x.json"\n')
    (question_folder / "replayed.toml").write_text('replay = "x.json"\n')
    (question_folder / "other.jsonl").write_text('{"index": 0, "runId": "z-0", "status": "complete"}\n')
    (question_folder / "broken.jsonl").write_text("{}\n")
    (question_folder / "other.csv").write_text("a,b\n")
    (question_folder / "broken.csv").write_text(f"{','.join(headers_of({'id': 1}))}\n1,2\n")
    before = {path.name: path.read_text() for path in question_folder.iterdir()}
    with Stage() as played:
        result = run_batch(played, "q.csv", *options)
        assert played.bodies == []
    assert result.exit_code == 2
    assert problem in result.stderr
    assert (
        before.items()
        <= {
            path.name: path.read_text()
            for path in question_folder.iterdir()
            if path.suffix not in (".sqlite3", ".sqlite3-wal", ".sqlite3-shm") and path.is_file()
        }.items()
    )


def test_different_questions_under_one_batch_id_are_rejected(question_folder: Path) -> None:
    with Stage() as played:
        run_batch(played, "q.csv", "--batch-id", "b", "--limit", "2")
        calls = len(played.bodies)
        (question_folder / "q.csv").write_text(QUESTIONS.replace("Cap", "Free"))
        changed = run_batch(played, "q.csv", "--batch-id", "b")
        assert len(played.bodies) == calls
        (question_folder / "q.csv").write_text(f"{QUESTIONS}4,Coffee?\n")
        longer = run_batch(played, "q.csv", "--batch-id", "b")
    assert (changed.exit_code, longer.exit_code) == (2, 0)
    assert "run b-0 was started with different options" in changed.stderr
    assert "Questions: 4 (2 done before)\n" in longer.stdout


def test_conflicting_column_names_are_distinguished(question_folder: Path) -> None:
    """Result columns whose names are already taken get the prefix `result_`."""
    (question_folder / "s.csv").write_text("question;status\nTea?;new\n")
    verdict = {"reasoning": "r", "winner": None, "verdict": "=1+1"}
    with Stage(verdict=verdict) as played:
        assert run_batch(played, "s.csv", "--out", "r.csv").exit_code == 0
        (question_folder / "s.csv").write_text("question,status,result_status\nTea?,new,x\n")
        results = run_batch(played, "s.csv", "--out", "r2.csv")
        (question_folder / "u.jsonl").write_text('{"question": "a", "n": 1}\n{"question": "b"}\n')
        uneven = run_batch(played, "u.jsonl", "--out", "r2.csv")
    (row,) = csv.DictReader(io.StringIO((question_folder / "r.csv").read_text()))
    assert (row["status"], row["result_status"], row["answer"]) == ("new", "complete", "'=1+1")
    assert (results.exit_code, uneven.exit_code) == (2, 2)


SIGNS = st.text(st.sampled_from("'=+-@\t\r\n\uff1d 1.a\","), max_size=6) | st.text(max_size=6)
"""Text with every character that is special in spreadsheets or CSV. Lone surrogates cannot be written to a file."""


@given(text=SIGNS)
def test_cells_round_trip_and_are_never_formulas(text: str) -> None:
    cell = safe_cell(text)
    assert read_cell(cell) == text
    assert cell[:1] not in "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20" or cell == "" or float(cell) == float(text)


@given(texts=st.lists(SIGNS, min_size=1))
def test_csv_record_round_trips_as_one_record(texts: list[str]) -> None:
    """Some readers treat a bare carriage return as the end of a line, so it must not split a record."""
    line = csv_line(texts)
    (record,) = csv.reader(io.StringIO(line, newline=""), strict=True)
    assert [read_cell(cell) for cell in record] == texts
    assert line.endswith("\n")


def test_formulas_are_escaped_and_the_file_can_be_continued(question_folder: Path) -> None:
    """The question, columns, column names, verdict and error are all escaped.

    A second batch can still add its results to the file.
    """
    (question_folder / "s.csv").write_text('question,=note,n\n=HYPERLINK("x"),@sum,-3\n"+1\r2",-tell,+x\n', newline="")
    verdict = {"reasoning": "r", "winner": None, "verdict": "=1\rtwo"}
    with Stage(verdict=verdict) as played:
        assert run_batch(played, "s.csv", "--out", "r.csv", "--limit", "1").exit_code == 0
        assert run_batch(played, "s.csv", "--out", "r.csv").exit_code == 0
        calls, content = len(played.bodies), (question_folder / "r.csv").read_bytes()
        assert run_batch(played, "s.csv", "--out", "r.csv").exit_code == 0
        assert (len(played.bodies), (question_folder / "r.csv").read_bytes()) == (calls, content)
    header, *rows = csv.reader(io.StringIO(content.decode(), newline=""), strict=True)
    assert header[:3] == ["question", "'=note", "n"]
    assert [row[:3] for row in rows] == [['\'=HYPERLINK("x")', "'@sum", "-3"], ["'+1\r2", "'-tell", "'+x"]]
    assert {row[header.index("answer")] for row in rows} == {"'=1\rtwo"}
    rows_again = read_rows(str(question_folder / "r.csv"))
    assert [row.question for row in rows_again] == ['=HYPERLINK("x")', "+1\r2"]
    assert [(row.columns["=note"], row.columns["n"], row.columns["answer"]) for row in rows_again] == [
        ("@sum", "-3", "=1\rtwo"),
        ("-tell", "+x", "=1\rtwo"),
    ]


@given(data=st.data(), form=st.sampled_from(["csv", "jsonl"]))
def test_file_truncated_at_any_point_is_completed(
    tmp_path_factory: pytest.TempPathFactory, data: Any, form: str
) -> None:
    """Wherever the file is cut off, resuming the batch restores the same lines."""
    path = tmp_path_factory.mktemp("torn") / f"r.{form}"
    finished = data.draw(st.lists(st.sampled_from(LINES), unique_by=lambda line: line.index))
    with open_out(str(path), "b", [line.row for line in LINES]) as out:
        for line in finished:
            out.write(line)
            out.write(line)
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(data.draw(st.integers(0, len(content))))
    with open_out(str(path), "b", [line.row for line in LINES]) as out:
        for line in finished:
            out.write(line)
    assert sorted(path.read_bytes().split(b"\n")) == sorted(content.split(b"\n"))


def _lines() -> list[Any]:
    from flowdebate.cli.batch_files import Line, Row
    from flowdebate.patterns import PATTERNS
    from flowdebate.ui.page import document_of_plan
    from flowdebate.ui.plan import make_plan

    plan = make_plan(PATTERNS["debate"], {"question": "Q?", "model": "local"})
    document = document_of_plan(plan, None, None, status="no_verdict", seed=1)
    return [
        Line(
            index=index,
            row=Row(question=f'Is it "{index}",\nor not?', columns={"n": index}),
            run_id=f"b-{index}",
            decision=None,
            answer="two\nlines, é",
            document=document,
        )
        for index in range(4)
    ]


LINES = _lines()


def test_file_open_for_writing_is_left_alone(tmp_path: Path) -> None:
    """Two batches must not write to the same file."""
    from flowdebate.errors import BadFile

    path = str(tmp_path / "r.jsonl")
    with open_out(path, "b", []), pytest.raises(BadFile, match="another process"), open_out(path, "b", []):
        pass


def test_full_disk_ends_the_batch(question_folder: Path) -> None:
    """The batch prints a single error.

    Its answers remain in the store, so they can be written to another file without any further calls.
    """
    if not os.path.exists("/dev/full"):  # noqa: PTH110 - a device
        pytest.skip("there is no /dev/full here")
    (question_folder / "full.jsonl").symlink_to("/dev/full")
    with Stage() as played:
        for _ in range(100):  # all processes share the device, and tests in another process may have locked it
            result = run_batch(played, "q.csv", "--out", "full.jsonl", "--max-concurrency", "1", "--limit", "1")
            if "another process" not in result.stderr:
                break
            time.sleep(0.1)
        calls = len(played.bodies)
        second = run_batch(played, "q.csv", "--out", "r.jsonl", "--max-concurrency", "1", "--limit", "1")
        assert len(played.bodies) == calls
    assert (result.exit_code, second.exit_code) == (1, 0)
    assert "No space left on device" in result.stderr


def test_spreadsheet_formats_are_read(tmp_path: Path) -> None:
    """Files may start with a byte order mark, use semicolons or tabs, or be plain text.

    The column can have any name if it is the only one.
    """
    path = tmp_path / "q.csv"
    for content in ("\ufeffquestion;id\nTea, or not?;1\n", "question\tid\r\nTea, or not?\t1\r\n"):
        path.write_text(content, newline="")
        (row,) = read_rows(str(path))
        assert (row.question, dict(row.columns)) == ("Tea, or not?", {"id": "1"})
    path.write_text("Topic\nTea?\n\n")
    assert [row.question for row in read_rows(str(path))] == ["Tea?"]


def test_rows_are_read_from_parquet(tmp_path: Path) -> None:
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    path = tmp_path / "q.parquet"
    columns = {"question": ["Tea?", "Rent\n2?"], "n": [1, None], "of": [["a", "b"], []], "day": [date(2026, 11, 9)] * 2}
    parquet.write_table(arrow.table(columns), path)
    rows = read_rows(str(path))
    assert [row.question for row in rows] == ["Tea?", "Rent\n2?"]
    assert [row.columns["n"] for row in rows] == [1, None]
    assert rows[0].columns["of"] == ["a", "b"]
    assert rows[0].columns["day"] == "2026-11-09"
    parquet.write_table(arrow.table({"topic": ["Tea?"]}), path)
    with pytest.raises(BadFile, match=r"line 1: `question` is missing"):
        read_rows(str(path))
    parquet.write_table(arrow.table({"question": ["x" * 1_000_000 + str(n) for n in range(70)]}), path)
    with pytest.raises(BadFile, match="is larger than 64 MB"):
        read_rows(str(path))
    path.write_bytes(b"PAR1 no table PAR1")
    with pytest.raises(BadFile, match=r"q\.parquet.*cannot be read as Parquet"):
        read_rows(str(path))
    with pytest.raises(BadFile, match="cannot be read as Parquet"):
        read_rows(str(tmp_path / "none.parquet"))


def test_missing_pyarrow_error_shows_the_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pyarrow is a large library that few users need, so no extra installs it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadFile, match="pip install pyarrow"):
        read_rows(str(tmp_path / "q.parquet"))


def test_progress_without_a_terminal_is_reported_occasionally(capsys: pytest.CaptureFixture[str]) -> None:
    """Progress lines must not flood a log, so at most one is printed every five seconds."""
    now = 0.0
    view = ProgressLines(clock=lambda: now)
    summary = BatchSummary(total=10_000, done=100, seconds=50.0, usage=Usage.unknown(), failures={"E": 2})
    view.show(summary)
    now = 5.0
    view.show(summary)
    view.show(summary)
    now = 10.0
    usage = Usage(calls=1, prompt_tokens=1_000, completion_tokens=1)
    view.show(replace(summary, total=None, usage=usage, seconds=500.0))
    now = 15.0
    view.show(replace(summary, failures={}, done=9_900))
    now = 20.0
    view.show(replace(summary, failures={}, total=200))
    assert capsys.readouterr().err.splitlines() == [
        "100 of 10,000 done; about 1 h 22 min left, 2 failed, 1 call, 2.0 a second",
        "100 done; 2 failed, 1 call, 1,001 tokens, 12.0 a minute",
        "9,900 of 10,000 done; about 1 s left, 1 call, 198.0 a second",
        "100 of 200 done; about 50 s left, 1 call, 2.0 a second",
    ]


@given(st.integers(1, 9), st.integers(2, 50), st.integers(1, 40), st.floats(0.5, 1000))
def test_remaining_time_is_estimated_from_the_first_call(usual: int, total: int, calls: int, seconds: float) -> None:
    """The estimate starts from the usual number of calls per question and later uses the measured number.

    Answers taken from the store are assumed to take no time.
    """
    view = ProgressLines(calls=usual)
    summary = BatchSummary(total=total, running=1, seconds=seconds, usage=Usage(calls=calls))
    assert view.seconds_left(replace(summary, usage=Usage.zero())) is None
    assert view.seconds_left(summary) == pytest.approx(seconds / calls * max(usual * total - calls, 0))
    ended = SimpleNamespace(error=None, replayed=False, run=SimpleNamespace(usage=Usage(calls=calls)))
    view.item(ended)  # type: ignore[arg-type]  # as much of an item as is looked at
    one_done = replace(summary, done=1)
    assert view.seconds_left(one_done) == pytest.approx(seconds * (total - 1))
    ended.replayed = True
    view.item(ended)  # type: ignore[arg-type]  # as above
    two_done = replace(one_done, done=2, replayed=1, usage=Usage(calls=2 * calls))
    assert view.seconds_left(two_done) == pytest.approx(seconds * (total - 2))


@pytest.fixture
def restore_signals() -> Iterator[None]:
    """Restore this process's signal handlers afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("restore_signals")
def test_interrupted_batch_keeps_its_answers(question_folder: Path) -> None:
    with Stage(hold=(1, 0)) as played:

        def interrupt() -> None:
            played.wait_for_turn(2)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        result = run_batch(played, "q.csv", "--max-concurrency", "1", "--batch-id", "b", "--limit", "1")
        thread.join(PATIENCE)
        played.let_go()
        second = run_batch(played, "q.csv", "--max-concurrency", "1", "--batch-id", "b", "--limit", "1")
        assert len(played.bodies) == 2 + 2
    assert (result.exit_code, second.exit_code) == (130, 0)
    assert result.stderr == "Interrupted. To continue: the same command, or any with --batch-id b\n"
    assert question_folder.joinpath("runs.sqlite3").exists()


class Terminal(io.StringIO):
    """Stream that reports itself as a terminal."""

    def isatty(self) -> bool:
        return True


def test_terminal_shows_a_progress_bar_that_disappears() -> None:
    """Failures are printed above the bar, with their control characters removed."""
    stream = Terminal()
    with open_progress(stream) as view:
        view.show(BatchSummary(total=4, done=1, seconds=1.0, usage=Usage.unknown()))
        view.item(failed_question("Cap\n\x1b[2J?" + "x" * 100))
    output = PAGE_ESCAPES.sub("", stream.getvalue())
    assert "1/4 about 3 s left, 1 call, 1.0 a second" in output
    text = "".join(output.split())
    assert "Question3failed(Cap\\x1b[2J?x" in text
    assert "x…):ValueError:no[bold]" in text


def failed_question(question: str) -> BatchItem[Any]:
    """Return a batch question whose run failed."""
    error = ValueError("no [bold]")
    return BatchItem(index=2, row=None, question=question, run_id="b-2", seed=1, status="failed", error=error)


def test_warning_shared_by_all_questions_is_shown_once(question_folder: Path) -> None:
    with Stage() as played:
        result = CliRunner().invoke(app, [*batch_options(played, "q.csv"), "--max-rounds", "5"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: ")
    assert result.stderr.count("\n") == 1


def test_output_file_that_cannot_be_opened_is_reported_once(question_folder: Path) -> None:
    """The output file is a Unix socket, which exists as a path but cannot be opened for writing."""
    with Stage() as played, socket.socket(socket.AF_UNIX) as server:
        server.bind("r.jsonl")
        result = run_batch(played, "q.csv", "--out", "r.jsonl")
        assert played.bodies == []
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: cannot write r.jsonl: ")


def test_killed_batch_is_resumed_by_the_same_command(question_folder: Path) -> None:
    """After SIGKILL, the second process requests only the answers that are missing."""
    (question_folder / "q.txt").write_text("".join(f"Question {number}?\n" for number in range(6)))
    options = ("q.txt", "--max-concurrency", "2", "--out", "r.jsonl")
    with Stage(hold=(7, 0)) as played:
        arguments = batch_options(played, *options)
        with start_process(find_command(*arguments), env=clean_environment(), stdout=subprocess.DEVNULL) as process:
            played.wait_for_turn(8)
            process.kill()
            process.wait(PATIENCE)
        killed = read_lines(question_folder / "r.jsonl")
        played.let_go()
        result = run_batch(played, *options)
        prompts = [json.dumps(body["messages"]) for body in played.bodies]
    assert 0 < len(killed) < 6
    assert result.exit_code == 0
    assert [line["index"] for line in read_lines(question_folder / "r.jsonl")] == list(range(6))
    twice = [request for request in set(prompts) if prompts.count(request) > 1]
    assert len(set(prompts)) == 6 * 3
    assert len(prompts) - len(set(prompts)) == len(twice) <= 2  # only calls that were in flight may be repeated


def test_ctrl_c_preserves_results_and_shows_how_to_continue(question_folder: Path) -> None:
    (question_folder / "q.txt").write_text("One?\nTwo?\nThree?\n")
    with Stage(hold=(3, 0)) as played:
        arguments = batch_options(played, "q.txt", "--max-concurrency", "1", "--batch-id", "b", "--out", "r.jsonl")
        with OnTerminal(*arguments) as terminal:
            played.wait_for_turn(4)
            terminal.until("1/3")
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.end() == 130
        output = PAGE_ESCAPES.sub("", terminal.seen)
        assert "3 calls, 39 tokens" in output
        assert "Questions: 3 (2 not done)" in output
        assert "Interrupted. To continue: the same command, or any with --batch-id b\n" in terminal.seen
        assert "Traceback" not in terminal.seen
        assert len(read_lines(question_folder / "r.jsonl")) == 1
        played.let_go()
        second = run_batch(played, "q.txt", "--max-concurrency", "1", "--batch-id", "b", "--out", "r.jsonl")
    assert second.exit_code == 0
    assert len(read_lines(question_folder / "r.jsonl")) == 3


def test_batch_is_one_row_in_the_run_list(question_folder: Path) -> None:
    with Stage(broken={1}) as played:
        command = ("q.csv", "--max-concurrency", "1", "--batch-id", "rents", "--attempts", "1", "--max-rounds", "1")
        run_batch(played, *command)
    runner, location = CliRunner(), ("--store", str(question_folder / "runs.sqlite3"))
    listed = runner.invoke(app, ["runs", "--limit", "1", *location]).stdout
    assert re.search(r"^rents \(\d runs\) .* 1 failed", listed, re.MULTILINE)
    assert "To list the runs of a batch: --batch-id rents" in listed
    assert "There are more" not in listed
    alone = runner.invoke(app, ["runs", "--batch-id", "rents", *location]).stdout
    numbers = re.findall(r"^rents-(\d) ", alone, re.MULTILINE)
    assert sorted(numbers) == [str(index) for index in range(len(numbers))]
    assert f"rents ({len(numbers)} runs)" in listed
    assert len(json.loads(runner.invoke(app, ["runs", "--json", *location]).stdout)) == len(numbers)
