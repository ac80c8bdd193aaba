"""Simulated studies: intervals cover the true value, and repeated looks find no false effects.

Each figure is a function of its seed and the number of studies; `make simulations` runs thousands.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from flowdebate import Debater, debate
from flowdebate.evaluation import Study, StudyAnswer, e_value, study_report
from flowdebate.evaluation.benefit import MethodAnswer

RIGHT, WRONG = (MethodAnswer.model_construct(answer=[digit], calls=1, tokens=1) for digit in "01")


@cache
def make_study(questions: int, clusters: int) -> Study:
    """Create a study of `questions` in this many clusters, with `revision` as its primary comparison."""

    def design(_: object, positions: Any) -> Any:
        sides = [Debater(name, stance) for name, stance in zip("ab", positions, strict=True)]
        return debate(name="simulated", debaters=sides, max_rounds=1, baselines=["revision"])

    rows = [
        {"id": str(n), "question": str(n), "choices": ["yes", "no"], "truth": 0, "topic": n % clusters}
        for n in range(questions)
    ]
    return Study(name="simulated", rows=rows, designs={"debate": design}, id="id", cluster="topic")


def report_of(study: Study, firsts: Any, seconds: Any) -> Any:
    """Return a study's primary comparison, given these results for the debate and the other method."""
    answers = [
        StudyAnswer.model_construct(
            design="debate",
            item=case.item,
            repeat=0,
            truth="0",
            cluster=case.cluster,
            order=["0", "1"],
            answers={"debate": RIGHT if one else WRONG, "revision": RIGHT if other else WRONG},
            ballots=[],
            problem=None,
            seed=1,
            at=0.0,
            seconds=1.0,
        )
        for case, one, other in zip(study.cases, firsts, seconds, strict=False)
    ]
    return study_report(study, answers).primary


def measure_coverage(seed: int, studies: int, *, questions: int, clusters: int, spread: float) -> float:
    """Return how often the interval contains the planted gain of .1 if questions in a cluster share an effect.

    Each method has its own effect in each cluster, so the difference between the methods is clustered as well.
    """
    rng, hits = np.random.default_rng(seed), 0
    study = make_study(questions, clusters)
    for _ in range(studies):
        # symmetric and between 0 and 1, so the means are exactly .6 and .5
        moods = rng.uniform(-spread, spread, (2, clusters))[:, np.arange(questions) % clusters]
        firsts, seconds = rng.random((2, questions)) < np.array([[0.6], [0.5]]) + moods
        report = report_of(study, firsts, seconds)
        hits += report.low <= 0.1 <= report.high
    return hits / studies


def simulate_martingale(seed: int, studies: int, *, questions: int) -> tuple[float, float]:
    """Return the mean gain over `revision`, and how often a difference is found, if debating does not help.

    In each question, the revision is right with some probability. The debate is right with a probability that has
    drifted away from it, often all the way to certainty, but that has the same expected value (a martingale).
    """
    rng, gains, conclusions = np.random.default_rng(seed), [], 0
    study = make_study(questions, questions)
    for _ in range(studies):
        belief = rng.beta(2, 1.5, questions)
        drifted = rng.beta(0.4 * belief, 0.4 * (1 - belief))
        primary = report_of(study, rng.random(questions) < drifted, rng.random(questions) < belief)
        gains.append(primary.difference)
        conclusions += primary.finding in ("helped", "harmed")
    return float(np.mean(gains)), conclusions / studies


def measure_false_alarms(seed: int, studies: int, *, questions: int, differing: float) -> float:
    """Return how often the e-value for two equal methods ever reaches 20, checked after each question."""
    rng, alarms = np.random.default_rng(seed), 0
    for _ in range(studies):
        steps = rng.choice([-1, 0, 1], questions, p=[differing / 2, 1 - differing, differing / 2])
        wins, losses = np.cumsum(steps == 1), np.cumsum(steps == -1)
        # the e-value does not change where both methods agree
        looks = {*zip(wins.tolist(), losses.tolist(), strict=True)}
        alarms += max(e_value(*look) for look in looks) >= 20
    return alarms / studies


def measure_early_findings(seed: int, studies: int, *, questions: int) -> float:
    """Return how often a report finds a difference between equal methods, checked after every tenth question."""
    rng, alarms = np.random.default_rng(seed), 0
    study = make_study(questions, questions)
    for _ in range(studies):
        firsts, seconds = rng.random((2, questions)) < 0.5
        looks = (report_of(study, firsts[:at], seconds[:at]) for at in range(10, questions, 10))
        alarms += any(look.finding in ("helped", "harmed") for look in looks)
    return alarms / studies


def test_small_simulations_find_no_severe_error() -> None:
    """The full simulations take too long, so a few studies quickly check that no figure is badly wrong."""
    assert measure_coverage(1, 60, questions=80, clusters=20, spread=0.3) >= 0.85
    gain, conclusions = simulate_martingale(1, 30, questions=200)
    assert abs(gain) <= 0.02
    assert conclusions <= 0.15
    assert measure_false_alarms(1, 200, questions=100, differing=0.4) <= 0.08
    assert measure_early_findings(1, 10, questions=60) <= 0.2


@pytest.mark.simulation
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize(
    ("questions", "clusters", "spread"), [(160, 40, 0.35), (90, 15, 0.3), (120, 120, 0.0)], ids=["40", "15", "alone"]
)
def test_intervals_contain_the_planted_gain(seed: int, questions: int, clusters: int, spread: float) -> None:
    """The coverage is at least .93 in 2,000 studies with many clusters, few clusters, and no clusters."""
    assert measure_coverage(seed, 2_000, questions=questions, clusters=clusters, spread=spread) >= 0.93


@pytest.mark.simulation
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [1])
def test_martingale_has_no_expected_gain(seed: int) -> None:
    """In 2,000 studies of 100 questions, the mean gain is 0 ± .02, and at most 5% of studies find a difference."""
    gain, conclusions = simulate_martingale(seed, 2_000, questions=100)
    assert abs(gain) <= 0.02
    assert conclusions <= 0.05


@pytest.mark.simulation
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("differing", [0.1, 0.4, 1.0])
def test_repeated_looks_rarely_give_a_wrong_conclusion(seed: int, differing: float) -> None:
    """If two methods are equal, the e-value reaches 20 in at most 5% of 2,000 studies of 260 questions."""
    assert measure_false_alarms(seed, 2_000, questions=260, differing=differing) <= 0.05


@pytest.mark.simulation
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [1])
def test_unfinished_reports_rarely_find_false_effects(seed: int) -> None:
    """Even if each study is reported repeatedly, at most 5% of 200 studies without a true effect find one."""
    assert measure_early_findings(seed, 200, questions=120) <= 0.05
