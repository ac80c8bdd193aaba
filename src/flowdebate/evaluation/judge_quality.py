"""Judge quality on questions with known answers: accuracy, agreement, Brier score, calibration and recalibration."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, fsum, log
from os import PathLike
from random import Random
from statistics import fmean
from typing import Annotated, TypeVar

from pydantic import Field

from flowdebate._text import join_choices
from flowdebate._util.importing import InNotebooks
from flowdebate._util.validation import check_count, check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.agreement import cohen_kappa, krippendorff_alpha
from flowdebate.evaluation.audit_report import AuditItem, Figure
from flowdebate.evaluation.statistics import effective_size, share_interval
from flowdebate.patterns.debate.judging.ballots import DecidedBy, decide

_MIN_PROBABILITY = 1e-6
"""Share used instead of zero to keep the logarithm finite."""
_FOLDS = 5
_RESAMPLES = 1_000
_STEEPEST = 100.0
_V = TypeVar("_V")
_Pair = tuple[str | None, str | None]


class JudgedItem(WireModel):
    """A judge's decision on an item with a known answer."""

    truth: str
    shares: dict[str, Annotated[float, Field(ge=0, le=1)]]
    """Each side's share, interpreted as the judge's probability that the side is right."""
    winner: str | None = None
    """Winner in the judge's verdict; None if there is no winner."""
    human: str | None = None
    """Side preferred by humans; None if there are no human labels."""
    cluster: str | None = None
    """Cluster of related items, for example those on the same topic; None for an independent item."""

    @property
    def credit(self) -> float:
        """Credit for the verdict: 1 for the right winner, 0 for a wrong one.

        If there is no winner, the credit is the probability of a correct random guess.
        """
        return float(self.winner == self.truth) if self.winner is not None else 1 / len(self.shares)


class ReliabilityBin(WireModel):
    """Items on which the judge was similarly confident."""

    low: float
    high: float
    """Upper bound of the bin, exclusive except in the last bin; `low` is the inclusive lower bound.

    An item's confidence is its largest share.
    """
    n: int
    confidence: float
    accuracy: float
    """Mean accuracy; it equals the mean `confidence` if the judge is calibrated."""
    accuracy_low: float
    accuracy_high: float
    """Bounds of the Wilson interval for the accuracy."""


class Calibration(WireModel):
    """Calibration factor (slope) for the judge's log-odds, and its effect on held-out items."""

    slope: float
    """Slope of the calibration: below 1 if the judge is overconfident, above 1 if it is underconfident."""
    loss: float
    """Mean log-loss without calibration."""
    calibrated_loss: float
    """Mean log-loss with calibration, cross-validated on held-out items."""

    @property
    def helps(self) -> bool:
        """True if the calibration improves predictions on held-out items."""
        return self.calibrated_loss < self.loss

    def shares(self, shares: dict[str, float]) -> dict[str, float]:
        """Calibrate `shares`; raise ConfigurationError if calibration worsens predictions on held-out items."""
        if not self.helps:
            problem = "must predict held-out items better than the judge itself"
            raise ConfigurationError("Calibration.shares()", "calibration", self.slope, problem)
        weights = {side: exp(self.slope * behind) for side, behind in _behind(shares).items()}
        weight_sum = fsum(weights.values())
        return {side: weight / weight_sum for side, weight in weights.items()}


class JudgeQuality(InNotebooks, WireModel):
    """A judge's accuracy, its agreement beyond chance, and the calibration of its confidence."""

    n: int
    undecided: int
    """Number of items without a winner; each counts as a random guess."""
    accuracy: Figure
    kappa: Figure | None
    """Cohen's kappa between the judge's winners and the truth, over items with a winner; None if undefined."""
    human_kappa: Figure | None
    """Cohen's kappa between the judge's winners and the human labels; None unless both are known."""
    alpha: Figure | None
    """Krippendorff's alpha between the judge's winners and the human labels; None unless both are known."""
    brier: Figure
    """Mean squared error of the shares: 0 for a judge who is always certain and right, .25 for one who always gives two
    sides equal shares.
    """
    ece: Figure
    """Expected calibration error: the mean difference between the judge's confidence and accuracy.

    It has no interval: sampling noise biases it upward, so a bootstrap interval would exclude 0 even for a perfectly
    calibrated judge.
    """
    ece_calibrated: Figure
    """Calibration error expected of a perfectly calibrated judge with the same shares: the mean, and the bounds of the
    central 95% range (or of the range set by `confidence`).
    """
    ece_p: float
    """P-value: the probability that a perfectly calibrated judge's calibration error would be at least this large."""
    reliability: list[ReliabilityBin]
    calibration: Calibration
    findings: list[str]
    """Findings about the judge, in prose."""


def judged_items(
    items: Iterable[AuditItem], *, by: DecidedBy | None = None, min_log_odds: float = 0.0
) -> list[JudgedItem]:
    """Extract the items with a known truth from an audit, combining all ballots on an item into one decision.

    `by` is the decision rule; None means log-odds for letter ballots and the mean for all others.
    """
    judged = []
    for item in items:
        if item.truth is None or not any(ballot.problem is None for ballot in item.ballots):
            continue
        rule: DecidedBy = by or ("log_odds" if any(ballot.log_odds for ballot in item.ballots) else "mean")
        sides = sorted(item.ballots[0].order)
        decided = decide(item.ballots, sides=sides, by=rule, min_log_odds=min_log_odds)
        judged.append(JudgedItem(truth=item.truth, shares=decided.scores, winner=decided.winner))
    return judged


def judge_quality(
    items: Sequence[JudgedItem] | str | PathLike[str], *, bins: int = 10, confidence: float = 0.95, seed: int = 0
) -> JudgeQuality:
    """Measure a judge on `items` with known answers; a path refers to a ballot file. Needs scipy.

    Accuracy has a Wilson interval; other figures have percentile intervals from 1,000 bootstrap samples of clusters,
    drawn with `seed`. For the calibration error, the range of confidence is divided into `bins` equal parts. The error
    is compared with that of a perfectly calibrated judge with the same shares, using 1,000 simulations in which all
    items in a cluster share one draw. Raises ConfigurationError if there are no items, or if an item's truth is not one
    of its sides.

    >>> sure = [JudgedItem(truth="yes", shares={"yes": .9, "no": .1}, winner="yes") for _ in range(8)]
    >>> wrong = [JudgedItem(truth="no", shares={"yes": .9, "no": .1}, winner="yes") for _ in range(2)]
    >>> quality = judge_quality([*sure, *wrong])
    >>> quality.accuracy.value, round(quality.brier.value, 2), round(quality.ece.value, 2)
    (0.8, 0.17, 0.1)
    """
    location = "judge_quality()"
    if isinstance(items, (str, PathLike)):
        from flowdebate.evaluation.ballot_file import read_ballots

        items = read_ballots(items).judged
    check_count(location, bins=bins)
    check_share(location, ends=False, confidence=confidence)
    _check_items(items, location)
    names = [("alone", number) if item.cluster is None else item.cluster for number, item in enumerate(items)]
    credits_ = [item.credit for item in items]
    low, high = share_interval(fmean(credits_), effective_size(credits_, names), confidence=confidence)
    groups: dict[object, list[int]] = {}
    for at, name in enumerate(names):
        groups.setdefault(name, []).append(at)
    figure = _Bootstrap(_resample([*groups.values()], seed), confidence).figure
    decided = [item for item in items if item.winner is not None]
    looked = [item for item in decided if item.human is not None]
    by_truth: list[_Pair] = [(item.winner, item.truth) for item in items]
    by_people: list[_Pair] = [(item.winner, item.human) for item in items]
    brier = figure([_squared_error(item) for item in items], fmean, len(items))
    ece = _ece([_placed(item, bins) for item in items])
    drawn = _calibrated_errors(items, list(groups.values()), bins, seed)
    cut = round(len(drawn) * (1 - confidence) / 2)
    assert brier is not None  # noqa: S101 - there are items
    quality = JudgeQuality(
        n=len(items),
        undecided=len(items) - len(decided),
        accuracy=Figure(value=fmean(credits_), n=len(items), low=low, high=high),
        kappa=figure(by_truth, _kappa, len(decided)) if decided else None,
        human_kappa=figure(by_people, _kappa, len(looked)) if looked else None,
        alpha=figure(by_people, _alpha, len(looked)) if looked else None,
        brier=brier,
        ece=Figure(value=ece, n=len(items)),
        ece_calibrated=Figure(value=fmean(drawn), n=len(items), low=drawn[cut], high=drawn[-1 - cut]),
        ece_p=(1 + sum(error >= ece for error in drawn)) / (1 + len(drawn)),
        reliability=reliability(items, bins=bins, confidence=confidence),
        calibration=_calibration(items, seed),
        findings=[],
    )
    return quality.model_copy(update={"findings": _findings(quality, confidence)})


def _check_items(items: Sequence[JudgedItem], location: str) -> None:
    """Raise ConfigurationError if there are no items, or if an item's truth is not one of its sides."""
    if not items:
        raise ConfigurationError(location, "items", None, "must not be empty")
    for index, item in enumerate(items):
        if item.truth not in item.shares or len(item.shares) < 2:  # noqa: PLR2004 - a choice takes two
            raise ConfigurationError(
                location,
                f"items[{index}].truth",
                item.truth,
                f"must be one of the item's sides ({join_choices(item.shares)}), and an item needs at least two sides",
            )


@dataclass(frozen=True, slots=True)
class _Bootstrap:
    """Bootstrap samples of item indexes, and the confidence level of the intervals computed from them."""

    samples: Sequence[Sequence[int]]
    confidence: float

    def figure(self, values: Sequence[_V], measure: Callable[[Sequence[_V]], float | None], n: int) -> Figure | None:
        """Compute a measure over all items, along with its percentile interval."""
        value = measure(values)
        if value is None:
            return None
        drawn = sorted(
            sample_value
            for sample in self.samples
            if (sample_value := measure([values[index] for index in sample])) is not None
        )
        cut = round(len(drawn) * (1 - self.confidence) / 2)
        low, high = (drawn[cut], drawn[-1 - cut]) if drawn else (None, None)
        return Figure(value=value, n=n, low=low, high=high)


def _resample(groups: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
    """Draw item indexes by resampling clusters."""
    random = Random(seed)  # noqa: S311 - repeatable on purpose
    return [[at for group in random.choices(groups, k=len(groups)) for at in group] for _ in range(_RESAMPLES)]


def _kappa(pairs: Sequence[_Pair]) -> float | None:
    complete = [pair for pair in pairs if None not in pair]
    return cohen_kappa(*map(list, zip(*complete, strict=True))) if complete else None


def _alpha(pairs: Sequence[_Pair]) -> float | None:
    return krippendorff_alpha([*map(list, zip(*pairs, strict=True))])


def _squared_error(item: JudgedItem) -> float:
    # Half of the sum over the sides; with two sides, this is the squared error of either side.
    return fsum((share - (side == item.truth)) ** 2 for side, share in item.shares.items()) / 2


def _placed(item: JudgedItem, bins: int) -> tuple[int, float, float]:
    """Return an item's bin, the judge's confidence in the leading side, and whether that side was right."""
    top_share = max(item.shares.values())
    firsts = [side for side, share in item.shares.items() if share == top_share]
    return min(int(top_share * bins), bins - 1), top_share, (item.truth in firsts) / len(firsts)


def _ece(placed: Sequence[tuple[int, float, float]]) -> float:
    gaps: dict[int, list[float]] = {}
    for part, sure, right in placed:
        gaps.setdefault(part, []).append(sure - right)
    return fsum(abs(fsum(gap)) for gap in gaps.values()) / len(placed)


def _calibrated_errors(
    items: Sequence[JudgedItem], groups: Sequence[Sequence[int]], bins: int, seed: int
) -> list[float]:
    """Simulate outcomes, using the judge's shares as probabilities, and return the sorted calibration errors."""
    random = Random(seed)  # noqa: S311 - repeatable on purpose
    # The sides of each item are sorted by share, largest first. A low draw therefore makes the judge right on a whole
    # cluster, and a high draw makes it wrong.
    sides = [sorted(item.shares, key=item.shares.__getitem__, reverse=True) for item in items]
    ends = [[*accumulate(item.shares[side] for side in names)] for item, names in zip(items, sides, strict=True)]
    placed = [_placed(item, bins) for item in items]
    firsts = [[side for side, share in item.shares.items() if share == max(item.shares.values())] for item in items]
    errors = []
    for _ in range(_RESAMPLES):
        drawn: list[tuple[int, float, float]] = []
        for group in groups:
            luck = random.random()  # all items in a cluster get the same draw
            for at in group:
                place = bisect_right(ends[at], luck * ends[at][-1])
                truth = sides[at][min(place, len(sides[at]) - 1)]
                drawn.append((placed[at][0], placed[at][1], (truth in firsts[at]) / len(firsts[at])))
        errors.append(_ece(drawn))
    return sorted(errors)


def reliability(items: Sequence[JudgedItem], *, bins: int, confidence: float) -> list[ReliabilityBin]:
    """Compute the judge's confidence and accuracy in each non-empty bin; there are `bins` bins of equal width."""
    parts: dict[int, list[tuple[float, float]]] = {}
    for item in items:
        number, *bounds = _placed(item, bins)
        parts.setdefault(number, []).append((bounds[0], bounds[1]))
    bins_found = []
    for number, part in sorted(parts.items()):
        accuracy = fmean(right for _, right in part)
        low, high = share_interval(accuracy, len(part), confidence=confidence)
        bins_found.append(
            ReliabilityBin(
                low=number / bins,
                high=(number + 1) / bins,
                n=len(part),
                confidence=fmean(sure for sure, _ in part),
                accuracy=accuracy,
                accuracy_low=low,
                accuracy_high=high,
            )
        )
    return bins_found


# Calibration


def _behind(shares: dict[str, float]) -> dict[str, float]:
    """Return each side's log share relative to that of the leading side; no value is positive."""
    logs = {side: log(max(share, _MIN_PROBABILITY)) for side, share in shares.items()}
    highest = max(logs.values())
    return {side: value - highest for side, value in logs.items()}


def _loss(items: Iterable[tuple[float, Sequence[float]]], slope: float) -> float:
    """Compute the mean log-loss at a given slope; each item pairs the true side's log share with all log shares."""
    return fmean(log(fsum(exp(slope * side) for side in sides)) - slope * truth for truth, sides in items)


def _fit_slope(items: Sequence[tuple[float, Sequence[float]]]) -> float:
    """Find the slope with the smallest loss by ternary search, which works because the loss is convex."""
    low, high = 0.0, _STEEPEST
    while high - low > 1e-3:  # noqa: PLR2004 - finer than what any item shows
        one, other = low + (high - low) / 3, high - (high - low) / 3
        if _loss(items, one) <= _loss(items, other):
            high = other
        else:
            low = one
    return (low + high) / 2


def _calibration(items: Sequence[JudgedItem], seed: int) -> Calibration:
    """Fit the slope to all items, and cross-validate it on held-out items in five folds."""
    behind = [(_behind(item.shares), item.truth) for item in items]
    order = [(sides[truth], [*sides.values()]) for sides, truth in behind]
    Random(seed).shuffle(order)  # noqa: S311 - repeatable on purpose
    losses: list[float] = []
    for fold in range(min(_FOLDS, len(order))):
        fold_items, rest = order[fold::_FOLDS], [item for place, item in enumerate(order) if place % _FOLDS != fold]
        slope = _fit_slope(rest) if rest else 1.0
        losses += [_loss([item], slope) for item in fold_items]
    return Calibration(slope=_fit_slope(order), loss=_loss(order, 1.0), calibrated_loss=fmean(losses))


# Findings in prose


def _findings(quality: JudgeQuality, confidence: float) -> list[str]:
    def format_interval(figure: Figure) -> str:
        low, high = (0.0 if end is None else end for end in (figure.low, figure.high))
        return f"{figure.value:.2f} ({confidence:.0%} interval {low:.2f} to {high:.2f})"

    undecided_text = f", {quality.undecided:,} of them without a winner" if quality.undecided else ""
    findings = [f"right in {format_interval(quality.accuracy)} of {quality.n:,} items{undecided_text}"]
    if quality.kappa is not None:
        findings.append(f"agreement with the truth beyond chance: Cohen's kappa {format_interval(quality.kappa)}")
    if quality.human_kappa is not None:
        findings.append(f"agreement with people beyond chance: Cohen's kappa {format_interval(quality.human_kappa)}")
    findings.append(f"Brier score {format_interval(quality.brier)}: .25 means guessing")
    slope = quality.calibration
    if not slope.helps:
        wants = "no slope for its log-odds predicts held-out items better than the unadjusted judge"
    elif slope.slope < 1:
        wants = f"it is overconfident: {slope.slope:.2f} times its log-odds predict held-out items better"
    else:
        wants = f"it is underconfident: {slope.slope:.2f} times its log-odds predict held-out items better"
    perfect = quality.ece_calibrated
    larger = "larger than" if quality.ece_p <= 1 - confidence else "no larger than"
    findings.append(
        f"calibration error {quality.ece.value:.2f}, {larger} that of a perfectly calibrated judge with the same "
        f"shares: {perfect.value:.2f} ({confidence:.0%} between {perfect.low or 0:.2f} and {perfect.high or 0:.2f}); "
        f"{wants}"
    )
    return findings
