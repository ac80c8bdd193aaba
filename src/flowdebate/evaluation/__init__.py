"""Evaluation of debates: judge audits, benefit over baselines, recounts by other decision rules, argument graphs."""

from __future__ import annotations

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
