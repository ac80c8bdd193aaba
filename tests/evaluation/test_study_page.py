"""The page of the facts study, written by its script and checked by an independent program."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest

from evidence import derive as alone
from evidence.study import (
    ARMS,
    FACTS,
    PAGE,
    Arm,
    any_lead,
    differences,
    page,
    shared_arguments,
)
from flowdebate.evaluation import Registration, StudyAnswer, StudyReport, study_report

derive: Any = alone.derive  # deliberately untyped: the script is meant to be short
BEGUN = [arm for arm in ARMS.values() if arm.answers.exists()]


def fixed(arm: Arm) -> dict[str, Any]:
    """Return the registered settings."""
    settings: dict[str, Any] = json.loads(arm.registration.read_text("utf-8"))["fixed"]
    return settings


def check_figures(expected_figures: dict[str, Any], report: StudyReport) -> None:
    """Check every figure on the page to within 1e-9."""

    def near(values: Any) -> Any:
        return pytest.approx([-1 if value is None else value for value in values], abs=1e-9)

    assert expected_figures["asked"] == report.asked
    assert list(expected_figures["methods"]) == [method.method for method in report.methods]
    for method in report.methods:
        figures = [-1 if value is None else value for value in expected_figures["methods"][method.method]]
        assert figures == near(
            [method.n, method.accuracy, method.low, method.high, method.undecided, method.calls, method.tokens]
        )
    assert list(expected_figures["comparisons"]) == [
        f"{comparison.one} against {comparison.other}" for comparison in report.comparisons
    ]
    for pair in report.comparisons:
        figures = [pair.n, pair.better, pair.worse, pair.difference, pair.low, pair.high, pair.p_adjusted]
        assert expected_figures["comparisons"][f"{pair.one} against {pair.other}"][:7] == near(figures)
        assert expected_figures["comparisons"][f"{pair.one} against {pair.other}"][7] == pytest.approx(
            pair.e_value, rel=1e-9
        )
    assert sorted(expected_figures["dynamics"]) == sorted(report.dynamics)
    for name, each_ in report.dynamics.items():
        shares = (each_.first_right, each_.last_right, each_.right_to_wrong, each_.wrong_to_right)
        expected = [None if share is None else share.value for share in shares]
        assert [-1 if value is None else value for value in expected_figures["dynamics"][name]] == near(
            [*expected, each_.oracle_gap]
        )
    first_read = {design: near([figure.value, figure.low, figure.high]) for design, figure in report.first_read.items()}
    assert expected_figures["first_read"] == first_read


@pytest.mark.parametrize("arm", BEGUN, ids=lambda arm: arm.name)
def test_shipped_answers_reproduce_the_figures_on_the_page(arm: Arm) -> None:
    answers = arm.read()
    figures = derive(arm.answers.read_text("utf-8").splitlines(), fixed(arm))
    check_figures(figures, study_report(arm.study(answers), answers))
    lengths = [(ballot.lengths, ballot.order) for answer in answers for ballot in answer.ballots]
    assert all(length is None or sorted(length) == sorted(order) for length, order in lengths)
    leads = re.findall(r"`(\w+)` ([\d.]+) of (\d+)", "".join(any_lead(answers)))
    assert leads in ([], [(design, f"{share:.3f}", str(n)) for design, (n, share) in figures["any_lead"].items()])
    noise, several = figures["noise_of"], re.findall(r"\d+", "".join(shared_arguments(answers)))
    assert several == [str(n) for n in (sum(k * v for k, v in noise.items()), noise.total(), max(noise))]


@pytest.mark.parametrize("arm", BEGUN, ids=lambda arm: arm.name)
def test_page_reports_deviations_from_the_registration(arm: Arm) -> None:
    answers, registered = arm.read(), Registration.read(arm.registration)
    assert differences(arm.study(answers), answers, registered) == []
    planted = {"min_gain": 0.2, "fixed": {"options of together": "0" * 12}}
    for name in planted.keys() & registered.fixed.keys():
        changed = registered.model_copy(update={"fixed": {**registered.fixed, name: planted[name]}})
        (difference,) = differences(arm.study(answers), answers, changed)
        assert difference.startswith(f"{name}: registered ")
    late = registered.model_copy(update={"at": answers[-1].at + 1})
    assert differences(arm.study(answers), answers, late) == [f"{len(answers)} answers are older than the registration"]


def test_finding_on_puzzles_depends_on_the_scoring_of_indecision() -> None:
    """The page shows both ways of scoring, because their results differ.

    If indecision counts as a random choice, there is no difference, but if it counts as wrong, debates look harmful.
    """
    text = " ".join(PAGE.read_text("utf-8").split())
    assert "50.6% against 49.6% of 250" in text
    assert "With undecided answers counted as wrong: with_notes is right less often than single: 5.2%" in text
    assert "2,560 ballots of the two finished arms, 2,560 went to the side read first" in text
    evidence = PAGE.with_name("evidence.md").read_text("utf-8").partition("### `local, by letter`")[2]
    assert "| `swap` | 2 | .604 [" in evidence
    assert "is right in 60.4% of the same 260 pairs" in text


@pytest.mark.parametrize("seed", range(3))
def test_generated_answers_give_the_same_figures_as_the_report(seed: int) -> None:
    random, lines = Random(seed), []
    methods = {"together": ["together", "single", "self_consistency", "revision"], "in_turn": ["in_turn"]}
    for number in range(260):
        truth = random.choice("01")
        for design, method_names in {**methods, "noise": ["noise"]}.items():
            answers = {
                name: {
                    "answer": random.choice((["0"], ["0"], ["1"], ["0", "1"], [])),
                    "calls": random.randint(1, 9),
                    "tokens": None if random.random() < 0.05 else random.randint(100, 4_000),
                }
                for name in method_names
            }
            failed = design != "noise" and random.random() < 0.1
            answer = {
                "design": design,
                "item": f"fact-{number:03}",
                "repeat": 0,
                "truth": truth,
                "cluster": f"fact-{number:03}",
                "order": ["0", "1"],
                "answers": {} if failed else answers,
                "ballots": [{"order": ["0", "1"], "winner": random.choice(("0", "1", None))} for _ in range(2)],
                "problem": "ProviderFailed" if failed else None,
                "seed": 1,
                "at": 2e9,
                "seconds": 1.0,
            }
            lines += [json.dumps(answer)] * (2 if random.random() < 0.1 else 1)
    latest = list({answer.key: answer for answer in map(StudyAnswer.model_validate_json, lines)}.values())
    report = study_report(FACTS.study(latest), latest)
    assert (report.unfinished, report.failed > 20) == (0, True)
    check_figures(derive(lines, fixed(FACTS)), report)
    first = [line for line in lines if json.loads(line)["design"] == "together"]
    latest = list({answer.key: answer for answer in map(StudyAnswer.model_validate_json, first)}.values())
    check_figures(derive(first, fixed(FACTS)), study_report(FACTS.study(latest), latest))


def test_page_matches_the_output_of_its_script() -> None:
    """The page states how many answers it is based on and ignores any that have been added since.

    Until all answers to a comparison are available, conclusions are based only on its e-value, which may be checked at
    any time.
    """
    text = PAGE.read_text("utf-8")
    line_counts = {
        name: int(lines) for lines, name in re.findall(r"first (\d+) lines of `evidence/studies/(\w+)\.", text)
    }
    assert [*line_counts] == [arm.name for arm in BEGUN]
    assert page(line_counts) == text
    for part in text.split("\n## ")[2 : len(BEGUN) + 2]:
        (state,) = re.findall(
            r"answered; (nothing is concluded yet|the rest is still missing)|All questions are answered", part
        )
        values = [float(value) for value in re.findall(r"has to go by the e-value, ([\d.e+]+)", part)]
        assert (state == "nothing is concluded yet") == any(value < 20 for value in values)
