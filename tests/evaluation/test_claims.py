"""Reports must claim no more than was measured; each test covers a claim that used to be overstated."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped,unused-ignore]

from flowdebate import Debater, FailurePolicy, debate
from flowdebate.errors import ConfigurationError, ProviderFailed
from flowdebate.evaluation import (
    BenefitItem,
    MethodAnswer,
    audit_run,
    benefit_report,
    evaluate_sync,
    full_audit,
)
from flowdebate.evaluation.audit_report import LIMITS
from flowdebate.evaluation.sample_sizes import required_n
from flowdebate.evaluation.statistics import effective_size, newcombe, share_interval, sign_flip_test
from flowdebate.patterns.debate.judging.ballots import JudgeBallot
from flowdebate.patterns.debate.mirror import speaking_order
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.testing import ModelRequest

SIDES = [{"name": "a", "stance": "yes, even"}, {"name": "b", "stance": "no, odd"}]


def method_answer(right: float, *, calls: int = 5, tokens: int = 100) -> MethodAnswer:
    """Create an answer that is right or wrong."""
    return MethodAnswer(answer=["y"] if right else ["n"], calls=calls, tokens=tokens)


def compared_item(right: float, baseline: float, cluster: str | None = None) -> BenefitItem:
    """Create a question answered by both the debate and self-consistency."""
    baselines: Any = {"self_consistency": method_answer(baseline)}
    return BenefitItem(truth="y", debate=method_answer(right), baselines=baselines, cluster=cluster)


def failed() -> BenefitItem:
    """Create a question on which the debate reached no verdict."""
    return BenefitItem(truth="y", debate=MethodAnswer(answer=[]), baselines={}, failed=True)


def ballot(order: str, winner: str, **more: Any) -> JudgeBallot:
    """Create a ballot on sides whose names are single letters."""
    return JudgeBallot(order=list(order), winner=winner, **more)


def leaning_ballots(last: int, of: int = 3) -> list[JudgeBallot]:
    """Create an item with `of` ballots, `last` of which choose the last slot."""
    return [ballot(order, order[at < last]) for at, order in zip(range(of), ("ab", "ba") * of, strict=False)]


# Did the debate help?


def test_ruling_out_a_relevant_gain_does_not_rule_out_smaller_ones() -> None:
    """If 36 of 300 answers improve and 22 get worse, a gain of 10 points is ruled out, but a smaller one is not."""
    items = (
        [compared_item(1, 0)] * 36
        + [compared_item(0, 1)] * 22
        + [compared_item(1, 1)] * 180
        + [compared_item(0, 0)] * 62
    )
    report = benefit_report(items, min_gain=0.1)
    assert report.finding == "none_worth_it"
    assert report.summary.startswith(
        "No gain of 10 points or more: the debate was right in 216 of 300, self-consistency in 202 "
        "(difference +4.7 points, 95% interval -0.3 to +9.6)"
    )
    assert "did not help" not in report.summary
    assert benefit_report(items).finding == "too_few"  # a gain of 5 points is not ruled out


@pytest.mark.simulation
@pytest.mark.parametrize("names", [("single",), ("single", "drafts", "self_consistency")])
def test_true_gains_are_rarely_ruled_out_with_many_baselines(names: Sequence[str]) -> None:
    """In simulations, a gain of exactly `min_gain` over each baseline is ruled out in at most 5 of 100 reports."""
    random, wrong = Random(2), 0
    for _ in range(200):
        items = []
        for _ in range(150):
            right = random.random() < 0.7
            baselines: Any = {name: method_answer(random.random() < 0.6) for name in names}
            items.append(BenefitItem(truth="y", debate=method_answer(right), baselines=baselines))
        report = benefit_report(items, min_gain=0.1)
        wrong += any(comparison.finding == "none_worth_it" for comparison in report.comparisons)
    assert wrong / 200 <= 0.05


def test_failed_debates_count_as_wrong_and_are_reported() -> None:
    """In this test, the judge's provider fails on exactly the questions that the debate would get wrong."""

    def answer(request: ModelRequest) -> Any:
        number = int(str(request.messages).split("Number ")[1].split(" ")[0])
        if request.output_schema is None:
            return "So it is."
        if request.block == "t-judge":
            if number % 2:
                raise ProviderFailed("down")
            return {"reasoning": "So.", "winner": "yes, even", "verdict": "So."}
        return {"reasoning": "So.", "winner": "yes, even" if number % 4 < 2 else "no, odd"}

    pattern = debate(
        name="t", debaters=SIDES, max_rounds=1, synthesizer=False, baselines=["single"],
        failures=FailurePolicy(on_failure="skip", quorum=1),
    )  # fmt: skip
    rows = [{"question": f"Number {n} is even?", "answer": "no, odd" if n % 2 else "yes, even"} for n in range(80)]
    options: Any = {"truth": "answer", "model": FunctionModel(answer), "store": False, "batch_id": "half"}
    report = evaluate_sync(pattern, rows, **options).report
    assert (report.n, report.attempted, report.failed, report.methods[0].right) == (80, 80, 40, 40)
    assert (report.finding, report.comparisons[0].difference) == ("too_few", 0)
    assert (report.comparisons[0].worst, report.comparisons[0].best) == (-0.25, 0.75)
    assert report.summary.endswith(
        "40 of 80 debates ended without a verdict and count as wrong, and the baselines there as right as elsewhere; "
        "depending on what they would have found, the difference is anything from -25 to +75 points."
    )
    without_failures = evaluate_sync(pattern, rows, missing="left out", **options).report
    assert (without_failures.n, without_failures.attempted, without_failures.finding) == (40, 80, "helped")
    assert without_failures.summary.endswith(
        "40 of 80 debates ended without a verdict and are excluded, because their outcome is unknown."
    )


@given(
    cells=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=15),
    missing=st.integers(0, 10),
    data=st.data(),
)
def test_bounds_hold_for_every_possible_result_of_failed_debates(
    cells: list[tuple[bool, bool]], missing: int, data: st.DataObject
) -> None:
    """Whatever the missing results would have been, the true difference lies between `worst` and `best`."""
    items = [compared_item(one, other) for one, other in cells]
    (comparison,) = benefit_report([*items, *[failed()] * missing]).comparisons
    would = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=missing, max_size=missing))
    difference = sum(one - other for one, other in [*cells, *would]) / len([*cells, *would])
    assert comparison.worst - 1e-9 <= difference <= comparison.best + 1e-9
    assert comparison.worst - 1e-9 <= comparison.difference <= comparison.best + 1e-9


def test_repeated_questions_add_no_evidence() -> None:
    """Asking 40 questions five times must give the interval and p-value for 40 questions rather than 200."""
    random = Random(5)
    questions = [compared_item(random.random() < 0.75, random.random() < 0.55, f"q{number}") for number in range(40)]
    (single,), (fivefold,) = (benefit_report(questions * times).comparisons for times in (1, 5))
    assert (fivefold.n, fivefold.clusters) == (200, 40)
    assert fivefold.p == pytest.approx(single.p)
    assert fivefold.high - fivefold.low >= 0.99 * (single.high - single.low)


@pytest.mark.parametrize("shared", [0.0, 0.3, 0.6])
def test_intervals_for_correlated_questions_have_nominal_coverage(shared: float) -> None:
    """In simulations with 30 topics of 5 questions, at least 93% of the 95% intervals contain the true value."""
    random, covered = Random(7), 0
    ends = [float(stats.norm.ppf(rate)) for rate in (0.7, 0.6)]
    topics = [topic for topic in range(30) for _ in range(5)]
    for _ in range(400):
        methods = []
        for end in ends:
            common = [random.gauss(0, 1) for _ in range(30)]
            noise = [random.gauss(0, 1) for _ in topics]
            methods.append(
                [
                    float(common[topic] * shared**0.5 + deviation * (1 - shared) ** 0.5 < end)
                    for topic, deviation in zip(topics, noise, strict=True)
                ]
            )
        one, other = methods
        size = effective_size([a - b for a, b in zip(one, other, strict=True)], topics)
        low, high = newcombe(one, other, size=size)
        covered += low <= 0.1 <= high
    assert covered / 400 >= 0.93


def test_repeats_and_topics_count_as_clusters() -> None:
    """Repeated rows, rows with the same question, and rows on the same topic each form a single cluster."""

    def answer(request: ModelRequest) -> Any:
        if request.output_schema is None:
            return "So it is."
        verdict = {"reasoning": "So.", "winner": "yes, even"}
        return {**verdict, "verdict": "So."} if request.block == "t-judge" else verdict

    pattern = debate(name="t", debaters=SIDES, max_rounds=1, synthesizer=False, baselines=["single"])
    rows = [{"question": f"Is {n // 2} even?", "answer": "yes, even", "topic": n % 3} for n in range(6)]
    options: Any = {"truth": "answer", "model": FunctionModel(answer), "store": False}
    for more, n, clusters in (({}, 6, 3), ({"repeats": 2}, 12, 3), ({"cluster": "topic", "repeats": 2}, 12, 3)):
        (comparison,) = evaluate_sync(pattern, rows, batch_id="t", **more, **options).report.comparisons
        assert (comparison.n, comparison.clusters) == (n, clusters)
    with pytest.raises(ConfigurationError, match=r"evaluate\(\): `repeats` must be at least 1 \(got 0\)"):
        evaluate_sync(pattern, rows, repeats=0, **options)


def test_correct_position_does_not_always_speak_first() -> None:
    """The data set lists the correct choice first in every row, so the choices are shuffled according to the seed."""

    def make_debate(row: dict[str, Any], positions: Sequence[str]) -> Any:
        spoke.append(positions[0] == row["choices"][0])
        roles = [Debater(name, position) for name, position in zip("ab", positions, strict=True)]
        return debate(name="t", debaters=roles, max_rounds=1, synthesizer=False, baselines=["single"])

    def answer(request: ModelRequest) -> Any:
        if request.output_schema is None:
            return "So it is."
        verdict = {"reasoning": "So.", "winner": "it is"}
        return {**verdict, "verdict": "So."} if request.block == "t-judge" else verdict

    rows = [{"question": f"Is {n} even?", "choices": ["it is", "it is not"], "answer": "it is"} for n in range(20)]
    options: Any = {"truth": "answer", "choices": "choices", "model": FunctionModel(answer), "store": False, "seed": 1}
    drawn = []
    for _ in range(2):
        spoke: list[bool] = []
        report = evaluate_sync(make_debate, rows, **options).report
        assert report.methods[0].right == 20
        drawn.append(spoke)
    assert drawn[0] == drawn[1]
    assert 5 <= sum(drawn[0]) <= 15
    with pytest.raises(ConfigurationError, match=r"evaluate\(\): `pattern` must be a function of .row, positions."):
        evaluate_sync(make_debate(rows[0], ["it is", "it is not"]), rows, **options)


def test_vote_on_two_drafts_is_not_a_separate_comparison() -> None:
    drafts = MethodAnswer(answer=["y", "n"], calls=2, votes=2)
    items = [
        benefit_item.model_copy(update={"baselines": {**benefit_item.baselines, "drafts": drafts}})
        for benefit_item in [compared_item(1, 0)] * 9
    ]
    report = benefit_report(items)
    assert [method.method for method in report.methods] == ["debate", "drafts", "self_consistency"]
    assert [(comparison.baseline, comparison.p_holm) for comparison in report.comparisons] == [
        ("self_consistency", 2 / 2**9)
    ]
    three = MethodAnswer(answer=["n"], calls=3, votes=3)
    items[0] = items[0].model_copy(update={"baselines": {**items[0].baselines, "drafts": three}})
    assert [comparison.baseline for comparison in benefit_report(items).comparisons] == ["drafts", "self_consistency"]


def test_output_tokens_and_price_are_reported_alongside_tokens_and_calls() -> None:
    """Debates mostly read tokens, whereas self-consistency mostly writes them.

    Equal token counts therefore do not mean equal cost.
    """
    cheap = MethodAnswer(answer=["y"], calls=5, tokens=1_000, completion_tokens=200, cost=1.6)
    dear = MethodAnswer(answer=["y"], calls=9, tokens=1_000, completion_tokens=400, cost=2.2)
    report = benefit_report([BenefitItem(truth="y", debate=cheap, baselines={"self_consistency": dear})] * 3)
    (comparison,) = report.comparisons
    assert comparison.tokens_ratio == 1.0
    assert (comparison.completion_tokens_ratio, comparison.cost_ratio) == pytest.approx((0.5, 1.6 / 2.2))
    assert (
        "it cost 0.7 times the price, 1.0 times the tokens, 0.5 times the tokens written and 0.6 times"
        in report.summary
    )


@pytest.mark.parametrize(("gain", "differing"), [(0.1, 0.3), (0.2, 0.3), (0.1, 0.2)])
def test_required_number_of_questions_gives_the_test_the_stated_power(gain: float, differing: float) -> None:
    """The power of the exact test is 80% with this many questions, and lower with one fewer."""

    def power(n: int) -> float:
        total = 0.0
        for differ in range(1, n + 1):
            low = stats.binom.cdf(range(differ + 1), differ, 0.5)
            rejected = [
                k for k in range(differ + 1) if 2 * min(low[k], low[differ - k]) <= 0.05
            ]  # the distribution is symmetric, so both tails have the same size
            total += stats.binom.pmf(differ, n, differing) * sum(
                stats.binom.pmf(rejected, differ, (differing + gain) / 2 / differing)
            )
        return float(total)

    n = required_n(gain, differing=differing)
    assert power(n) >= 0.8 > power(n - 1)


# Judge audits


def test_slot_interval_agrees_with_its_test() -> None:
    strong = full_audit([leaning_ballots(3)] * 12 + [leaning_ballots(1)] * 28 + [leaning_ballots(2)] * 22)
    assert strong.slots[0].p is not None
    assert strong.slots[0].p <= 0.05
    assert strong.findings[0].startswith("favors the last slot")
    borderline = full_audit([leaning_ballots(3)] * 10 + [leaning_ballots(1)] * 28 + [leaning_ballots(2)] * 22).slots[0]
    assert borderline.p == pytest.approx(0.0509, abs=1e-4)
    assert borderline.places[1].low is not None
    assert borderline.places[1].low <= 0.5


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=40))
def test_intervals_contain_every_value_that_their_test_does_not_reject(items: list[tuple[int, int]]) -> None:
    (slots,) = full_audit([leaning_ballots(min(last, of), of) for last, of in items], resamples=200).slots
    assert slots.p is not None
    for place in slots.places:
        assert place.low is not None
        assert place.high is not None
        assert slots.p <= 0.05 or place.low <= 0.5 <= place.high


@given(st.lists(st.integers(-3, 3), max_size=9))
def test_sign_flip_test_enumerates_all_sign_assignments(leans: list[int]) -> None:
    sums = [0]
    for lean in leans:
        sums = [total + sign * lean for total in sums for sign in (1, -1)]
    as_far = sum(abs(total) >= abs(sum(leans)) for total in sums)
    assert sign_flip_test(leans) == pytest.approx(as_far / len(sums))


@pytest.mark.simulation
@pytest.mark.parametrize("n", [10, 20, 30])
def test_consistency_intervals_have_nominal_coverage(n: int) -> None:
    consistent, inconsistent = [ballot("ab", "a"), ballot("ba", "a")], [ballot("ab", "a"), ballot("ba", "b")]
    intervals = []
    for k in range(n + 1):
        figure = full_audit([consistent] * k + [inconsistent] * (n - k)).position_consistency
        assert figure is not None
        assert figure.low is not None
        assert figure.high is not None
        intervals.append((figure.low, figure.high))
        exact = stats.binomtest(k, n).proportion_ci(method="exact")
        assert intervals[-1] == pytest.approx((exact.low, exact.high))
    assert intervals == sorted(intervals)
    for rate in (0.05, 0.2, 0.5, 0.9):
        coverage = sum(stats.binom.pmf(k, n, rate) for k, (low, high) in enumerate(intervals) if low <= rate <= high)
        assert coverage >= 0.95


@pytest.mark.simulation
def test_fair_panels_are_rarely_accused_despite_many_tests() -> None:
    """An audit of five fair judges runs 12 tests, yet only about one audit in twenty may report a preference."""
    random, accused = Random(3), 0
    for _ in range(60):
        items = []
        for _ in range(60):
            ballots = []
            for model in "vwxyz":
                order, labels = random.choice(("ab", "ba")), dict(zip("ab", random.choice(("AB", "BA")), strict=True))
                ballots.append(ballot(order, random.choice("ab"), labels=labels, model=model))
            items.append(ballots)
        report = full_audit(items, resamples=0)
        assert report.tests == 12
        accused += any("favors" in finding for finding in report.findings)
    assert accused <= 7  # 3 of 60 are expected at 5%; the probability of more than 7 is 1%
    assert any("12 tests were made and p-values are adjusted for that" in finding for finding in report.findings)


def test_one_result_among_many_tests_is_not_a_finding() -> None:
    """A p-value of .04 among four tests supports neither "favors" nor "no slot bias found"."""
    cast = [[ballot("ab", "a", model="m"), ballot("ba", "ab"[at % 2], model="n")] for at in range(37)]
    cast += [[ballot("ba", "a", model="m"), ballot("ab", "ab"[at % 2], model="n")] for at in range(23)]
    report = full_audit(cast, resamples=0)
    findings = [finding for finding in report.findings if finding.startswith("m: ")]
    assert 0.05 < (report.models["m"].slots[0].p_holm or 0) <= 1
    assert not any("favors" in finding for finding in findings)


def test_interval_for_panel_worth_needs_50_items() -> None:
    """With three judges and 60 items, the report has an interval around the estimate.

    With 49 items, it does not even have an estimate.
    """
    random = Random(4)
    items = [
        [ballot("ab", "a" if random.random() < 0.5 + 0.3 * (side == "a") else "b", model=model) for model in "xyz"]
        for side in (random.choice("ab") for _ in range(60))
    ]
    report = full_audit(items)
    assert report.rho is not None
    assert report.rho.low is not None
    assert report.rho.high is not None
    assert report.rho.low < report.rho.value < report.rho.high
    assert None not in (report.effective_n_low, report.effective_n, report.effective_n_high)
    assert (report.effective_n_low or 0) < (report.effective_n or 0) < (report.effective_n_high or 0)
    assert any("independent ones (95% CI" in finding for finding in report.findings)
    assert full_audit(items[:49]).effective_n is None
    assert full_audit(list(reversed(items))) == report


def rebuttals_win(request: ModelRequest) -> Any:
    """Judge in favor of the side that rebutted the other one."""
    text = str(request.messages[-1]["content"]).split("Round 1:")[1]
    replies = dict(re.findall(r"\[(tea|coffee)\] (I [a-z]+)", text))
    return {
        "reasoning": "-",
        "scores": {side: 90 if "rebut" in replies.get(side, "") else 10 for side in ("tea", "coffee")},
        "verdict": "-",
    }


def test_last_speaker_bias_is_found_if_the_speaking_order_is_known() -> None:
    """Changing the order of the sides does not change who spoke last, so the slots look unbiased.

    Only an audit that knows the order of the turns finds the judge's preference for the last speaker.
    """

    def chat(request: ModelRequest) -> str:
        text = " ".join(str(message["content"]) for message in request.messages)
        return "I rebut what was said." if "I open" in text or "I rebut" in text else "I open."

    items, spoken = [], []
    for at in range(60):
        names = ["tea", "coffee"] if at % 2 else ["coffee", "tea"]
        pattern = debate(
            name="d", debaters=[Debater(n, n) for n in names], max_rounds=1, judge="cyclic", synthesizer=False
        )
        model = {"chat": FunctionModel(chat), "synthesize": FunctionModel(rebuttals_win)}
        result = pattern.run_sync("Tea or coffee?", model=model, seed=at, store=False)
        assert result.raw.verdict is not None
        assert result.raw.verdict.winner == names[-1]
        assert result.raw.verdict is not None
        assert result.raw.verdict.judging is not None
        items.append(result.raw.verdict.judging.ballots)
        spoken.append(speaking_order(result.raw.transcript))
    blind, informed = full_audit(items), full_audit(items, spoken=spoken)
    assert blind.findings[0].startswith("no slot bias found")
    assert "the side that spoke last" in blind.findings[-1] == LIMITS
    assert any(finding.startswith("favors the last speaker: 120 of 120 (100%") for finding in informed.findings)
    assert audit_run(result).judge.turns[0].places[1].wins == 2
    fixed = full_audit([items[0]] * 60, spoken=[spoken[0]] * 60).findings
    assert any("the sides spoke in one order" in finding for finding in fixed)
    with pytest.raises(
        ConfigurationError, match=r"audit\(\): `spoken` must have one entry per item, 60 in total .got 3"
    ):
        full_audit(items, spoken=spoken[:3])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: share_interval(0.5, 0), r"share_interval\(\): `n` must be greater than 0 \(got 0\)"),
        (lambda: share_interval(1.5, 3), r"share_interval\(\): `share` must be between 0 and 1"),
        (lambda: newcombe([], []), r"newcombe\(\): `ones` must be at least 1 \(got 0\)"),
        (lambda: newcombe([1.0], []), r"newcombe\(\): `others` must have as many entries as `ones`"),
        (lambda: required_n(0, differing=0.3), r"required_n\(\): `gain` must be strictly between 0 and 1 \(got 0\)"),
        (
            lambda: required_n(-0.1, differing=0.3),
            r"required_n\(\): `gain` must be strictly between 0 and 1 \(got -0.1\)",
        ),
        (lambda: benefit_report([compared_item(1, 1)], missing="ignored"), "`missing` must be wrong or"),  # type: ignore[arg-type]
    ],
)
def test_statistics_on_empty_input_are_rejected(call: Any, message: str) -> None:
    """Empty input raises an error that states the permitted values, rather than a division by zero."""
    with pytest.raises(ConfigurationError, match=message):
        call()
