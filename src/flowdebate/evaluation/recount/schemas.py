"""What stored ballots come to under each decision protocol."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel

__all__ = (
    "BallotData",
    "DecisionRule",
    "LoneBallot",
    "ProtocolEnd",
    "Recount",
    "RuleResult",
)


DecisionRule = Literal[
    "mean",
    "median",
    "plurality",
    "majority",
    "supermajority",
    "unanimous",
    "approval",
    "borda",
    "condorcet",
    "instant_runoff",
    "cumulative",
    "weighted",
    "single",
    "curtailed",
    "on_flip_average",
    "on_flip_abstain",
    "on_flip_tie",
    "on_flip_human",
]
"""The protocols, in the order of the rows."""
BallotData = Literal["scores", "winners", "votes"]
"""What the ballots hold: a judge's share for each side, a judge's winner only, or an agent's vote."""
ProtocolEnd = Literal["winner", "tie", "short", "abstains", "untold"]
"""How it ended: a winner; several in the lead; a leader without what the rule asks for; the rule names nobody; or the
data does not say what the rule would need."""


class RuleResult(WireModel):
    """What one protocol makes of the ballots."""

    protocol: DecisionRule
    end: ProtocolEnd
    winner: str | None = None
    """None for every end but "winner"."""
    why: str
    """In words: what decided, or what was missing."""
    tied: list[str] = Field(default_factory=list)
    """The sides that share the lead, in the order of the sides."""
    scores: dict[str, float] = Field(default_factory=dict)
    """What each side has, in the order of the sides; in units of the rule, see docs/recount.md. Empty where the
    rule did not come to numbers."""
    ballots: Annotated[int, Field(ge=0)] = 0
    """How many ballots it made use of."""
    same_as: DecisionRule | None = None
    """The protocol that it is by another name here, whatever such ballots say; None for a rule of its own."""


class LoneBallot(WireModel):
    """What would have been found if one ballot had been the only one."""

    number: Annotated[int, Field(ge=1)]
    """Its place in the stored order, from 1."""
    voter: str | None = None
    """The model, or the agent."""
    view: int | None = None
    """Which view a judge was shown, from 0; None for a vote."""
    winner: str | None = None
    """None for none of them, and for a tie."""


class Recount(WireModel):
    """Ballots, decided again."""

    sides: list[str]
    data: BallotData
    cast: Annotated[int, Field(ge=0)]
    """How many ballots there are."""
    usable: Annotated[int, Field(ge=0)]
    """Those of them that say something."""
    planned: Annotated[int, Field(ge=0)]
    """How many there would be if none had been left out, saved or lost."""
    rows: list[RuleResult]
    alone: list[LoneBallot]
    """Each ballot that could be used, by itself, in the stored order."""
    agree: bool
    """Whether all rules that could be told name one winner; False where there is none of them, or one abstains."""
    line: str
    """The same in words."""

    @property
    def rules(self) -> list[RuleResult]:
        """The rows that count: those that could be told, each rule once."""
        return [row for row in self.rows if row.end != "untold" and row.same_as is None]

    def row(self, protocol: DecisionRule) -> RuleResult:
        """The row of `protocol`; LookupError where it was not asked for."""
        for row in self.rows:
            if row.protocol == protocol:
                return row
        message = f"there is no row for {protocol!r}"
        raise LookupError(message)
