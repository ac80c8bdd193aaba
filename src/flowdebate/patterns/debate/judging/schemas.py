"""Data of a judgement: ballots, and the judging that a verdict is made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel

__all__ = (
    "DecidedBy",
    "JudgeBallot",
    "Judging",
    "OnFlip",
    "Share",
)

DecidedBy = Literal["mean", "vote"]
"""How ballots are put together: their scores are averaged, or each counts for the side that it has first."""
OnFlip = Literal["average", "abstain", "tie", "human"]
"""What becomes of a verdict that flipped: a model found for another side when it was shown another view."""
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""What a side has of a ballot; the shares of all sides add up to 1."""


class JudgeBallot(WireModel):
    """What one judge found of one view of a transcript. A side is a stance."""

    view: Annotated[int, Field(ge=0)] = 0
    """Which view of the schedule it was, from 0. The same view judged again has the same number."""
    order: list[str]
    """The sides by slot: the first is the one whose argument the judge read first."""
    labels: dict[str, str] | None = None
    """What each side was called in this view; None where sides were called by their stances."""
    model: str | None = None
    """The model that judged; None where it is not known."""
    scores: dict[str, Share] | None = None
    """The share of each side; None where the judge was asked for a winner only."""
    winner: str | None = None
    """The side that it found for; None for none of them."""
    verdict: str = ""
    """Its conclusion; empty for the only ballot of a judge that was asked once: the verdict has it."""
    reasoning: str = ""
    """Why; empty where `verdict` is."""
    problem: str | None = None
    """Why its answer could not be used; None where it could."""

    @property
    def shares(self) -> dict[str, float]:
        """The scores, or what the winner stands for: all for one side, the same for each where none has won."""
        if self.scores is not None:
            return dict(self.scores)
        if self.winner is None:
            return dict.fromkeys(self.order, 1 / len(self.order))
        return {side: float(side == self.winner) for side in self.order}


class Judging(WireModel):
    """How a verdict came about: each ballot as it was cast, and the sum of them."""

    schedule: str = "single"
    """Which views were judged: "single", "swap", "cyclic", "full" or "sampled(n)"."""
    decided_by: DecidedBy = "mean"
    ballots: list[JudgeBallot]
    """In the order of the schedule, model by model."""
    planned: Annotated[int, Field(ge=1)] = 1
    """How many ballots there would be if none had been left out or saved."""
    scores: dict[str, Share]
    """What each side has, over all ballots that could be used."""
    flipped: bool = False
    """Whether one and the same model found for different winners in different views."""
    on_flip: OnFlip | None = None
    """What was done about that; None where nothing had to be."""
    effective_n: Annotated[float, Field(gt=0)] = 1.0
    """How many independent judges the ballots are worth: n / (1 + (n - 1) rho) over the models, see `effective_n()`."""

    @property
    def saved(self) -> int:
        """How many calls were not made, because they could not have changed the verdict."""
        return self.planned - len(self.ballots)
