"""Study report: each method's accuracy and cost, all comparisons, and a summary in prose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from operator import eq
from pkgutil import resolve_name
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from flowdebate._text import counted
from flowdebate._util.importing import InNotebooks
from flowdebate._util.wire import WireModel, new_dict, new_list
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.audit_report import AuditItem, Figure
from flowdebate.evaluation.benefit import Finding, Missing
from flowdebate.evaluation.dynamics import AnswerCourse, Dynamics, dynamics
from flowdebate.evaluation.judge_quality import ReliabilityBin, judged_items, reliability
from flowdebate.evaluation.paired import compare_credits, e_value
from flowdebate.evaluation.sample_sizes import required_n
from flowdebate.evaluation.statistics import effective_size, holm, share_interval
from flowdebate.evaluation.study import ALONE, CONTROL, JUDGED, MethodPair, Registration, Study
from flowdebate.patterns.debate.benefit import MethodAnswer, Undecided

if TYPE_CHECKING:
    from flowdebate.evaluation.study_run import StudyAnswer
    from flowdebate.models.resolve import ModelChoice

    Key = tuple[str, int]

_KNOWN = 0.9
"""Minimum share of answers for which an amount, such as the cost, is known; below it, no mean or ratio is reported."""


class StudyMethod(WireModel):
    """One method's accuracy and cost across its questions."""

    method: str
    n: int
    """Number of answers; failed debates are included if they count as wrong."""
    accuracy: float
    low: float
    high: float
    """Bounds of the Wilson interval, adjusted for clusters and repeats."""
    undecided: int
    """Number of answers that name no position, or more than one."""
    calls: float | None
    tokens: float | None
    completion_tokens: float | None
    cost: float | None
    """Mean per answer, computed from the answers for which the amount is known; None if these are fewer than nine in
    ten.
    """


class StudyComparison(WireModel):
    """Difference in accuracy between two methods."""

    one: str
    other: str
    primary: bool
    """True for the study's main comparison, whose p-value is not adjusted for the other comparisons."""
    n: int
    one_accuracy: float
    other_accuracy: float
    better: int
    worse: int
    """Number of answers on which `one` scored higher (`better`) or lower (`worse`) than the other method."""
    difference: float
    low: float
    high: float
    """Difference in accuracy, with the bounds of the Newcombe interval for paired proportions."""
    clusters: int
    """Number of independent groups of questions."""
    p: float
    """P-value of the exact sign-flip test over clusters."""
    p_adjusted: float
    """P-value adjusted by Holm's method over all comparisons except the primary one, whose p-value is left
    unadjusted.
    """
    e_value: float
    """E-value of the comparison; it may be checked after every question (see `flowdebate.evaluation.e_value`)."""
    tokens_ratio: float | None
    cost_ratio: float | None
    """Tokens and cost of `one` as multiples of the other method's; None if unknown."""
    required_n: int
    """Number of questions needed to detect a gain of `min_gain` with 80% power."""
    early: bool
    """True if either method is still missing answers."""
    finding: Finding
    """Finding of the comparison; "too_few" while answers are missing, unless the e-value already shows a difference."""
    summary: str


class StudyControl(WireModel):
    """Comparison of the same judge with and without the text that decides each question."""

    n: int
    """Number of questions decided both with and without the text."""
    control: float
    alone: float
    """Accuracy with and without the text."""
    gain: float
    """Gain in accuracy required by the study."""
    passed: bool | None
    """True if the control reaches the required gain; None while answers are missing."""

    @property
    def summary(self) -> str:
        """The control's result in one sentence."""
        figures = f"right in {self.control:.1%} with the deciding text, in {self.alone:.1%} without it, of {self.n:,}"
        if self.passed is None:
            return f"The control is not finished: the judge is {figures} questions so far."
        if self.passed:
            return f"The control is passed: the judge is {figures} questions."
        return (
            f"Stopped by the control: the judge is {figures} questions, but a gain of {100 * self.gain:g} points was "
            "required. This judge could not show the effect of debates."
        )


class StudyReport(InNotebooks, WireModel):
    """Results of a study, whether finished or not."""

    study: str
    asked: int
    """Number of answers obtained."""
    planned: int
    """Number of planned answers."""
    failed: int
    """Number of debates without a verdict."""
    missing: Missing
    """Rule for counting failed debates."""
    confidence: float
    min_gain: float
    methods: list[StudyMethod]
    comparisons: list[StudyComparison]
    """All comparisons, with the primary one first."""
    control: StudyControl | None = None
    """Result of the positive control; None if the study has no control, or if the control has no answers yet."""
    registered: str | None
    """Hash of the registration; None if there is none."""
    differences: list[str]
    """Differences from the registration, one sentence each."""
    summary: str
    reliability: list[ReliabilityBin] = Field(default_factory=new_list)
    """Accuracy of the first design's judge, binned by the judge's confidence; empty if there are no ballots."""
    dynamics: dict[str, Dynamics] = Field(default_factory=new_dict)
    """Changes between a single call's answer and the outcome of each design's debate, and between the judges' first and
    last ballots.
    """
    first_read: dict[str, Figure] = Field(default_factory=new_dict)
    """Share of verdicts in favor of the side read first, in two-sided debates, keyed by design or control.

    This is the mean, over debates, of the share of decided ballots won by the side that the judge read first. If there
    is no position bias, it is one half.
    """

    @property
    def unfinished(self) -> int:
        """Number of missing answers."""
        return max(self.planned - self.asked, 0)

    @property
    def frontier(self) -> list[StudyMethod]:
        """Methods whose accuracy no other method reaches with fewer tokens, cheapest first."""
        best: list[StudyMethod] = []
        priced = [(row.tokens, -row.accuracy, row) for row in self.methods if row.tokens is not None]
        for *_, priced_method in sorted(priced, key=lambda method: method[:2]):
            if not best or priced_method.accuracy > best[-1].accuracy:
                best.append(priced_method)
        return best

    @property
    def primary(self) -> StudyComparison | None:
        """The study's main comparison; None until both methods have answered a question."""
        return next((comparison for comparison in self.comparisons if comparison.primary), None)

    def to_html(self) -> str:
        """Render the report as one HTML file without scripts: tables, plots and differences from the registration."""
        html: str = resolve_name("flowdebate.web.report:study_html")(self)
        return html

    def to_latex(self) -> str:
        """Render the tables for use in a paper, with rules from the booktabs package."""
        head = r"Method & $n$ & Accuracy & Interval & Calls & Tokens \\"
        rows = [
            f"{_latex(method.method)} & {method.n} & {method.accuracy:.3f} & [{method.low:.3f}, {method.high:.3f}] & "
            rf"{_number(method.calls)} & {_number(method.tokens)} \\"
            for method in self.methods
        ]
        compared = r"Comparison & Difference & Interval & $p$ & $e$ \\"
        other_rows = [
            f"{_latex(comparison.one)} -- {_latex(comparison.other)}{'*' if comparison.primary else ''} & "
            rf"{comparison.difference:+.3f} & "
            rf"[{comparison.low:+.3f}, {comparison.high:+.3f}] & {comparison.p_adjusted:.2g} & "
            rf"{comparison.e_value:.2g} \\"
            for comparison in self.comparisons
        ]
        return "\n".join(
            [
                *_tabular("lrrrrr", head, rows),
                "",
                *_tabular("lrrrr", compared, other_rows),
                f"% * primary; the other p-values are adjusted by Holm's method. {self.confidence:.0%} intervals.",
                f"% registered: {self.registered or 'no'}",
                *([f"% {self.asked} of {self.planned} answers: {_state(self.primary)}"] if self.unfinished else []),
            ]
        )


class _Credit(NamedTuple):
    """A method's credit on one question."""

    value: float
    cluster: str
    answer: MethodAnswer | None
    """The method's answer; None if the debate failed."""


def study_report(
    study: Study,
    answers: Sequence[StudyAnswer],
    *,
    registration: Registration | None = None,
    model: ModelChoice = None,
) -> StudyReport:
    """Compare the methods of `study` on all available `answers`, even before the study is complete.

    An undecided answer (a tied vote, or a debate without a winner) counts as a random draw among the open positions; if
    counting it as wrong would change a finding, the summary says so. A failed debate counts as wrong; its baselines did
    not run and are assumed to be as accurate as on other questions. If `missing` is "left out", neither a failed debate
    nor its baselines count. `registration` is checked against the study and `model`. Answers to cases outside the
    study, such as those from a design that was removed, are ignored. Raise ConfigurationError if there are no answers,
    or if the correct position has changed since a question was answered.
    """
    answers = study.answered(answers)
    if not answers:
        raise ConfigurationError(study.location, "answers", None, "must not be empty")
    planned = study.planned(answers)
    unfinished = planned - Counter(answer.design for answer in answers)
    credits_ = {method: _credits_of(method, study, answers) for method in study.methods}
    if_wrong = {method: _credits_of(method, study, answers, undecided="wrong") for method in study.methods}
    comparisons = [
        _with_undecided_wrong(comparison, other)
        for comparison, other in zip(
            _compare_all(study, credits_, unfinished), _compare_all(study, if_wrong, unfinished), strict=True
        )
    ]
    differences = [] if registration is None else registration.differences(study.registration(model=model))
    older = 0 if registration is None else sum(answer.at < registration.at for answer in answers)
    if older:
        differences.append(f"{older} of {len(answers)} answers are older than the registration")
    failed = sum(answer.problem is not None and answer.design not in JUDGED for answer in answers)
    methods = [_method(method, study, method_credits) for method, method_credits in credits_.items() if method_credits]
    control = control_of(study, answers)
    summary = _summarize(
        comparisons,
        methods,
        study,
        failed=failed,
        question_count=len(answers),
        planned=planned.total(),
        differences=differences,
    )
    return StudyReport(
        study=study.name,
        asked=len(answers),
        planned=planned.total(),
        failed=failed,
        missing=study.missing,
        confidence=study.confidence,
        min_gain=study.min_gain,
        methods=methods,
        comparisons=comparisons,
        control=control,
        registered=None if registration is None else registration.hash,
        differences=differences,
        summary=summary if control is None else f"{control.summary} {summary}",
        reliability=_reliability(study, answers),
        dynamics=_dynamics(study, answers),
        first_read=_first_read(study, answers),
    )


def control_of(study: Study, answers: Sequence[StudyAnswer]) -> StudyControl | None:
    """Compare answers with and without the deciding text; return None until there are answers of both kinds."""
    with_it, without = (_credits_of(method, study, answers) for method in (CONTROL, ALONE))
    keys = sorted(with_it.keys() & without.keys())
    if not keys:
        return None
    control, alone = fmean(with_it[key].value for key in keys), fmean(without[key].value for key in keys)
    finished = len(keys) == study.planned(answers)[CONTROL]
    passed = control - alone >= study.control_gain - 1e-9 if finished else None
    return StudyControl(n=len(keys), control=control, alone=alone, gain=study.control_gain, passed=passed)


def _with_undecided_wrong(comparison: StudyComparison, if_wrong: StudyComparison) -> StudyComparison:
    """Add a sentence to the summary if the finding changes when undecided answers count as wrong."""
    if comparison.finding == if_wrong.finding:
        return comparison
    summary = f"{comparison.summary} With undecided answers counted as wrong: {_first(if_wrong.summary)}"
    return comparison.model_copy(update={"summary": summary})


def _first(summary: str) -> str:
    """Return the first sentence of a summary."""
    end = summary.find(". ")
    return summary if end < 0 else summary[: end + 1]


def _compare_all(
    study: Study, credits_: Mapping[str, Mapping[Key, _Credit]], unfinished: Mapping[str, int]
) -> list[StudyComparison]:
    """Compare all pairs of methods that have answers, starting with the primary pair."""
    pairs = [MethodPair(*(study.primary or ("", ""))), *(MethodPair(*pair) for pair in study.compare or ())]
    possible = [pair for pair in pairs if {*credits_[pair.one]} & {*credits_[pair.other]}]
    secondary = len(pairs) - 1
    compared = [
        _compare(
            pair,
            study,
            credits_,
            tests=1 if pair == study.primary else secondary,
            early=any(study.design_of(method) in unfinished for method in pair),
        )
        for pair in possible
    ]
    # All planned tests count, including those that have no answer yet.
    ps = [comparison.p for comparison, _ in compared if not comparison.primary]
    adjusted = iter(holm([*ps, *[1.0] * (secondary - len(ps))]))
    return [
        _conclude(comparison, largest, study, p=comparison.p, tests=1)
        if comparison.primary
        else _conclude(comparison, largest, study, p=next(adjusted), tests=secondary)
        for comparison, largest in compared
    ]


def frame(study: Study, answers: Sequence[StudyAnswer]) -> list[dict[str, Any]]:
    """Return one row per answer and method, for pandas, polars or a spreadsheet: `pandas.DataFrame(frame(…))`."""
    return [
        {
            "item": answer.item,
            "repeat": answer.repeat,
            "cluster": answer.cluster,
            "design": answer.design,
            "method": method,
            "right": method_answer.credit(answer.truth, sides=len(answer.order)),
            "answer": method_answer.answer[0] if len(method_answer.answer) == 1 else None,
            "truth": answer.truth,
            "calls": method_answer.calls,
            "tokens": method_answer.tokens,
            "completion_tokens": method_answer.completion_tokens,
            "cost": method_answer.cost,
            "seconds": answer.seconds,
        }
        for answer in study.answered(answers)
        for method, method_answer in answer.answers.items()
        if method in study.methods
    ]


def _credits_of(
    method: str, study: Study, answers: Sequence[StudyAnswer], *, undecided: Undecided = "lot"
) -> Mapping[Key, _Credit]:
    """Return the credits for `method`, keyed by question and repeat.

    The result includes questions that count even without an answer.
    """
    design = study.design_of(method)
    credits_by_key: dict[Key, _Credit] = {}
    lost = []
    for answer in answers:
        key = answer.item, answer.repeat
        if answer.design == design and method in answer.answers:
            method_answer = answer.answers[method]
            credits_by_key[key] = _Credit(
                method_answer.credit(answer.truth, sides=len(answer.order), undecided=undecided),
                answer.cluster,
                method_answer,
            )
        elif answer.design == design and answer.problem is not None:
            lost.append((key, answer.cluster))
    if study.missing == "wrong" and (credits_by_key or method == design):
        # A failed debate counts as wrong. Its baselines did not run, and must not benefit from the failure.
        instead = 0.0 if method == design else fmean(credit.value for credit in credits_by_key.values())
        credits_by_key |= {key: _Credit(instead, cluster, None) for key, cluster in lost}
    return credits_by_key


def _method(method: str, study: Study, credits_by_key: Mapping[Key, _Credit]) -> StudyMethod:
    values = [credit.value for credit in credits_by_key.values()]
    size = effective_size(values, [credit.cluster for credit in credits_by_key.values()])
    low, high = share_interval(fmean(values), size, confidence=study.confidence)
    answers = [credit.answer for credit in credits_by_key.values() if credit.answer is not None]
    return StudyMethod(
        method=method,
        n=len(values),
        accuracy=fmean(values),
        low=low,
        high=high,
        undecided=sum(len(answer.answer) != 1 for answer in answers),
        calls=_mean([answer.calls for answer in answers]),
        tokens=_mean([answer.tokens for answer in answers]),
        completion_tokens=_mean([answer.completion_tokens for answer in answers]),
        cost=_mean([answer.cost for answer in answers]),
    )


def _mean(amounts: Sequence[float | None]) -> float | None:
    amounts_known = [amount for amount in amounts if amount is not None]
    # A mean tolerates a few unknown amounts, for example from interrupted calls, but many would bias it.
    return fmean(amounts_known) if amounts_known and len(amounts_known) >= _KNOWN * len(amounts) else None


def _compare(
    compared: MethodPair, study: Study, credits_: Mapping[str, Mapping[Key, _Credit]], *, tests: int, early: bool
) -> tuple[StudyComparison, float]:
    """Return a comparison that has no finding yet, and the largest gain that its interval does not exclude.

    The gain is adjusted for the number of `tests`.
    """
    one, other = credits_[compared.one], credits_[compared.other]
    # Questions that both methods answered come first.
    keys = sorted(one.keys() & other.keys(), key=lambda key: one[key].answer is None or other[key].answer is None)
    answered = [key for key in keys if one[key].answer is not None and other[key].answer is not None]
    ones, other_values = [one[key].value for key in keys], [other[key].value for key in keys]
    clusters = [one[key].cluster for key in keys]
    comparison = compare_credits(
        ones, other_values, clusters, answered=len(answered), confidence=study.confidence, tests=tests
    )
    answers = [(one[key].answer, other[key].answer) for key in answered]
    return StudyComparison(
        one=compared.one,
        other=compared.other,
        primary=compared == study.primary,
        n=len(keys),
        one_accuracy=fmean(ones),
        other_accuracy=fmean(other_values),
        better=comparison.better,
        worse=comparison.worse,
        difference=comparison.difference,
        low=comparison.low,
        high=comparison.high,
        clusters=comparison.clusters,
        p=comparison.p,
        p_adjusted=comparison.p,
        e_value=e_value(*comparison.leads),
        tokens_ratio=_ratio(answers, "tokens"),
        cost_ratio=_ratio(answers, "cost"),
        required_n=0,
        early=early,
        finding="too_few",
        summary="",
    ), comparison.largest_gain


def _ratio(answers: Sequence[tuple[Any, Any]], of: Literal["tokens", "cost"]) -> float | None:
    pairs = [(getattr(one, of), getattr(other, of)) for one, other in answers]
    complete = [pair for pair in pairs if None not in pair]
    if not complete or len(complete) < _KNOWN * len(pairs) or not sum(other for _, other in complete):
        return None
    return fsum(one for one, _ in complete) / fsum(
        other for _, other in complete
    )  # fsum makes the result independent of the order of answers


def _reliability(study: Study, answers: Sequence[StudyAnswer]) -> list[ReliabilityBin]:
    items = [
        AuditItem(ballots=answer.ballots, truth=answer.truth)
        for answer in answers
        if answer.design == study.first and answer.ballots
    ]
    return reliability(judged_items(items), bins=10, confidence=study.confidence)


def _dynamics(study: Study, answers: Sequence[StudyAnswer]) -> dict[str, Dynamics]:
    def single_answer(answer: StudyAnswer | None, method: str) -> str | None:
        method_answer = None if answer is None else answer.answers.get(method)
        return method_answer.answer[0] if method_answer is not None and len(method_answer.answer) == 1 else None

    firsts = {
        (first_answer.item, first_answer.repeat): first_answer
        for first_answer in answers
        if first_answer.design == study.first
    }
    courses: dict[str, list[AnswerCourse]] = {}
    for answer in (
        candidate
        for candidate in answers
        if candidate.design in study.designs and candidate.design in candidate.answers
    ):
        end = single_answer(answer, answer.design)
        single = study.method(answer.design, "single")
        alone, method = (
            (answer, single) if single in answer.answers else (firsts.get((answer.item, answer.repeat)), "single")
        )
        voices: dict[str, dict[str, list[str | None]]] = {}
        if alone is not None and method in alone.answers:
            voices[f"one call, then {answer.design}"] = {"model": [single_answer(alone, method), end]}
        if answer.ballots:
            by_model: dict[str, list[str | None]] = {}
            for ballot in answer.ballots:
                by_model.setdefault(ballot.model or "", []).append(ballot.winner)
            voices[f"ballots of {answer.design}"] = by_model
        for name, voice in voices.items():
            course = AnswerCourse(voices=voice, outcome=end, truth=answer.truth, cluster=answer.cluster)
            courses.setdefault(name, []).append(course)
    # Positions are indexes here, so exact comparison is enough.
    measured = {name: dynamics(courses, same=eq, confidence=study.confidence) for name, courses in courses.items()}
    return {name: item_dynamics for name, item_dynamics in measured.items() if item_dynamics.changed is not None}


def _first_read(study: Study, answers: Sequence[StudyAnswer]) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for design in (*study.designs, *JUDGED):
        shares = {
            (answer.item, answer.repeat): (
                fmean(ballot.winner == ballot.order[0] for ballot in ballots),
                answer.cluster,
            )
            for answer in answers
            if answer.design == design
            and len(answer.order) == 2  # noqa: PLR2004 - of more, the first is not half
            and (ballots := [ballot for ballot in answer.ballots if ballot.winner is not None])
        }
        if shares:
            values, clusters = zip(*shares.values(), strict=True)
            low, high = share_interval(fmean(values), effective_size(values, clusters), confidence=study.confidence)
            figures[design] = Figure(value=fmean(values), n=len(values), low=low, high=high)
    return figures


def _conclude(
    comparison: StudyComparison, minimum_gain: float, study: Study, *, p: float, tests: int
) -> StudyComparison:
    """Add the finding to a comparison; while the study is incomplete, only the e-value can show a difference."""
    alpha, early = 1 - study.confidence, comparison.early
    finding: Finding = "none_worth_it" if minimum_gain < study.min_gain and not early else "too_few"
    # If there are several e-values, alpha is divided by their number (Bonferroni).
    if comparison.difference and (comparison.e_value >= tests / alpha if early else p < alpha):
        finding = "helped" if comparison.difference > 0 else "harmed"
    differing = (comparison.better + comparison.worse + 1) / (comparison.n + 2)
    n = required_n(study.min_gain, differing=round(differing, 2), tests=tests, alpha=round(alpha, 9))
    interval = f"{study.confidence:.0%} interval {100 * comparison.low:+.1f} to {100 * comparison.high:+.1f}"
    gain = f"{100 * study.min_gain:g} points"
    lead = {
        "helped": f"{comparison.one} is right more often than {comparison.other}",
        "harmed": f"{comparison.one} is right less often than {comparison.other}",
        "none_worth_it": f"{comparison.one} gains less than {gain} over {comparison.other}",
        "too_few": f"So far, {comparison.one} against {comparison.other}"
        if early
        else f"Too few to say whether {comparison.one} gains {gain} over {comparison.other}",
    }[finding]
    accuracy = f"{comparison.one_accuracy:.1%} against {comparison.other_accuracy:.1%} of {comparison.n:,}"
    price = "" if comparison.tokens_ratio is None else f", at {comparison.tokens_ratio:.1f} times the tokens"
    summary = (
        f"{lead}: {accuracy} (difference {100 * comparison.difference:+.1f} points, {interval}; p = {p:.2g}){price}."
    )
    if finding == "too_few" and comparison.clusters < n and not early:
        summary += f" To show a gain of {gain} takes about {n:,} questions."
    return comparison.model_copy(update={"p_adjusted": p, "finding": finding, "required_n": n, "summary": summary})


def _state(primary: StudyComparison | None) -> str:
    """Describe the state of an unfinished study, whose main comparison may already be conclusive."""
    concluded = primary is not None and (primary.finding != "too_few" or not primary.early)
    return "the rest is still missing" if concluded else "nothing is concluded yet"


def _summarize(
    comparisons: Sequence[StudyComparison],
    methods: Sequence[StudyMethod],
    study: Study,
    *,
    failed: int,
    question_count: int,
    planned: int,
    differences: Sequence[str],
) -> str:
    primary = next((comparison for comparison in comparisons if comparison.primary), None)
    none = f"Nothing was answered by both of {' and '.join(study.primary or ())} yet."
    parts = [none if primary is None else primary.summary]
    if question_count < planned:
        parts.insert(0, f"{question_count:,} of {planned:,} answered; {_state(primary)}.")
    if primary and primary.early:
        parts.append(
            f"Whoever stops before the end has to go by the e-value, {primary.e_value:.3g}: it may be looked at at any "
            f"time, and from {1 / (1 - study.confidence):.0f} on says that the two differ."
        )
    compared = (
        [] if primary is None else [method for method in methods if method.method in (primary.one, primary.other)]
    )
    undecided = [
        f"{comparison.undecided:,} of {comparison.n:,} by {comparison.method}"
        for comparison in compared
        if comparison.undecided
    ]
    if undecided:
        parts.append(f"Undecided, counted as a lot: {' and '.join(undecided)}.")
    if failed:
        how = "counts as wrong" if study.missing == "wrong" else "is left out"
        parts.append(f"{counted(failed, 'debate')} ended without a verdict, which {how}.")
    if differences:
        fields = ", ".join(difference.partition(":")[0] for difference in differences)
        parts.append(f"Differences from the registration: {fields}.")
    return " ".join(parts)


def _tabular(columns: str, head: str, rows: Sequence[str]) -> list[str]:
    return [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]


def _latex(name: str) -> str:
    return name.replace("_", r"\_")


def _number(value: float | None) -> str:
    return "--" if value is None else f"{value:,.1f}"
