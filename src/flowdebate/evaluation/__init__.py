"""Evaluation of debates: judge audits, benefit over baselines, recounts by other decision rules, argument graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

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
    from flowdebate.evaluation.judges.audit import audit, audit_run, full_audit
    from flowdebate.evaluation.judges.rejudge import ArguedDebate, create_rejudge, rejudge
    from flowdebate.evaluation.judges.report import AuditItem, JudgeAudit, JudgeFigures, ReaderAgreement, RunAudit
    from flowdebate.evaluation.sample_sizes import power, smallest_n, smallest_rate

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
    "ReaderAgreement",
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

_LAZY = {
    "ALL_RULES": "decision_rules.recount",
    "ArguedDebate": "judges.rejudge",
    "AuditItem": "judges.report",
    "BenefitItem": "benefit.comparison",
    "BenefitReport": "benefit.comparison",
    "Claim": "arguments.graph",
    "DecisionRule": "decision_rules.rules",
    "Evaluation": "benefit.evaluate",
    "JudgeAudit": "judges.report",
    "JudgeFigures": "judges.report",
    "MethodAnswer": "benefit.comparison",
    "MethodResult": "benefit.comparison",
    "PairedComparison": "benefit.comparison",
    "ReaderAgreement": "judges.report",
    "Recount": "decision_rules.recount",
    "RuleResult": "decision_rules.rules",
    "RunAudit": "judges.report",
    "argument_graph": "arguments.graph",
    "audit": "judges.audit",
    "audit_run": "judges.audit",
    "benefit_item": "benefit.comparison",
    "benefit_report": "benefit.comparison",
    "change_summary": "benefit.report",
    "claim_strengths": "arguments.graph",
    "contest": "arguments.graph",
    "create_rejudge": "judges.rejudge",
    "evaluate": "benefit.evaluate",
    "evaluate_sync": "benefit.evaluate",
    "from_aif": "arguments.aif",
    "full_audit": "judges.audit",
    "graph_of_debate": "arguments.graph",
    "power": "sample_sizes",
    "recount": "decision_rules.recount",
    "rejudge": "judges.rejudge",
    "smallest_n": "sample_sizes",
    "smallest_rate": "sample_sizes",
    "to_aif": "arguments.aif",
}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
