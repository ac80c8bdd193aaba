"""What the baselines of a debate found: what one call says, what a vote says, at which cost."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flowdebate.schemas.wire import WireModel

__all__ = ("BASELINES", "BaselineAnswer", "BaselineName")

BaselineName = Literal["single", "drafts", "self_consistency"]
"""One call; the vote of independent first drafts, one for each debater; the vote of as many samples as the debate's
tokens pay for."""
BASELINES: tuple[BaselineName, ...] = ("single", "drafts", "self_consistency")
"""All of them, from the cheapest on."""
Count = Annotated[int, Field(ge=0)]


class BaselineAnswer(WireModel):
    """What one baseline found, without a debate."""

    name: BaselineName
    winner: str | None
    """The position with the most votes; None where several share the lead, and where there is no vote."""
    votes: dict[str, Count]
    """The votes for each position, in the order of the debate."""
    calls: Count
    """Requests that it took, those that failed included."""
    prompt_tokens: int | None = None
    """None where a server does not tell."""
    cached_tokens: int | None = None
    """Those of `prompt_tokens` that a server did not compute anew."""
    completion_tokens: int | None = None
    cost: float | None = None
    """By the `prices` of the run's limits; None without any."""
    lost: Count = 0
    """Answers that were asked for and not given."""
    problem: str | None = None
    """Why the first of those is missing; None where none is."""

    @property
    def tokens(self) -> int | None:
        """Prompt and completion tokens; None where they are not known."""
        known = self.prompt_tokens is not None and self.completion_tokens is not None
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0) if known else None

    @property
    def leaders(self) -> list[str]:
        """The positions with the most votes: several in a tie, none without a vote."""
        most = max(self.votes.values(), default=0)
        return [position for position, votes in self.votes.items() if votes == most] if most else []
