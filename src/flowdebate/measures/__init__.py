"""Numbers about debates, as pure functions.

Who criticises whom, similarity, votes, agreement, ratings and positions.
"""

from __future__ import annotations

from flowdebate.measures.convergence import Convergence, ConvergenceStatus, convergence
from flowdebate.measures.elo import elo_changes, expected
from flowdebate.measures.evidence import claims_without_evidence
from flowdebate.measures.flips import Flip, FlipKind, Position, flips
from flowdebate.measures.short_answers import match_choice, same_answer
from flowdebate.measures.similarity import Embeddings, Jaccard, Similarity, TfIdf, best_similarity
from flowdebate.measures.topologies import Edge, Topology, edges
from flowdebate.measures.votes import Ballot, Strength, Tally, VotingRule, agreement, strength, tally, vote_weight

__all__ = (
    "Ballot",
    "Convergence",
    "ConvergenceStatus",
    "Edge",
    "Embeddings",
    "Flip",
    "FlipKind",
    "Jaccard",
    "Position",
    "Similarity",
    "Strength",
    "Tally",
    "TfIdf",
    "Topology",
    "VotingRule",
    "agreement",
    "best_similarity",
    "claims_without_evidence",
    "convergence",
    "edges",
    "elo_changes",
    "expected",
    "flips",
    "match_choice",
    "same_answer",
    "strength",
    "tally",
    "vote_weight",
)
