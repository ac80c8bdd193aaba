"""Judge quality: each figure matches a reference library, and invalid calibrations are rejected."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import (
    AuditItem,
    JudgedItem,
    cohen_kappa,
    corrected_rate,
    fleiss_kappa,
    judge_quality,
    judged_items,
    krippendorff_alpha,
)
from flowdebate.patterns.debate.judging.ballots import JudgeBallot

NAMES = st.sampled_from("abc")


@given(pairs=st.lists(st.tuples(NAMES, NAMES), min_size=2, max_size=40))
def test_kappa_matches_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    from sklearn.metrics import cohen_kappa_score

    firsts, seconds = ([pair[place] for pair in pairs] for place in (0, 1))
    kappa = cohen_kappa(firsts, seconds)
    if kappa is None:
        assert {*firsts} == {*seconds}
        assert len({*firsts}) == 1
    else:
        assert math.isclose(kappa, cohen_kappa_score(firsts, seconds), abs_tol=1e-9)


@given(table=st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=2, max_size=30))
def test_fleiss_kappa_matches_statsmodels(table: list[tuple[str, str, str]]) -> None:
    from statsmodels.stats.inter_rater import fleiss_kappa as reference

    counts = [{name: item.count(name) for name in "abc"} for item in table]
    kappa = fleiss_kappa(counts)
    if kappa is not None:
        rows = np.array([[count[name] for name in "abc"] for count in counts])
        assert math.isclose(kappa, reference(rows), abs_tol=1e-9)


@given(
    table=st.integers(2, 25).flatmap(
        lambda n: st.lists(st.lists(st.none() | st.integers(0, 3), min_size=n, max_size=n), min_size=2, max_size=5)
    )
)
def test_alpha_matches_krippendorff_with_missing_ratings(table: list[list[int | None]]) -> None:
    import krippendorff

    alpha = krippendorff_alpha(table)
    rows = np.array([[np.nan if rating is None else rating for rating in row] for row in table], dtype=float)
    if alpha is not None:
        reference = krippendorff.alpha(reliability_data=rows, level_of_measurement="nominal", value_domain=range(4))
        assert math.isclose(alpha, reference, abs_tol=1e-9)


@given(outcomes=st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=2, max_size=60))
def test_brier_score_and_calibration_error_match_the_reference(outcomes: list[tuple[bool, float]]) -> None:
    """The Brier score is compared with scikit-learn's, and the calibration error uses ten equal bins."""
    from sklearn.metrics import brier_score_loss

    items = [
        JudgedItem(truth="yes" if true else "no", shares={"yes": share, "no": 1 - share}) for true, share in outcomes
    ]
    quality = judge_quality(items)
    truth, shares = [true for true, _ in outcomes], [share for _, share in outcomes]
    if len({*truth}) == 2:
        assert math.isclose(quality.brier.value, brier_score_loss(truth, shares), abs_tol=1e-9)
    sure = np.maximum(shares, 1 - np.array(shares))
    right = np.where(np.isclose(sure, 0.5, atol=0), 0.5, (np.array(shares) > 0.5) == np.array(truth))
    parts = np.minimum((sure * 10).astype(int), 9)
    error = sum(abs(sure[parts == part].sum() - right[parts == part].sum()) for part in range(10)) / len(outcomes)
    assert math.isclose(quality.ece.value, error, abs_tol=1e-9)
    assert sum(part.n for part in quality.reliability) == len(items)


def judged_items_of(n: int, slope: float, seed: int) -> list[JudgedItem]:
    """Create items whose judge reports log-odds that are `slope` times too extreme."""
    random, items = Random(seed), []
    for _ in range(n):
        odds = random.gauss(0, 1.5)
        truth = "yes" if random.random() < 1 / (1 + math.exp(-odds)) else "no"
        share = 1 / (1 + math.exp(-odds * slope))
        shares = {"yes": share, "no": 1 - share}
        items.append(JudgedItem(truth=truth, shares=shares, winner="yes" if share > 0.5 else "no"))
    return items


@pytest.mark.slow
def test_only_overconfident_judges_are_calibrated() -> None:
    bold = judge_quality(judged_items_of(400, 3.0, seed=1))
    assert bold.calibration.helps
    assert abs(bold.calibration.slope - 1 / 3) < 0.1
    second = judged_items_of(400, 3.0, seed=2)
    calibrated = [item.model_copy(update={"shares": bold.calibration.shares(item.shares)}) for item in second]
    assert judge_quality(calibrated).ece.value < judge_quality(second).ece.value / 2
    calibrations = [judge_quality(judged_items_of(60, 1.0, seed)).calibration for seed in range(8)]
    calibrations = [calibration for calibration in calibrations if not calibration.helps]
    assert len(calibrations) >= 4
    with pytest.raises(ConfigurationError, match="held-out"):
        calibrations[0].shares({"yes": 0.5, "no": 0.5})


@pytest.mark.simulation
def test_corrected_rates_have_nominal_coverage() -> None:
    """At least 94% of the intervals contain the true rate.

    The uncorrected rate of this one-sided judge is never close to it.
    """
    random, covered, uncorrected = Random(3), 0, 0
    for _ in range(2_000):
        truth = [float(random.random() < 0.6) for _ in range(600)]
        judge = [1.0 if label or random.random() < 0.4 else 0.0 for label in truth]
        labels = [label if place < 100 else None for place, label in enumerate(truth)]
        rate = corrected_rate(judge, labels)
        covered += rate.low <= 0.6 <= rate.high
        uncorrected += abs(sum(judge) / 600 - 0.6) < 0.05
    assert covered / 2_000 >= 0.94
    assert uncorrected == 0


def test_audit_ballots_become_judged_items() -> None:
    def ballot(order: list[str], yes: float) -> JudgeBallot:
        return JudgeBallot(order=order, scores={"yes": yes, "no": 1 - yes}, winner="yes" if yes > 0.5 else "no")

    valid = [ballot(["yes", "no"], 0.9), ballot(["no", "yes"], 0.6)]
    spoiled = [JudgeBallot(order=["yes", "no"], problem="it said nothing")]
    items = [AuditItem(ballots=valid, truth="yes"), AuditItem(ballots=valid), AuditItem(ballots=spoiled, truth="no")]
    (item,) = judged_items(items)
    assert (item.winner, item.shares) == ("yes", {"no": 0.25, "yes": 0.75})
    quality = judge_quality([item, item.model_copy(update={"truth": "no", "human": "no"})])
    assert quality.accuracy.value == 0.5
    assert any("right in 0.50" in sentence for sentence in quality.findings)


@pytest.mark.parametrize(
    ("items", "field"),
    [([], "items"), ([JudgedItem(truth="maybe", shares={"yes": 0.5, "no": 0.5})], "items[0].truth")],
    ids=["none", "truth"],
)
def test_invalid_input_is_rejected(items: list[JudgedItem], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        judge_quality(items)
    assert caught.value.field == field


@pytest.mark.slow
def test_calibration_error_due_to_chance_is_not_a_finding() -> None:
    """With 40 items, chance alone produces a calibration error of .1. Only an overconfident judge is reported."""
    random, larger, values = Random(8), 0, []
    for _ in range(25):
        items = []
        for _ in range(40):
            share = random.uniform(0.5, 1)
            truth = "yes" if random.random() < share else "no"
            items.append(JudgedItem(truth=truth, shares={"no": 1 - share, "yes": share}, winner="yes"))
        quality = judge_quality(items)
        values.append(quality.ece.value / quality.ece_calibrated.value)
        larger += quality.ece_p <= 0.05
        assert quality.ece.low is None
    assert larger <= 3
    assert 0.8 < sum(values) / len(values) < 1.2
    sure = [item.model_copy(update={"shares": {"yes": 0.99, "no": 0.01}}) for item in items]
    quality = judge_quality(sure)
    assert quality.ece_p < 0.05
    assert "larger than that of a perfectly calibrated judge" in quality.findings[-1]
