"""Reports on judge audits: figures with their sample sizes, and findings in plain sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from flowdebate._text import counted
from flowdebate._util.importing import InNotebooks
from flowdebate._util.wire import WireModel
from flowdebate.evaluation.sample_sizes import NEEDED, POWER, smallest_rate, sought
from flowdebate.evaluation.statistics import ALPHA, share_interval
from flowdebate.patterns.debate.judging.ballots import JudgeBallot

if TYPE_CHECKING:
    from flowdebate.chassis.anonymity.aliases import LeakReport


# The last sentence of every audit.
LIMITS = (
    "An audit of orders cannot find a preference that is the same in every order: for length, for style, for a name in "
    "the text, or for the side that spoke last in the debate, unless the speaking order is known and varies: see the "
    "last word."
)
SATURATED = 0.99  # minimum share for a ballot to count as entirely in favor of one side
# Minimum saturation at which scores count as all-or-nothing. At this value, judging in two orders instead of one
# improves accuracy by only .007, compared with .208 for graded scores.
_BLUNT = 0.8
_FEW = 10  # minimum number of ballots, or of debates with votes, for reporting a share
PlaceKind = Literal["slot", "label", "turn"]
"""Kind of place: a position in the judge's reading order, a side's label, or a position in the speaking order."""


class AuditItem(WireModel):
    """A transcript and all its ballots; each item corresponds to one line of a data set."""

    id: str | None = None
    ballots: list[JudgeBallot]
    truth: str | None = None
    """The correct side; None if unknown."""
    spoken: list[str] | None = None
    """Sides in the last round's speaking order; None if unknown."""


class Figure(WireModel):
    """A number and the size of the sample behind it."""

    value: float
    n: Annotated[int, Field(ge=1)]
    low: float | None = None
    """Bounds of the confidence interval (95% by default); None if there is no interval."""
    high: float | None = None


class PlaceRate(WireModel):
    """Number and share of wins for one slot, label or turn."""

    place: str
    """Slot or turn number, starting at "1", or the label itself."""
    wins: int
    rate: float
    """`wins` as a share of all verdicts in favor of a side; the rates of all places add up to 1."""
    low: float | None = None
    high: float | None = None


class Places(WireModel):
    """Wins per slot, label or turn, over items with the same number of sides."""

    kind: PlaceKind
    places: list[PlaceRate]
    n: int
    """Number of verdicts in favor of a side."""
    items: int
    """Number of items with at least one verdict in favor of a side. Items are independent, but verdicts on the same
    item are not.
    """
    leaning: int
    """Number of items on which the first and the last place have different numbers of wins. With two places, the test
    uses only these items.
    """
    first: int
    """Number of `leaning` items on which the first place won more often."""
    arrangements: int
    """Number of distinct side orders or label assignments, counted up to about 1,000. At least two are needed to detect
    a bias.
    """
    apart: bool = True
    """True if labels varied independently of slots; if they did not, a label bias cannot be distinguished from a slot
    bias.
    """
    p: float | None = None
    """P-value: the probability that a fair judge's results would be at least this uneven."""
    p_holm: float | None = None
    """Holm-adjusted p-value, accounting for all tests in the audit."""
    test: Literal["sign_flip", "permutation"] | None = None

    @property
    def sides(self) -> int:
        return len(self.places)

    @property
    def separable(self) -> bool:
        """True if a preference for a place can be distinguished from a preference for a side.

        A preference for a label must also be distinguishable from a preference for a slot.
        """
        return self.items == 1 or (self.arrangements > 1 and self.apart)

    @property
    def favored(self) -> PlaceRate:
        """Place with the most wins; the first such place if several are tied."""
        return max(self.places, key=lambda place: place.wins)


class LastWord(WireModel):
    """Number and rate of wins by whoever spoke last in the last round, over items with any number of sides."""

    wins: int
    n: int
    """Number of verdicts in favor of a side."""
    rate: float
    even: float
    """Expected rate for a judge that is unaffected by the speaking order: one half if there are two sides."""
    low: float | None = None
    high: float | None = None
    items: int
    """Number of items with at least one verdict in favor of a side."""
    orders: int
    """Number of distinct speaking orders; at least two are needed to detect a preference."""
    p: float | None = None
    """P-value for a preference for the last speaker; if all items have two sides, it equals the p-value of `turns`."""
    p_holm: float | None = None
    """Holm-adjusted p-value, accounting for all tests in the audit."""

    @property
    def separable(self) -> bool:
        """True if a preference for the last speaker can be distinguished from a preference for a side."""
        return self.items == 1 or self.orders > 1


class JudgeFigures(WireModel):
    """Figures for one judge, computed from its ballots."""

    items: int
    """Number of items judged."""
    ballots: int
    unparsed: int
    """Number of ballots with an unparsable answer (`problem`)."""
    unusable: int
    """Number of contradictory ballots: those with fewer than two sides, a repeated side, or a winner or score for an
    unknown side.
    """
    undecided: int
    """Number of ballots without a winner."""
    slots: list[Places] = Field(default_factory=list)
    """Wins per slot; one entry for each number of sides."""
    labels: list[Places] = Field(default_factory=list)
    """Wins per label; one entry for each set of labels."""
    turns: list[Places] = Field(default_factory=list)
    """Wins per turn in the speaking order; one entry for each number of sides. Only items whose order is known are
    included.
    """
    last_word: LastWord | None = None
    """Number and rate of wins by the last speaker; None if the speaking order is unknown or nobody had the
    last word.
    """
    repetition_stability: Figure | None = None
    """Repetition stability (RS): when the same view is judged repeatedly, the share of the most frequent verdict."""
    position_consistency: Figure | None = None
    """Position consistency (PC): among items judged in several orders, the share with the same verdict in
    every order.
    """
    preference_fairness: Figure | None = None
    """Preference fairness (PF), from -1 if every verdict favored the first slot (primacy) to +1 if every verdict
    favored the last slot (recency).
    """
    flip_probability: Figure | None = None
    """Probability that two orders of the same item lead to different verdicts."""
    saturation: Figure | None = None
    """Share of scored ballots that give one side at least .99 of the points. Letter ballots are excluded, because their
    log-odds are on a continuous scale.
    """
    slot_log_odds: Figure | None = None
    """Mean log-odds by which letter ballots favor the first slot over the last, on items judged in balanced orders."""

    @property
    def tested(self) -> list[Places | LastWord]:
        """Results for slots, labels, turns and the last word that have a meaningful p-value.

        If no item has more than two sides, the results for turns also cover the last word.
        """
        every: list[Places | LastWord] = [*self.slots, *self.labels, *self.turns]
        if self.last_word is not None and any(turns.sides > 2 for turns in self.turns):  # noqa: PLR2004 - one and the other
            every.append(self.last_word)
        return [test for test in every if test.p is not None and test.separable]

    @property
    def unparsed_share(self) -> float:
        """`unparsed` as a share of all ballots, or 0 if there are none."""
        return self.unparsed / self.ballots if self.ballots else 0.0


class JudgeAudit(InNotebooks, JudgeFigures):
    """Judge audit: figures for all ballots together and for each model, and the correlation between models."""

    models: dict[str, JudgeFigures] = Field(default_factory=dict)
    """Figures keyed by model, if there are several models; "" stands for unknown models."""
    rho: Figure | None = None
    """Mean pairwise correlation between models over items; None if there is only one model or too few items."""
    rho_of: Literal["errors", "scores"] | None = None
    """Basis of `rho`: errors if the truth is known, otherwise scores. If one side is simply better, even independent
    judges have correlated scores.
    """
    effective_n: float | None = None
    """Number of independent judges that would be as informative as these models: n / (1 + (n - 1) rho)."""
    effective_n_low: float | None = None
    effective_n_high: float | None = None
    """Bounds of the 95% confidence interval for `effective_n`, computed from the interval for `rho`."""
    tests: int = 0
    """Number of tests for which `p_holm` is adjusted."""
    seed: int | None = None
    """Seed for the p-values and intervals; None if none were computed."""

    @property
    def findings(self) -> list[str]:
        """The audit's findings, in sentences; the last one states the limitations of any audit.

        >>> from flowdebate.evaluation.judge_audit import audit
        >>> audited = audit([[JudgeBallot(order=["yes", "no"], winner="yes")], [JudgeBallot(order=["no", "yes"])]])
        >>> audited.findings[0]
        'too few to tell: 1 verdict (the first slot won 1 of 1, 100%); at least 54 are needed to find a rate of 70%'
        """
        sentences = list(_about_judge(self, self.tests))
        for name, figures in self.models.items():
            sentences += [f"{name or 'unknown model'}: {finding}" for finding in _about_judge(figures, self.tests)]
        if self.rho is not None and self.effective_n is not None:
            between = ""
            if self.effective_n_low is not None and self.effective_n_high is not None:
                between = f" (95% CI {self.effective_n_low:.1f} to {self.effective_n_high:.1f})"
            sentences.append(
                f"{len(self.models)} models are worth {self.effective_n:.1f} independent ones{between}: their "
                f"{self.rho_of} correlate by {_value(self.rho)} over {counted(self.rho.n, 'item')}"
            )
        if self.tests > 1:
            sentences.append(
                f"{self.tests} tests were made and p-values are adjusted for that (Holm): together they find a bias in "
                f"up to {ALPHA:.0%} of fair judges"
            )
        return [*sentences, LIMITS]


class ReaderAgreement(InNotebooks, WireModel):
    """Agreement between the judges' verdicts and reader votes cast before the verdicts were shown."""

    agreement: Figure | None = None
    """Share of debates won by the side with the most reader votes, with its Wilson interval. Debates in which the
    readers or the judge favored no side are not counted.
    """
    debates: int
    undecided: int
    """Number of debates in which the judge or the readers favored no side."""
    votes: int
    same: int
    """Number of reader votes that agree with the judge: for the winner, or for neither side if the judge did not name a
    winner.
    """

    @classmethod
    def of(cls, debates: Iterable[tuple[str | None, Sequence[str | None]]]) -> ReaderAgreement | None:
        """Compute the agreement over debates, each given as its winner and its reader votes.

        Return None if there are no votes.

        >>> found = ReaderAgreement.of([("yes", ["yes", "yes", None]), ("no", ["yes"]), (None, ["no"]), ("no", [])])
        >>> found.agreement.value, found.agreement.n, found.undecided, found.votes, found.same
        (0.5, 2, 1, 5, 2)
        """
        counts = VoteCounts()
        for winner, votes in debates:
            counts.add(winner, votes)
        return counts.agreement

    @property
    def findings(self) -> list[str]:
        """Findings about the agreement, in sentences."""
        sentences = []
        if (agreement := self.agreement) is not None:
            debates = f"{round(agreement.value * agreement.n)} of {counted(agreement.n, 'debate')}"
            agreeing = f"in {debates} most readers voted as the judge"
            if agreement.n < _FEW:
                sentences.append(
                    f"too few to tell: {agreeing}; with fewer than {_FEW} that says little about the judge"
                )
            else:
                sentences.append(f"agreement with readers {_value(agreement)}: {agreeing}")
        if self.undecided:
            sentences.append(f"in {counted(self.undecided, 'debate')} the readers or the judge chose no side")
        return [*sentences, f"{self.same} of {counted(self.votes, 'vote')} agreed with the judge"]


@dataclass(slots=True)
class VoteCounts:
    """Running totals of reader votes over several debates."""

    debates: int = 0
    """Number of debates with reader votes."""
    decided: int = 0
    """Number of debates in which both the judge and the readers favored a side, whether or not it was the same one."""
    agreeing: int = 0
    """Number of debates in which the judge and the readers favored the same side."""
    votes: int = 0
    same: int = 0
    """Number of reader votes that agree with the judge."""

    def add(self, winner: str | None, votes: Sequence[str | None]) -> None:
        """Add a debate's winner and its reader votes; do nothing if there are no votes."""
        if not votes:
            return
        counts = Counter(votes)
        self.debates += 1
        self.votes += len(votes)
        self.same += counts[winner]
        (favorite, number), *runners_up = counts.most_common(2)
        # "Neither" (None) counts as a side here: readers who mostly vote for neither do not disagree with the judge.
        if winner is not None and favorite is not None and not (runners_up and runners_up[0][1] == number):
            self.decided += 1
            self.agreeing += winner == favorite

    @property
    def agreement(self) -> ReaderAgreement | None:
        """The agreement between readers and judges; None if there are no votes."""
        if not self.debates:
            return None
        figure = None
        if self.decided:
            share = self.agreeing / self.decided
            low, high = share_interval(share, self.decided)
            figure = Figure(value=share, n=self.decided, low=low, high=high)
        undecided = self.debates - self.decided
        return ReaderAgreement(
            agreement=figure, debates=self.debates, undecided=undecided, votes=self.votes, same=self.same
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAudit(InNotebooks):
    """Judge audit of a single run. A single debate shows little; to audit many, use `flowdebate eval audit`."""

    judge: JudgeAudit
    """Figures computed from the judge's ballots (a custom judge casts none)."""
    leaks: LeakReport | None = None
    """Report on the names replaced with aliases in arguments; None if no name was replaced."""
    same_family: tuple[tuple[str, str], ...] = ()
    """Pairs of a judge model and a debater model from the same model family."""

    @property
    def findings(self) -> list[str]:
        """The audit's findings, in sentences."""
        sentences = self.judge.findings
        if self.leaks is not None:
            sentences.append(
                f"names hidden in arguments: {self.leaks.count} ({self.leaks.own} of authors "
                f"themselves, {self.leaks.others} of others, {self.leaks.models} of models)"
            )
        sentences += [
            f"the judge {judge!r} belongs to the same model family as the debater {debater!r}: judges may favor "
            "text like their own; use a model of another family"
            for judge, debater in self.same_family
        ]
        return sentences


def _about_judge(figures: JudgeFigures, tests: int) -> Iterator[str]:
    if not figures.slots:
        yield f"no verdict for a side in {counted(figures.ballots, 'ballot')}: slots cannot be assessed"
    for places in (*figures.slots, *figures.labels, *figures.turns):
        yield from _about_places(places, tests)
    if (last := figures.last_word) is not None and last in figures.tested:
        p = last.p_holm or last.p or 0.0
        bounds = "" if last.low is None else f", 95% CI {last.low:.0%} to {last.high:.0%}"
        numbers = f"{last.wins} of {last.n} ({last.rate:.0%} where {last.even:.0%} is even{bounds}, {_p(p)})"
        if p > ALPHA:
            yield f"no preference for the last word found: it won {numbers}"
        else:
            yield f"{'favors' if last.rate > last.even else 'is against'} the last word: it won {numbers}"
    yield from _about_orders(figures)
    if figures.unparsed:
        share = f"{figures.unparsed_share:.0%}"
        yield f"{figures.unparsed} of {counted(figures.ballots, 'answer')} ({share}) could not be used"
    if figures.unusable:
        yield f"{counted(figures.unusable, 'ballot')} not counted: contradictory"


def _about_places(places: Places, tests: int) -> Iterator[str]:
    kind, favored = places.kind, places.favored
    won = f"{favored.wins} of {places.n}"
    if not places.separable:
        yield f"cannot tell: {_inseparable(places)}"
        return
    needed = NEEDED.get(places.sides)
    small = needed is not None and places.items < needed
    p = places.p if places.p_holm is None else places.p_holm
    size = counted(places.items, "verdict" if places.n == places.items else "item")
    enough = f"at least {needed} are needed to find a rate of {sought(places.sides):.0%}"
    if small and (p is None or p > ALPHA):
        share_text = f"{_name(places, favored)} won {won}, {favored.rate:.0%}"
        yield f"too few to tell: {size} ({share_text}); {enough}"
    bounds = "" if favored.low is None else f", 95% CI {favored.low:.0%} to {favored.high:.0%}"
    numbers = f"{won} ({favored.rate:.0%}{bounds}{'' if p is None else f', {_p(p)}'})"
    if p is None:
        if not small:
            yield f"{_name(places, favored)} won {numbers}; not tested for chance"
    elif p <= ALPHA:
        # Few items were enough to find this preference, but a weaker one might have been missed.
        yield f"favors {_name(places, favored)}: {numbers}" + (
            f"; too few for a weaker one: {size}, {enough}" if small else ""
        )
    elif places.p is not None and places.p <= ALPHA:
        yield f"not shown by one of {tests} tests: {_name(places, favored)} won {numbers}"
    elif not small:
        rate_shown = smallest_rate(places.items, sides=places.sides, alpha=ALPHA / max(tests, 1))
        could = (
            ""
            if rate_shown is None
            else f"; with n = {places.items} one of {rate_shown:.0%} would have been found in {POWER:.0%} of cases"
        )
        yield f"no {kind} bias found: {_name(places, favored)} won {numbers}{could}"


def _inseparable(places: Places) -> str:
    """Explain why a preference for a place cannot be told apart from other preferences."""
    every = f"all {places.items} items"
    match places.kind:
        case "slot" if places.arrangements == 1:
            return f"{every} were shown in one order, so slots and sides are not separate"
        case "turn":
            return f"in {every} the sides spoke in one order, so turns and sides are not separate"
        case _ if places.arrangements == 1:
            return f"{every} were shown in one set of labels, so labels and sides are not separate"
        case _:
            return f"in {every} each label had one slot, so labels and slots are not separate"


def _about_orders(figures: JudgeFigures) -> Iterator[str]:
    """Describe how much verdicts depend on the order, whether scores are graded, and how much the slot matters."""
    consistency, fairness = figures.position_consistency, figures.preference_fairness
    if consistency is not None:
        n = consistency.n
        same = f"{round(consistency.value * n)} of {counted(n, 'time')} the verdict was the same in all orders"
        yield f"position consistency {_value(consistency)}: {same}"
    if fairness is not None and fairness.value and (fairness.low is None or fairness.low * (fairness.high or 0) > 0):
        end = "the first" if fairness.value < 0 else "the last"
        changed = f"verdicts that changed with the order favored {end} slot more often"
        yield f"preference fairness {_value(fairness)}: {changed}"
    stability = figures.repetition_stability
    if stability is not None:
        yield f"repetition stability {_value(stability)}, over {counted(stability.n, 'view')} judged several times"
    saturation, slot = figures.saturation, figures.slot_log_odds
    if saturation is not None and saturation.n >= _FEW and saturation.value >= _BLUNT:
        two = all(places.sides == 2 for places in figures.slots)  # noqa: PLR2004 - swapping is for two
        cannot = "swapping cannot help" if two else "they count as votes"
        full = f"{round(saturation.value * saturation.n)} of {counted(saturation.n, 'ballot')}"
        yield f"scores are all or nothing: {cannot}; {full} give a side {SATURATED:.0%} or more"
    if slot is not None:
        yield f"by letter, the first slot is ahead by {_value(slot)} in log-odds; this cancels out over all orders"


def _name(places: Places, place: PlaceRate) -> str:
    if places.kind == "label":
        return f"the label {place.place!r}"
    what = "speaker" if places.kind == "turn" else "slot"
    ends = {"1": f"the first {what}", str(places.sides): f"the last {what}"}
    return ends.get(place.place, f"{what} {place.place} of {places.sides}")


def _p(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"  # noqa: PLR2004 - as journals write it


def _value(figure: Figure) -> str:
    return f"{figure.value:.2f}" + ("" if figure.low is None else f" (95% CI {figure.low:.2f} to {figure.high:.2f})")
