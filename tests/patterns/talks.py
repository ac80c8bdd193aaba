"""Every pattern with its default blocks and three speakers, and a model that answers for all of them and may fail."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from flowdebate import (
    Debater,
    DebaterOptions,
    FailurePolicy,
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
from flowdebate.patterns.consensus.agents import create_conclusive_judge
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.testing import ModelRequest

NAMES = ("ann", "bob", "cy")
QUESTION = "How can rents be affordable?"
TURNS = {
    "debate": ("debater",),
    "round_robin": ("debater",),
    "deliberation": ("debater",),
    "handoff": ("debater",),
    "consensus": ("propose", "criticize", "revise", "vote"),
    "council": ("member", "reviewer"),
    "critique": ("critic",),
    "review": ("reviewer", "examiner"),
}
"""The speakers' block names, one per kind of turn."""
READERS: dict[str, tuple[str, ...]] = {"critique": ("author", "judge")}
"""Other roles that read the sources, either to answer from them or to check claims."""


class Decider(NamedTuple):
    """The role that makes a decision based on the entries, and the recovery if it fails."""

    role: str
    instead: str


DECIDERS = {
    "debate": Decider("judge", "no_verdict"),
    "round_robin": Decider("referee", "no_report"),
    "deliberation": Decider("moderator", "no_report"),
    "consensus": Decider("judge", "no_report"),
    "council": Decider("chair", "no_output"),
    "critique": Decider("judge", "no_verdict"),
    "review": Decider("merger", "skipped"),
}
"""Deciding role in each pattern except the handoff, which has only speakers."""
WORD = re.compile(r"\bw[0-9a-f]{12}\b")


def talk(  # noqa: PLR0911 - one for each pattern
    pattern: str, *, policy: FailurePolicy | None = None, block: Any = None, decider: Any = None, **options: Any
) -> Sequencer[Any, Any]:
    """Build the pattern, named `x`, with two rounds if it has rounds. `block` speaks for bob, and `decider` decides."""
    of = {name: DebaterOptions(instructions=f"You are {name} of the city council.") for name in NAMES}
    if block is not None:
        del of["bob"]
    people = [Persona(name, block=block if name == "bob" else None, options=of.get(name)) for name in NAMES]
    defaults: dict[str, Any] = {"name": "x", "failures": policy, **options}
    if decider is not None:
        defaults[DECIDERS[pattern].role] = decider
    match pattern:
        case "debate":
            sides = [
                Debater(person.name, stance, block=person.block, options=person.options)
                for person, stance in zip(people, ("for", "against", "neither"), strict=True)
            ]
            return debate(debaters=sides, max_rounds=2, **{"synthesizer": False, **defaults})
        case "round_robin":
            return round_robin(debaters=people, max_rounds=2, **{"synthesizer": False, "referee": True, **defaults})
        case "deliberation":
            return deliberation(debaters=people, max_rounds=2, **defaults)
        case "handoff":
            return handoff(debaters=people, max_turns=4, **defaults)
        case "consensus":
            judged = {"judge": create_conclusive_judge(name="x"), **defaults}
            return consensus(agents=people, max_rounds=2, convergence=None, **judged)
        case "critique":
            return critique(critics=people, **defaults)
        case "review":
            return review(reviewers=people, **defaults)
        case _:
            return council(members=people, **defaults)


def role_of(request: ModelRequest) -> str:
    """Return the name of the calling block, without its pattern and speaker."""
    return request.block.removeprefix("x-").removeprefix("stand-in-").partition("-")[0]


def words_in(raw: Any) -> set[str]:
    """Return the model's unique words that occur anywhere in a raw output."""
    return set(WORD.findall(json.dumps(raw.to_wire())))


@dataclass
class Talkers:
    """A model that puts a unique word into every answer. A call fails if `lost` returns an error.

    A failing call streams some text to listeners first.
    """

    lost: Callable[[ModelRequest], Exception | None] = lambda _: None
    asked: list[ModelRequest] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    """Words in the successful answers."""
    failed: int = 0

    def model(self, name: str = "talkers") -> FunctionModel:
        """Return the model."""
        return FunctionModel(self.reply, name=name)

    def reply(self, request: ModelRequest) -> Any:
        """Answer `request`, independently of other requests."""
        self.asked.append(request)
        word = "w" + sha256(json.dumps([request.block, request.messages], default=str).encode()).hexdigest()[:12]
        error = self.lost(request)
        if error is not None:
            self.failed += 1
            if request.on_text is not None:
                request.on_text(f"I would say {word}.")
            raise error
        answer = _answer(request, word)
        if word in str(answer):
            self.words.add(word)
        return answer


def _answer(request: ModelRequest, word: str) -> Any:
    text, name = f"I say {word}.", request.block.rpartition("-")[2]
    properties = set((request.output_schema or {}).get("properties", ()))
    if "findings" in properties:
        return {"findings": [{"title": f"Finding of {name}", "claim": text, "severity": "major"}]}
    if "rulings" in properties:
        return {"rulings": _rulings(str(request.messages[-1]["content"]), word)}
    if role_of(request) == "examiner":
        ids = re.findall(r"^\[(F\d+)\]", str(request.messages[-1]["content"]), re.MULTILINE)
        return {
            "verdicts": [{"finding": finding_id, "verdict": "confirm", "reason": "So it is."} for finding_id in ids]
        }
    if role_of(request) == "reviewer":
        letters = re.findall(r"^\[Answer ([A-Z]+)\]", str(request.messages[-1]["content"]), re.MULTILINE)
        return {"ranking": [{"answer": letter, "reason": word} for letter in letters]}
    fields: dict[str, dict[str, Any]] = {
        "debater": {"response": text, "next_agent_name": NAMES[(NAMES.index(name) + 1) % 3] if name in NAMES else None},
        "judge": {"reasoning": "It held.", "winner": "for", "verdict": text, "conclusive": False},
        "referee": {"assessments": [{"agentName": "ann", "issues": ["no figures"], "score": 40}], "notes": word},
        "moderator": {"summary": word, "status": "CONTINUE", "decision": None},
        "criticize": {"reasoning": word, "issues": ["It has no figures."], "suggestions": [], "severity": 0.4},
        "revise": {"proposal": text, "position": "yes", "enough": False},
        "vote": {"reasoning": word, "choice": "ann", "confidence": 0.75},
        "chair": {"answer": text, "dissent": None},
        "critic": {"claims": [{"claim": text, "kind": "missing"}]},
        "merger": {"pairs": []},
    }
    answer = fields.get(role_of(request))
    if answer is None or request.output_schema is None:
        return text
    return {name: value for name, value in answer.items() if name in str(request.output_schema)}


def _rulings(prompt: str, word: str) -> list[dict[str, Any]]:
    """Uphold all claims, with the question as the evidence."""
    quotes = re.findall(r"^Question: (.+)", prompt, re.MULTILINE)
    ids = re.findall(r"^\[(C\d+)\]", prompt, re.MULTILINE)
    return [{"claim": claim_id, "reason": word, "quotes": quotes, "ruling": "holds"} for claim_id in ids]
