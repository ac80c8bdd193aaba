"""What the measures of debates come to."""

from __future__ import annotations

from flowdebate.measures.convergence import Convergence
from flowdebate.measures.flips import Flip, Position
from flowdebate.measures.strength import Strength
from flowdebate.measures.votes import Ballot, Tally

__all__ = ("Ballot", "Convergence", "Flip", "Position", "Strength", "Tally")
