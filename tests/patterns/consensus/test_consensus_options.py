"""Options of `consensus()`, which only affect the agents' default blocks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import (
    ConvergenceOptions,
    DebaterOptions,
    FailurePolicy,
    Persona,
    Session,
    TopologyOptions,
    Visibility,
    VotingOptions,
    consensus,
    create_debate_transcript,
    generator,
    handler,
)
from flowdebate.errors import ConfigurationError, ConflictingOptions, ResourceConflict
from flowdebate.models.base import ModelSettings
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.patterns.consensus.agents import create_conclusive_judge, create_tie_judge
from flowdebate.patterns.consensus.relations import analyze
from flowdebate.patterns.consensus.schemas import CriticAnswer, Proposal, RevisionAnswer, VoteAnswer
from flowdebate.patterns.council import CHAIR
from flowdebate.resources.archive import Archive
from flowdebate.resources.tasks import create_task_collection
from flowdebate.runs.events import BlockAnswered, TextDelta
from flowdebate.testing import FunctionModel, ToolCall
from tests.ids import case_id
from tests.patterns.debates import events

from .debates import TASK, THREE, Call, answer_of, call_of, model, plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.context import Context


def search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


def test_agents_may_call_tools_before_answering() -> None:
    looked: list[str] = []

    def answer(call: Call) -> Any:
        if call.request.messages[-1]["role"] == "tool":
            return answer_of(by_block[call.request.block])
        looked.append(call.phase)
        by_block[call.request.block] = call
        return ToolCall(id="1", name="search", arguments='{"query": "rents"}')

    by_block: dict[str, Call] = {}
    output = plan(("ann", "bob"), max_rounds=1, tools=[search]).run_sync(TASK, model=model(answer)).output
    assert sorted(looked) == sorted(["proposal", "critique", "revision", "vote"] * 2)
    assert (output.winner, output.losses) == ("ann", [])


def test_options_do_not_apply_to_custom_blocks_or_judges() -> None:
    """Judges have their own options, as do generators used in place of an agent."""
    calls: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Any:
        calls.append(request)
        if request.block == "own":
            kind = request.messages[-1]["content"]
            return {"proposal": "Mine.", "critique": "{}", "revision": "Mine.", "vote": "ann"}[kind]
        call = call_of(request)
        return {**answer_of(call), "choice": call.agent} if call.phase == "vote" else answer_of(call)

    def as_data(output: str, response: Any, ctx: Any) -> Any:
        return {} if output == "{}" else output

    custom = generator(name="own", prompt="Mine.", user=lambda turn: turn.kind, transform=as_data)
    plan(
        agents=[{"name": "ann"}, {"name": "bob"}, {"name": "cy", "block": custom}],
        max_rounds=2,
        judge=create_conclusive_judge(name="plan"),
        tie_break=create_tie_judge(name="plan", choices=THREE),
        voting=VotingOptions(min_votes=1),
        instructions="Be polite.",
        tools=[search],
        context=["Rents rose."],
        settings=ModelSettings(temperature=0.25),
    ).run_sync(TASK, model=FunctionModel(answer))
    custom_calls = [call for call in calls if call.block == "own" or call.block.endswith("-judge")]
    assert {call.block for call in custom_calls} == {"own", "plan-judge"}
    for call in custom_calls:
        assert "Be polite." not in call.messages[0]["content"]
        assert len(call.messages) == 2
        assert (list(call.tools), call.settings.temperature) == ([], None)
    assert len(calls) - len(custom_calls) == 2 * (1 + 2 * (2 + 1) + 1)


@pytest.mark.parametrize(("visible", "count"), [(True, 15), (False, 0)])
def test_client_visibility_controls_whether_text_is_streamed(visible: bool, count: int) -> None:  # noqa: FBT001
    session = Session()
    debate = plan(max_rounds=1, agent_visibility={"client": visible})

    async def listened() -> Any:
        handle = debate.start(TASK, model=model(), session=session)
        deltas = [event async for event in handle if isinstance(event, TextDelta)]
        return deltas, await handle

    deltas, result = asyncio.run(listened())
    assert len(events(result, BlockAnswered)) == count
    assert bool(deltas) is visible
    assert {event.block for event in deltas} == ({f"plan-propose-{name}" for name in THREE} if visible else set())
    assert session.history == []


# Custom blocks


def test_custom_blocks_can_replace_an_agent_in_every_phase() -> None:
    requests: list[Any] = []

    async def own(value: Any, ctx: Context) -> Any:
        requests.append(value)
        match value.kind:
            case "proposal":
                return {"text": "Build homes."}
            case "critique":
                return CriticAnswer(issues=["vague"], severity=1)
            case "revision":
                return RevisionAnswer(proposal="Build more homes.", position="build", enough=True)
            case _:
                return VoteAnswer(choice="cy", reasoning="Mine.", confidence=1)

    agents = [{"name": "ann"}, {"name": "bob"}, {"name": "cy", "block": own}]
    output = plan(agents=agents, max_rounds=1).run_sync(TASK, model=model()).output
    proposing, *criticizing, revising, voting = requests
    assert [value.kind for value in requests] == ["proposal", "critique", "critique", "revision", "vote"]
    assert {value.agent for value in requests} == {"cy"}
    assert {value.task for value in requests} == {TASK}
    assert proposing.agent == "cy"
    assert [value.proposal.agent for value in criticizing] == ["ann", "bob"]
    assert revising.proposal == Proposal(agent="cy", text="Build homes.")
    assert [critique.critic for critique in revising.critiques] == ["ann", "bob"]
    assert [proposal.text for proposal in voting.proposals][-1] == "Build more homes."
    assert output.final_proposals[-1] == Proposal(agent="cy", text="Build more homes.", round=1, position="build")
    assert [(c.target, c.issues, c.severity) for c in output.rounds[0].critiques if c.critic == "cy"] == [
        ("ann", ["vague"], 1),
        ("bob", ["vague"], 1),
    ]
    assert output.rounds[0].enough == ["cy"]
    assert (output.ballots[-1].choice, output.ballots[-1].reasoning) == ("cy", "Mine.")


def test_custom_blocks_may_return_plain_answers() -> None:
    def own(request: Any) -> Any:
        return {"proposal": "One.", "critique": {}, "revision": "Two.", "vote": " ANN "}[request.kind]

    agents = [{"name": name, "block": own} for name in THREE]
    output = plan(agents=agents, max_rounds=1, convergence=None).run_sync(TASK).output
    assert [(proposal.text, proposal.position) for proposal in output.final_proposals] == [("Two.", None)] * 3
    assert [ballot.choice for ballot in output.ballots] == ["ann"] * 3
    assert {(critique.reasoning, critique.severity) for critique in output.rounds[0].critiques} == {("", 0.5)}
    assert {ballot.confidence for ballot in output.ballots} == {0.5}


def test_output_survives_a_wire_format_round_trip() -> None:
    output = plan(max_rounds=2).run_sync(TASK, model=model(), seed=3).output
    wire = output.to_wire()
    assert wire["finalProposals"][0]["agent"] == "ann"
    assert wire["earlyEnd"] is None
    assert wire["seed"] == 3
    assert type(output).model_validate(wire) == output
    assert output.consensus_reached


# Analytics


def test_analytics_describe_the_debate() -> None:
    def answer(call: Call) -> Any:
        if call.phase == "critique":
            severe = call.target == "ann"
            return {
                "reasoning": "",
                "issues": [f"{call.target} is unpaid for"],
                "suggestions": ["Say who  pays."],
                "severity": 0.9 if severe else 0.1,
            }
        if call.phase == "revision":
            return {**answer_of(call), "proposal": f"{call.agent}: build {call.agent} homes."}
        if call.phase == "vote":
            return {**answer_of(call), "choice": "bob" if call.agent == "cy" else "ann"}
        return None

    result = plan(max_rounds=2, convergence=None).run_sync(TASK, model=model(answer))
    analytics = result.output.analytics
    assert analytics is not None
    assert 0 < analytics.seconds <= result.seconds
    assert (analytics.rounds, analytics.outcome) == (2, "consensus")
    assert analytics.agreement == pytest.approx(2 / 3)
    (dissent,) = analytics.dissent
    assert (dissent.agent, dissent.choice, dissent.reasoning) == ("cy", "bob", "cy has weighed them.")
    assert analytics.split_opinions == ["bob: 1 of 3"]
    assert analytics.risk_areas == ["ann is unpaid for"]
    assert analytics.insights[0] == "suggested 12 times: Say who pays."
    assert any("similarity of the proposals" in insight for insight in analytics.insights)
    assert any("mean severity" in insight for insight in analytics.insights)


def test_debates_without_a_vote_count_have_no_analytics() -> None:
    output = plan(max_rounds=1).run_sync(TASK, model=model()).output
    with pytest.raises(ValueError, match="not counted"):
        analyze(output.model_copy(update={"tally": None}), 1.0)


def test_single_agent_debates_have_sparse_analytics() -> None:
    """A single agent cannot cause dissent, splits or risks, so the analytics contain only measurements."""
    output = plan(("ann",), max_rounds=1).run_sync(TASK, model=model()).output
    analytics = analyze(output, 1.0)
    assert (analytics.agreement, analytics.dissent, analytics.split_opinions, analytics.risk_areas) == (1.0, [], [], [])
    assert analyze(output.model_copy(update={"rounds": []}), 1.0).insights == []


@dataclass(frozen=True)
class Case:
    """Invalid options and the error that they cause."""

    id: str
    make: Callable[[], object]
    option: str
    """Field that the message names."""
    problem: str
    location: str = "consensus 'plan'"


def case_of(id: str, option: str, problem: str, location: str = "consensus 'plan'", **options: Any) -> Case:  # noqa: A002 - the name of the field
    """Build a case with options that `consensus()` rejects."""
    agents = [{"name": name} for name in THREE]
    return Case(id, lambda: consensus(**{"name": "plan", "agents": agents, **options}), option, problem, location)


async def _slow(names: Any, number: int, random: Any) -> list[Any]:
    return []


def _any(value: Any) -> Any:
    """Return `value` as `Any`."""
    return value


def _plain(texts: Any) -> Any:
    return [[1.0] * len(texts)] * len(texts)


REJECTED = [
    case_of("an unknown topology", "topology", "must be all-to-all", topology="mesh"),
    case_of("no topology", "topology", "must be all-to-all", topology=None),
    case_of("an async topology", "topology", "a sync function of (names, round, random)", topology=_slow),
    case_of("a hub that is nobody", "hub", "one of the agents", topology=TopologyOptions("star", hub="zoe")),
    Case("a blank hub", lambda: TopologyOptions("star", hub=" "), "hub", "must not be blank", "TopologyOptions"),
    Case(
        "a sparsity of two",
        lambda: TopologyOptions("sparse", sparsity=2),
        "sparsity",
        "between 0 and 1",
        "TopologyOptions",
    ),
    Case(
        "a sparsity nobody looks at",
        lambda: TopologyOptions(sparsity=-1),
        "sparsity",
        "between 0 and 1",
        "TopologyOptions",
    ),
    case_of("a confidence of two", "confidence", "between 0 and 1", confidence=2),
    case_of("a convergence of two", "convergence", "between 0 and 1", convergence=2),
    case_of("a convergence that is a bool", "convergence", "between 0 and 1", convergence=True),
    case_of("a convergence that is no number", "convergence", "finite number", convergence=float("nan")),
    Case(
        "a diverging of two",
        lambda: ConvergenceOptions(diverging=2),
        "diverging",
        "between 0 and 1",
        "ConvergenceOptions",
    ),
    Case(
        "a measure that is no function",
        lambda: ConvergenceOptions(similarity=_any(0.5)),
        "similarity",
        "a Similarity, a named function that compares text",
        "ConvergenceOptions",
    ),
    Case(
        "a measure without a name",
        lambda: ConvergenceOptions(similarity=_any(_plain)),
        "similarity",
        "a Similarity, a named function that compares text",
        "ConvergenceOptions",
    ),
    case_of("an unknown rule", "voting", "majority, supermajority", voting="plurality"),
    case_of("no rule", "voting", "majority, supermajority", voting=None),
    *(
        Case(
            f"weights: {kind}",
            partial(VotingOptions, "weighted", weights=_any(weights)),
            "weights",
            "must map agents to numbers greater than 0 and at most 1,000,000",
            "VotingOptions",
        )
        for kind, weights in {
            "a list": [1, 2],
            "zero": {"ann": 0},
            "too large for sums": {"ann": 1e308},
            "too large for floats": {"ann": 10**400},
            "infinite": {"ann": 1e999},
            "a bool": {"ann": True},
        }.items()
    ),
    case_of(
        "the weight of nobody",
        "weights",
        "contains an unknown agent",
        voting=VotingOptions("weighted", weights={"zoe": 1}),
    ),
    *(
        Case(
            f"min_votes: {votes}",
            partial(VotingOptions, min_votes=votes),
            "min_votes",
            "at least 1",
            "VotingOptions",
        )
        for votes in (0, True)
    ),
    Case("no shuffle", lambda: VotingOptions(shuffle=_any(None)), "shuffle", "true or false", "VotingOptions"),
    case_of("a budget of nothing", "budget", "must be at least 1", budget=0),
    case_of("a budget in part", "budget", "whole number of at least 1", budget=9.5),
    case_of("no time", "timeout", "must be greater than 0", timeout=0),
    case_of("time without end", "timeout", "finite number", timeout=float("inf")),
    case_of(
        "a template of another pattern",
        "template of block of 'ann'",
        "a ConsensusTemplate",
        agents=[Persona("ann", options=DebaterOptions(template=CHAIR))],
    ),
    case_of("a judge that is none", "judge", "a block, or a function", judge="first"),
    case_of("a tie rule that is none", "tie_break", "a block, or a function", tie_break="first"),
    case_of("breakers that are one", "breakers", "Breakers", breakers=Breakers().of("ann")),
    case_of("an archive that is a dict", "archive", "Archive", archive={}),
    case_of("a history that is negative", "history_limit", "must be at least 0", history_limit=-1),
    case_of("a history that is a bool", "history_limit", "whole number of at least 0", history_limit=True),
    case_of("research that is a text", "research", "a function of (input) or (input, ctx)", research="Vienna"),
    case_of("research of three", "research", "a function of (input) or (input, ctx)", research=lambda a, b, c: ""),
    case_of("tools that are none", "tools", "a list of functions or blocks", "generator 'plan-propose-ann'", tools=3),
    case_of("uses that are none", "uses", "a list of Capability", "generator 'plan-propose-ann'", uses=["web"]),
]


@pytest.mark.parametrize("case", REJECTED, ids=lambda case: case.id)
def test_invalid_options_are_rejected(case: Case) -> None:
    with pytest.raises(ConfigurationError) as caught:
        case.make()
    error = caught.value
    assert error.location == case.location
    assert error.field == case.option
    assert case.problem in error.problem
    assert str(error).startswith(f"{case.location}: `{case.option}` ")
    assert isinstance(error, ValueError)


def test_hub_is_rejected_for_a_topology_function() -> None:
    """Only the built-in star topology has a hub."""
    with pytest.raises(ConflictingOptions, match="`hub` requires `topology` star"):
        plan(topology=TopologyOptions(lambda *_: [], hub="ann"))


def test_divergence_threshold_above_convergence_is_rejected() -> None:
    """A similarity between the two thresholds would count as convergence and divergence at the same time."""
    with pytest.raises(ConflictingOptions) as caught:
        ConvergenceOptions(diverging=0.9)
    sentence = "`diverging` cannot be above `convergence`: proposals between them would be both"
    assert str(caught.value) == f"ConvergenceOptions: {sentence}"


def test_default_divergence_never_exceeds_convergence() -> None:
    """Lowering the threshold for convergence must not require lowering the one for divergence as well."""
    assert ConvergenceOptions().lower_bound == 0.4
    assert ConvergenceOptions(None).lower_bound == 0.4
    assert ConvergenceOptions(0.3).lower_bound == 0.3
    assert ConvergenceOptions(0.3, diverging=0.1).lower_bound == 0.1


ACCEPTED: list[dict[str, Any]] = [
    {},
    {"agents": [Persona("ann", "a mayor", "You count money.")]},
    {"agents": ({"name": "ann", "role": "a mayor"}, Persona("bob"))},
    {"convergence": 0},
    {"convergence": ConvergenceOptions(0, diverging=0)},
    {"convergence": ConvergenceOptions(None, diverging=1)},
    {"topology": TopologyOptions("star", hub="cy")},
    {"topology": TopologyOptions("random-graph", sparsity=0)},
    {"voting": "weighted"},
    {"voting": VotingOptions("weighted", weights={"ann": 2, "bob": 0.5})},
    {"voting": VotingOptions(min_votes=3)},
    {"judge": False, "tie_break": False},
    {"failures": FailurePolicy(round_timeout=5), "timeout": 3},
    {"history_limit": 0, "archive": Archive(patience=1)},
    {"agent_visibility": {"client": False}},
    {"agent_visibility": Visibility(history=True)},
    {"research": str.upper},
]


@pytest.mark.parametrize("options", ACCEPTED, ids=case_id)
def test_valid_options_build_a_debate(options: dict[str, Any]) -> None:
    debate = plan(**options, max_rounds=1)
    assert debate.name == "plan"
    assert debate.run_sync(TASK, model=model()).output.tally is not None


def test_reserved_resource_keys_are_rejected() -> None:
    """A block with the resource key of the debate's audit trail would replace the audit trail."""

    @handler(name="own", resources={"audit": create_task_collection("mine", key="audit")})
    def own(request: Any) -> str:
        return "An idea."

    with pytest.raises(ResourceConflict, match="audit"):
        plan(agents=[{"name": "ann", "block": own}])


def test_agents_share_custom_resources() -> None:
    notes = create_debate_transcript()
    ids: list[int] = []

    @handler(name="own", resources={"transcript": notes})
    def own(request: Any, ctx: Any) -> Any:
        ids.append(id(ctx.resources.transcript))
        return {"proposal": "An idea.", "critique": {}, "revision": "An idea.", "vote": "ann"}[request.kind]

    agents = [{"name": "ann", "block": own}, {"name": "bob", "block": own}]
    plan(agents=agents, max_rounds=1).run_sync(TASK)
    assert len(ids) == 8
    assert len(set(ids)) == 1
