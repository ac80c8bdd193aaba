"""`flowdebate eval study`: a study file is registered, run and compared."""

from __future__ import annotations

import csv
import json
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app

from .test_benefit import FACTS, School

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from .stage import Stage

STUDY = """
name = "facts"
questions = "facts.jsonl"
primary = ["together", "single"]
noise = true
seed = 3
prediction = "no gain"

[debate]
max_rounds = 1
schedule = "single"
baselines = ["single"]

[designs.together]
turn_order = "simultaneous"

[designs.in_turn]
baselines = []
"""


@pytest.fixture
def study_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the command in a folder with a study and its questions."""
    monkeypatch.chdir(tmp_path)
    odd = {"empty": "", "same": "x"}
    rows = [{**fact, **odd, "question": f"{fact['question']} ({number})"} for number, fact in enumerate(FACTS)]
    (tmp_path / "facts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "facts.toml").write_text(STUDY)
    return tmp_path


def run_study(stage: Stage | None, *words: str) -> Result:
    """Run a study in this process."""
    url = "http://127.0.0.1:9/v1" if stage is None else stage.base_url
    options = ("--model", "staged", "--base-url", url, "--store", "runs.sqlite3")
    return CliRunner().invoke(app, ["eval", "study", *words, *options], catch_exceptions=False)


def test_study_can_be_registered_run_and_reported(study_folder: Path) -> None:
    with School() as school:
        assert run_study(school, "register", "facts.toml").exit_code == 0
        second = run_study(school, "register", "facts.toml")
        assert second.exit_code == 2
        assert "already exists" in second.stderr
        assert not school.bodies
        first = run_study(school, "facts.toml", "--limit", "3")
        assert first.exit_code == 3
        assert "nothing is concluded yet" in first.stdout
        complete = run_study(school, "facts.toml")
        assert complete.exit_code == 0
        calls = len(school.bodies)
        outputs = ("--latex", "t.tex", "--html", "t.html", "--frame", "rows.csv")
        report = run_study(school, "report", "facts.toml", "--json", *outputs)
        assert len(school.bodies) == calls
    document = json.loads(report.stdout)
    assert (document["asked"], document["planned"], document["failed"], document["differences"]) == (12, 12, 0, [])
    assert document["registered"] == json.loads((study_folder / "facts.registration.json").read_text())["hash"]
    assert [
        (comparison["one"], comparison["other"], comparison["primary"]) for comparison in document["comparisons"]
    ] == [
        ("together", "single", True),
        ("together", "in_turn", False),
        ("together", "noise", False),
        ("in_turn", "single", False),
    ]
    assert "together against single (primary)" in complete.stdout
    assert r"\toprule" in (study_folder / "t.tex").read_text()
    assert "Everything matches the registration." in (study_folder / "t.html").read_text()
    with (study_folder / "rows.csv").open() as file:
        assert {row["method"] for row in csv.DictReader(file)} == {"together", "single", "in_turn", "noise"}


def test_failed_control_stops_the_study(study_folder: Path) -> None:
    rows = [json.loads(line) for line in (study_folder / "facts.jsonl").read_text().splitlines()]
    noted = [{**row, "notes": f"It is {row['answer']}."} for row in rows]
    (study_folder / "facts.jsonl").write_text("\n".join(map(json.dumps, noted)))
    (study_folder / "facts.toml").write_text(STUDY.replace("noise = true", 'noise = true\ncontrol = "notes"'))
    with School() as school:
        stopped = run_study(school, "facts.toml")
        assert stopped.exit_code == 3
        assert "Stopped by the control: the judge is right in" in " ".join(stopped.stdout.split())
        report = json.loads(run_study(school, "report", "facts.toml", "--json").stdout)
        assert (report["control"]["passed"], report["control"]["n"]) == (False, len(rows))
        assert report["asked"] == 2 * len(rows) + 1
        (study_folder / "facts.toml").write_text(STUDY.replace("noise = true", 'control = "note"'))
        unknown = run_study(school, "facts.toml")
    assert "there is no column `note`" in unknown.stderr


def test_changes_since_the_registration_are_reported(study_folder: Path) -> None:
    with School() as school:
        run_study(school, "register", "facts.toml")
        (study_folder / "facts.toml").write_text(STUDY.replace("seed = 3", "seed = 4"))
        result = run_study(school, "facts.toml")
    assert "Differences from the registration: seed: registered 3, now 4" in " ".join(result.stdout.split())


def test_debaters_but_not_the_judge_read_the_sources_in_their_row(study_folder: Path) -> None:
    rows = [json.loads(line) for line in (study_folder / "facts.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows):
        row["sources"] = {"notes.txt": f"The gauge of row {number} stood at zero."}
    (study_folder / "facts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with School() as school:
        run_study(school, "register", "facts.toml")
        assert run_study(school, "facts.toml", "--limit", "2").exit_code == 3
        prompts = [str(body["messages"]) for body in school.bodies]
        rows[1]["sources"]["notes.txt"] = "It did not."
        (study_folder / "facts.jsonl").write_text("\n".join(map(json.dumps, rows)))
        changed = run_study(school, "report", "facts.toml")
    reading = [prompt for prompt in prompts if "stood at zero" in prompt]
    assert len(reading) == 2 * 2  # two debaters, two questions
    assert all("You are one of the debaters" in prompt for prompt in reading)
    assert len(prompts) > len(reading)
    assert "Differences from the registration: sources: registered" in " ".join(changed.stdout.split())


def test_prompt_change_is_reported(study_folder: Path) -> None:
    """Changing the instructions of one design counts as a difference, even if no step of its debates changes."""
    with School() as school:
        run_study(school, "register", "facts.toml")
        changed = STUDY.replace("baselines = []", 'baselines = []\ninstructions = "Be terse."')
        (study_folder / "facts.toml").write_text(changed)
        result = run_study(school, "facts.toml", "--limit", "1", "--json")
    (difference,) = json.loads(result.stdout)["differences"]
    then, now = difference.removeprefix("fixed: registered ").split(", now ")
    assert then.partition("options of in_turn")[0] == now.partition("options of in_turn")[0]
    assert then != now


def test_interrupted_study_shows_how_to_continue(study_folder: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with School(hold=(1, 0)) as school:

        def interrupt() -> None:
            school.wait_for_turn(1)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        result = run_study(school, "facts.toml", "--max-concurrency", "1")
        thread.join()
        school.let_go()
    signal.signal(signal.SIGINT, before)
    assert result.exit_code == 130
    assert result.stderr == "Interrupted. To continue: the same command\nThere is no answer yet\n"


def test_debate_started_with_other_options_is_reported(study_folder: Path) -> None:
    """A study cannot mix debates with different options, so the command fails and suggests a remedy."""
    with School() as school:
        run_study(school, "facts.toml", "--limit", "1")
        (study_folder / "facts.answers.jsonl").unlink()
        (study_folder / "facts.toml").write_text(STUDY.replace("max_rounds = 1", "max_rounds = 2"))
        result = run_study(school, "facts.toml", "--limit", "1")
    assert result.exit_code == 2
    assert (
        "was started with a different outline: restore the original, or start a new study with a different `name` or "
        "`seed`" in result.stderr
    )


def test_budget_applies_to_all_questions(study_folder: Path) -> None:
    with School() as school:
        result = run_study(school, "facts.toml", "--max-total-calls", "5", "--max-concurrency", "1", "--json")
        assert 5 <= len(school.bodies) < 20  # debates that have already started are completed
    assert result.exit_code == 3
    assert 1 <= json.loads(result.stdout)["asked"] < 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seed = 3", "sead = 3"), "unknown key `sead`. Did you mean `seed`?"),
        (('"single"]\nnoise', '"revision"]\nnoise'), "primary"),
        (("[debate]", "[debate]\nmax_round = 1"), "max_round"),
        (('questions = "facts.jsonl"', 'questions = "none.jsonl"'), "none.jsonl"),
        (("seed = 3", 'truth = "right"'), "facts.jsonl: question 1: there is no column `right`; columns: `question`"),
        (
            ("seed = 3", 'cluster = "topic"'),
            "facts.jsonl: question 1: there is no column `topic`; columns: `question`",
        ),
        (
            ("seed = 3", 'id = "choices"\ncluster = "empty"'),
            "question 1: `cluster` must be non-blank text or a number",
        ),
        (("seed = 3", 'id = "same"'), "question 2: `id` must be unique (got x)"),
        (("seed = 3", "repeats = 1000000000"), "facts.toml: `repeats` must be between 1 and 1,000"),
        (('"together", "single"', '"togethr", "single"'), "facts.toml: `primary` must be two different methods from"),
        (("[debate]", '[debate]\nquestion = "Tea?"'), "facts.toml: `debate.question` cannot be set"),
        (("[debate]", '[debate]\npattern = "consensus"'), "facts.toml: `debate.pattern` cannot be set"),
        (("baselines = []", "baselines = []\nmax_calls = 3"), "`designs.in_turn.max_calls` must be in [debate]"),
        (("name", "name ="), "is not valid TOML"),
    ],
    ids=str,
)
def test_invalid_study_file_is_rejected_before_any_call(
    study_folder: Path, change: tuple[str, str], message: str
) -> None:
    (study_folder / "facts.toml").write_text(STUDY.replace(*change, 1))
    result = run_study(None, "facts.toml")
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_invalid_row_is_reported_before_any_call(study_folder: Path) -> None:
    with (study_folder / "facts.jsonl").open("a") as file:
        file.write(f"\n{json.dumps({'question': 'Tea?', 'choices': ['Yes', 'yes'], 'answer': 0, 'same': 'y'})}")
    with School() as school:
        result = run_study(school, "facts.toml", "--limit", "1")
        assert not school.bodies
    assert result.exit_code == 2
    assert f"facts.jsonl: question {len(FACTS) + 1}: `debaters[1].stance` must either equal" in result.stderr


def test_report_has_only_the_requested_sections(study_folder: Path) -> None:
    """Answers from a design that has been removed from the study do not count toward the study's progress."""
    with School() as school:
        run_study(school, "facts.toml")
        (study_folder / "facts.toml").write_text(
            STUDY.replace("in_turn", "in_order").replace("noise = true", "noise = false")
        )
        report = run_study(school, "report", "facts.toml", "--json")
    document = json.loads(report.stdout)
    assert (document["asked"], document["planned"], report.exit_code) == (4, 8, 3)
    assert "4 of 8 answered" in document["summary"]


def test_unwritable_report_fails_before_any_call(study_folder: Path) -> None:
    with School() as school:
        result = run_study(school, "facts.toml", "--html", "nowhere/t.html")
        assert not school.bodies
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr


def test_exactly_one_study_file_is_required(study_folder: Path) -> None:
    for words in (("register",), ("facts.toml", "facts.toml")):
        result = run_study(None, *words)
        assert result.exit_code == 2
        assert "Specify one study file" in result.stderr
