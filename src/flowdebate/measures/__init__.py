"""Numbers about debates, as pure functions.

Who criticises whom, similarity, votes, agreement, ratings, positions; quotes and arguments; how fair a judge was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.measures.convergence import Convergence, ConvergenceStatus, convergence
from flowdebate.measures.elo import elo_changes, expected
from flowdebate.measures.evidence import claims_without_evidence
from flowdebate.measures.flips import Flip, FlipKind, Position, flips
from flowdebate.measures.short_answers import match_choice, same_answer
from flowdebate.measures.similarity import Embeddings, Jaccard, Similarity, TfIdf, best_similarity
from flowdebate.measures.topologies import Edge, Topology, edges
from flowdebate.measures.votes import Ballot, Strength, Tally, VotingRule, agreement, strength, tally, vote_weight

if TYPE_CHECKING:
    from flowdebate.evaluation.arguments.aif import from_aif, to_aif
    from flowdebate.evaluation.arguments.graph import argument_graph, claim_strengths, contest, graph_of_debate
    from flowdebate.evaluation.benefit.report import change_words
    from flowdebate.evaluation.judges.audit import audit
    from flowdebate.evaluation.judges.power import power, smallest_n
    from flowdebate.evaluation.judges.report import findings
    from flowdebate.evaluation.judges.significance import full_audit
    from flowdebate.evaluation.recount.recount import redecide
    from flowdebate.patterns.debate.judging.ballots import decide, effective_n, is_settled
    from flowdebate.patterns.debate.quotes.verify import Sources, find_quotes, verify_quotes

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
    "Sources",
    "Strength",
    "Tally",
    "TfIdf",
    "Topology",
    "VotingRule",
    "agreement",
    "argument_graph",
    "audit",
    "best_similarity",
    "change_words",
    "claim_strengths",
    "claims_without_evidence",
    "contest",
    "convergence",
    "decide",
    "edges",
    "effective_n",
    "elo_changes",
    "expected",
    "find_quotes",
    "findings",
    "flips",
    "from_aif",
    "full_audit",
    "graph_of_debate",
    "is_settled",
    "match_choice",
    "power",
    "redecide",
    "same_answer",
    "smallest_n",
    "strength",
    "tally",
    "to_aif",
    "verify_quotes",
    "vote_weight",
)

_ELSEWHERE = {
    "Sources": "quotes",
    "argument_graph": "arguments",
    "audit": "judge_audit",
    "change_words": "help_words",
    "claim_strengths": "arguments",
    "contest": "arguments",
    "decide": "ballots",
    "effective_n": "ballots",
    "find_quotes": "quotes",
    "findings": "audit_words",
    "from_aif": "aif",
    "full_audit": "judge_chance",
    "graph_of_debate": "arguments",
    "is_settled": "ballots",
    "power": "judge_power",
    "redecide": "protocols",
    "smallest_n": "judge_power",
    "to_aif": "aif",
    "verify_quotes": "quotes",
}
"""Imported when they are used: most programs use none of them."""


def __getattr__(name: str) -> object:
    if name in _ELSEWHERE:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
