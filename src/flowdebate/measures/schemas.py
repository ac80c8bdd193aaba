"""What the measures of debates take and give: ballots and tallies, convergence, positions and flips."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel

__all__ = (
    "Ballot",
    "Convergence",
    "ConvergenceStatus",
    "Flip",
    "FlipKind",
    "Position",
    "Strength",
    "Tally",
    "VotingRule",
)

ConvergenceStatus = Literal["converged", "refining", "diverging", "stagnant"]
"""Of one mind; on the way; far apart; repeating themselves without agreeing."""

FlipKind = Literal["retraction", "contradiction", "refinement"]
"""The answer is taken back; turned round or replaced by another; kept, with something added to it."""

Strength = Literal["unanimous", "strong", "moderate", "weak", "split", "contested"]
"""From all of one mind to nobody with a second vote; "split" and "contested" are both no majority."""

VotingRule = Literal["majority", "supermajority", "unanimous", "weighted"]
"""More than half of the heads; two thirds of them or more; all of them; more than half of the weight."""


class Ballot(WireModel):
    """One voter's vote."""

    voter: str
    choice: str | None
    """Whose proposal it is for; None, or a name that is nobody's proposal, makes it spoiled."""
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    reasoning: str = ""


class Tally(WireModel):
    """What the votes come to; `valid + spoiled + failed == eligible`."""

    rule: VotingRule
    eligible: int
    """How many could vote."""
    valid: int
    """Votes for one of the choices."""
    spoiled: int
    """Votes for none of them."""
    failed: int
    """Eligible voters without a ballot."""
    counts: dict[str, int]
    """Valid votes for each choice, in the order of the choices; 0 where there is none."""
    weights: dict[str, float]
    """The weight of the valid votes for each choice."""
    winner: str | None
    """Who leads, by heads (weighted: by weight); None without a quorum, and for a tie that was not broken."""
    tied: list[str]
    """The choices that share the lead, in their order; empty where one has it alone, or nobody has."""
    quorum: int
    """How many valid votes it takes."""
    quorum_met: bool
    confidence: float
    """The votes for the winner, each counted by its confidence, as a share of all eligible voters (weighted: of all
    weight), from 0 to 1; 0 without a winner."""
    reached: bool
    """Whether the winner has what the rule asks for."""
    reason: str
    """Why, in one sentence."""


class Convergence(WireModel):
    """How far the proposals of a round have come together."""

    similarity: float
    """The mean over all pairs of proposals, from 0 to 1; 1 for a single one."""
    stability: float | None = None
    """The mean similarity of each agent's text with the same agent's text before; None where nobody had one."""
    status: ConvergenceStatus
    backend: str
    """The name of the measure of similarity."""


class Position(WireModel):
    """What an agent holds of a claim in a round."""

    agent: str
    claim: str = ""
    """What it is about; positions are compared where agent and claim are the same."""
    answer: str | None
    """The stance or short answer; None for none (any more)."""
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    round: Annotated[int, Field(ge=1)]


class Flip(WireModel):
    """A change of mind."""

    agent: str
    kind: FlipKind
    before: Position
    after: Position
