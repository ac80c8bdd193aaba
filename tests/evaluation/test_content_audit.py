"""Content audits: the regression matches a reference fit and finds the effects in planted and real ballots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from evidence.intervals import alarms
from evidence.judge_cases import cases, found_in, judging_of
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import ContentChoice, content_audit, content_choices
from flowdebate.evaluation.documents import lay_out
from flowdebate.patterns.debate.judging.ballots import JudgeBallot

STRENGTHS = {"a": 0.5, "b": 0.0, "c": -0.5}


def draw_choices(seed: int, items: int, *, length: float = 0.6, shares: bool = False) -> list[ContentChoice]:
    """Draw ballots on pairs of three systems, in both orders, with effects of length, first place and kinship."""
    rng, choices = np.random.default_rng(seed), []
    for item in range(items):
        one, other = rng.choice([*STRENGTHS], 2, replace=False)
        long = {one: rng.normal(), other: rng.normal()}
        kin = {one: float(rng.random() < 0.4), other: float(rng.random() < 0.4)}
        taste = rng.normal(0, 0.5)  # both ballots on a pair share this taste
        for order in ((one, other), (other, one)):
            lead = (
                STRENGTHS[one] - STRENGTHS[other] + length * (long[one] - long[other]) + 0.3 * (kin[one] - kin[other])
            )
            lead += (0.4 if order[0] == one else -0.4) + taste
            chance = 1 / (1 + np.exp(-lead))
            share = {one: chance if shares else float(rng.random() < chance)}
            share[other] = 1 - share[one]
            columns = {"length": long, "order": {order[0]: 0.5, order[1]: -0.5}, "kin": kin}
            choices.append(
                ContentChoice(
                    systems=list(order),
                    shares=[share[side] for side in order],
                    columns={name: [float(column[side]) for side in order] for name, column in columns.items()},
                    cluster=str(item),
                )
            )
    return choices


@pytest.mark.parametrize("shares", [False, True], ids=["winners", "shares"])
@pytest.mark.parametrize("seed", range(3))
def test_regression_matches_statsmodels(seed: int, shares: bool) -> None:  # noqa: FBT001 - of pytest
    """With Bell-McCaffrey standard errors, the binomial model of differences agrees with statsmodels to 1e-6."""
    choices = draw_choices(seed, 150, shares=shares)
    report = content_audit(choices)
    rows = [
        [(choice.systems[0] == name) - (choice.systems[1] == name) for name in "bc"]
        + [choice.columns[name][0] - choice.columns[name][1] for name in ("length", "order", "kin")]
        for choice in choices
    ]
    design, outcomes = np.array(rows, dtype=float), np.array([choice.shares[0] for choice in choices])
    fit = sm.GLM(outcomes, design, family=sm.families.Binomial()).fit(tol=1e-13, maxiter=100)
    expected = fit.params
    assert [figure.value for figure in report.effects.values()] == pytest.approx(expected[2:], abs=1e-6)
    # compute the Bell-McCaffrey correction by definition, from each cluster's residuals and its block of the hat matrix
    chances = fit.fittedvalues
    root = np.sqrt(chances * (1 - chances))
    weighted, bread = design * root[:, None], np.linalg.inv((design * root[:, None]).T @ (design * root[:, None]))
    meat, groups = np.zeros_like(bread), np.array([choice.cluster for choice in choices])
    for cluster in dict.fromkeys(groups):
        block, residuals = weighted[groups == cluster], ((outcomes - chances) / root)[groups == cluster]
        values, vectors = np.linalg.eigh(np.eye(len(block)) - block @ bread @ block.T)
        score = block.T @ (vectors / np.sqrt(values) @ vectors.T @ residuals)
        meat += np.outer(score, score)
    errors = np.sqrt(np.diag(bread @ meat @ bread))
    for effect, error in zip(report.effects.values(), errors[2:], strict=True):
        assert effect.low is not None
        # Student's t: uneven clusters have fewer than 149 degrees of freedom
        assert 1.9759 < (effect.value - effect.low) / error < 2.0
    strengths = np.array([0.0, *expected[:2]])
    strengths -= strengths.mean()
    rates = {system.system: system.controlled.value for system in report.systems}
    assert [rates[name] for name in "abc"] == pytest.approx(1 / (1 + np.exp(-1.5 * strengths)), abs=1e-6)


def ballots_of(group: str) -> list[ContentChoice]:
    """Return the ballots that the local judge cast by letter on written debates in which one side is better.

    Each debate was judged in both orders.
    """
    cases_by_id, choices = {case.id: case for case in cases()}, []
    for record in found_in():
        case = cases_by_id[record.case]
        if record.judge == "letter" and case.group == group and case.better is not None:
            better, worse = case.stances
            systems = {better: "better", worse: "worse"}
            choices += content_choices(judging_of(case, record).ballots, systems=systems, cluster=case.id)
    return choices


@pytest.mark.parametrize("group", ["tuning", "new"])
def test_length_effect_is_found_in_project_ballots(group: str) -> None:
    """The local judge favors longer texts and the text that comes first.

    When length is controlled for, the better system is still ahead.
    """
    report = content_audit(ballots_of(group))
    assert [*report.effects] == ["order", "length"]
    assert all((effect.low or 0) > 0 for effect in report.effects.values())
    assert report.systems[0].system == "better"
    assert "length: twice as long favors it" in " ".join(report.findings)


def test_controlling_for_length_removes_the_length_effect() -> None:
    """The two systems differ only in the length of their texts, and longer texts win more often.

    Once length is controlled for, neither system is ahead.
    """
    rng, choices = np.random.default_rng(7), []
    for number in range(1_500):
        lengths = [float(rng.normal(1, 1)), float(rng.normal())]
        won = float(rng.random() < 1 / (1 + np.exp(-0.8 * (lengths[0] - lengths[1]))))
        columns = {"length": lengths, "style": [1.0, 1.0]}
        choices.append(
            ContentChoice(systems=["long", "short"], shares=[won, 1 - won], columns=columns, cluster=str(number))
        )
    audited = content_audit(choices)
    assert [*audited.effects] == ["length"]  # the style never varies, so it has no effect to estimate
    rates = {system.system: system for system in audited.systems}
    assert rates["long"].share > 0.6
    low, high = rates["long"].controlled.low, rates["long"].controlled.high
    assert (low or 0) < 0.5 < (high or 0)
    assert lay_out(audited) is not None


def test_ballots_record_the_features_of_each_side() -> None:
    texts = {"yes": "# So\n- **it** is\n", "no": "x" * 64}
    ballots = [
        JudgeBallot(order=["no", "yes"], model="m", winner="yes"),
        JudgeBallot(order=["no", "yes"], model="m", problem="unusable"),
    ]
    (choice,) = content_choices(ballots, texts=texts, models={"yes": "m", "no": "n"}, systems={"yes": "m", "no": "n"})
    assert (choice.systems, choice.shares) == (["n", "m"], [0, 1])
    assert choice.columns["kin"] == [0, 1]
    assert choice.columns["order"] == [0.5, -0.5]
    assert choice.columns["length"][0] == 6
    assert choice.columns["style"] == [0, pytest.approx(np.log(5))]


def test_purely_positional_judges_prevent_a_regression() -> None:
    slot = [ContentChoice(systems=["a", "b"], shares=[1, 0], columns={"order": [0.5, -0.5]}) for _ in range(9)]
    report = content_audit(slot)
    assert (report.effects, report.systems) == ({}, [])
    assert "infinite" in str(report.problem)


@pytest.mark.parametrize(
    "choices",
    [
        [],
        [ContentChoice(systems=["a"], shares=[1], columns={})],
        [
            ContentChoice(systems=["a", "b"], shares=[1, 0], columns={"length": [1, 2]}),
            ContentChoice(systems=["a", "b"], shares=[1, 0], columns={}),
        ],
    ],
    ids=["none", "one side", "other columns"],
)
def test_incomparable_choices_are_rejected(choices: Any) -> None:
    with pytest.raises(ConfigurationError, match="choices"):
        content_audit(choices)


@pytest.mark.simulation
@pytest.mark.timeout(900)
def test_false_alarms_are_rare_with_ten_questions() -> None:
    """At most 6% of 1,000 audits raise a false alarm, while real effects are still found.

    `docs/judges.md` lists the rates.
    """
    assert max(alarms(10, studies=1_000).values()) <= 0.06
    assert alarms(10, studies=400, length=1.0)["length"] >= 0.28
    assert alarms(20, studies=400, length=1.0)["length"] >= 0.75


@pytest.mark.simulation
@pytest.mark.timeout(600)
def test_length_effect_is_found_only_if_present() -> None:
    """When length has no effect, at most 7% of 400 audits raise a false alarm.

    When length has an effect of 1, at least 70% of 100 audits with 60 items find it.
    """
    alarms, hits = 0, 0
    for seed in range(400):
        none = content_audit(draw_choices(seed, 80, length=0.0)).effects["length"]
        alarms += not (none.low or 0) <= 0 <= (none.high or 0)
    for seed in range(100):
        effect = content_audit(draw_choices(seed, 60, length=1.0)).effects["length"]
        hits += (effect.low or 0) > 0
    assert alarms / 400 <= 0.07
    assert hits / 100 >= 0.7
