"""Result of a judge audit: figures, each with the number of observations behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel
from flowdebate.patterns.debate.judging.ballots import JudgeBallot

if TYPE_CHECKING:
    from flowdebate.patterns.anonymity.leaks import LeakReport

__all__ = (
    "AuditItem",
    "Figure",
    "JudgeAudit",
    "JudgeFigures",
    "PlaceRate",
    "Places",
    "RunAudit",
)


class AuditItem(WireModel):
    """One transcript with all its ballots: a line of a data set."""

    id: str | None = None
    ballots: list[JudgeBallot]
    truth: str | None = None
    """The right side; None where it is not known."""


class Figure(WireModel):
    """A number, and the number of observations behind it."""

    value: float
    n: Annotated[int, Field(ge=1)]
    low: float | None = None
    """The ends of its 95% interval; None without one."""
    high: float | None = None


class PlaceRate(WireModel):
    """Wins of one slot, or one label."""

    place: str
    """The number of the slot, from "1", or the label."""
    wins: int
    rate: float
    """`wins` as a share of all verdicts for a side; the rates of all places add up to 1."""
    low: float | None = None
    high: float | None = None


class Places(WireModel):
    """Wins of all slots, or labels, over the items with this number of sides."""

    kind: Literal["slot", "label"]
    places: list[PlaceRate]
    n: int
    """Verdicts for a side."""
    items: int
    """Items with one or more of them. The verdicts of one item are not independent; items are."""
    leaning: int
    """Items in which the first and the last place won unequally often; only these count in the sign test."""
    first: int
    """Those of them in which the first place won more often."""
    arrangements: int
    """The number of orders of sides, or assignments of labels, that were shown; finding a bias takes two."""
    apart: bool = True
    """Whether labels moved independently of slots; else one bias may look like the other."""
    p: float | None = None
    """The p-value: the probability that a fair judge looks as uneven as this one, or more."""
    test: Literal["sign", "permutation"] | None = None

    @property
    def sides(self) -> int:
        """The number of places."""
        return len(self.places)

    @property
    def favoured(self) -> PlaceRate:
        """The place with most wins; the first of several."""
        return max(self.places, key=lambda place: place.wins)


class JudgeFigures(WireModel):
    """Figures of one judge, from its ballots."""

    items: int
    """Items with one of its ballots."""
    ballots: int
    unparsed: int
    """Ballots whose answer could not be used (`problem`)."""
    unusable: int
    """Contradictory ballots: fewer than two sides, a side twice, or a winner or score for an unknown side."""
    undecided: int
    """Ballots for no side."""
    slots: list[Places] = Field(default_factory=list)
    """A value for each number of sides."""
    labels: list[Places] = Field(default_factory=list)
    """A value for each set of labels."""
    repetition_stability: Figure | None = None
    """RS: the share of the most frequent verdict where one view was judged again, over such views."""
    position_consistency: Figure | None = None
    """PC: the share of items, judged in several orders, with the same verdict in all of them."""
    preference_fairness: Figure | None = None
    """PF: from -1, where all verdicts went to the first slot (primacy), to +1, the last one (recency)."""
    flip_probability: Figure | None = None
    """The share of pairs of orders of one item with different verdicts."""

    @property
    def unparsed_share(self) -> float:
        """`unparsed` as a share of all ballots; 0 without any."""
        return self.unparsed / self.ballots if self.ballots else 0.0


class JudgeAudit(JudgeFigures):
    """A judge audit: figures of all ballots and of each model, and the correlation of the models."""

    models: dict[str, JudgeFigures] = Field(default_factory=dict)
    """By model, where there are several; "" for ballots whose model is not known."""
    rho: Figure | None = None
    """The mean correlation of two models, over items; None for one model, or too few items."""
    rho_of: Literal["errors", "scores"] | None = None
    """Errors where the truth is known; else scores, which also correlate because one side is better."""
    effective_n: float | None = None
    """The number of independent judges that the models are worth: n / (1 + (n - 1) rho)."""
    seed: int | None = None
    """The seed of p-values and intervals; None where there are none."""

    @property
    def findings(self) -> list[str]:
        """The audit in words, a sentence each; the last one names the limits of all audits."""
        from flowdebate.evaluation.judges.report import findings

        return findings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAudit:
    """Judge audit of one run. One debate shows little; `flowdebate audit` covers many."""

    judge: JudgeAudit
    """The figures of its ballots; a custom judge leaves none."""
    leaks: LeakReport | None = None
    """Names in arguments that were replaced by aliases; None where names were not hidden."""
    same_family: tuple[tuple[str, str], ...] = ()
    """Pairs of a judge's and a debater's model of one family."""

    @property
    def findings(self) -> list[str]:
        """The audit in words, a sentence each."""
        sentences = self.judge.findings
        if self.leaks is not None:
            sentences.append(
                f"names hidden in arguments: {self.leaks.count} ({self.leaks.own} of authors "
                f"themselves, {self.leaks.others} of others, {self.leaks.models} of models)"
            )
        sentences += [
            f"the judge {judge!r} is of the same family as the debater {debater!r}: a judge may favour text like its "
            "own; use a model of another family"
            for judge, debater in self.same_family
        ]
        return sentences
