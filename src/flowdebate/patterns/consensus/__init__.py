"""`consensus`: agents propose, criticise, revise and vote."""

from flowdebate.patterns.consensus.factory import consensus

__all__ = ("consensus",)
