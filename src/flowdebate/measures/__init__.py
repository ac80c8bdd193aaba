"""Measures of debates, as pure functions: topologies, similarity, convergence, votes, ratings and positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names
from flowdebate.measures.convergence import Convergence, ConvergenceStatus, convergence
from flowdebate.measures.ratings import INITIAL_RATING, K_FACTOR, calibration, elo_changes, expected, vote_weight
from flowdebate.measures.topologies import Edge, Topology, edges
from flowdebate.measures.votes import Ballot, Strength, Tally, VotingRule, agreement, strength, tally

if TYPE_CHECKING:
    from flowdebate.measures.similarity import Embeddings, Jaccard, Similarity, TfIdf, best_similarity
    from flowdebate.measures.statements import (
        Flip,
        FlipKind,
        Position,
        claims_without_evidence,
        flips,
        match_choice,
        same_answer,
    )

__all__ = (
    "INITIAL_RATING",
    "K_FACTOR",
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
    "calibration",
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

_LAZY = {
    **dict.fromkeys(("Embeddings", "Jaccard", "Similarity", "TfIdf", "best_similarity"), "similarity"),
    **dict.fromkeys(
        ("Flip", "FlipKind", "Position", "claims_without_evidence", "flips", "match_choice", "same_answer"),
        "statements",
    ),
}
"""Imported at first use: their patterns take a while to compile, and most debates measure no texts."""

__getattr__ = lazy_names(__name__, _LAZY)
