"""Provider failures, exceptions in application code, and discarded partial answers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import ConvergenceOptions
from flowdebate.errors import (
    ConnectionLost,
    ContentFiltered,
    EmptyResponse,
    FlowDebateError,
    ModelTimeout,
    NoProposals,
    OutputError,
    ProviderFailed,
    RateLimited,
    Refused,
)
from flowdebate.models.base import ModelResponse
from flowdebate.patterns.consensus.agents import create_conclusive_judge, create_tie_judge
from flowdebate.runs.events import TextDelta

from .debates import NAMES, TASK, THREE, Call, answer_of, check_emitted, model, plan

PHASES = ("proposal", "critique", "revision", "vote")
WHISPER = "Xanthippe"
"""Text that occurs only in failed calls."""


def failing_model(*lost: tuple[str, str], error: Exception | None = None) -> Any:
    """Create a model that fails for the given (phase, agent) pairs."""

    def answer(call: Call) -> Any:
        return (error or ConnectionLost("gone")) if (call.phase, call.agent) in lost else None

    return model(answer)


# Kinds of failed calls


@dataclass(frozen=True)
class Case:
    """A failed call and the failure that it should record."""

    id: str
    reply: Any
    kind: str
    error: str


LOST = [
    Case("the endpoint fails", ProviderFailed("down", status=503), "ProviderFailed", "down"),
    Case("the quota is used up", RateLimited("no more", quota_exhausted=True), "RateLimited", "no more"),
    Case("the model declines", Refused("I would rather not"), "Refused", "I would rather not"),
    Case("a filter stops it", ContentFiltered("policy"), "ContentFiltered", "policy"),
    Case("nothing was said", EmptyResponse("no text"), "EmptyResponse", "no text"),
    Case("it takes too long", ModelTimeout(3), "ModelTimeout", "no answer within 3 s"),
]


@pytest.mark.parametrize("case", LOST, ids=lambda case: case.id)
@pytest.mark.parametrize("phase", PHASES)
def test_debate_continues_after_a_failed_call(case: Case, phase: str) -> None:
    def answer(call: Call) -> Any:
        return case.reply if call.phase == phase and call.agent == "bob" and call.target in (None, "cy") else None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer))
    check_emitted(result)
    (failure,) = result.output.losses
    assert (failure.name, failure.phase, failure.error_type) == ("bob", phase, case.kind)
    assert failure.round == (0 if phase == "proposal" else 1)
    assert failure.target == ("cy" if phase == "critique" else None)
    assert case.error in failure.error
    assert "\n" not in failure.error
    assert result.status == result.output.status == "degraded"
    assert result.output.outcome == "consensus"


def test_invalid_structured_answers_count_as_failures() -> None:
    """For example, a critique needs a severity, and a vote must not have a confidence of 700."""

    def answer(call: Call) -> Any:
        if call.phase == "critique" and call.agent == "bob":
            return {"reasoning": "", "issues": [], "suggestions": []}
        if call.phase == "vote" and call.agent == "cy":
            return {**answer_of(call), "confidence": 700}
        return None

    output = plan(max_rounds=1).run_sync(TASK, model=model(answer)).output
    assert [(f.name, f.phase, f.error_type) for f in output.losses] == [
        ("bob", "critique", "SchemaViolation"),
        ("bob", "critique", "SchemaViolation"),
        ("cy", "vote", "SchemaViolation"),
    ]
    assert output.tally is not None
    assert output.tally.failed == 1


@pytest.mark.parametrize("written", [2, 10, 101, 1.0001, -0.1, float("nan")])
def test_values_outside_0_to_1_are_rejected(written: float) -> None:
    """A severity or confidence of 2 could mean 2%, 20% or 2 out of 5, so the library does not guess."""

    def answer(call: Call) -> Any:
        if call == Call("critique", "bob", 1, "ann"):
            return {**answer_of(call), "severity": written}
        if call.phase == "vote" and call.agent == "cy":
            return {**answer_of(call), "confidence": written}
        return None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer))
    output = result.output
    assert [(f.name, f.phase, f.error_type) for f in output.losses] == [
        ("bob", "critique", "SchemaViolation"),
        ("cy", "vote", "SchemaViolation"),
    ]
    assert output.tally is not None
    assert (output.tally.valid, output.tally.failed) == (2, 1)
    assert output.confidence == pytest.approx(0.75 * 2 / 3)
    assert result.status == output.status == "degraded"


@pytest.mark.parametrize("written", [0, 0.02, 0.7, 1])
def test_values_from_0_to_1_are_unchanged(written: float) -> None:
    def answer(call: Call) -> Any:
        if call.phase == "critique":
            return {**answer_of(call), "severity": written}
        return {**answer_of(call), "confidence": written} if call.phase == "vote" else None

    output = plan(max_rounds=1).run_sync(TASK, model=model(answer)).output
    assert {critique.severity for critique in output.rounds[0].critiques} == {written}
    assert {ballot.confidence for ballot in output.ballots} == {written}
    assert output.losses == []


def test_blank_proposals_count_as_failures() -> None:
    def answer(call: Call) -> Any:
        return ModelResponse(text=" \u200b") if call == Call("proposal", "bob") else None

    output = plan(max_rounds=1).run_sync(TASK, model=model(answer)).output
    assert [(failure.name, failure.error_type) for failure in output.losses] == [("bob", "EmptyResponse")]


def test_failures_are_sorted_by_phase_and_agent() -> None:
    """Answers arrive in a different order in every run, so failures are sorted by round, phase, agent and target."""

    def answer(call: Call) -> Any:
        return ConnectionLost("gone") if call.phase in ("critique", "vote") else None

    output = plan(("cy", "ann", "bob"), max_rounds=2, convergence=None).run_sync(TASK, model=model(answer)).output
    failures = [(failure.round, failure.phase, failure.name, failure.target) for failure in output.losses]
    critiques = [("cy", "ann"), ("cy", "bob"), ("ann", "cy"), ("ann", "bob"), ("bob", "cy"), ("bob", "ann")]
    assert failures == [
        *((number, "critique", *edge) for number in (1, 2) for edge in critiques),
        *((2, "vote", name, None) for name in ("cy", "ann", "bob")),
    ]


# Discarded texts


@given(size=st.integers(1, 6), seed=st.integers(0, 10**6), failing=st.sampled_from((0.1, 0.4, 0.8)))
def test_text_from_failed_calls_appears_only_in_losses(size: int, seed: int, failing: float) -> None:
    names = NAMES[:size]
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        random = Random(f"{seed}:{call}")
        if random.random() >= failing:
            return {**answer_of(call), "enough": False} if call.phase == "revision" else None
        if call.request.on_text is not None:
            call.request.on_text(f"{WHISPER} says")
        broken = {
            "proposal": f"{WHISPER}!",
            "reasoning": WHISPER,
            "issues": [WHISPER],
            "choice": WHISPER,
            "severity": 9,
        }
        errors: list[Any] = [Refused(WHISPER), ProviderFailed(WHISPER)]
        return random.choice(errors if call.phase == "proposal" else [*errors, broken])

    debate = plan(
        names,
        max_rounds=2,
        convergence=None,
        judge=create_conclusive_judge(name="plan"),
        tie_break=create_tie_judge(name="plan", choices=names),
    )

    async def listened_to() -> Any:
        handle = debate.start(TASK, model=model(answer, calls=calls), seed=seed)
        async for _ in handle:  # proposals are only streamed if there is a listener
            pass
        try:
            return await handle
        except NoProposals as error:
            return error.run

    run = asyncio.run(listened_to())
    check_emitted(run)
    assert all(WHISPER not in call.prompt for call in calls)
    dumped = json.loads(run.raw.model_dump_json())
    for failure in dumped.pop("losses"):
        assert WHISPER not in json.dumps({**failure, "error": ""})
    assert WHISPER not in json.dumps(dumped)


def test_partial_proposals_are_discarded() -> None:
    """Listeners have already received the partial proposal, but the debate does not use it."""
    deltas: list[str] = []
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        if call.phase == "proposal" and call.agent == "bob":
            call.request.on_text(f"{WHISPER} should")
            return ConnectionLost("broke off")
        return None

    async def listened_to() -> Any:
        handle = plan(max_rounds=1).start(TASK, model=model(answer, calls=calls))
        deltas.extend([event.text async for event in handle if isinstance(event, TextDelta)])
        return await handle

    result = asyncio.run(listened_to())
    assert f"{WHISPER} should" in deltas
    assert [proposal.agent for proposal in result.output.proposals] == ["ann", "cy"]
    assert WHISPER not in result.output.model_dump_json()
    assert all(WHISPER not in call.prompt and "[bob] " not in call.prompt.split("Round 1")[0] for call in calls)
    assert all(call.target != "bob" for call in calls)


@pytest.mark.parametrize("lost_in", [1, 2])
def test_failed_revisions_leave_the_proposal_unchanged(lost_in: int) -> None:
    """If a revision fails, critics and voters read the proposal's previous version."""
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        return Refused("no") if call == Call("revision", "bob", lost_in) else None

    output = plan(max_rounds=2, convergence=None).run_sync(TASK, model=model(answer, calls=calls)).output
    texts = ["bob has a first idea.", *(f"bob has idea number {number}, quite another one." for number in (1, 2))]
    before, revised_text = texts[lost_in - 1], texts[1 if lost_in == 2 else 2]
    final = next(proposal for proposal in output.final_proposals if proposal.agent == "bob")
    assert (final.text, final.round) == (revised_text, 1 if lost_in == 2 else 2)
    assert [revised.agent for revised in output.rounds[lost_in - 1].revisions] == ["ann", "cy"]
    critics = [call.prompt for call in calls if call.phase == "critique" and call.target == "bob" and call.round == 2]
    assert len(critics) == 2
    assert all(f"[bob] {before}" in prompt for prompt in critics)
    assert all(f"[bob] {revised_text}" in call.prompt for call in calls if call.phase == "vote")
    (failure,) = output.losses
    assert (failure.phase, failure.round) == ("revision", lost_in)


def test_agents_without_critiques_do_not_revise() -> None:
    calls: list[Call] = []
    failing = failing_model(("critique", "ann"), ("critique", "cy"))

    def answer(call: Call) -> Any:
        calls.append(call)
        return ConnectionLost("gone") if call.phase == "critique" and call.target == "bob" else None

    output = plan(max_rounds=1).run_sync(TASK, model=model(answer)).output
    assert [revised.agent for revised in output.rounds[0].revisions] == ["ann", "cy"]
    assert all(not (call.phase == "revision" and call.agent == "bob") for call in calls)
    assert plan(max_rounds=1).run_sync(TASK, model=failing).output.rounds[0].critiques


def test_vote_takes_place_even_if_there_are_no_critiques() -> None:
    failing = failing_model(*(("critique", name) for name in THREE))
    output = plan(max_rounds=1).run_sync(TASK, model=failing).output
    assert [proposal.round for proposal in output.final_proposals] == [0, 0, 0]
    assert output.winner == "ann"
    assert output.rounds[0].convergence is not None
    assert output.rounds[0].convergence.stability == 1.0


# No proposals


def test_debates_without_proposals_raise_an_error() -> None:
    failing = failing_model(*(("proposal", name) for name in THREE), error=ProviderFailed("down", status=503))
    with pytest.raises(NoProposals, match=r"plan: no agent made a proposal \(ann: ProviderFailed: down") as caught:
        plan().run_sync(TASK, model=failing)
    assert isinstance(caught.value, FlowDebateError)
    assert set(caught.value.failures) == set(THREE)
    run = caught.value.run
    check_emitted(run)
    assert run.status == run.raw.status == "failed"
    assert (run.raw.proposals, run.raw.outcome, len(run.raw.losses)) == ([], None, 3)
    assert run.raw.stages[-1].stage == "GENERATING_PROPOSALS"


def test_one_proposal_is_enough_for_a_debate() -> None:
    failing = failing_model(("proposal", "ann"), ("proposal", "cy"))
    output = plan(max_rounds=1).run_sync(TASK, model=failing).output
    assert output.rounds[0].edges == [("ann", "bob"), ("cy", "bob")]
    assert [proposal.agent for proposal in output.final_proposals] == ["bob"]


# Time limits


# Application errors


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.anyio
async def test_exceptions_in_custom_blocks_are_raised_unchanged(phase: str) -> None:
    failure = LookupError("a mistake")

    def block(request: Any) -> Any:
        if request.kind == phase:
            raise failure
        return {"proposal": "An idea.", "critique": {}, "revision": "A better idea.", "vote": "ann"}[request.kind]

    handle = plan(agents=[{"name": "ann"}, {"name": "bob", "block": block}], max_rounds=1).start(TASK, model=model())
    with pytest.raises(LookupError) as caught:
        await handle
    assert caught.value is failure
    emissions = check_emitted(handle)
    assert emissions[-1].error == "LookupError: a mistake"
    assert handle.raw is not None
    assert handle.raw.status == "failed"
    assert handle.raw is not None
    assert [proposal.agent for proposal in handle.raw.proposals] == (["ann"] if phase == "proposal" else ["ann", "bob"])


@pytest.mark.parametrize(
    ("phase", "answer", "field"),
    [
        ("proposal", "", "blank"),
        ("proposal", {"text": " \n"}, "blank"),
        ("critique", "no dict", "a CriticAnswer"),
        ("critique", {"severity": 2}, "severity"),
        ("critique", {"severity": float("nan")}, "severity"),
        ("critique", {"critic": "cy"}, "critic"),
        ("critique", None, "a CriticAnswer"),
        ("revision", {"position": "yes"}, "proposal"),
        ("revision", "\u200b", "blank"),
        ("revision", 7, "a RevisionAnswer"),
        ("vote", None, "a VoteAnswer"),
        ("vote", {"choice": None}, "choice"),
        ("vote", {"choice": "ann", "confidence": -0.1}, "confidence"),
        ("vote", {"choice": "ann", "confidence": float("nan")}, "confidence"),
    ],
)
def test_invalid_results_from_custom_blocks_raise_an_error(phase: str, answer: Any, field: str) -> None:
    """The `OutputError` names the block and the field. The library never guesses what the agent wanted to vote for."""

    def block(request: Any) -> Any:
        fine = {"proposal": "An idea.", "critique": {}, "revision": "A better idea.", "vote": "ann"}
        return {**fine, phase: answer}[request.kind]

    with pytest.raises(OutputError, match=field) as caught:
        plan(agents=[{"name": "ann"}, {"name": "bob", "block": block}], max_rounds=1).run_sync(TASK, model=model())
    assert caught.value.block == "plan-agent-bob"
    check_emitted(caught.value.run)


def test_model_errors_in_custom_blocks_count_as_failures() -> None:
    """If a custom block raises a model error, it is treated like an agent whose provider fails."""

    def block(request: Any) -> Any:
        raise EmptyResponse("nothing")

    output = (
        plan(agents=[{"name": "ann"}, {"name": "bob", "block": block}], max_rounds=1)
        .run_sync(TASK, model=model())
        .output
    )
    assert [failure.error_type for failure in output.losses] == ["EmptyResponse"] * 3
    assert output.winner is None  # the quorum of 2 is not reached


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"terminate_when": lambda ctx: 1 / 0}, "division by zero"),
        ({"judge": lambda request: 1 / 0}, "division by zero"),
        ({"topology": lambda names, number, random: 1 / 0}, "division by zero"),
    ],
    ids=["terminate_when", "judge", "topology"],
)
@pytest.mark.anyio
async def test_exceptions_in_other_application_functions_are_raised(options: Any, message: str) -> None:
    handle = plan(max_rounds=2, convergence=None, **options).start(TASK, model=model())
    with pytest.raises(ZeroDivisionError, match=message):
        await handle
    check_emitted(handle)
    assert handle.raw is not None
    assert len(handle.raw.proposals) == 3
    assert handle.raw is not None
    assert handle.raw.status == "failed"


def test_exceptions_in_a_similarity_measure_end_the_debate() -> None:
    class Broken:
        name = "broken"

        def __call__(self, texts: Any, /) -> Any:
            raise NotImplementedError

    with pytest.raises(NotImplementedError):
        plan(convergence=ConvergenceOptions(similarity=Broken()), max_rounds=2).run_sync(TASK, model=model())
