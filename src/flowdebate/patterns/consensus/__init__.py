"""`consensus`: agents propose, criticise, revise and vote."""

from flowdebate.patterns.consensus.factory import CONSENSUS_FAILURES, consensus

__all__ = ("CONSENSUS_FAILURES", "consensus")
