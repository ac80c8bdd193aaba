"""`debate`: sides argue assigned stances, a judge finds."""

from flowdebate.patterns.debate.factory import debate
from flowdebate.patterns.roster import Debater

__all__ = ("Debater", "debate")
