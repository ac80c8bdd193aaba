"""Benefit reports: the statistics are valid, and the summary states the finding plainly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped,unused-ignore]

from flowdebate import DebateRawOutput, DebateVerdict
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import BenefitItem, MethodAnswer, benefit_item, benefit_report, change_summary
from flowdebate.evaluation.sample_sizes import required_n
from flowdebate.evaluation.statistics import holm, newcombe, share_interval, sign_flip_test
from flowdebate.patterns.debate.schemas import BaselineAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.evaluation import BenefitReport
    from flowdebate.evaluation.benefit import Finding
    from flowdebate.patterns.debate.baseline_names import BaselineName

CREDITS = st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 2), min_size=1, max_size=40)


def answer_with_credit(credit: float, *, calls: int = 1, tokens: int | None = 100) -> MethodAnswer:
    """Create an answer that is right, wrong, or a tie between the two."""
    answer = {1.0: ["right"], 0.0: ["wrong"], 0.5: ["right", "wrong"]}[credit]
    return MethodAnswer(answer=answer, calls=calls, tokens=tokens)


def item(debate: float, **baselines: float) -> BenefitItem:
    """Create an item for a question whose right answer is "right"."""
    answers: Any = {name: answer_with_credit(credit) for name, credit in baselines.items()}
    return BenefitItem(truth="right", debate=answer_with_credit(debate, calls=5, tokens=940), baselines=answers)


def items(
    both_right: int, better: int, worse: int, neither: int, baseline: BaselineName = "single"
) -> list[BenefitItem]:
    """Create items, given how many were answered correctly by both, the debate only, the baseline only, and neither."""
    cells = ((1.0, 1.0, both_right), (1.0, 0.0, better), (0.0, 1.0, worse), (0.0, 0.0, neither))
    return [item(debate, **{baseline: credit}) for debate, credit, times in cells for _ in range(times)]


# Statistics


@given(n=st.integers(1, 200), data=st.data(), confidence=st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_interval_matches_scipy(n: int, data: st.DataObject, confidence: float) -> None:
    """The library also accepts a fractional `n`; for whole numbers of items, the two intervals must agree."""
    right = data.draw(st.integers(0, n))
    reference = stats.binomtest(right, n).proportion_ci(confidence, method="wilson")
    assert share_interval(right / n, n, confidence=confidence) == pytest.approx(
        (reference.low, reference.high), abs=1e-9
    )


@given(pairs=CREDITS)
def test_interval_contains_the_difference_and_is_antisymmetric(pairs: list[tuple[float, float]]) -> None:
    firsts, seconds = zip(*pairs, strict=True)
    low, high = newcombe(firsts, seconds)
    difference = (sum(firsts) - sum(seconds)) / len(pairs)
    assert -1 - 1e-9 <= low <= difference <= high <= 1 + 1e-9
    assert high - low > 0
    assert newcombe(seconds, firsts) == pytest.approx((-high, -low), abs=1e-12)


def test_interval_has_its_nominal_coverage() -> None:
    """About 95% of the intervals from 1,500 simulated samples of 40 correlated pairs must contain the true value."""
    random, covered = Random(5), 0
    for _ in range(1_500):
        cells = random.choices([(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)], [0.5, 0.2, 0.1, 0.2], k=40)
        low, high = newcombe(*zip(*cells, strict=True))
        covered += low <= 0.1 <= high
    assert 0.93 < covered / 1_500 < 0.975


@given(better=st.integers(0, 30), worse=st.integers(0, 30))
def test_p_value_equals_the_exact_mcnemar_test(better: int, worse: int) -> None:
    """The expected value is the exact probability that a fair coin produces a split at least as uneven as this one."""
    n = better + worse
    tail = sum(Fraction(comb(n, k), 2**n) for k in range(n + 1) if abs(2 * k - n) >= abs(better - worse))
    assert sign_flip_test([1] * better + [-1] * worse) == pytest.approx(float(tail))


@given(ps=st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_adjustment_matches_the_stepwise_procedure(ps: list[float]) -> None:
    adjusted = holm(ps)
    assert all(p <= q <= min(p * len(ps), 1.0) for p, q in zip(ps, adjusted, strict=True))
    rejected = 0
    for step, p in enumerate(sorted(ps)):
        if p * (len(ps) - step) >= 0.05:
            break
        rejected = step + 1
    assert sum(q < 0.05 for q in adjusted) == rejected


def test_required_number_of_items_gives_the_stated_power() -> None:
    """In simulations with this many items, a gain of 15 points is significant about four times out of five."""
    n, random, significant = required_n(0.15, differing=0.35), Random(3), 0
    for _ in range(400):
        differences = random.choices((1, -1, 0), (0.25, 0.10, 0.65), k=n)
        significant += sign_flip_test(differences) < 0.05
    assert 0.72 < significant / 400 < 0.86


# Findings


@dataclass(frozen=True)
class Case:
    """Counts for a comparison and the summary expected for them."""

    id: str
    cells: tuple[int, int, int, int]
    finding: Finding
    words: str


CASES = [
    Case(
        "as good at many times the cost",
        (50, 11, 13, 26),
        "none_worth_it",
        "No gain of 10 points or more: the debate was right in 61 of 100, one call in 63 (difference -2 "
        "points, 95% interval -11.6 to +7.7); it cost 9.4 times the tokens and 5.0 times the calls.",
    ),
    Case(
        "a little better is not shown",
        (50, 13, 11, 26),
        "too_few",
        "Too few to say: the debate was right in 63 of 100, one call in 61 (difference +2 points, 95% "
        "interval -7.7 to +11.6); it cost 9.4 times the tokens and 5.0 times the calls. To show a gain of "
        "10 points takes about 207 questions.",
    ),
    Case(
        "much better",
        (50, 25, 3, 22),
        "helped",
        "The debate helped: it was right in 75 of 100, one call in 53 (difference +22 points, 95% interval "
        "+12.2 to +31.2); it cost 9.4 times the tokens and 5.0 times the calls.",
    ),
    Case(
        "worse",
        (50, 3, 25, 22),
        "harmed",
        "The debate did not help, it was worse: it was right in 53 of 100, one call in 75 (difference -22 "
        "points, 95% interval -31.2 to -12.2); it cost 9.4 times the tokens and 5.0 times the calls.",
    ),
    Case(
        "all right, but five",
        (5, 0, 0, 0),
        "too_few",
        "Too few to say: the debate was right in 5 of 5, one call in 5 (difference 0 points, 95% interval "
        "-43.4 to +43.4); it cost 9.4 times the tokens and 5.0 times the calls. To show a gain of 10 "
        "points takes about 114 questions.",
    ),
    Case(
        "all the same",
        (50, 0, 0, 50),
        "none_worth_it",
        "No gain of 10 points or more: the debate was right in 50 of 100, one call in 50 (difference 0 "
        "points, 95% interval -1.9 to +1.9); it cost 9.4 times the tokens and 5.0 times the calls.",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_summary_states_the_finding_plainly(case: Case) -> None:
    report = benefit_report(items(*case.cells), min_gain=0.1)
    assert (report.finding, report.summary) == (case.finding, case.words)
    assert report.comparisons[0].finding == case.finding


def test_comparison_states_its_interval_and_p_value() -> None:
    (compared,) = benefit_report(items(50, 25, 3, 22)).comparisons
    assert compared.summary == (
        "The debate helped: it was right in 75 of 100, one call in 53 (difference +22 points, 95% interval +12.2 to "
        "+31.2; p = 2.7e-05); it cost 9.4 times the tokens and 5.0 times the calls."
    )
    assert (compared.better, compared.worse) == (25, 3)
    assert compared.difference == pytest.approx(0.22)
    assert compared.tokens_ratio == pytest.approx(9.4)


def test_undecided_gains_after_many_questions_are_reported_as_open() -> None:
    """The report must not ask for more questions if there were already enough of them to detect a relevant gain."""
    report = benefit_report(items(100, 27, 15, 58), min_gain=0.1)
    assert report.comparisons[0].n >= report.comparisons[0].required_n
    assert report.comparisons[0].summary.endswith("A gain of 10 points is neither shown nor ruled out.")
    assert "takes about" not in report.summary


def items_with_credits(cells: Mapping[tuple[float, float, float], int]) -> list[BenefitItem]:
    """Create items from the credits given to the debate, to one call, and to the drafts."""
    return [item(d, single=s, drafts=v) for (d, s, v), times in cells.items() for _ in range(times)]


def test_equally_good_votes_rule_out_a_gain() -> None:
    """The debate beats a single call but not the vote, so the summary begins with the comparison with the vote."""
    report = benefit_report(
        items_with_credits({(1, 0, 1): 30, (1, 1, 1): 40, (0, 0, 0): 25, (0, 0, 1): 3, (1, 1, 0): 2})
    )
    assert [comparison.finding for comparison in report.comparisons] == ["helped", "none_worth_it"]
    assert report.finding == "none_worth_it"
    assert report.summary.startswith(
        "No gain of 5 points or more: the debate was right in 72 of 100, the vote of first drafts in 73"
    )


def test_an_open_comparison_does_not_hide_decided_ones() -> None:
    """The debate clearly beats a single call, although its comparison with the vote is still undecided."""
    report = benefit_report(
        items_with_credits({(1, 0, 0): 9, (1, 0, 1): 20, (1, 1, 1): 40, (0, 0, 1): 5, (0, 0, 0): 26})
    )
    assert [comparison.finding for comparison in report.comparisons] == ["helped", "too_few"]
    assert report.finding == "too_few"
    assert report.summary.startswith(
        "Too few to say: the debate was right in 69 of 100, the vote of first drafts in 65"
    )
    assert "It did better than one call." in report.summary


def test_several_baselines_raise_the_bar_for_a_gain() -> None:
    """A significant gain over one baseline may no longer be significant once a second baseline is compared as well."""
    single_baseline = items(50, 12, 3, 35)
    assert benefit_report(single_baseline).finding == "helped"
    with_drafts = [
        entry.model_copy(update={"baselines": {**entry.baselines, "drafts": entry.debate}}) for entry in single_baseline
    ]
    report = benefit_report(with_drafts)
    single, drafts = report.comparisons
    assert (
        single.p
        == benefit_report(single_baseline).comparisons[0].p
        < 0.05
        < single.p_holm
        == pytest.approx(2 * single.p)
    )
    assert "helped" not in {single.finding, drafts.finding}


@pytest.mark.simulation
def test_useless_debates_are_rarely_found_helpful() -> None:
    """If three baselines are as good as the debate, at most 5% of 300 simulated reports may say that it "helped"."""
    random, wrong = Random(11), 0
    for _ in range(300):
        evaluation = [
            item(
                float(random.random() < 0.6),
                **{n: float(random.random() < 0.6) for n in ("single", "drafts", "self_consistency")},
            )
            for _ in range(30)
        ]
        wrong += any(comparison.finding == "helped" for comparison in benefit_report(evaluation).comparisons)
    assert wrong / 300 <= 0.05


@given(
    drawn=st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 3), min_size=1, max_size=25),
    seed=st.integers(0, 9),
)
def test_report_adds_up_and_is_independent_of_item_order(drawn: list[tuple[float, ...]], seed: int) -> None:
    benefit_items = [item(debate, single=single, drafts=drafts) for debate, single, drafts in drawn]
    report = benefit_report(benefit_items)
    shuffled = list(benefit_items)
    Random(seed).shuffle(shuffled)
    assert round_sums(benefit_report(shuffled)) == round_sums(report)
    assert [method.method for method in report.methods] == ["debate", "single", "drafts"]
    for result, credit in zip(report.methods, zip(*drawn, strict=True), strict=True):
        assert result.right == pytest.approx(sum(credit))
        assert result.low <= result.accuracy <= result.high
        assert result.undecided == credit.count(0.5)
    undecided = report.methods[0].undecided
    assert (f" {undecided} of {len(drawn)} debates were undecided." in report.summary) == bool(undecided)
    for compared in report.comparisons:
        assert compared.better + compared.worse <= compared.n == len(drawn)
        assert compared.p <= compared.p_holm <= 1
        assert (compared.finding == "helped") == (compared.p_holm < 0.05 and compared.difference > 0)


def round_sums(report: BenefitReport) -> str:
    """Return a report with its sums rounded, since their last digits vary."""
    return (
        report.model_dump_json(round_trip=True)
        if not report.n
        else repr(
            [(s.method, round(s.accuracy, 9), round(s.low, 9)) for s in report.methods]
            + [(c.baseline, c.better, c.worse, round(c.high, 9), c.summary) for c in report.comparisons]
        )
    )


@pytest.mark.parametrize(
    ("answer", "credit"), list(zip(([], ["a"], ["b"], ["a", "b"], ["b", "c"]), (1 / 3, 1, 0, 0.5, 0), strict=True))
)
def test_undecided_answers_count_as_random_choices(answer: Sequence[str], credit: float) -> None:
    method_answer = MethodAnswer(answer=list(answer))
    assert method_answer.credit("a", sides=3) == credit
    assert method_answer.credit("a", sides=3, undecided="wrong") == (answer == ["a"])


def test_both_scorings_are_reported_if_the_finding_depends_on_them() -> None:
    """In this test, no debate has a winner.

    Counting that as wrong makes debates look harmful, whereas counting it as a random choice makes them look neutral.
    """
    single = [MethodAnswer(answer=["a"], calls=1), MethodAnswer(answer=["b"], calls=1)]
    items = [
        BenefitItem(truth="a", debate=MethodAnswer(answer=[], calls=5), baselines={"single": single[number % 2]})
        for number in range(60)
    ]
    report = benefit_report(items)
    assert (report.finding, report.comparisons[0].difference) == ("too_few", 0)
    assert report.methods[0].accuracy == 0.5
    for words in (report.summary, report.comparisons[0].summary):
        assert "With undecided answers counted as wrong: The debate did not help, it was worse" in words
    decided = [item.model_copy(update={"debate": MethodAnswer(answer=["a"], calls=5)}) for item in items]
    assert "counted as wrong:" not in benefit_report(decided).summary


def test_failed_baselines_and_unknown_truths_are_excluded_and_counted() -> None:
    """A comparison uses only the items that both methods answered, and reports how many it leaves out."""
    benefit_items = [*items(3, 1, 0, 0), item(1.0), item(0.0, drafts=1.0)]
    unknown = item(1.0, single=1.0).model_copy(update={"truth": None})
    report = benefit_report([*benefit_items, unknown])
    assert (report.n, report.without_truth) == (6, 1)
    assert [(method.method, method.n) for method in report.methods] == [("debate", 6), ("single", 4), ("drafts", 1)]


def test_unknown_costs_are_not_estimated() -> None:
    """Without token counts, the cost is given in calls. If that number is missing too, the cost is unknown."""
    for update, words in (
        ({"tokens": None}, "it cost 5.0 times the calls."),
        ({"tokens": None, "calls": 0}, "its cost is not known."),
    ):
        benefit_items = [
            entry.model_copy(update={"baselines": {"single": entry.baselines["single"].model_copy(update=update)}})
            for entry in items(50, 0, 0, 50)
        ]
        report = benefit_report(benefit_items)
        assert report.summary.endswith(words)
        assert report.methods[1].tokens is None


@pytest.mark.parametrize("benefit_items", [[], [item(1.0)], [item(1.0, single=1.0).model_copy(update={"truth": None})]])
def test_input_without_a_comparison_is_rejected(benefit_items: list[BenefitItem]) -> None:
    with pytest.raises(ConfigurationError, match="an item with both a known truth and a baseline answer"):
        benefit_report(benefit_items)


@pytest.mark.parametrize(("field", "value"), list(product(("confidence", "min_gain"), (0, 1, True, "0.5"))))
def test_out_of_range_shares_are_rejected(field: str, value: object) -> None:
    options: Any = {field: value}
    with pytest.raises(ConfigurationError, match=field):
        benefit_report(items(1, 0, 0, 0), **options)


# From a debate


def answer(name: BaselineName, votes: Mapping[str, int], *, tokens: int | None = 100) -> BaselineAnswer:
    """Create a baseline answer with one call per vote."""
    tokens_of = {} if tokens is None else {"prompt_tokens": tokens - 10, "completion_tokens": 10}
    return BaselineAnswer(name=name, winner=None, votes=dict(votes), calls=sum(votes.values()) or 1, **tokens_of)


def raw(winner: str | None) -> DebateRawOutput:
    """Create the raw output of a debate."""
    verdict = DebateVerdict(verdict="So it is.", winner=winner, reasoning="It was not answered.")
    return DebateRawOutput(rounds=1, question="Cap rents?", transcript=[], verdict=verdict)


def test_debate_cost_excludes_its_baselines() -> None:
    """The calls and tokens of the baselines are subtracted from those of the debate.

    A baseline without a vote counts as failed, not as wrong.
    """
    answers = [answer("single", {"yes": 1, "no": 0}), answer("drafts", {"yes": 1, "no": 1}, tokens=200)]
    unanswered = answer("self_consistency", {"yes": 0, "no": 0})
    benefit = benefit_item(raw("yes"), baselines=[*answers, unanswered], calls=9, tokens=1_340, truth="yes")
    assert benefit.debate == MethodAnswer(answer=["yes"], calls=5, tokens=940)
    assert benefit.baselines["drafts"] == MethodAnswer(
        answer=["yes", "no"], calls=2, tokens=200, completion_tokens=10, votes=2
    )
    assert list(benefit.baselines) == ["single", "drafts"]
    assert benefit_item(raw(None), baselines=answers, calls=9, tokens=None).debate == MethodAnswer(answer=[], calls=6)
    unknown = answer("single", {"yes": 1}, tokens=None)
    assert benefit_item(raw("yes"), baselines=[unknown], calls=9, tokens=1_000).debate.tokens is None


CHANGES: list[tuple[dict[str, list[str]], str]] = [
    (
        {"single": ["no"], "drafts": ["no"]},
        "The debate changed the answer to 'yes': one call says 'no'; the vote of first drafts says 'no'.",
    ),
    (
        {"single": ["yes"], "drafts": ["yes"]},
        "The debate did not change the answer: one call and the vote of first drafts say 'yes' as well.",
    ),
    (
        {"single": ["no"], "drafts": ["yes"]},
        "The debate says 'yes': one call says 'no'; the vote of first drafts says 'yes'.",
    ),
    (
        {"drafts": ["yes", "no"]},
        "The debate changed the answer to 'yes': the vote of first drafts says 'yes' and 'no'.",
    ),
    ({}, "There is nothing to compare with: no baseline has an answer. The debate says 'yes'."),
]


@pytest.mark.parametrize(("answers", "words"), CHANGES)
def test_summary_reports_changes_and_cost_if_the_truth_is_unknown(answers: dict[str, list[str]], words: str) -> None:
    baselines: Any = {name: MethodAnswer(answer=texts, calls=1, tokens=100) for name, texts in answers.items()}
    benefit = BenefitItem(debate=MethodAnswer(answer=["yes"], calls=5, tokens=940), baselines=baselines)
    cost = ": 9.4 times one call." if "single" in answers else "."
    assert change_summary(benefit) == f"{words} It took 5 calls and 940 tokens{cost}"
