"""What `consensus()` refuses, before anything is built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from flowdebate import (
    DebaterOptions,
    FailurePolicy,
    Persona,
    StandIn,
    Visibility,
    consensus,
    create_debate_transcript,
    handler,
)
from flowdebate.errors import ConfigurationError, ResourceConflict
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.patterns.council import CHAIR
from flowdebate.resources.archive import Archive
from flowdebate.resources.tasks import create_task_collection
from tests.ids import shown

from .debates import TASK, THREE, model, plan, within


@dataclass(frozen=True)
class Case:
    """Options that cannot be, and what the error says of them."""

    id: str
    options: dict[str, Any]
    named: str
    """The field that the message names."""
    allowed: str
    where: str = field(default="consensus 'plan'")


async def _slow(names: Any, number: int, random: Any) -> list[Any]:
    return []


def _plain(texts: Any) -> Any:
    return [[1.0] * len(texts)] * len(texts)


REJECTED = [
    Case("a blank name", {"name": " "}, "name", "a string that is not blank", "consensus"),
    Case("no name", {"name": None}, "name", "a string that is not blank", "consensus"),
    Case("no agents", {"agents": []}, "agents", "at least one"),
    Case("agents that are no list", {"agents": "ann"}, "agents", "a list of Persona or dicts"),
    Case("an agent that is a name", {"agents": ["ann"]}, "agents[0]", "a Persona"),
    Case("an agent with a stance", {"agents": [{"name": "ann", "stance": "for"}]}, "agents[0]", "a dict with name"),
    Case("an agent without a name", {"agents": [Persona("")]}, "agents[0].name", "a string that is not blank"),
    Case("the same agent twice", {"agents": [Persona("a"), Persona("A")]}, "agents[1].name", "different from"),
    Case("an agent whose block is none", {"agents": [{"name": "a", "block": 3}]}, "agents[0].block", "a block"),
    Case(
        "an agent whose role is no text", {"agents": [{"name": "a", "role": 3}]}, "agents[0].role", "a string or None"
    ),
    Case("no rounds", {"max_rounds": 0}, "max_rounds", "an int >= 1"),
    Case("rounds that are a bool", {"max_rounds": True}, "max_rounds", "an int >= 1"),
    Case("rounds that are no number", {"max_rounds": "2"}, "max_rounds", "an int >= 1"),
    Case("an unknown topology", {"topology": "mesh"}, "topology", "one of 'all-to-all'"),
    Case("no topology", {"topology": None}, "topology", "one of 'all-to-all'"),
    Case("an async topology", {"topology": _slow}, "topology", "a sync function of (names, round, random)"),
    Case("a hub without a star", {"hub": "ann"}, "hub", "only the star has a hub"),
    Case("a hub of a function", {"hub": "ann", "topology": lambda *_: []}, "hub", "only the star has a hub"),
    Case("a hub that is nobody", {"hub": "zoe", "topology": "star"}, "hub", "one of the agents"),
    Case("a sparsity of two", {"sparsity": 2, "topology": "sparse"}, "sparsity", "a number from 0 to 1"),
    Case("a sparsity nobody looks at", {"sparsity": -1}, "sparsity", "a number from 0 to 1"),
    Case("a function's sparsity", {"sparsity": "x", "topology": lambda *_: []}, "sparsity", "a number from 0 to 1"),
    Case("a confidence of two", {"confidence": 2}, "confidence", "a number from 0 to 1 or None"),
    Case("a convergence of two", {"convergence": 2}, "convergence", "a number from 0 to 1 or None"),
    Case("a convergence that is a bool", {"convergence": True}, "convergence", "a number from 0 to 1 or None"),
    Case("a convergence that is no number", {"convergence": float("nan")}, "convergence", "a number from 0 to 1"),
    Case("no diverging", {"diverging": None}, "diverging", "a number from 0 to 1"),
    Case("diverging above convergence", {"diverging": 0.9}, "diverging", "no more than convergence=0.85"),
    Case("a measure that is no function", {"similarity": 0.5}, "similarity", "a measure with a name"),
    Case("a measure without a name", {"similarity": _plain}, "similarity", "a measure with a name"),
    Case("an unknown rule", {"voting": "plurality"}, "voting", "one of 'majority'"),
    Case("no rule", {"voting": None}, "voting", "one of 'majority'"),
    Case("weights without weighted", {"weights": {"ann": 2}}, "weights", "None with voting other than 'weighted'"),
    Case("weights that are a list", {"weights": [1, 2], "voting": "weighted"}, "weights", "a dict of agent to number"),
    Case(
        "the weight of nobody", {"weights": {"zoe": 1}, "voting": "weighted"}, "weights['zoe']", "of one of the agents"
    ),
    Case("no weight", {"weights": {"ann": 0}, "voting": "weighted"}, "weights['ann']", "a number > 0"),
    Case(
        "a weight too large for sums",
        {"weights": {"ann": 1e308}, "voting": "weighted"},
        "weights['ann']",
        "<= 1,000,000",
    ),
    Case(
        "a weight no float holds", {"weights": {"ann": 10**400}, "voting": "weighted"}, "weights['ann']", "<= 1,000,000"
    ),
    Case("a weight without end", {"weights": {"ann": 1e999}, "voting": "weighted"}, "weights['ann']", "a number > 0"),
    Case("a weight that is a bool", {"weights": {"ann": True}, "voting": "weighted"}, "weights['ann']", "a number > 0"),
    Case("no quorum", {"quorum": 0}, "quorum", "an int >= 1"),
    Case("a quorum of more than all", {"quorum": 4}, "quorum", "no more than the 3 agents"),
    Case("a quorum that is a bool", {"quorum": True}, "quorum", "an int >= 1"),
    Case("a budget of nothing", {"budget": 0}, "budget", "an int >= 1"),
    Case("a budget in part", {"budget": 9.5}, "budget", "an int >= 1"),
    Case("no time", {"timeout": 0}, "timeout", "a number of seconds > 0"),
    Case("time without end", {"timeout": float("inf")}, "timeout", "a number of seconds > 0"),
    Case("no time for a turn", {"failures": within(-1)}, "turn_timeout", "a number of seconds > 0"),
    Case("time that is a text", {"failures": within(cast("Any", "90"))}, "turn_timeout", "a number of seconds > 0"),
    Case("no time for a round", {"failures": FailurePolicy(round_timeout=0)}, "round_timeout", "a number of seconds"),
    Case("a policy that is a word", {"failures": "skip"}, "failures", "FailurePolicy(…), or None"),
    Case("a quorum of no proposals", {"failures": FailurePolicy(quorum=0)}, "quorum", "an int >= 1"),
    Case(
        "a stand-in that is none", {"failures": FailurePolicy(on_failure=StandIn(""))}, "on_failure", "provider/model"
    ),
    Case(
        "a template of another pattern",
        {"agents": [Persona("ann", options=DebaterOptions(template=CHAIR))]},
        "template of 'ann'",
        "a ConsensusTemplate",
    ),
    Case("a judge that is none", {"judge": "wise"}, "judge", "a block or a function"),
    Case("a judge that is switched off", {"judge": False}, "judge", "a block or a function"),
    Case("a tie rule that is none", {"tie_break": "first"}, "tie_break", "a block or a function"),
    Case("a predicate that is none", {"terminate_when": True}, "terminate_when", "a sync or async function of (ctx)"),
    Case("breakers that are one", {"breakers": Breakers().of("ann")}, "breakers", "Breakers(…), or None"),
    Case("an archive that is a dict", {"archive": {}}, "archive", "Archive(…), or None"),
    Case("a history that is negative", {"history_limit": -1}, "history_limit", "an int >= 0"),
    Case("a history that is a bool", {"history_limit": True}, "history_limit", "an int >= 0"),
    Case("research that is a text", {"research": "Vienna"}, "research", "a function of (input) or (input, ctx)"),
    Case("research of three", {"research": lambda a, b, c: ""}, "research", "a function of (input) or (input, ctx)"),
    Case("a blank trail", {"collection_id": ""}, "collection_id", "a string that is not blank"),
    Case("a visibility of more", {"agent_visibility": {"server": True}}, "agent_visibility", "a Visibility, or a dict"),
    Case("tools that are none", {"tools": 3}, "tools", "a list of functions or blocks", "generator 'plan-propose-ann'"),
    Case("uses that are none", {"uses": ["web"]}, "uses", "a list of Capability", "generator 'plan-propose-ann'"),
]


@pytest.mark.parametrize("case", REJECTED, ids=lambda case: case.id)
def test_what_cannot_be_a_debate_is_refused(case: Case) -> None:
    """The message says where, which option, what it may be and what it was; the facts are attributes."""
    options = {"name": "plan", "agents": [{"name": name} for name in THREE], **case.options}
    with pytest.raises(ConfigurationError) as caught:
        consensus(**options)
    error = caught.value
    assert error.where == case.where
    assert error.field == case.named
    assert case.allowed in error.allowed
    assert str(error).startswith(f"{case.where}: `{case.named}` must be ")
    assert isinstance(error, ValueError)


ACCEPTED: list[dict[str, Any]] = [
    {},
    {"agents": [Persona("ann", "a mayor", "You count money.")]},
    {"agents": ({"name": "ann", "role": "a mayor"}, Persona("bob"))},
    {"convergence": 0, "diverging": 0},
    {"convergence": None, "diverging": 1},
    {"hub": "cy", "topology": "star"},
    {"sparsity": 0, "topology": "random-graph"},
    {"voting": "weighted", "weights": {"ann": 2, "bob": 0.5}},
    {"quorum": 3},
    {"failures": FailurePolicy(round_timeout=5), "timeout": 3},
    {"history_limit": 0, "archive": Archive(patience=1)},
    {"agent_visibility": {"client": False}},
    {"agent_visibility": Visibility(history=True)},
    {"research": str.upper},
]


@pytest.mark.parametrize("options", ACCEPTED, ids=shown)
def test_what_can_be_a_debate_is_made(options: dict[str, Any]) -> None:
    """A block with the debate's name, which can be run."""
    debate = plan(**options, max_rounds=1)
    assert debate.name == "plan"
    assert debate.run_sync(TASK, model=model()).output.tally is not None


def test_a_resource_that_the_debate_keeps_cannot_be_anothers() -> None:
    """An agent's block with another audit trail under the same key is refused when the debate is built."""

    @handler(name="own", resources={"audit": create_task_collection("mine", key="audit")})
    def own(asked: Any) -> str:
        return "An idea."

    with pytest.raises(ResourceConflict, match="audit"):
        plan(agents=[{"name": "ann", "block": own}])


def test_a_resource_of_ones_own_is_shared_by_the_agents() -> None:
    """Blocks that were given the same resource see the same object."""
    notes = create_debate_transcript()
    seen: list[int] = []

    @handler(name="own", resources={"transcript": notes})
    def own(asked: Any, ctx: Any) -> Any:
        seen.append(id(ctx.resources.transcript))
        return {"proposal": "An idea.", "critique": {}, "revision": "An idea.", "vote": "ann"}[asked.kind]

    agents = [{"name": "ann", "block": own}, {"name": "bob", "block": own}]
    plan(agents=agents, max_rounds=1).run_sync(TASK)
    assert len(seen) == 8
    assert len(set(seen)) == 1
