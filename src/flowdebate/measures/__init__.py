"""Measures of debates, as pure functions: topologies, similarity, convergence, votes, ratings and positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.measures.converging import Convergence, ConvergenceStatus, convergence
    from flowdebate.measures.ratings import INITIAL_RATING, K_FACTOR, calibration, elo_changes, expected, vote_weight
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
    from flowdebate.measures.topologies import Edge, Topology, edges
    from flowdebate.measures.votes import Ballot, Strength, Tally, VotingRule, agreement, strength, tally

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
    **dict.fromkeys(("Convergence", "ConvergenceStatus", "convergence"), "converging"),
    **dict.fromkeys(("INITIAL_RATING", "K_FACTOR", "calibration", "elo_changes", "expected", "vote_weight"), "ratings"),
    **dict.fromkeys(("Embeddings", "Jaccard", "Similarity", "TfIdf", "best_similarity"), "similarity"),
    **dict.fromkeys(
        ("Flip", "FlipKind", "Position", "claims_without_evidence", "flips", "match_choice", "same_answer"),
        "statements",
    ),
    **dict.fromkeys(("Edge", "Topology", "edges"), "topologies"),
    **dict.fromkeys(("Ballot", "Strength", "Tally", "VotingRule", "agreement", "strength", "tally"), "votes"),
}
"""Imported at first use: most debates measure nothing."""
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
