"""Critique checks: whether a critic makes the judge more accurate, measured on labeled answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate._text import counted
from flowdebate._util.importing import InNotebooks
from flowdebate._util.validation import check_share, check_text
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.audit_report import Figure
from flowdebate.evaluation.evaluation_run import EvaluationBatch, reader
from flowdebate.evaluation.paired import Paired, compare_credits
from flowdebate.evaluation.sample_sizes import required_n
from flowdebate.evaluation.statistics import check_scipy, share_interval
from flowdebate.runs.batch import Batch
from flowdebate.runs.execute import run_sync

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.functions import BlockLike
    from flowdebate.chassis.roles import RoleOptions
    from flowdebate.chassis.roster import MemberLike
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.sources.source import SourcesLike

_LOCATION = "critique_check()"
_WRONG_ANSWER = "The answer to the question is wrong."
"""The claim put to the judge if there is no critic."""
_WORDS: Mapping[str, bool] = {
    **dict.fromkeys(("right", "correct", "true", "yes", "1"), True),
    **dict.fromkeys(("wrong", "incorrect", "false", "no", "0"), False),
}


class CheckedAnswer(WireModel):
    """A labeled answer and each method's decision on it."""

    question: str
    is_right: bool
    """The answer's label: True if the answer is correct."""
    rejected: bool
    """True if the critique rejected the answer, meaning the judge upheld at least one of the critic's claims."""
    judged_wrong: bool
    """True if the judge considered the answer wrong without seeing a critique. Unlike a critic's claim, this decision
    does not require a quote.
    """
    claims: int
    """Number of claims the critic made about the answer."""


class MethodRates(WireModel):
    """Accuracy of a method in telling correct answers from wrong ones."""

    accuracy: Figure
    """Share of answers for which the decision matches the label."""
    found: Figure | None
    """Share of wrong answers recognized as wrong; None if there are no wrong answers."""
    false_alarms: Figure | None
    """Share of correct answers considered wrong; None if there are no correct answers."""


@dataclass(frozen=True, kw_only=True)
class CritiqueCheck(InNotebooks):
    """Result of the check; use `print(check.summary)` for an overview."""

    critique: MethodRates
    alone: MethodRates
    """The judge's accuracy without a critic."""
    comparison: Paired
    """The critique's accuracy minus that of the judge alone, on the same answers."""
    found: Paired | None
    """The critique's accuracy minus that of the judge alone, on wrong answers only."""
    answers: Sequence[CheckedAnswer]
    left_out: int
    """Number of answers without a decision, because a call failed or a limit was reached."""
    confidence: float
    min_gain: float
    calls: float
    """Mean number of model calls per answer, including those made by the judge alone."""

    @property
    def helps(self) -> bool | None:
        """True if the critique improves accuracy, False if a gain of `min_gain` can be excluded, otherwise None."""
        if self.comparison.low > 0:
            return True
        return False if self.comparison.high < self.min_gain else None

    @property
    def advice(self) -> str:
        """Recommendation in one sentence."""
        if self.helps:
            return "Use critique() with these models: it decides better than the judge alone."
        if self.helps is False:
            return f"Do not use critique() with these models: it gains less than {self.min_gain:.0%} over the judge."
        differing = (self.comparison.better + self.comparison.worse) / len(self.answers)
        needed = required_n(self.min_gain, differing=max(differing, self.min_gain))
        return (
            f"The result is inconclusive: a gain of {self.min_gain:.0%} takes about {needed:,} labeled answers, "
            f"and there are {len(self.answers):,}."
        )

    def to_data(self) -> dict[str, Any]:
        """Return the check as JSON data with camelCase keys."""

        def gain(paired: Paired | None) -> dict[str, Any] | None:
            names = ("difference", "low", "high", "p", "better", "worse")
            return None if paired is None else {name: getattr(paired, name) for name in names}

        return {
            "critique": self.critique.to_wire(),
            "alone": self.alone.to_wire(),
            "gain": gain(self.comparison),
            "gainOnWrongAnswers": gain(self.found),
            "helps": self.helps,
            "advice": self.advice,
            "leftOut": self.left_out,
            "calls": self.calls,
            "confidence": self.confidence,
            "minGain": self.min_gain,
            "answers": [answer.to_wire() for answer in self.answers],
        }

    @property
    def summary(self) -> str:
        """All figures, as multi-line text."""
        gain = self.comparison
        interval = f"{self.confidence:.0%} interval {gain.low:+.1%} to {gain.high:+.1%}, p = {gain.p:.2g}"
        wrong = sum(not answer.is_right for answer in self.answers)
        lines = [
            f"Answers: {len(self.answers):,}, of which {wrong:,} are wrong",
            *(
                f"{name}: accuracy {_percent(rates.accuracy)}, found {_percent(rates.found)}, "
                f"false alarms {_percent(rates.false_alarms)}"
                for name, rates in (("Critique", self.critique), ("Judge alone", self.alone))
            ),
            f"Gain in accuracy: {gain.difference:+.1%} ({interval})",
            self.advice,
        ]
        if self.left_out:
            lines.insert(1, f"Excluded: {counted(self.left_out, 'answer')} without a decision")
        return "\n".join(lines)


def _percent(figure: Figure | None) -> str:
    return "none" if figure is None else f"{figure.value:.0%}"


async def critique_check(  # noqa: PLR0913 - the options of a check
    rows: Sequence[Any],
    *,
    critics: Sequence[MemberLike] | None = None,
    judge: BlockLike | RoleOptions | None = None,
    sources: SourcesLike | None = None,
    question: str | Callable[[Any], Any] = "question",
    answer: str | Callable[[Any], Any] = "answer",
    truth: str | Callable[[Any], Any] = "right",
    cluster: str | Callable[[Any], Any] | None = None,
    confidence: float = 0.95,
    min_gain: float = 0.05,
    **options: Unpack[EvaluationBatch],
) -> CritiqueCheck:
    """Test whether a critic finds more faults than the judge does alone, using labeled answers.

    Each answer is criticized but not revised, and is also judged without a critique, with up to 3 model calls in total.

    - `critics`, `judge`, `model`: as for `critique()`.
    - `sources`: sources for all rows; a row's "sources" replace them.
    - `question`, `answer`: a key in the row, or a function of the row.
    - `truth`: key or function for the label. A label is True or "right", False or "wrong", or the list of faults, which
      is empty for a correct answer.
    - `cluster`: key or function for a group of dependent rows; None groups rows by question.
    - `confidence`, `min_gain`: confidence level of the interval, and the smallest gain in accuracy worth the
      calls.
    - `options`: options of `Block.batch`. If you pass `store` and `batch_id`, an interrupted check continues where it
      stopped.

    Needs scipy. Raise ConfigurationError for a row without a question, an answer or a label, or if no answer has a
    decision.
    """
    check_scipy(_LOCATION)
    # passed to the pattern rather than the batch, because roles may use models from different vendors
    model = options.pop("model", None)
    check_share(_LOCATION, ends=False, confidence=confidence, min_gain=min_gain)
    readers = {"question": reader(question), "answer": reader(answer)}
    label = reader(truth)
    shared = readers["question"] if cluster is None else reader(cluster)
    _check_rows(rows, readers)
    labels = [_read_label(label(row), index) for index, row in enumerate(rows)]

    def build(row: Any) -> Block[Any, Any]:  # noqa: ANN401 - a row of any kind
        row_sources = row.get("sources") if isinstance(row, Mapping) else None
        return _create_check(readers["answer"](row), critics, judge, model, row_sources or sources)

    batch = Batch(
        build(rows[0]),
        rows,
        question=readers["question"],
        plan_item=lambda row: (build(row), None),
        **options,
    )
    answers: dict[int, CheckedAnswer] = {}
    calls: list[int] = []
    errors: list[BaseException] = []
    async with batch:
        async for item in batch:
            calls += [] if item.run is None else [item.run.usage.calls]
            errors += [] if item.error is None else [item.error]
            checked = _checked_answer(item.output, readers["question"](item.row), is_right=labels[item.index])
            if checked is not None:
                answers[item.index] = checked
    if not answers and errors:  # all runs failed, most likely for the same reason
        raise errors[0]
    if not answers:
        raise ConfigurationError(_LOCATION, "rows", None, "must include a row for which the models reached a decision")
    indexes = sorted(answers)
    return _report(
        [answers[index] for index in indexes],
        [str(shared(rows[index])) for index in indexes],
        left_out=len(rows) - len(answers),
        calls=fmean(calls),
        confidence=confidence,
        min_gain=min_gain,
    )


def _checked_answer(outputs: Any, question: str, *, is_right: bool) -> CheckedAnswer | None:  # noqa: ANN401 - by name
    """Return the decisions of both methods on an answer, or None if either decision is missing."""
    if not outputs or None in (outputs["critique"].outcome, outputs["alone"].outcome):
        return None
    [ruled] = outputs["alone"].claims
    return CheckedAnswer(
        question=question,
        is_right=is_right,
        rejected=outputs["critique"].outcome == "rejected",
        judged_wrong=ruled.judged == "holds",
        claims=len(outputs["critique"].claims),
    )


def _report(
    answers: Sequence[CheckedAnswer],
    clusters: Sequence[str],
    *,
    left_out: int,
    calls: float,
    confidence: float,
    min_gain: float,
) -> CritiqueCheck:
    def compare(indexes: Sequence[int]) -> Paired:
        return compare_credits(
            [float(answers[index].rejected != answers[index].is_right) for index in indexes],
            [float(answers[index].judged_wrong != answers[index].is_right) for index in indexes],
            [clusters[index] for index in indexes],
            confidence=confidence,
        )

    wrong = [index for index, answer in enumerate(answers) if not answer.is_right]
    return CritiqueCheck(
        critique=_rates(answers, [answer.rejected for answer in answers], confidence),
        alone=_rates(answers, [answer.judged_wrong for answer in answers], confidence),
        comparison=compare(range(len(answers))),
        found=compare(wrong) if wrong else None,
        answers=answers,
        left_out=left_out,
        confidence=confidence,
        min_gain=min_gain,
        calls=calls,
    )


def critique_check_sync(rows: Sequence[Any], **options: Any) -> CritiqueCheck:  # noqa: ANN401 - those of critique_check
    """Run `critique_check` synchronously, for scripts and notebooks."""
    return run_sync(lambda: critique_check(rows, **options))


def _check_rows(rows: Sequence[Any], readers: Mapping[str, Callable[[Any], Any]]) -> None:
    if not rows:
        raise ConfigurationError(_LOCATION, "rows", None, "must not be empty")
    for index, row in enumerate(rows):
        for name, read in readers.items():
            check_text(_LOCATION, {f"{name} of row {index}": read(row)})


def _create_check(
    answer: str,
    critics: Sequence[MemberLike] | None,
    judge: BlockLike | RoleOptions | None,
    model: ModelChoice,
    sources: SourcesLike | None,
) -> Block[Any, Any]:
    """Create the block that judges an answer twice: once with a critique, and once without."""
    from flowdebate.blocks.sequencer import sequencer
    from flowdebate.chassis.roster import Persona
    from flowdebate.patterns.critique import ClaimDraft, critique

    def state_claim(_: object) -> list[ClaimDraft]:
        return [ClaimDraft(claim=_WRONG_ANSWER, kind="false")]

    # The critic's model is removed, because the critic is a function here.
    alone = {key: value for key, value in model.items() if key != "critic"} if isinstance(model, Mapping) else model
    shared: dict[str, Any] = {"answer": answer, "judge": judge, "sources": sources, "revise": False}
    checks = {
        "critique": critique(name="critique", critics=critics, model=model, **shared),
        "alone": critique(name="alone", critics=[Persona("nobody", block=state_claim)], model=alone or None, **shared),
    }
    return sequencer(name="critique-check").parallel(checks)


def _read_label(value: object, index: int) -> bool:
    """Parse an answer's label (a bool, a word, or a list of faults), and return whether the answer is correct."""
    if isinstance(value, (list, tuple)):
        return not value
    word = str(value).strip().casefold()
    if word not in _WORDS:
        problem = 'must be true or "right", false or "wrong", or a list of faults'
        raise ConfigurationError(_LOCATION, f"truth of row {index}", value, problem)
    return _WORDS[word]


def _rates(answers: Sequence[CheckedAnswer], called_wrong: Sequence[bool], confidence: float) -> MethodRates:
    pairs = list(zip(answers, called_wrong, strict=True))
    accuracy = _share([wrong != answer.is_right for answer, wrong in pairs], confidence)
    assert accuracy is not None  # noqa: S101 - there are answers
    return MethodRates(
        accuracy=accuracy,
        found=_share([wrong for answer, wrong in pairs if not answer.is_right], confidence),
        false_alarms=_share([wrong for answer, wrong in pairs if answer.is_right], confidence),
    )


def _share(hits: Sequence[bool], confidence: float) -> Figure | None:
    if not hits:
        return None
    low, high = share_interval(fmean(hits), len(hits), confidence=confidence)
    return Figure(value=fmean(hits), n=len(hits), low=low, high=high)
