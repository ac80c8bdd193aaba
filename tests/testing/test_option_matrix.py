"""`check_pattern` finds nothing in the library's patterns, whatever their options."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import flowdebate
from flowdebate import (
    Debater,
    FailurePolicy,
    JudgeOptions,
    Persona,
    PromptOptions,
    Source,
    consensus,
    stop,
)
from flowdebate.models.base import ModelSettings
from flowdebate.patterns.consensus import ConvergenceOptions, VotingOptions
from flowdebate.patterns.review.schemas import FindingDraft
from flowdebate.testing import check_pattern
from flowdebate.testing.examples import Example
from tests.cases import slow_but_first

if TYPE_CHECKING:
    from flowdebate.testing.models import ModelRequest

SIDES = [Debater("ann", "for"), Debater("bob", "against")]
MEMBERS = [Persona("ann"), Persona("bob", "a landlord"), Persona("cy")]
FAILING = Example(question="Should rents be capped?", texts=("Yes.", "No."), choices=(1, 4), faults={3: "lost"})


def lookup(city: str) -> str:
    """Look up the rents in a city."""
    return f"{city}: 12"


@dataclass(frozen=True)
class Options:
    """Values for a pattern's options, each tried separately."""

    needed: dict[str, Any]
    values: dict[str, list[Any]]
    apart: tuple[str, ...] = ()
    """Options that share state across runs on purpose, such as an archive."""


UNSEEN = {"client": False, "history": False}
DEAL = {"title": "Deal", "type": "object", "properties": {"price": {"type": "integer"}}, "required": ["price"]}
COMMON: dict[str, list[Any]] = {
    "instructions": ["Be brief."],
    "tools": [[lookup]],
    "context": [[{"role": "user", "content": "Rents doubled."}]],
    "settings": [ModelSettings(temperature=0.2)],
    "prompts": [PromptOptions(profile="concise")],
    "sources": [[Source(name="report", text="Rents doubled in five years.")]],
    "failures": [FailurePolicy(on_failure="skip", quorum=1), FailurePolicy(turn_timeout=60)],
}
ROUNDS: dict[str, list[Any]] = {"max_rounds": [1, 3], "terminate_when": [stop.rounds(1)]}
APART = ("name", "model", "uses", "collection_id")

PATTERNS: dict[str, Options] = {
    "debate": Options(
        {"debaters": SIDES},
        {
            **COMMON,
            **ROUNDS,
            "judge": ["swap", "full", JudgeOptions(answer_form="letter")],
            "synthesizer": [False, True],
            "moderator": [True],
            "turn_order": ["rotated", "shuffled", "simultaneous"],
            "phases": [["opening", "rebuttal", "closing"]],
            "format": ["oxford"],
            "audience": [["a nurse", "a baker"]],
            "mirror": [True],
            "output_schema": [DEAL],
            "anonymize_transcript": [False],
            "shuffle_for_judge": [False],
            "baselines": [True],
            "judge_visibility": [UNSEEN],
            "synthesizer_visibility": [UNSEEN],
            "debater_visibility": [UNSEEN],
        },
    ),
    "consensus": Options(
        {"agents": MEMBERS},
        {
            **COMMON,
            **ROUNDS,
            "topology": ["star", "ring"],
            "convergence": [None, ConvergenceOptions(0.9, diverging=0.1)],
            "confidence": [0.5],
            "voting": ["unanimous", VotingOptions("weighted", weights={"ann": 2}, shuffle=False)],
            "judge": [True],
            "tie_break": [True],
            "format": ["delphi"],
            "budget": [5],
            "timeout": [60],
            "history_limit": [1],
            "research": [lambda _: "Rents doubled."],
            "agent_visibility": [UNSEEN],
        },
        ("breakers", "archive"),
    ),
    "council": Options(
        {"members": MEMBERS},
        {
            **COMMON,
            "chair": [lambda _: "So be it."],
            "review": ["all"],
            "max_concurrency": [1],
            "output_schema": [DEAL],
            "member_visibility": [UNSEEN],
            "chair_visibility": [UNSEEN],
        },
    ),
    "review": Options(
        {"reviewers": MEMBERS},
        {
            **COMMON,
            "focus": ["security"],
            "gate": ["no confirmed blocker"],
            "not_vendor": [("openai",)],
            "min_vendors": [1],
            "earlier": [[FindingDraft(title="Leak", claim="It leaks.", severity="major")]],
            "merger": [False, True],
            "max_concurrency": [1],
            "reviewer_visibility": [UNSEEN],
        },
    ),
    "handoff": Options(
        {"debaters": MEMBERS},
        {
            **COMMON,
            "first": ["bob"],
            "transition": ["text"],
            "max_turns": [3],
            "on_invalid": ["random"],
            "terminate_when": [stop.rounds(1)],
            "debater_visibility": [UNSEEN],
        },
    ),
    "deliberation": Options(
        {"debaters": MEMBERS},
        {
            **COMMON,
            **ROUNDS,
            "moderator": [False, True],
            "report": ["text"],
            "moderator_visibility": [UNSEEN],
            "debater_visibility": [UNSEEN],
        },
    ),
    "round_robin": Options(
        {"debaters": MEMBERS},
        {
            **COMMON,
            **ROUNDS,
            "referee": [True],
            "synthesizer": [False, True],
            "turn_order": ["rotated", "shuffled", "simultaneous"],
            "output_schema": [DEAL],
            "debater_visibility": [UNSEEN],
            "synthesizer_visibility": [UNSEEN],
        },
    ),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_option_is_tested_or_excluded(pattern: str) -> None:
    options = PATTERNS[pattern]
    names = set(inspect.signature(getattr(flowdebate, pattern)).parameters)
    assert names - {"transcript"} == options.needed.keys() | options.values.keys() | {*APART, *options.apart}


ALL = [
    (pattern, name, index)
    for pattern, options in PATTERNS.items()
    for name, values in options.values.items()
    for index, _ in enumerate(values)
]


# some judges see the name of their own model
@pytest.mark.filterwarnings("ignore::flowdebate.errors.FlowDebateWarning")
@pytest.mark.parametrize("case", slow_but_first(ALL, lambda case: case[1]), ids=lambda case: "-".join(map(str, case)))
def test_patterns_with_an_option_have_no_bug(case: tuple[str, str, int]) -> None:
    pattern, name, index = case
    options = PATTERNS[pattern]
    values = {**options.needed, name: options.values[name][index]}
    block = getattr(flowdebate, pattern)(name="x", **values)
    check_pattern(block, seed=1, max_examples=1, examples=[FAILING], skip=["terminate_when_can_fire"])


def test_critiques_without_issues_are_valid() -> None:
    def agree(request: ModelRequest) -> dict[str, Any] | None:
        fields = (request.output_schema or {}).get("properties", {})
        return {"reasoning": "", "issues": [], "suggestions": [], "severity": 0} if "severity" in fields else None

    check_pattern(consensus(name="x", agents=MEMBERS), seed=1, max_examples=2, answers=agree)
