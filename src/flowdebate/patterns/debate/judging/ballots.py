"""A judge's ballots: the data recorded with a verdict, and an exact tally that is independent of ballot order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import median
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from flowdebate._util.validation import check_count, check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.measures.votes import leaders, margin, portions, split, total

Answer = Literal["winner", "scores", "letter", "letter_after_reasons"]
"""Kind of answer a judge gives: the winner, a score for each side, or a letter whose log-probabilities form
the ballot.
"""
MAX_LETTERS = 20  # servers report log-probabilities for at most this many tokens
DecidedBy = Literal["mean", "vote", "log_odds"]
"""Decision rule.

- "mean": the mean score decides.
- "vote": each ballot counts as one vote for the side ranked first.
- "log_odds": the median of the models' mean log-odds decides.
"""
MIN_LOG_ODDS = 0.1  # minimum lead for a clear winner, based on the cases in docs/judging.md
OnFlip = Literal["average", "abstain", "tie", "human"]
"""Policy for a flipped verdict, in which one model picked different winners in different views."""
LogOdds = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""One side's share of a ballot; the shares of all sides add up to 1."""
# derived from a published panel of nine judges equivalent to two independent ones: 9 / (1 + 8 rho) = 2
PUBLISHED_CORRELATION = 0.4375


def _is_none(value: object) -> bool:
    return value is None


class LetterFit(WireModel):
    """Corrections for a model that judges by letter, fitted to its ballots by `fit_letters()`."""

    per_log_length: Annotated[float, Field(allow_inf_nan=False)]
    """The judge's bias toward longer arguments, in log-odds per unit of log length; each side's log-odds are corrected
    for it.
    """
    min_log_odds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Lead, in log-odds, needed to win after the length correction."""


class JudgeBallot(WireModel):
    """A judge's answer for one view of a transcript. Sides are identified by their stances."""

    view: Annotated[int, Field(ge=0)] = 0
    """Index of the view in the schedule, starting at 0; a repeated view keeps its index."""
    order: list[str]
    """Sides in slot order: the order in which the judge read their arguments."""
    labels: dict[str, str] | None = None
    """Each side's label in this view; None if sides were identified by their stances."""
    model: str | None = None
    """Model that cast the ballot; None if unknown."""
    scores: dict[str, Share] | None = None
    """Each side's share of the ballot; None if the judge only names a winner."""
    criteria: dict[str, dict[str, float]] | None = Field(default=None, exclude_if=_is_none)
    """Rubric scores for each side, from 0 to 100 per criterion; None (and omitted from JSON) if there is no rubric."""
    log_odds: dict[str, LogOdds] | None = Field(default=None, exclude_if=_is_none)
    """Log-odds in a letter ballot: each side's log-probability minus the mean over all sides.

    None (and omitted from JSON) for other ballots.
    """
    mass: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(default=None, exclude_if=_is_none)
    """Combined probability of all letters in a letter ballot; None (and omitted from JSON) for other ballots."""
    lengths: dict[str, Annotated[int, Field(ge=0)]] | None = Field(default=None, exclude_if=_is_none)
    """Number of characters in each side's text, recorded for letter ballots without reasons.

    None (and omitted from JSON) for other ballots.
    """
    fit: LetterFit | None = Field(default=None, exclude_if=_is_none)
    """Fit for the judging model, used to correct `scores` and `winner` for the effect of length on `log_odds`.

    None (and omitted from JSON) if there is no fit.
    """
    winner: str | None = None
    """Winning side; None if no side wins."""
    verdict: str = ""
    """Conclusion of the ballot; empty for a single-view judge's only ballot, because the verdict already contains the
    conclusion.
    """
    reasoning: str = ""
    """Reasons for the conclusion; empty if `verdict` is empty."""
    problem: str | None = None
    """Reason why the answer is unusable; None if it is usable."""
    spoken: list[str] | None = Field(default=None, exclude_if=_is_none)
    """Speaking order of the sides in the last round of the transcript.

    None (and omitted from JSON) unless the debate has several transcripts (`mirror`).
    """

    @property
    def shares(self) -> dict[str, float]:
        """Each side's score; if there are no scores, 1 for the winner, or equal shares for all if nobody won."""
        if self.scores is not None:
            return dict(self.scores)
        if self.winner is None:
            return dict.fromkeys(self.order, 1 / len(self.order))
        return {side: float(side == self.winner) for side in self.order}

    @property
    def for_length(self) -> dict[str, float]:
        """The part of each side's log-odds explained by its length; 0 if there is no fit.

        The correction grows with the logarithm of the length, but only up to four times the length of the other sides,
        because greater differences in length have not been measured.

        >>> fit = LetterFit(per_log_length=0.1, min_log_odds=0.15)
        >>> odds, lengths = {"a": 0.3, "b": -0.3}, {"a": 200, "b": 100}
        >>> ballot = JudgeBallot(order=["a", "b"], log_odds=odds, lengths=lengths, fit=fit)
        >>> round(ballot.for_length["a"], 3), round(ballot.counted["a"], 3)
        (0.035, 0.265)
        """
        if self.fit is None or not self.lengths:
            return dict.fromkeys(self.log_odds or {}, 0.0)
        longer = centered({side: math.log(max(length, 1)) for side, length in self.lengths.items()})
        return {side: self.fit.per_log_length * max(-_FAR, min(value, _FAR)) for side, value in longer.items()}

    @property
    def counted(self) -> dict[str, float]:
        """Each side's log-odds after the length correction."""
        explained = self.for_length
        return {side: value - explained.get(side, 0.0) for side, value in (self.log_odds or {}).items()}


# Maximum distance from the mean log length. At this distance, with two sides, one text is four times as long as the
# other.
_FAR = math.log(4) / 2


class Statement(WireModel):
    """A sentence quoted verbatim from the debate."""

    entry: Annotated[int, Field(ge=0)]
    """Index of the argument in the transcript."""
    text: str
    """The sentence."""

    @property
    def turn(self) -> int:
        """Number of the turn that contains the statement, starting at 1."""
        return self.entry + 1


class JudgeQuote(WireModel):
    """A side's most concrete statement, as chosen by a judge."""

    side: str
    """Stance that the statement supports."""
    statement: Statement
    """The statement."""
    reply: Statement | None = None
    """Later statement by another side that shares the most words with `statement`; None if no other side
    spoke later.
    """


class Judging(WireModel):
    """Record of how a verdict was reached: all ballots, and the combined result."""

    answer: Answer | None = Field(default=None, exclude_if=_is_none)
    """Kind of answer, if the judge answered with letters: "letter" or "letter_after_reasons".

    None (and omitted from JSON) for all other answers.
    """
    fallback: str | None = Field(default=None, exclude_if=_is_none)
    """Reason for switching to another kind of answer, such as "letter -> scores: …".

    None (and omitted from JSON) if there was no switch.
    """

    schedule: str = "single"
    """View schedule: "single", "swap", "cyclic", "full" or "sampled(n)"."""
    decided_by: DecidedBy = "mean"
    """Rule for combining the ballots into a decision."""
    min_log_odds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=MIN_LOG_ODDS, exclude_if=lambda lead: lead == MIN_LOG_ODDS
    )
    """Lead in log-odds needed to win; omitted from JSON if it has the default value."""
    criteria: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = Field(
        default=None, exclude_if=_is_none
    )
    """Weight of each criterion in the rubric; None (and omitted from JSON) if there is no rubric."""
    ballots: list[JudgeBallot]
    """Ballots in schedule order, one per model and view."""
    planned: Annotated[int, Field(ge=1)] = 1
    """Number of ballots that the schedule and the panel call for."""
    scores: dict[str, Share]
    """Each side's share, combined from all usable ballots."""
    flipped: bool = False
    """True if any model picked different winners in different views."""
    on_flip: OnFlip | None = None
    """Policy applied to a flipped verdict; None if the verdict was not flipped."""
    effective_n: Annotated[float, Field(gt=0)] = 1.0
    """Number of independent judges equivalent to the panel; see `effective_n()`."""
    quotes: list[JudgeQuote] | None = Field(default=None, exclude_if=_is_none)
    """Statements the judge picked from each side; None (and omitted from JSON) unless the judge answers with letters.
    """

    @property
    def saved(self) -> int:
        """Number of calls skipped because they could no longer change the verdict."""
        return self.planned - len(self.ballots)


class Decision(NamedTuple):
    """Combined result of all usable ballots."""

    scores: dict[str, float]
    """Each side's share, in declared order; the shares add up to 1."""
    winner: str | None
    """Side with the largest share, or None in case of a tie."""
    flipped: bool
    """True if any model picked different winners in different views."""


def decide(
    ballots: Sequence[JudgeBallot], *, sides: Sequence[str], by: DecidedBy = "mean", min_log_odds: float | None = None
) -> Decision:
    """Combine the usable `ballots` by mean score, by vote, or by log-odds.

    A tied ballot is split equally between the tied sides. Sums are exact, so the order of the ballots does not matter.
    If no ballot is usable, all sides have equal shares.

    With log-odds, a preference for a slot cancels out only across all orders, so a model with any unusable ballot is
    ignored. Each model's ballots are averaged, so every model counts once, however often it was called. Between two
    sides, the median across models decides, so no single model can outvote two thirds of the panel, however confident
    it is. The winner must lead every other side by `min_log_odds` (default: `required_lead`); the scores are
    probabilities based on each side's distance from its strongest rival.

    >>> first = JudgeBallot(view=0, order=["yes", "no"], scores={"yes": 0.75, "no": 0.25}, winner="yes")
    >>> second = JudgeBallot(view=1, order=["no", "yes"], scores={"yes": 0.5, "no": 0.5})
    >>> decide([first, second], sides=["yes", "no"])
    Decision(scores={'yes': 0.625, 'no': 0.375}, winner='yes', flipped=True)
    """
    if not sides:
        raise ConfigurationError("decide()", "sides", None, "must not be empty")
    used = [ballot for ballot in ballots if ballot.problem is None]
    if by == "log_odds":
        used = balanced(ballots)
        if not used:
            return Decision({side: 1 / len(sides) for side in sides}, None, flipped=False)
        ahead = leads_of([(ballot.model, ballot.counted) for ballot in used], sides)
        minimum = required_lead(used) if min_log_odds is None else min_log_odds
        clear = [side for side in sides if all(ahead[side][other] >= minimum for other in sides if other != side)]
        scores = softmax({side: min(ahead[side].values()) for side in sides})
        return Decision(scores, _only(clear), _flipped(used, sides))
    totals = _totals(used, sides, by)
    grand_total = sum(totals.values(), Fraction(0))
    scores = {side: float(total / grand_total) if grand_total else 1 / len(sides) for side, total in totals.items()}
    return Decision(scores, _only(leaders(totals)), _flipped(used, sides))


def required_lead(ballots: Sequence[JudgeBallot]) -> float:
    """Return the lead needed to win: the models' highest fitted value, or 0.1 if there is no fit.

    >>> required_lead([JudgeBallot(order=["a", "b"])])
    0.1
    """
    fits = [ballot.fit for ballot in ballots if ballot.problem is None and ballot.fit is not None]
    return max((fit.min_log_odds for fit in fits), default=MIN_LOG_ODDS)


def leads_of(
    log_odds: Sequence[tuple[str | None, Mapping[str, float]]], sides: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Compute each side's lead over every other side: the median of the models' mean log-odds.

    >>> leads_of([("m", {"yes": 0.5, "no": -0.5}), ("m", {"yes": 0.0, "no": 0.0})], ["yes", "no"])["yes"]["no"]
    0.5
    """
    models = {model for model, _ in log_odds}
    means = [
        {side: float(sum(Fraction(scores[side]) for scores in of) / len(of)) for side in sides}
        for of in ([odd for model, odd in log_odds if model == one] for one in models)
    ]
    return {side: {other: median(mean[side] - mean[other] for mean in means) for other in sides} for side in sides}


def is_settled(ballots: Sequence[JudgeBallot], *, remaining: int, sides: Sequence[str], by: DecidedBy = "mean") -> bool:
    """Check whether the winner stays the same whatever the `remaining` ballots say.

    >>> yes = JudgeBallot(order=["yes", "no"], winner="yes")
    >>> is_settled([yes, yes], remaining=1, sides=["yes", "no"], by="vote")
    True
    >>> is_settled([yes], remaining=1, sides=["yes", "no"])
    False
    """
    if remaining <= 0 or by == "log_odds":  # log-odds are unbounded, so a single ballot could still change the winner
        return remaining <= 0
    totals = _totals([ballot for ballot in ballots if ballot.problem is None], sides, by)
    return len(sides) == 1 or margin(totals) > remaining


def effective_n(n: int, correlation: float = PUBLISHED_CORRELATION) -> float:
    """Return the number of independent judges equivalent to `n` correlated ones: n / (1 + (n - 1) correlation).

    >>> effective_n(9), effective_n(9, 0), effective_n(9, 1)
    (2.0, 9.0, 1.0)
    """
    check_count("effective_n()", n=n)
    check_share("effective_n()", correlation=correlation)
    return n / (1 + (n - 1) * correlation)


def firsts_of(ballot: JudgeBallot, *, sides: Sequence[str]) -> list[str]:
    """Return the sides that a ballot ranks first.

    There are several in case of a tie; if the ballot has neither scores nor a winner, all sides are tied.
    """
    return leaders(portions(ballot.shares, sides))


def leader_of(scores: Mapping[str, float]) -> str | None:
    """Return the side with the highest score, or None in case of a tie.

    >>> leader_of({"yes": 0.7, "no": 0.3}), leader_of({"yes": 0.5, "no": 0.5})
    ('yes', None)
    """
    return _only(leaders(scores))


def centered(logprobs: Mapping[str, float]) -> dict[str, float]:
    """Center log-probabilities on their mean; the differences between sides are log-odds.

    >>> centered({"yes": -1.0, "no": -2.0})
    {'yes': 0.5, 'no': -0.5}
    """
    mean = math.fsum(logprobs.values()) / len(logprobs)
    return {side: logprob - mean for side, logprob in logprobs.items()}


def softmax(log_odds: Mapping[str, float]) -> dict[str, float]:
    """Convert log-odds to probabilities.

    >>> softmax({"yes": 0.0, "no": 0.0})
    {'yes': 0.5, 'no': 0.5}
    """
    highest = max(log_odds.values())
    weights = {side: math.exp(value - highest) for side, value in log_odds.items()}
    weight_sum = math.fsum(weights.values())
    return {side: weight / weight_sum for side, weight in weights.items()}


def balanced(ballots: Sequence[JudgeBallot]) -> list[JudgeBallot]:
    """Return the ballots cast by models whose ballots all have valid log-odds.

    Returns an empty list if an invalid ballot does not name its model.
    """
    spoiled = {ballot.model for ballot in ballots if ballot.problem is not None or ballot.log_odds is None}
    return [ballot for ballot in ballots if None not in spoiled and ballot.model not in spoiled]


def _only(sides: Sequence[str]) -> str | None:
    return sides[0] if len(sides) == 1 else None


def _flipped(ballots: Sequence[JudgeBallot], sides: Sequence[str]) -> bool:
    """Check whether any model that judged several views picked different winners.

    If a model judged only one view, differences between its ballots are noise.
    """
    winners: dict[str | None, dict[int, set[str | None]]] = {}  # keyed by model and view
    for ballot in ballots:
        views = winners.setdefault(ballot.model, {})
        views.setdefault(ballot.view, set()).add(_only(firsts_of(ballot, sides=sides)))
    return any(len(views) > 1 and len(set().union(*views.values())) > 1 for views in winners.values())


def _totals(ballots: Sequence[JudgeBallot], sides: Sequence[str], by: DecidedBy) -> dict[str, Fraction]:
    """Add up the votes or shares for each side; one ballot adds at most 1."""
    if by == "vote":
        return total((split(firsts_of(ballot, sides=sides), sides) for ballot in ballots), sides)
    return total((portions(ballot.shares, sides) for ballot in ballots), sides)
