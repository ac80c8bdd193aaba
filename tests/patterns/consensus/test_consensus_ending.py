"""Conditions that end the rounds: convergence, agents, a judge, confidence, a predicate, a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import ConvergenceOptions
from flowdebate.errors import OutputError, ProviderFailed
from flowdebate.measures import Jaccard
from flowdebate.patterns.consensus.agents import create_conclusive_judge, create_tie_judge

from .debates import NAMES, TASK, THREE, Call, answer_of, check_emitted, model, plan

if TYPE_CHECKING:
    from flowdebate.patterns.consensus.questions import StopRequest
    from flowdebate.patterns.consensus.schemas import ConsensusOutput, EarlyEnd
    from flowdebate.runs.context import Context


def get_ending(output: ConsensusOutput) -> tuple[str, int] | None:
    """Return the reason for ending the rounds early, and the last round."""
    early: EarlyEnd | None = output.early_end
    return None if early is None else (early.source, early.round)


def repeating_model(position: str | dict[str, str] = "cap", *, from_round: int = 1) -> Any:
    """Create a model whose revisions repeat the same text from a given round on, with a `position` for each agent."""

    def answer(call: Call) -> Any:
        if call.phase != "revision":
            return None
        stated = position if isinstance(position, str) else position[call.agent]
        text = "Cap rents now." if call.round >= from_round else answer_of(call)["proposal"]
        return {"proposal": text, "position": stated, "enough": False}

    return model(answer)


# Convergence


@pytest.mark.parametrize("from_round", [1, 2])
def test_converged_proposals_end_the_rounds(from_round: int) -> None:
    """Proposals have converged if they use the same words and do not contradict each other."""
    result = plan(max_rounds=3).run_sync(TASK, model=repeating_model(from_round=from_round))
    check_emitted(result)
    output = result.output
    assert get_ending(output) == ("convergence", from_round)
    assert len(output.rounds) == from_round
    assert output.early_end is not None
    assert output.early_end.reason == "similarity 1.00 (jaccard)"
    assert [one.convergence.status for one in output.rounds if one.convergence] == [
        *["refining"] * (from_round - 1),
        "converged",
    ]
    assert output.status == "complete"


def test_agents_repeating_opposite_answers_have_not_converged() -> None:
    positions = {"ann": "yes", "bob": "no", "cy": "yes"}
    output = plan(max_rounds=3).run_sync(TASK, model=repeating_model(positions)).output
    assert get_ending(output) is None
    statuses = [one.convergence.status for one in output.rounds if one.convergence]
    assert statuses == ["refining", "stagnant", "stagnant"]
    assert all(one.convergence.similarity == 1 for one in output.rounds if one.convergence)
    assert output.analytics is not None
    assert "the agents repeated themselves, and did not agree" in output.analytics.insights


def test_positions_last_until_the_agent_states_a_new_one() -> None:
    """If an agent's revision fails, the agent keeps the position that it stated before."""

    def answer(call: Call) -> Any:
        if call == Call("revision", "bob", 2):
            return ProviderFailed("down")
        if call.phase != "revision":
            return None
        return {"proposal": "Cap rents.", "position": "no" if call.agent == "bob" else "yes", "enough": False}

    output = plan(max_rounds=2).run_sync(TASK, model=model(answer)).output
    assert [one.convergence.status for one in output.rounds if one.convergence] == ["refining", "stagnant"]
    assert {proposal.agent: proposal.position for proposal in output.final_proposals} == {
        "ann": "yes",
        "bob": "no",
        "cy": "yes",
    }


def test_convergence_is_only_measured_if_no_threshold_is_set() -> None:
    output = plan(max_rounds=3, convergence=None).run_sync(TASK, model=repeating_model()).output
    assert get_ending(output) is None
    assert [one.convergence.status for one in output.rounds if one.convergence] == ["converged"] * 3


@pytest.mark.parametrize(("bound", "rounds"), [(0.5, 1), (0.7, 2), (0.7001, 3)])
def test_convergence_threshold_is_configurable(bound: float, rounds: int) -> None:
    class Steps:
        name = "steps"

        def __call__(self, texts: Any, /) -> Any:
            similarity = 0.6 if all("number 1" in text for text in texts) else 0.7
            return [[1.0 if one == other else similarity for other in texts] for one in texts]

    def silent(call: Call) -> Any:
        return {**answer_of(call), "position": ""} if call.phase == "revision" else None

    output = (
        plan(max_rounds=3, convergence=ConvergenceOptions(bound, similarity=Steps()))
        .run_sync(TASK, model=model(silent))
        .output
    )
    assert len(output.rounds) == rounds


def test_dissimilar_proposals_count_as_divergence() -> None:
    words = dict(zip(THREE, ("cap every rent", "build more homes", "tax idle land"), strict=True))

    def answer(call: Call) -> Any:
        if call.phase == "revision":
            return {"proposal": words[call.agent], "position": "", "enough": False}
        return None

    output = plan(max_rounds=2).run_sync(TASK, model=model(answer)).output
    assert [one.convergence.status for one in output.rounds if one.convergence] == ["diverging"] * 2
    assert get_ending(output) is None
    bound = (
        plan(max_rounds=1, convergence=ConvergenceOptions(diverging=0.0, similarity=Jaccard()))
        .run_sync(TASK, model=model(answer))
        .output
    )
    assert bound.rounds[0].convergence is not None
    assert bound.rounds[0].convergence.status == "refining"


def test_stability_compares_each_text_with_its_previous_version() -> None:
    def answer(call: Call) -> Any:
        if call.phase != "revision":
            return None
        return ProviderFailed("down") if call.round == 2 else {**answer_of(call), "proposal": f"{call.agent} stays so"}

    output = plan(max_rounds=3, convergence=None).run_sync(TASK, model=model(answer)).output
    stability = [one.convergence.stability for one in output.rounds if one.convergence]
    assert stability[0] is not None
    assert 0 < stability[0] < 1
    assert stability[1:] == [1.0, 1.0]


def test_best_installed_similarity_measure_is_used() -> None:
    output = plan(max_rounds=1, convergence=ConvergenceOptions()).run_sync(TASK, model=model()).output
    assert output.rounds[0].convergence is not None
    assert output.rounds[0].convergence.backend in ("embeddings", "tf-idf", "jaccard")


# Agents


@pytest.mark.parametrize(("content", "ends"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
def test_majority_of_agents_can_end_the_rounds(content: int, ends: bool) -> None:  # noqa: FBT001
    """In each revision, an agent states whether it thinks the debate has lasted long enough."""

    def answer(call: Call) -> Any:
        return {**answer_of(call), "enough": NAMES.index(call.agent) < content} if call.phase == "revision" else None

    result = plan(NAMES[:4], max_rounds=2).run_sync(TASK, model=model(answer))
    check_emitted(result)
    assert get_ending(result.output) == (("agents", 1) if ends else None)
    assert result.output.rounds[0].enough == list(NAMES[:content])
    if ends:
        assert result.output.early_end is not None
        assert result.output.early_end.reason == f"{content} of 4 think that another round would change nothing"


def test_failed_revisions_do_not_count_as_votes_to_end() -> None:
    """A majority is more than half of the agents that have a proposal, so exactly half is not enough."""

    def answer(call: Call) -> Any:
        if call.phase == "revision":
            return ProviderFailed("down") if call.agent in ("cy", "di") else {**answer_of(call), "enough": True}
        return None

    assert get_ending(plan(NAMES[:4], max_rounds=2).run_sync(TASK, model=model(answer)).output) is None


# A judge


@pytest.mark.parametrize(
    "answer",
    [True, {"conclusive": True}, {"reasoning": "It is clear.\ud800", "conclusive": True}],
)
def test_judge_can_end_the_rounds(answer: Any) -> None:
    requests: list[StopRequest] = []

    def judge(value: StopRequest) -> Any:
        requests.append(value)
        return answer if value.round == 2 else False

    result = plan(max_rounds=4, judge=judge).run_sync(TASK, model=model())
    check_emitted(result)
    assert get_ending(result.output) == ("judge", 2)
    assert result.output.early_end is not None
    assert result.output.early_end.reason in ("", "It is clear.\ufffd")
    assert [(value.task, value.round) for value in requests] == [(TASK, 1), (TASK, 2)]
    for value, one in zip(requests, result.output.rounds, strict=True):
        assert value.critiques == one.critiques
        assert value.proposals == one.revisions
    result.output.to_wire()
    result.output.model_dump_json()


def test_default_judge_is_separate_from_the_agents() -> None:
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        return {"reasoning": "All is said.", "conclusive": call.round == 2} if call.phase == "judge" else None

    judge = create_conclusive_judge(name="plan")
    output = plan(max_rounds=3, judge=judge).run_sync(TASK, model=model(answer, calls=calls)).output
    assert get_ending(output) == ("judge", 2)
    assert output.early_end is not None
    assert output.early_end.reason == "All is said."
    prompts = [call.prompt for call in calls if call.phase == "judge"]
    assert len(prompts) == 2
    for number, prompt in enumerate(prompts, start=1):
        assert f"Round {number} is over." in prompt
        assert "You are not one of the agents." in prompt
        assert f"in round {number}." in prompt
        assert f"in round {3 - number}." not in prompt


@pytest.mark.parametrize("answer", ["yes", {}, {"conclusive": "perhaps"}, {"final": True}])
def test_invalid_results_from_a_custom_judge_raise_an_error(answer: Any) -> None:
    with pytest.raises(OutputError, match="JudgeAnswer") as caught:
        plan(judge=lambda request: answer).run_sync(TASK, model=model())
    assert caught.value.block == "plan-judge"


# A predicate


def test_predicate_can_end_the_rounds() -> None:
    states: list[tuple[int, list[str]]] = []

    async def enough(ctx: Context) -> bool:
        state = ctx.sequencer.state
        states.append((state.round, sorted(state.proposals)))
        return bool(state.round == 2)

    result = plan(max_rounds=4, terminate_when=enough).run_sync(TASK, model=model())
    check_emitted(result)
    assert get_ending(result.output) == ("predicate", 2)
    assert states == [(1, list(THREE)), (2, list(THREE))]
    assert get_ending(plan(max_rounds=4, terminate_when=lambda ctx: True).run_sync(TASK, model=model()).output) == (
        "predicate",
        1,
    )


# Confidence


def voting_model(confidence: dict[int, float], choice: str = "bob") -> Any:
    """Create an answer function for `model()`.

    All agents vote for `choice`, with the confidence given for each round.
    """

    def answer(call: Call) -> Any:
        if call.phase != "vote":
            return None
        rounds = max((n for n in confidence if n and f"idea number {n}" in call.prompt), default=0)
        return {**answer_of(call), "choice": choice, "confidence": confidence[rounds]}

    return answer


@pytest.mark.parametrize(("enough", "rounds"), [(0.5, 1), (0.6, 2), (0.7, 2), (0.71, 3)])
def test_confident_agents_end_the_rounds(enough: float, rounds: int) -> None:
    """Agents are polled after each round except the last. The poll that ends the rounds also serves as the vote."""
    calls: list[Call] = []
    debate = plan(max_rounds=3, convergence=None, confidence=enough)
    result = debate.run_sync(TASK, model=model(voting_model({1: 0.5, 2: 0.7, 3: 0.9}), calls=calls))
    check_emitted(result)
    output = result.output
    assert len(output.rounds) == rounds
    assert get_ending(output) == (None if rounds == 3 else ("confidence", rounds))
    assert [call.phase for call in calls].count("vote") == 3 * min(rounds, 3)
    assert output.confidence == pytest.approx({1: 0.5, 2: 0.7, 3: 0.9}[rounds])
    assert [len(one.poll) for one in output.rounds] == [3, 3, 0][:rounds]
    if rounds < 3:
        assert output.early_end is not None
        assert output.early_end.reason == f"the agents agree on 'bob' with a confidence of {output.confidence:.2f}"
        assert output.ballots == output.rounds[-1].poll


def test_polls_without_a_consensus_do_not_end_the_rounds() -> None:
    def answer(call: Call) -> Any:
        return {**answer_of(call), "choice": call.agent, "confidence": 1} if call.phase == "vote" else None

    output = plan(max_rounds=2, convergence=None, confidence=0).run_sync(TASK, model=model(answer)).output
    assert (len(output.rounds), get_ending(output), len(output.rounds[0].poll)) == (2, None, 3)


def test_failed_poll_votes_are_not_retried() -> None:
    """Two of the three agents are confident, which ends the rounds.

    The third agent's vote failed in that poll and remains missing.
    """

    def answer(call: Call) -> Any:
        if call.phase == "vote" and call.agent == "cy":
            return ProviderFailed("gone", status=500)
        return {**answer_of(call), "confidence": 1} if call.phase == "vote" else None

    result = plan(max_rounds=2, convergence=None, confidence=0.6).run_sync(TASK, model=model(answer))
    check_emitted(result)
    output = result.output
    assert get_ending(output) == ("confidence", 1)
    assert [(loss.name, loss.phase, loss.round) for loss in output.losses] == [("cy", "poll", 1)]
    assert output.tally is not None
    assert (output.tally.valid, output.tally.failed) == (2, 1)
    assert output.confidence == pytest.approx(2 / 3)
    assert result.status == "degraded"


def test_missing_proposals_lower_the_confidence() -> None:
    """If two of three proposals are missing, confidence in the remaining one is at most one third."""

    def answer(call: Call) -> Any:
        if call.phase == "proposal" and call.agent != "ann":
            return ProviderFailed("gone", status=500)
        return {**answer_of(call), "confidence": 1} if call.phase == "vote" else None

    debate = plan(max_rounds=2, convergence=None, confidence=0.5)
    output = debate.run_sync(TASK, model=model(answer)).output
    assert (len(output.rounds), get_ending(output)) == (2, None)


# A budget


@given(
    size=st.integers(1, 5),
    more=st.integers(0, 60),
    topology=st.sampled_from(("all-to-all", "round-robin", "ring", "star", "sparse", "random-graph")),
    judged=st.booleans(),
    ties=st.booleans(),
    polled=st.booleans(),
)
def test_debate_stays_within_its_call_budget(
    size: int,
    more: int,
    topology: str,
    judged: bool,  # noqa: FBT001
    ties: bool,  # noqa: FBT001
    polled: bool,  # noqa: FBT001
) -> None:
    """Even with the smallest budget for a single round, enough calls remain for the vote."""
    names = NAMES[:size]
    options: dict[str, Any] = {"topology": topology, "convergence": None}
    if judged:
        options["judge"] = create_conclusive_judge(name="plan")
    if ties:
        options["tie_break"] = create_tie_judge(name="plan", choices=names)
    if polled:
        options["confidence"] = 0.9  # higher than the confidence of any vote

    def votes(call: Call) -> Any:
        return {**answer_of(call), "choice": call.agent} if call.phase == "vote" else None

    one = plan(names, max_rounds=1, **options).run_sync(TASK, model=model(votes), seed=1)
    tie = 1 if ties else 0
    asked_once = one.usage.calls if size > 1 else one.usage.calls + tie  # a single agent cannot tie
    round_calls = asked_once - 2 * size - tie + judged + polled * size
    budget = asked_once + more
    result = plan(names, max_rounds=6, budget=budget, **options).run_sync(TASK, model=model(votes), seed=1)
    check_emitted(result)
    assert result.usage.calls <= budget
    assert result.output.tally is not None
    rounds = len(result.output.rounds)
    if rounds == 6:
        assert get_ending(result.output) is None
    else:
        assert get_ending(result.output) == ("budget", rounds)
        assert result.usage.calls + round_calls > budget - (0 if size > 1 else tie)


def test_exhausted_budget_message_states_the_required_calls() -> None:
    output = plan(max_rounds=3, convergence=None, budget=20).run_sync(TASK, model=model()).output
    assert get_ending(output) == ("budget", 1)
    assert output.early_end is not None
    assert output.early_end.reason == "12 calls made; a round more and the vote would take 12 of 20"


# No early end


@pytest.mark.parametrize("source", ["convergence", "agents", "judge", "predicate", "budget"])
@pytest.mark.parametrize("max_rounds", [1, 2])
def test_last_round_never_ends_early(source: str, max_rounds: int) -> None:
    def answer(call: Call) -> Any:
        if call.phase != "revision" or call.round < max_rounds:
            return None
        return {"proposal": "Cap.", "position": "", "enough": True} if source in ("convergence", "agents") else None

    options: dict[str, dict[str, Any]] = {
        "judge": {"judge": lambda request: request.round == max_rounds},
        "predicate": {"terminate_when": lambda ctx: ctx.sequencer.state.round == max_rounds},
        "budget": {"budget": 3 + 9 * max_rounds + 3},
        "agents": {"convergence": None},
    }
    output = plan(max_rounds=max_rounds, **options.get(source, {})).run_sync(TASK, model=model(answer)).output
    assert get_ending(output) is None
    assert len(output.rounds) == max_rounds


def test_first_condition_to_end_the_rounds_is_reported() -> None:
    def answer(call: Call) -> Any:
        return {"proposal": "Cap.", "position": "", "enough": True} if call.phase == "revision" else None

    options: dict[str, Any] = {"judge": lambda request: True, "terminate_when": lambda ctx: True, "budget": 1}
    sources = []
    for convergence, enough in ((0.85, True), (None, True), (None, False)):

        def give_answer(call: Call, enough: bool = enough) -> Any:  # noqa: FBT001
            reply = answer(call)
            return {**reply, "enough": enough} if reply else None

        debate = plan(max_rounds=2, convergence=convergence, **options)
        sources.append(get_ending(debate.run_sync(TASK, model=model(give_answer)).output))
    assert sources == [("convergence", 1), ("agents", 1), ("budget", 1)]
    del options["budget"]
    assert get_ending(plan(max_rounds=2, **options).run_sync(TASK, model=model()).output) == ("judge", 1)
    del options["judge"]
    assert get_ending(plan(max_rounds=2, **options).run_sync(TASK, model=model()).output) == ("predicate", 1)


@given(max_rounds=st.integers(1, 6), size=st.integers(1, 4))
def test_debate_ends_after_max_rounds(max_rounds: int, size: int) -> None:
    """The debate ends at the limit even if the agents want to continue."""
    debate = plan(NAMES[:size], max_rounds=max_rounds, convergence=None, topology="ring")
    result = debate.run_sync(TASK, model=model())
    check_emitted(result)
    assert [one.round for one in result.output.rounds] == list(range(1, max_rounds + 1))
