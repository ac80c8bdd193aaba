"""`flowdebate debate` with a judge that reads several views, and with a panel of judges."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate import DebateRawOutput
from flowdebate.cli.app import app

from .stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

SIDES = ("--debater", "pro=cap rents", "--debater", "con=free rents", "--no-synthesizer")


def _make_scored(first: float, second: float) -> dict[str, Any]:
    scores = {"cap rents": first, "free rents": second}
    return {"reasoning": "It answered.", "scores": scores, "verdict": "Cap them."}


def _run(stage: Stage, *more: str) -> Result:
    return CliRunner().invoke(app, stage.options(*SIDES, "--max-rounds", "1", *more), catch_exceptions=False)


def test_inconsistent_judge_is_reported(tmp_path: Path) -> None:
    answers = {"scores": [_make_scored(90, 10), _make_scored(40, 60)]}
    report = tmp_path / "report.md"
    with Stage(answers=answers) as stage:
        plain = _run(stage, "--schedule", "swap", "--markdown", str(report))
    with Stage(answers=answers) as stage:
        document = json.loads(_run(stage, "--schedule", "swap", "--json").stdout)
    assert plain.exit_code == 0
    words = " ".join(plain.stdout.split())
    assert "2 (swap), which disagree: pro 0.65, con 0.35" in words
    assert "**Ballots**: 2 (swap), which disagree" in report.read_text().replace("\\", "")
    raw = DebateRawOutput.model_validate(document["raw"])
    assert raw.found.winner == "cap rents"
    assert raw.found.judging is not None
    assert [ballot.winner for ballot in raw.found.judging.ballots] == ["cap rents", "free rents"]


@pytest.mark.parametrize(
    ("on_flip", "winner"), [("abstain", "none (the judge abstained)"), ("tie", "none (tie)")], ids=str
)
def test_verdict_without_a_winner_states_the_reason(on_flip: str, winner: str) -> None:
    """A judge's abstention must not be mistaken for a synthesis."""
    with Stage(answers={"scores": [_make_scored(90, 10), _make_scored(40, 60)]}) as stage:
        result = _run(stage, "--schedule", "swap", "--on-flip", on_flip)
    assert result.exit_code == 0
    assert winner in result.stdout


def test_panel_of_two_models_votes() -> None:
    panel = ("--panel", "staged", "--panel", "other", "--panel", "ann-model")
    with Stage(answers={"scores": _make_scored(80, 20)}) as stage:
        result = _run(stage, *panel, "--schedule", "single", "--decided-by", "vote", "--curtail")
    assert result.exit_code == 0
    assert "2 (single, 1 saved): pro 1.00, con 0.00" in " ".join(result.stdout.split())
    assert {body["model"] for body in stage.bodies} == {"staged", "other"}


def test_rubric_scores_appear_in_the_page_report_and_document(tmp_path: Path) -> None:
    report, plan = tmp_path / "report.md", tmp_path / "plan.toml"
    plan.write_text('criteria = ["evidence=3", "clarity"]\nschedule = "swap"\n')
    by = {"cap rents": {"evidence": 80, "clarity": 40}, "free rents": {"evidence": 30, "clarity": 70}}
    orders = [
        {**_make_scored(0, 0), "scores": by},
        {**_make_scored(0, 0), "scores": {**by, "free rents": by["cap rents"]}},
    ]
    for options in (
        ("--criterion", "evidence=3", "--criterion", "clarity", "--schedule", "swap"),
        ("--file", str(plan)),
    ):
        with Stage(answers={"scores": orders}) as stage:
            result = _run(stage, *options, "--markdown", str(report))
            shown_again = CliRunner().invoke(app, ["show", "--last", "--page", "--json"])
        assert result.exit_code == 0, result.stderr
        for page in (result.stdout, report.read_text().replace("*", "")):
            for line in ("Criterion “evidence”: pro 80, con 55\n", "Criterion “clarity”: pro 40, con 55\n"):
                assert line in page
        judging = DebateRawOutput.model_validate(json.loads(shown_again.stdout)["raw"]).found.judging
        assert judging is not None
        ballots = [ballot for ballot in judging.ballots if ballot.criteria == by]
        assert [ballot.criteria for ballot in judging.ballots if ballot not in ballots] == [orders[1]["scores"]]
        assert ballots[0].shares["cap rents"] == pytest.approx(70 / (70 + 40))


def _likely(prompt: str) -> dict[str, float]:
    """Return log-probabilities that favor the first argument in both orders, more strongly in the first slot."""
    if "Build more." not in prompt.partition("Side B")[0]:
        return {"A": -0.2, "B": -1.8, "The": -9.0}
    return {"A": -3.0, "B": -2.5} if "Side B" in prompt else {"A": -0.1}


def test_letter_judge_shows_its_log_odds(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    with Stage(letters=_likely) as stage:
        plain = _run(stage, "--answer-form", "letter", "--seed", "1", "--markdown", str(report))
        document = CliRunner().invoke(app, ["show", "--last", "--page", "--json"])
        stored_page = CliRunner().invoke(app, ["show", "--last", "--page"])
    assert plain.exit_code == 0, plain.stderr
    odds = "pro first: pro +0.80, con -0.80; con first: con -0.25, pro +0.25 (the letters had 13% of the probability)"
    for page in (plain.stdout, stored_page.stdout, report.read_text().replace("\\", "")):
        words = " ".join(page.replace("**", "").split())
        assert "2 (cyclic, by letter): pro 0.74, con 0.26" in words
        assert odds in words
        assert words.count("“Homes first.”") == 1
    raw = DebateRawOutput.model_validate(json.loads(document.stdout)["raw"])
    assert raw.found.winner == "cap rents"
    assert raw.found.judging is not None
    assert raw.found.judging.answer == "letter"
    assert len(raw.found.judging.ballots) == 2


def test_judging_by_letter_can_be_set_by_options_or_a_plan_file(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('answer_form = "letter"\nschedule = "single"\n')
    ways = {
        ("--answer-form", "letter", "--crossed-labels"): ("letter", 4),
        ("--answer-form", "letter_after_reasons", "--schedule", "swap"): ("letter_after_reasons", 2),
        ("--decided-by", "log_odds"): ("letter", 2),
        ("--file", str(plan)): ("letter", 1),
    }
    for options, (answer, ballots) in ways.items():
        with Stage(letters=_likely) as stage:
            result = _run(stage, *options, "--json")
        assert result.exit_code == 0, result.stderr
        judging = DebateRawOutput.model_validate(json.loads(result.stdout)["raw"]).found.judging
        assert judging is not None
        assert (judging.answer, len(judging.ballots), judging.decided_by) == (answer, ballots, "log_odds")


@pytest.mark.parametrize(("threshold", "winner"), [((), None), (("--min-log-odds", "0"), "cap rents")])
def test_winning_margin_can_be_set(threshold: tuple[str, ...], winner: str | None) -> None:
    """A judge that answers by letter names no winner if the lead is small, unless the minimum lead is set to zero."""

    def barely(prompt: str) -> dict[str, float]:
        con_is_first = "Build more." in prompt.partition("Side B")[0]
        return {"A": -0.7, "B": -0.65} if con_is_first else {"A": -0.65, "B": -0.7}

    with Stage(letters=barely) as stage:
        result = _run(stage, "--answer-form", "letter", *threshold, "--json")
    assert result.exit_code == 0, result.stderr
    assert DebateRawOutput.model_validate(json.loads(result.stdout)["raw"]).found.winner == winner


def test_letter_judge_quotes_can_be_omitted() -> None:
    turns = (("Build more. It is cheap.",), ("Cap them. It is fair.",))
    documents = {}
    for quoted in ("--quotes", "--no-quotes"):
        with Stage(letters=_likely, turns=turns) as stage:
            result = _run(stage, "--answer-form", "letter", quoted, "--json")
        assert result.exit_code == 0, result.stderr
        judging = DebateRawOutput.model_validate(json.loads(result.stdout)["raw"]).found.judging
        assert judging is not None
        documents[quoted] = (
            len(judging.quotes or ()),
            sum("Which sentence" in json.dumps(body) for body in stage.bodies),
        )
    assert documents == {"--quotes": (2, 2), "--no-quotes": (0, 0)}


def test_missing_log_probabilities_are_reported() -> None:
    """If a model reports no log-probabilities, the judge gives scores. The page explains why and shows no log-odds."""
    with Stage(answers={"scores": _make_scored(90, 10)}) as stage:
        result = _run(stage, "--answer-form", "letter")
    assert result.exit_code == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "letter -> scores: the model gives no log-probabilities" in words
    assert "Log-odds" not in words


def test_biased_letter_judge_names_no_winner() -> None:
    """The page reports the bias instead of calling the result a synthesis or a tie."""
    with Stage(letters=lambda _: {"A": -0.1, "B": -2.5}) as stage:
        result = _run(stage, "--answer-form", "letter")
    assert "none (no side is clearly ahead)" in result.stdout
    assert "2 (cyclic, by letter), which disagree: pro 0.50, con 0.50" in " ".join(result.stdout.split())


WRONG = {
    ("--answer-form", "word"): "--answer-form must be winner, scores, letter or letter_after_reasons",
    (
        "--answer-form",
        "winner",
        "--schedule",
        "cyclic",
    ): "--answer-form must be scores when there is a panel, labels, or",
    (
        "--answer-form",
        "letter",
        "--curtail",
    ): "--curtail cannot be combined with answers by letter, whose log-odds have no bound",
    (
        "--answer-form",
        "scores",
        "--decided-by",
        "log_odds",
    ): "--decided-by cannot be log_odds unless the judge answers by letter",
    (
        "--answer-form",
        "letter",
        "--human",
        "judge",
    ): "--human cannot include the judge when options for a judge model are set",
    ("--answer-form", "letter", "--criterion", "clear"): "--criterion requires the `scores` answer form",
    ("--criterion", "=2"): '--criterion must be a list of NAME or NAME=WEIGHT (got ["=2"])',
    ("--criterion", "clear=0"): "--criterion must contain 1 to 20 names, with weights greater than 0 and at most 1,000",
    ("--criterion", "clear=2", "--criterion", "clear"): "--criterion must not contain duplicates",
    (
        "--criterion",
        "clear",
        "--human",
        "judge",
    ): "--human cannot include the judge when options for a judge model are set",
    ("--min-log-odds", "-1"): "--min-log-odds must be at least 0",
    ("--schedule", "both"): '"single", "swap", "cyclic", "full" or "sampled(n)"',
    ("--on-flip", "ignore"): "average, abstain, tie or human",
    (
        "--curtail",
        "--on-flip",
        "tie",
    ): "`--curtail` cannot be combined with `--on-flip` tie: `on_flip` requires the ballots for both orders",
    (
        "--schedule",
        "swap",
        "--human",
        "judge",
    ): "--human cannot include the judge when options for a judge model are set",
}


@pytest.mark.parametrize("options", WRONG, ids=" ".join)
def test_invalid_judge_options_are_rejected(options: tuple[str, ...]) -> None:
    with Stage() as stage:
        result = _run(stage, *options)
    assert result.exit_code == 2
    assert WRONG[options] in " ".join(result.stderr.split())
    assert stage.bodies == []


def test_quotes_and_baselines_are_reported_at_the_end(tmp_path: Path) -> None:
    source = tmp_path / "report.txt"
    source.write_text("Homes were built first of all in the south.")
    direct = {"DirectAnswer": {"reasoning": "It is.", "winner": "cap rents"}}
    with Stage(turns=(('"homes were built first"',), ('"rents fell by half"',)), answers=direct) as stage:
        result = _run(stage, "--source", str(source), "--baselines", "--markdown", str(tmp_path / "report.md"))
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert "Quotes: 1 verified, 1 not found in the sources" in words
    assert "The debate " in words
    assert "one call" in words
    assert "## Notes" in (tmp_path / "report.md").read_text()
    assert any("[report.txt] Homes were built" in json.dumps(body) for body in stage.bodies)


def test_error_names_the_unreadable_source(tmp_path: Path) -> None:
    empty, twice = tmp_path / "empty.txt", tmp_path / "more" / "empty.txt"
    empty.write_text(" ")
    twice.parent.mkdir()
    twice.write_text("Text.")
    for paths in ((tmp_path / "none.txt",), (empty,), (twice, twice)):
        with Stage() as stage:
            result = _run(stage, *(part for path in paths for part in ("--source", str(path))))
        assert result.exit_code == 2
        assert paths[-1].name in result.stderr.replace("\n", "")
        assert stage.bodies == []
