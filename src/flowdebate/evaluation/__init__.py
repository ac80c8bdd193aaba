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

_MODULES = {
    "ALL_RULES": "decision_rules.recount",
    "ArguedDebate": "judges.rejudge",
    "AuditItem": "judges.schemas",
    "BenefitItem": "benefit.comparison",
    "BenefitReport": "benefit.comparison",
    "Claim": "arguments.graph",
    "DecisionRule": "decision_rules.rules",
    "Evaluation": "benefit.evaluate",
    "JudgeAudit": "judges.schemas",
    "JudgeFigures": "judges.schemas",
    "MethodAnswer": "benefit.comparison",
    "MethodResult": "benefit.comparison",
    "PairedComparison": "benefit.comparison",
    "Recount": "decision_rules.recount",
    "RuleResult": "decision_rules.rules",
    "RunAudit": "judges.run_audit",
    "argument_graph": "arguments.graph",
    "audit": "judges.audit",
    "audit_run": "judges.run_audit",
    "benefit_item": "benefit.comparison",
    "benefit_report": "benefit.comparison",
    "change_summary": "benefit.report",
    "claim_strengths": "arguments.graph",
    "contest": "arguments.graph",
    "create_rejudge": "judges.rejudge",
    "evaluate": "benefit.evaluate",
    "evaluate_sync": "benefit.evaluate",
    "from_aif": "arguments.aif",
    "full_audit": "judges.significance",
    "graph_of_debate": "arguments.graph",
    "power": "judges.significance",
    "recount": "decision_rules.recount",
    "rejudge": "judges.rejudge",
    "smallest_n": "judges.significance",
    "smallest_rate": "judges.significance",
    "to_aif": "arguments.aif",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
