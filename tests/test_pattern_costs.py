"""Costs in docs/choosing-a-pattern.md, compared with a scripted run of each pattern."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import (
    Debater,
    Persona,
    consensus,
    council,
    critique,
    debate,
    deliberation,
    handoff,
    review,
    round_robin,
)
from flowdebate.models import ModelResponse, Usage
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[1] / "docs" / "choosing-a-pattern.md"
QUESTION = "Should the high street be closed to cars?"
OPINIONS = {
    "ann": "Trams carry more people than cars, and the line would pass both schools. ",
    "ben": "The street is the only way for deliveries; shops will close without them. ",
    "cleo": "Begin with one summer, count visitors and sales, and decide on what was seen. ",
}


class RoleRequest:
    """A role's request: its caller, the last message, and the answer's schema."""

    def __init__(self, request: Any) -> None:
        self.name = next((name for name in OPINIONS if name in request.block), "ann")
        self.text = (OPINIONS[self.name] * 6)[:400]
        self.message = str(request.messages[-1]["content"])
        self.schema = request.output_schema or {"properties": {}}

    def tags(self, pattern: str) -> list[str]:
        """Return the tags that begin lines of the message."""
        return re.findall(pattern, self.message, re.MULTILINE)


def score_positions(request: RoleRequest) -> dict[str, Any]:
    """Give the highest score to the position that mentions a summer."""
    sides = request.schema["$defs"]["Scores"]["properties"]
    scores = {side: 90 if "summer" in side else 40 for side in sides}
    return {"reasoning": request.text, "verdict": "Begin small.", "scores": scores}


ANSWERS: dict[str, Callable[[RoleRequest], dict[str, Any]]] = {
    "scores": score_positions,
    "winner": lambda request: {"reasoning": request.text, "winner": None, "verdict": "Begin small."},
    "status": lambda request: {"summary": request.text, "status": "CONTINUE", "decision": "Close it for one summer."},
    "next_agent_name": lambda request: {
        "response": request.text,
        "next_agent_name": request.schema["properties"]["next_agent_name"]["enum"][0],
    },
    "ranking": lambda request: {
        "ranking": [
            {"answer": tag, "reason": "It says how to find out."} for tag in request.tags(r"^\[Answer ([A-Z])\]")
        ]
    },
    "answer": lambda _: {
        "answer": "Close it for one summer, and count.",
        "dissent": "Who pays for deliveries at night.",
    },
    "findings": lambda request: {
        "findings": [{"title": f"{request.name} asks", "claim": request.text, "severity": "major"}]
    },
    "claims": lambda request: {"claims": [{"claim": request.text[:80], "kind": "missing"}]},
    "rulings": lambda request: {
        "rulings": [{"claim": "C1", "reason": request.text[:80], "quotes": [QUESTION], "ruling": "holds"}]
    },
    "pairs": lambda _: {"pairs": [{"pair": number, "same": False} for number in (1, 2, 3)]},
    "verdicts": lambda request: {
        "verdicts": [
            {"finding": tag, "verdict": "confirm", "reason": request.text[:80]} for tag in request.tags(r"^\[(F\d+)\]")
        ]
    },
    "severity": lambda request: {
        "reasoning": request.text,
        "issues": ["No number."],
        "suggestions": ["Count."],
        "severity": 0.4,
    },
    "proposal": lambda request: {"proposal": request.text, "position": request.name, "enough": False},
    "choice": lambda request: {"reasoning": request.text, "choice": "cleo", "confidence": 0.9},
}
"""Answers by role, selected by the first field in the schema that has an answer."""


def reply(request: Any) -> ModelResponse:
    """Answer as the role would, with tokens estimated at four characters each."""
    role = RoleRequest(request)
    answer = next((ANSWERS[field](role) for field in ANSWERS if field in role.schema["properties"]), role.text)
    tokens = sum(len(str(message["content"])) for message in request.messages) // 4
    usage = Usage(calls=1, prompt_tokens=tokens, cached_tokens=0, completion_tokens=100)
    if isinstance(answer, str):
        return ModelResponse(text=answer, usage=usage)
    return ModelResponse(data=answer, usage=usage)


def patterns() -> dict[str, Any]:
    """Build each pattern in the table, keyed by the beginning of its row."""
    sides = [Debater("ann", "close it"), Debater("ben", "leave it open"), Debater("cleo", "close it in summer")]
    names = [Persona("ann"), Persona("ben"), Persona("cleo")]
    people = [Persona("ann", "plans traffic"), Persona("ben", "owns a shop"), Persona("cleo", "lives there")]
    roles = [Persona("ann", "economist"), Persona("ben", "engineer"), Persona("cleo", "lawyer")]
    plan = {"plan": "Close the street for a summer. It costs nothing."}
    return {
        "debate()`, two sides": debate(name="d", debaters=sides[:2], synthesizer=False),
        "debate()`, two sides, with": debate(name="d", debaters=sides[:2]),
        "debate()` |": debate(name="d", debaters=sides, synthesizer=False),
        'debate()`, `judge="cyclic"`': debate(name="d", debaters=sides, judge="cyclic", synthesizer=False),
        "debate()`, `mirror=True`": debate(name="d", debaters=sides, mirror=True, synthesizer=False),
        "deliberation()": deliberation(name="d", debaters=people, max_rounds=2),
        "handoff()`": handoff(name="talk", debaters=names, max_turns=6),
        "round_robin()": round_robin(name="paper", debaters=roles),
        "consensus()": consensus(name="plan", agents=names, max_rounds=2),
        "council()": council(name="advice", members=names),
        "critique()`": critique(name="d", critics=[Persona("ann")]),
        "review()`": review(name="check", reviewers=names, sources=plan),
    }


ROWS = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ") and " \u00d7 |" in line]


@pytest.mark.parametrize(("name", "row"), list(zip(patterns(), ROWS[1:], strict=True)))
def test_each_pattern_has_the_documented_cost(name: str, row: str) -> None:
    sides = [Debater("ann", "close it"), Debater("ben", "leave it open")]
    direct = debate(name="d", debaters=sides, synthesizer=False, baselines=["single"])
    baselines = direct.run_sync(QUESTION, model=FunctionModel(reply), seed=1).raw.baselines
    assert baselines is not None
    single = baselines[0]
    assert ROWS[0].startswith(f"| one call | {single.calls} |")
    answered = 0

    async def one_after_another(request: Any) -> ModelResponse:
        nonlocal answered
        step = answered + 1  # the call depends on all earlier answers
        for _ in range(50):
            await asyncio.sleep(0)  # let concurrent calls start
        answered = step
        return reply(request)

    usage = patterns()[name].run_sync(QUESTION, model=FunctionModel(one_after_another), seed=1).usage
    _, _, calls, steps, tokens, *_ = row.split("|")
    assert name in row
    assert (int(calls), int(steps)) == (usage.calls, answered)
    assert int(tokens.removesuffix(" \u00d7 ")) == round(usage.prompt_tokens / single.prompt_tokens)
