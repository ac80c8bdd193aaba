"""`flowdebate eval benefit`: debates on questions with known answers, compared with baselines."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.cli.batch_files import Row
from flowdebate.cli.benefit import match_stance, read_choices
from flowdebate.errors import BadFile

from .stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


FACTS: list[dict[str, Any]] = [
    {"question": "Which is true?", "choices": ["Water is wet", "Water is dry"], "answer": "Water is wet"},
    {"question": "Which is true?", "choices": ["Fire is cold", "Fire is hot"], "answer": 1},
    {"question": "Which is true?", "choices": ["Ice is cold", "Ice is hot"], "answer": "a"},
    {"question": "Which is true?", "choices": ["Snow is black", "Snow is white"], "answer": "Snow is white"},
]
RIGHT = (
    "Water is wet",
    "Fire is hot",
    "Ice is cold",
    "Snow is white",
    'The answer to "Should cars be banned?" is yes',
    'The answer to "Should tea be free?" is no',
)


class School(Stage):
    """Stage whose judge prefers the truth. Its direct answers name the first listed position."""

    async def _answer(self, exchange: Any) -> None:
        schema = json.dumps(exchange.body.get("response_format", {}))
        if "winner" in schema:
            listed = re.findall(r"^- (.*)$", exchange.body["messages"][0]["content"], re.MULTILINE)
            answer = {
                "reasoning": "So it is.",
                "winner": next((option for option in listed if option in RIGHT), listed[0]),
            }
            if "verdict" in schema:
                answer["verdict"] = "So it is."
            else:
                answer["winner"] = listed[0]
            self.verdict = answer
        await super()._answer(exchange)


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the command in a folder with a data set."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "facts.jsonl").write_text("\n".join(json.dumps(fact) for fact in FACTS))
    return tmp_path


def run_evaluation(stage: Stage | None, *more: str) -> Result:
    """Run an evaluation in this process."""
    url = "http://127.0.0.1:9/v1" if stage is None else stage.base_url
    options = ("--model", "staged", "--base-url", url, "--store", "runs.sqlite3", "--max-rounds", "1", "--seed", "1")
    single_schedule = () if "--schedule" in more else ("--schedule", "single")
    return CliRunner().invoke(app, ["eval", "benefit", *more, *options, *single_schedule], catch_exceptions=False)


def test_data_set_is_evaluated_and_paid_for_once(data_folder: Path) -> None:
    """Running the same evaluation again makes no calls.

    All rows ask the same question, but each row has its own positions.
    """
    with School() as school:
        first = run_evaluation(school, "facts.jsonl", "--out", "r.jsonl", "--json")
        calls = len(school.bodies)
        second = run_evaluation(school, "facts.jsonl", "--json")
        assert len(school.bodies) == calls
    assert first.exit_code == 0
    document, replayed = json.loads(first.stdout), json.loads(second.stdout)
    assert document == replayed
    report = document["report"]
    assert (report["n"], document["leftOut"], document["lostAnswers"]) == (4, {}, 0)
    assert [method["method"] for method in report["methods"]] == ["debate", "single", "self_consistency"]
    assert report["methods"][0]["right"] == 4
    assert report["methods"][0]["calls"] == 3
    records = [json.loads(line) for line in (data_folder / "r.jsonl").read_text().splitlines()]
    for line in records:
        stances = {side["stance"] for side in line["document"]["debaters"]}
        assert stances == set(FACTS[line["index"]]["choices"])


def test_page_has_tables_and_a_plain_summary(data_folder: Path) -> None:
    with School() as school:
        result = run_evaluation(school, "facts.jsonl", "--baseline", "single", "--limit", "3")
    assert result.exit_code == 0
    assert "Questions: 3\n" in result.stdout
    assert re.search(r"^the debate +3 of 3 +100\.0% +43\.9% to 100\.0% +0 +3\.0 +\d+", result.stdout, re.MULTILINE)
    assert "Too few to say: the debate was right in 3 of 3, one call in " in result.stdout
    assert "self-consistency" not in result.stdout


def test_self_consistency_budget_can_use_another_unit(data_folder: Path) -> None:
    """The budget can be given as a number of calls per debate or as the price of those calls.

    Evaluations with different units are stored as separate batches.
    """
    with School() as school:
        runs = [
            run_evaluation(school, "facts.jsonl", "--limit", "2", "--json", *more)
            for more in ((), ("--equal", "calls"), ("--equal", "cost", "--price", "1/2"))
        ]
    assert [outcome.exit_code for outcome in runs] == [0, 0, 0]
    documents = [json.loads(outcome.stdout) for outcome in runs]
    assert len({document["batch"] for document in documents}) == 3
    assert documents[1]["report"]["methods"][-1]["calls"] == documents[1]["report"]["methods"][0]["calls"] == 3
    result = run_evaluation(None, "facts.jsonl", "--equal", "cost", "--baseline", "single")
    assert result.exit_code == 2
    assert "--equal requires --baseline revision or self_consistency" in result.stderr


def test_rows_without_positions_use_yes_and_no(data_folder: Path) -> None:
    """A CSV file of yes-or-no questions needs only the truth column."""
    (data_folder / "q.csv").write_text("question,correct\nShould cars be banned?,yes\nShould tea be free?,FALSE\n")
    with School() as school:
        result = run_evaluation(school, "q.csv", "--truth", "correct", "--baseline", "single", "--json")
    assert result.exit_code == 0
    debate, single = json.loads(result.stdout)["report"]["methods"]
    assert (debate["right"], debate["n"], single["n"]) == (2, 2, 2)


def test_named_debaters_get_the_positions_at_random(data_folder: Path) -> None:
    """Debaters in a plan file keep their names and roles.

    The side that argues for the truth is drawn for each question.
    """
    rows = [{"question": f"Q{number}?", "good": "it is", "bad": "it is not", "answer": "it is"} for number in range(12)]
    (data_folder / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with School() as school:
        options = ("--choices", "good", "--choices", "bad", "--baseline", "single", "--out", "r.jsonl")
        result = run_evaluation(school, "q.jsonl", "--debater", "ann=x", "--debater", "bob=y", *options)
    assert result.exit_code == 0
    debaters = [json.loads(line)["document"]["debaters"] for line in (data_folder / "r.jsonl").read_text().splitlines()]
    truthful = Counter(side["name"] for sides in debaters for side in sides if side["stance"] == "it is")
    assert set(truthful) == {"ann", "bob"}
    assert sum(truthful.values()) == 12


def test_failed_debates_count_as_wrong_and_are_retried(data_folder: Path) -> None:
    with School(broken=range(3)) as school:
        first = run_evaluation(school, "facts.jsonl", "--attempts", "1", "--max-concurrency", "1", "--json")
    with School() as school:
        second = run_evaluation(
            school, "facts.jsonl", "--attempts", "1", "--json", "--batch-id", json.loads(first.stdout)["batch"]
        )
    assert first.exit_code == 1
    report = json.loads(first.stdout)["report"]
    assert (report["n"], report["attempted"], report["failed"], report["methods"][0]["right"]) == (4, 4, 3, 1)
    assert json.loads(first.stdout)["withoutVerdict"] == {"failed": 3}
    assert "To retry failed questions, run the same command again" in first.stderr
    assert second.exit_code == 0
    assert json.loads(second.stdout)["report"]["n"] == 4


def test_unstarted_and_failed_debates_are_listed_below_the_report(data_folder: Path) -> None:
    with School(broken={3}) as school:
        options = ("--max-total-calls", "6", "--attempts", "1", "--max-concurrency", "1", "--baseline", "single")
        result = run_evaluation(school, "facts.jsonl", *options)
    assert result.exit_code == 3
    assert "Not counted: 2 (not started)\nBaseline answers that failed: 1\n" in result.stdout
    assert re.search(r"^the debate +2 of 2 ", result.stdout, re.MULTILINE)
    assert re.search(r"^one call +\d of 1 ", result.stdout, re.MULTILINE)
    assert "To continue: the same command, or any with --batch-id evaluation-" in result.stderr


def test_missing_comparisons_are_reported(data_folder: Path) -> None:
    """If no debate reaches a verdict, there is no report, but no traceback either."""
    with School() as school:
        result = run_evaluation(school, "facts.jsonl", "--max-calls", "1", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["report"] is None
    assert "Nothing to compare" in result.stderr


MISUSE = {
    "a truth that is none": (
        [{**FACTS[0], "answer": "Water is blue"}],
        (),
        'question 1: `answer` must be "Water is wet" or "Water is dry" (got Water is blue)',
    ),
    "no truth": ([{"question": "Tea?"}], (), "question 1: there is no column `answer`; columns: `question`"),
    "no such column": (
        FACTS,
        ("--choices", "options"),
        "question 1: there is no column `options`; columns: `question`, ",
    ),
    "one choice": ([{**FACTS[0], "choices": ["a"]}], (), '`choices` must be 2 to 26 different strings (got ["a"])'),
    "the same choice twice": (
        [{**FACTS[0], "choices": ["a", "a"]}],
        (),
        '`choices` must be 2 to 26 different strings (got ["a", "a"])',
    ),
    "too many debaters": (
        FACTS,
        ("--debater", "a=x", "--debater", "b=y", "--debater", "c=z"),
        "question 1 must have one choice per debater (got 2 choices and 3 debaters)",
    ),
    "no such baseline": (FACTS, ("--baseline", "double"), "--baseline must be single, drafts"),
    "no such gain": (FACTS, ("--min-gain", "2"), "--min-gain must be strictly between 0 and 1"),
    "no room on stdout": (FACTS, ("--out", "-"), "--out must be the path of a file"),
}


@pytest.mark.parametrize(("rows", "options", "message"), MISUSE.values(), ids=MISUSE.keys())
def test_misuse_is_rejected_before_any_call(
    data_folder: Path, rows: list[dict[str, Any]], options: tuple[str, ...], message: str
) -> None:
    (data_folder / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = run_evaluation(None, "q.jsonl", *options)
    assert result.exit_code == 2
    assert message in result.stderr


@given(stances=st.lists(st.text(st.characters(codec="ascii"), min_size=2), min_size=2, max_size=5, unique=True))
def test_exact_position_text_takes_precedence(stances: list[str]) -> None:
    """A position's exact text always selects it.

    This applies even if the text looks like another position's letter or number.
    """
    folded = [stance.strip().casefold() for stance in stances]
    names = ["a", "b", "c", "d", "e"][: len(stances)]
    for stance in stances:
        if folded.count(stance.strip().casefold()) == 1:
            assert match_stance(stance, stances, names) == stance


@pytest.mark.parametrize(
    ("cells", "columns", "choices"),
    [
        ({"choices": '["tea", "coffee"]'}, [], ["tea", "coffee"]),
        ({"one": " tea ", "two": "coffee", "three": ""}, ["one", "two", "three"], ["tea", "coffee"]),
        ({"answer": "tea"}, [], []),
    ],
)
def test_choices_can_come_from_a_list_cell_or_separate_columns(
    cells: dict[str, Any], columns: list[str], choices: list[str]
) -> None:
    """A list in a CSV cell is written as JSON.

    Blank cells are ignored, and a row without the column has no choices.
    """
    row = Row(question="?", columns=cells)
    assert read_choices(row, columns, path="q.csv", number=1) == choices


def test_cell_without_a_list_is_rejected() -> None:
    """If a cell contains only one position, the error names its column."""
    with pytest.raises(BadFile, match="`choices` must be 2 to 26 different strings"):
        read_choices(Row(question="?", columns={"choices": "tea or coffee"}), [], path="q.csv", number=1)


def test_debate_from_an_evaluation_can_be_resumed(data_folder: Path) -> None:
    """Each debate is a stored run. `resume` shows it together with its baselines and makes no calls."""
    with School() as school:
        first = run_evaluation(school, "facts.jsonl", "--out", "r.jsonl", "--limit", "1")
        calls = len(school.bodies)
        run_id = json.loads((data_folder / "r.jsonl").read_text().splitlines()[0])["runId"]
        resumed = CliRunner().invoke(app, ["resume", run_id, "--store", "runs.sqlite3"], catch_exceptions=False)
        assert len(school.bodies) == calls
    assert (first.exit_code, resumed.exit_code) == (0, 0)
    assert "one call" in resumed.stdout


def test_judge_options_apply_to_every_debate(data_folder: Path) -> None:
    scores = {"reasoning": "So.", "scores": {"A": 90, "B": 10}, "verdict": "So it is."}
    with School(answers={"scores": scores}) as school:
        options = ("--baseline", "single", "--limit", "1", "--schedule", "swap", "--labels", "--out", "r.jsonl")
        result = run_evaluation(school, "facts.jsonl", *options)
    assert result.exit_code == 0
    judging = json.loads((data_folder / "r.jsonl").read_text().splitlines()[0])["document"]["raw"]["verdict"]["judging"]
    assert judging["schedule"] == "swap"
    assert len(judging["ballots"]) == 2
    assert all(set(ballot["labels"].values()) == {"A", "B"} for ballot in judging["ballots"])


def test_questions_can_be_clustered_and_failures_excluded(data_folder: Path) -> None:
    rows = [{**fact, "topic": "physics"} for fact in FACTS]
    (data_folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with School() as school:
        report = json.loads(run_evaluation(school, "t.jsonl", "--cluster", "topic", "--json").stdout)["report"]
        result = run_evaluation(school, "facts.jsonl", "--cluster", "topic")
    assert {comparison["clusters"] for comparison in report["comparisons"]} == {1}
    assert result.exit_code == 2
    assert "--cluster is not a column of every row" in result.stderr
    with School(broken=range(3)) as school:
        options = ("--attempts", "1", "--max-concurrency", "1", "--missing", "left-out", "--batch-id", "lost")
        limited_report = json.loads(run_evaluation(school, "facts.jsonl", *options, "--json").stdout)["report"]
        page = run_evaluation(school, "facts.jsonl", *options, "--missing", "gone")
    assert (limited_report["n"], limited_report["attempted"], limited_report["failed"], limited_report["missing"]) == (
        1,
        4,
        3,
        "left out",
    )
    assert page.exit_code == 2
