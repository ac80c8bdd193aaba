"""Evaluation of debates: judge audits, benefit over baselines, recounts by other decision rules, argument graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowdebate.evaluation.arguments.aif import from_aif, to_aif
    from flowdebate.evaluation.arguments.graph import argument_graph, claim_strengths, contest, graph_of_debate
    from flowdebate.evaluation.benefit.evaluate import evaluate
    from flowdebate.evaluation.benefit.report import change_words
    from flowdebate.evaluation.judges.audit import audit
    from flowdebate.evaluation.judges.power import power, smallest_n
    from flowdebate.evaluation.judges.rejudge import rejudge
    from flowdebate.evaluation.judges.report import findings
    from flowdebate.evaluation.judges.run_audit import RunAudit, audit_run
    from flowdebate.evaluation.judges.significance import full_audit
    from flowdebate.evaluation.recount.recount import recount

__all__ = (
    "RunAudit",
    "argument_graph",
    "audit",
    "audit_run",
    "change_words",
    "claim_strengths",
    "contest",
    "evaluate",
    "findings",
    "from_aif",
    "full_audit",
    "graph_of_debate",
    "power",
    "recount",
    "rejudge",
    "smallest_n",
    "to_aif",
)

_MODULES = {
    "RunAudit": "judges.run_audit",
    "argument_graph": "arguments.graph",
    "audit": "judges.audit",
    "audit_run": "judges.run_audit",
    "change_words": "benefit.report",
    "claim_strengths": "arguments.graph",
    "contest": "arguments.graph",
    "evaluate": "benefit.evaluate",
    "findings": "judges.report",
    "from_aif": "arguments.aif",
    "full_audit": "judges.significance",
    "graph_of_debate": "arguments.graph",
    "power": "judges.power",
    "recount": "recount.recount",
    "rejudge": "judges.rejudge",
    "smallest_n": "judges.power",
    "to_aif": "arguments.aif",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
