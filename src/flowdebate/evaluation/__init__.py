"""Evaluation of debates: judge audits, benefit over baselines, recounts by other decision rules, argument graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowdebate.evaluation.arguments.aif import from_aif, to_aif
    from flowdebate.evaluation.arguments.graph import Claim, argument_graph, claim_strengths, contest, graph_of_debate
    from flowdebate.evaluation.benefit.comparison import (
        BenefitItem,
        BenefitReport,
        MethodAnswer,
        MethodResult,
        PairedComparison,
        benefit_item,
        benefit_report,
    )
    from flowdebate.evaluation.benefit.evaluate import Evaluation, evaluate, evaluate_sync
    from flowdebate.evaluation.benefit.report import change_summary
    from flowdebate.evaluation.decision_rules.recount import ALL_RULES, Recount, recount
    from flowdebate.evaluation.decision_rules.rules import DecisionRule, RuleResult
    from flowdebate.evaluation.judges.audit import audit
    from flowdebate.evaluation.judges.rejudge import ArguedDebate, create_rejudge, rejudge
    from flowdebate.evaluation.judges.run_audit import RunAudit, audit_run
    from flowdebate.evaluation.judges.schemas import AuditItem, JudgeAudit, JudgeFigures
    from flowdebate.evaluation.judges.significance import full_audit, power, smallest_n, smallest_rate

__all__ = (
    "ALL_RULES",
    "ArguedDebate",
    "AuditItem",
    "BenefitItem",
    "BenefitReport",
    "Claim",
    "DecisionRule",
    "Evaluation",
    "JudgeAudit",
    "JudgeFigures",
    "MethodAnswer",
    "MethodResult",
    "PairedComparison",
    "Recount",
    "RuleResult",
    "RunAudit",
    "argument_graph",
    "audit",
    "audit_run",
    "benefit_item",
    "benefit_report",
    "change_summary",
    "claim_strengths",
    "contest",
    "create_rejudge",
    "evaluate",
    "evaluate_sync",
    "from_aif",
    "full_audit",
    "graph_of_debate",
    "power",
    "recount",
    "rejudge",
    "smallest_n",
    "smallest_rate",
    "to_aif",
)

_NAMES = {
    "arguments.aif": ("from_aif", "to_aif"),
    "arguments.graph": ("Claim", "argument_graph", "claim_strengths", "contest", "graph_of_debate"),
    "benefit.comparison": (
        "BenefitItem",
        "BenefitReport",
        "MethodAnswer",
        "MethodResult",
        "PairedComparison",
        "benefit_item",
        "benefit_report",
    ),
    "benefit.evaluate": ("Evaluation", "evaluate", "evaluate_sync"),
    "benefit.report": ("change_summary",),
    "decision_rules.recount": ("ALL_RULES", "Recount", "recount"),
    "decision_rules.rules": ("DecisionRule", "RuleResult"),
    "judges.audit": ("audit",),
    "judges.rejudge": ("ArguedDebate", "create_rejudge", "rejudge"),
    "judges.run_audit": ("RunAudit", "audit_run"),
    "judges.schemas": ("AuditItem", "JudgeAudit", "JudgeFigures"),
    "judges.significance": ("full_audit", "power", "smallest_n", "smallest_rate"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
