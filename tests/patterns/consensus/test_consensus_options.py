"""Options reach the default blocks of agents, and those only."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Capability, Persona, Session, generator
from flowdebate.models.base import ModelSettings
from flowdebate.patterns.consensus.agents import create_conclusive_judge, create_tie_judge
from flowdebate.patterns.consensus.relations import analyse
from flowdebate.patterns.consensus.schemas import ConsensusInput, CriticAnswer, Proposal, RevisionAnswer, VoteAnswer
from flowdebate.runs.events import BlockAnswered, ModelCalled, TextDelta
from flowdebate.testing import FunctionModel, ToolCall
from tests.patterns.debates import events

from .debates import TASK, THREE, Call, answer_of, call_of, model, plan

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.context import Context


def made(**options: Any) -> list[Call]:
    """All calls of a debate of three and one round."""
    calls: list[Call] = []
    plan(max_rounds=1, **options).run_sync(TASK, model=model(calls=calls), seed=1)
    assert len(calls) == 3 + 6 + 3 + 3
    return calls


def search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


def test_instructions_reach_all_calls_of_default_agents() -> None:
    """Text, or a function of input and context."""
    assert all("Be polite." in call.prompt for call in made(instructions="Be polite."))

    def instruct(asked: Any, ctx: Context) -> str:
        return f"You are asked for a {asked.kind}, {asked.agent}, by {ctx.block}."

    for call in made(instructions=instruct):
        assert f"You are asked for a {call.phase}, {call.agent}, by {call.request.block}." in call.prompt


def test_tools_capabilities_and_context_reach_all_calls_of_default_agents() -> None:
    """They are in the same places as in other patterns."""
    uses = [Capability(name="web", tools=[search], instructions="Look it up.", context=["Today is Monday."])]
    for call in made(uses=uses, context=["Rents rose."]):
        assert [tool.name for tool in call.request.tools] == ["search"]
        assert "Look it up." in call.request.messages[0]["content"]
        assert [message["content"] for message in call.request.messages[1:3]] == ["Rents rose.", "Today is Monday."]
    assert all([tool.name for tool in call.request.tools] == ["search"] for call in made(tools=[search]))


def test_settings_reach_all_calls_of_default_agents() -> None:
    """Temperature and the like."""
    settings = ModelSettings(temperature=0.25, max_tokens=99)
    assert all(call.request.settings == settings for call in made(settings=settings))


def test_an_agent_may_call_tools_before_it_answers() -> None:
    """In each phase, also where the answer is a structured one."""
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
    assert (output.winner, output.failures) == ("ann", [])


def test_options_do_not_reach_blocks_of_ones_own_nor_judges() -> None:
    """A generator in an agent's role, and the judges, have options of their own."""
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

    own = generator(name="own", prompt="Mine.", user=lambda asked: asked.kind, transform=as_data)
    plan(
        agents=[{"name": "ann"}, {"name": "bob"}, {"name": "cy", "block": own}],
        max_rounds=2,
        judge=create_conclusive_judge(name="plan"),
        tie_break=create_tie_judge(name="plan", choices=THREE),
        quorum=1,
        instructions="Be polite.",
        tools=[search],
        context=["Rents rose."],
        settings=ModelSettings(temperature=0.25),
    ).run_sync(TASK, model=FunctionModel(answer))
    others = [call for call in calls if call.block == "own" or call.block.endswith("-judge")]
    assert {call.block for call in others} == {"own", "plan-judge"}
    for call in others:
        assert "Be polite." not in call.messages[0]["content"]
        assert len(call.messages) == 2
        assert (list(call.tools), call.settings.temperature) == ([], None)
    assert len(calls) - len(others) == 2 * (1 + 2 * (2 + 1) + 1)


def test_an_agent_may_have_a_model_of_its_own() -> None:
    """For all of its calls; the others have the debate's, or what the run's intents mean."""
    asked: list[tuple[str, str]] = []

    def named(name: str) -> FunctionModel:
        def answer(request: ModelRequest) -> Any:
            asked.append((name, call_of(request).agent))
            return answer_of(call_of(request))

        return FunctionModel(answer, name=name)

    agents = [Persona("ann", model=named("first")), Persona("bob"), Persona("cy")]
    result = plan(agents=agents, max_rounds=1, model=named("second")).run_sync(TASK)
    assert set(asked) == {("first", "ann"), ("second", "bob"), ("second", "cy")}
    asked.clear()
    plan(agents=agents, max_rounds=1, model=named("second")).run_sync(TASK, model={"chat": named("third")})
    assert set(asked) == {("first", "ann"), ("third", "bob"), ("third", "cy")}
    asked.clear()
    plan(agents=agents, max_rounds=1, model=named("second")).run_sync(TASK, model=named("third"))
    assert {name for name, _ in asked} == {"third"}
    assert {event.model for event in events(result, ModelCalled)} == {"first", "second"}


def test_agents_speak_with_the_chat_model_and_judges_with_the_other() -> None:
    """The two intents of a run."""
    asked: list[tuple[str, str]] = []

    def named(name: str) -> FunctionModel:
        def answer(request: ModelRequest) -> Any:
            asked.append((name, call_of(request).phase))
            return answer_of(call_of(request))

        return FunctionModel(answer)

    models = {"chat": named("chat"), "synthesize": named("synthesize")}
    plan(max_rounds=2, judge=create_conclusive_judge(name="plan")).run_sync(TASK, model=models)
    chat = {("chat", phase) for phase in ("proposal", "critique", "revision", "vote")}
    assert set(asked) == {*chat, ("synthesize", "judge")}


@pytest.mark.parametrize(("visible", "count"), [(True, 15), (False, 0)])
def test_what_agents_say_reaches_readers_as_the_application_wants(visible: bool, count: int) -> None:  # noqa: FBT001
    """`client` is about the stream's items; the debate's own events are always there. History is off by default."""
    session = Session()
    debate = plan(max_rounds=1, agent_visibility={"client": visible})

    async def listened() -> Any:
        handle = debate.start(TASK, model=model(), session=session)
        heard = [event async for event in handle if isinstance(event, TextDelta)]
        return heard, await handle

    heard, result = asyncio.run(listened())
    assert len(events(result, BlockAnswered)) == count
    assert bool(heard) is visible
    assert {event.block for event in heard} == ({f"plan-propose-{name}" for name in THREE} if visible else set())
    assert session.history == []


def test_history_is_kept_where_it_is_asked_for() -> None:
    """In the session, under the blocks' names."""
    session = Session()
    plan(("ann",), max_rounds=1, agent_visibility={"history": True}).run_sync(TASK, model=model(), session=session)
    assert [entry["name"] for entry in session.history] == ["plan-propose-ann", "plan-vote-ann"]


# Custom blocks


def test_a_block_of_ones_own_does_all_that_an_agent_does() -> None:
    """Sync or async, of the input or of input and context; it is asked with all that it needs."""
    asked: list[Any] = []

    async def own(value: Any, ctx: Context) -> Any:
        asked.append(value)
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
    proposing, *criticising, revising, voting = asked
    assert [value.kind for value in asked] == ["proposal", "critique", "critique", "revision", "vote"]
    assert {value.agent for value in asked} == {"cy"}
    assert {value.task for value in asked} == {TASK}
    assert proposing.agent == "cy"
    assert [value.proposal.agent for value in criticising] == ["ann", "bob"]
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


def test_plain_answers_will_do() -> None:
    """Text for a proposal, for its revision and for a vote; an empty critique has nothing to say."""

    def own(asked: Any) -> Any:
        return {"proposal": "One.", "critique": {}, "revision": "Two.", "vote": " ANN "}[asked.kind]

    agents = [{"name": name, "block": own} for name in THREE]
    output = plan(agents=agents, max_rounds=1, convergence=None).run_sync(TASK).output
    assert [(proposal.text, proposal.position) for proposal in output.final_proposals] == [("Two.", None)] * 3
    assert [ballot.choice for ballot in output.ballots] == ["ann"] * 3
    assert {(critique.reasoning, critique.severity) for critique in output.rounds[0].critiques} == {("", 0.5)}
    assert {ballot.confidence for ballot in output.ballots} == {0.5}


@pytest.mark.parametrize("value", [TASK, {"task": TASK}, ConsensusInput(task=TASK)])
def test_a_task_may_be_given_in_three_ways(value: Any) -> None:
    """Text, a dict, or the input itself."""
    assert plan(max_rounds=1).run_sync(value, model=model()).output.task == TASK


def test_what_the_result_has_travels_both_ways() -> None:
    """In camelCase on the wire, and back."""
    output = plan(max_rounds=2).run_sync(TASK, model=model(), seed=3).output
    wire = output.to_wire()
    assert wire["finalProposals"][0]["agent"] == "ann"
    assert wire["earlyEnd"] is None
    assert wire["seed"] == 3
    assert type(output).model_validate(wire) == output
    assert output.consensus_reached


# Analytics


def test_what_can_be_read_off_a_debate_is_in_its_analytics() -> None:
    """Dissent, split opinions, risks, claims without a source, and what several critics suggested."""

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
            return {**answer_of(call), "proposal": f"{call.agent}: rents rose by 40%. Build {call.agent} homes."}
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
    assert set(analytics.unsupported_claims) == set(THREE)
    assert analytics.insights[0] == "suggested 12 times: Say who pays."
    assert any("similarity of the proposals" in insight for insight in analytics.insights)
    assert any("mean severity" in insight for insight in analytics.insights)


def test_a_debate_without_a_count_cannot_be_analyse() -> None:
    """There is nothing yet that could be read off it."""
    output = plan(max_rounds=1).run_sync(TASK, model=model()).output
    with pytest.raises(ValueError, match="not counted"):
        analyse(output.model_copy(update={"tally": None}), 1.0)


def test_a_debate_of_one_has_little_to_tell() -> None:
    """No dissent, no split, no risk; what was measured is there."""
    output = plan(("ann",), max_rounds=1).run_sync(TASK, model=model()).output
    found = analyse(output, 1.0)
    assert (found.agreement, found.dissent, found.split_opinions, found.risk_areas) == (1.0, [], [], [])
    assert analyse(output.model_copy(update={"rounds": []}), 1.0).insights == []
