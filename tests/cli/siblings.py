"""Commands for the other patterns, with staged model answers and saved documents."""

from __future__ import annotations

from typing import Any

from tests.cli.stage import Stage

REPORTS: list[dict[str, Any]] = [
    {"summary": "They differ.", "status": "CONTINUE", "decision": None},
    {"summary": "Both want a cap.", "status": "SETTLED", "decision": "Cap them at 3%."},
]
ANSWERS: dict[str, Any] = {
    "SETTLED": REPORTS,
    "assessments": {
        "assessments": [{"agentName": "Analyst", "issues": ["No source."], "score": 40}],
        "notes": "Give numbers.",
    },
    "next_agent_name": [
        {"response": "Yes: homes first.", "next_agent_name": "Opponent"},
        {"response": "No: build more.", "next_agent_name": "Opponent"},
        {"response": "", "next_agent_name": "nobody"},
    ],
    "findings": {"findings": []},
    "severity": {"reasoning": "Thin.", "issues": ["No number."], "suggestions": ["Give one."], "severity": 0.4},
    "enough": {"proposal": "Cap rents at 3%.", "position": "cap", "enough": False},
    "conclusive": {"reasoning": "All is said.", "conclusive": True},
    "confidence": [
        {"reasoning": "Clear.", "choice": "Planner", "confidence": 0.9},
        {"reasoning": "Safe.", "choice": "Planner", "confidence": 0.5},
        {"reasoning": "Mine.", "choice": "Guardian", "confidence": 1.0},
    ],
}
"""Answers keyed by a word in the requested schema."""

VERBS = {
    "deliberation": ("deliberation", ()),
    "handoff": ("handoff", ("--max-turns", "2", "--seed", "5")),
    "round-robin": ("round_robin", ("--max-rounds", "1", "--referee")),
    "consensus": ("consensus", ("--max-rounds", "1", "--seed", "5")),
}
"""Pattern and options for a short run of each command."""


def serve_stage(**more: Any) -> Stage:
    """Serve a stage whose turns all have the same text, so that the order of requests does not matter."""
    return Stage(turns=(("Homes ", "first."),), answers=ANSWERS, **more)


def build_document(text: str) -> dict[str, dict[str, Any]]:
    """Build a pattern's document with all untrusted text set to `text` and every part of the page present."""
    speakers = [{"name": text, "role": text}, {"name": "b", "role": None}]
    loss = {"round": 1, "role": "debater", "name": text, "error": text, "instead": "skipped"}
    ends = {"status": "degraded", "error": text, "usage": {"calls": 3}, "seconds": 1.25, "seed": 7}
    entry = {"round": 1, "agentName": text, "text": text}
    raw: dict[str, Any] = {"status": "degraded", "losses": [loss]}
    report = {"summary": text, "status": "CONTINUE", "decision": f"{text}!"}
    return {
        "deliberation": {
            **ends,
            "pattern": "deliberation",
            "debaters": speakers,
            "maxRounds": 2,
            "raw": {
                **raw,
                "topic": text,
                "rounds": 1,
                "history": [{"round": 1, "name": text, "role": text, "text": text}],
                "summaries": [text],
                "reports": [report],
                "finalDecision": text,
                "isSettled": False,
                "stopReason": "max_rounds",
            },
        },
        "handoff": {
            **ends,
            "pattern": "handoff",
            "debaters": speakers,
            "maxTurns": 2,
            "raw": {
                **raw,
                "proposition": text,
                "turns": 1,
                "transcript": [{**entry, "nextAgentName": text, "chosenBy": "random", "problem": text}],
                "stopReason": "max_turns",
            },
        },
        "round_robin": {
            **ends,
            "pattern": "round_robin",
            "debaters": speakers,
            "maxRounds": 2,
            "output": text,
            "raw": {
                **raw,
                "question": text,
                "rounds": 1,
                "transcript": [{**entry, "role": text}],
                "audits": [
                    {"round": 1, "notes": text, "assessments": [{"agentName": text, "issues": [text], "score": 1}]}
                ],
                "stopReason": "max_rounds",
            },
        },
        "consensus": {**ends, "pattern": "consensus", "agents": speakers, "maxRounds": 2, "raw": _consensus(text)},
    }


def _consensus(text: str) -> dict[str, Any]:
    proposal = {"agent": text, "text": text, "position": text}
    critique = {"critic": text, "target": text, "round": 1, "issues": [text], "reasoning": text, "severity": 0.5}
    failed = {"role": "debater", "name": text, "round": 1, "error": text, "instead": "skipped"}
    phases = ("proposal", "critique", "revision", "vote")
    return {
        "task": text,
        "outcome": "consensus",
        "answer": text,
        "winner": text,
        "strength": "strong",
        "confidence": 0.5,
        "context": {},
        "proposals": [proposal],
        "rounds": [
            {
                "round": 1,
                "edges": [[text, text]],
                "critiques": [critique],
                "revisions": [{**proposal, "round": 1}],
                "convergence": {"similarity": 0.5, "status": "refining", "backend": text},
            }
        ],
        "finalProposals": [proposal],
        "ballots": [{"voter": text, "choice": text, "reasoning": text}],
        "tally": {
            "rule": "majority",
            "eligible": 1,
            "valid": 1,
            "spoiled": 0,
            "failed": 0,
            "counts": {text: 1},
            "weights": {text: 1.0},
            "winner": text,
            "tied": [],
            "quorum": 1,
            "quorumMet": True,
            "confidence": 0.5,
            "reached": True,
            "reason": text,
        },
        "earlyEnd": {"source": "judge", "reason": text, "round": 1},
        "losses": [
            *({**failed, "phase": phase, "target": text} for phase in phases),
            {"round": 1, "role": "judge", "name": text, "error": text, "instead": "no_report"},
        ],
        "stages": [{"stage": "START"}],
        "analytics": {
            "seconds": 1.0,
            "rounds": 1,
            "outcome": "consensus",
            "agreement": 1.0,
            "dissent": [{"agent": text, "choice": text, "reasoning": text}],
            "riskAreas": [text],
            "insights": [text],
        },
        "status": "degraded",
    }
