"""Phases of debates: the purpose of each round, questions between sides, and invariants that hold for all debates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import CrossQuestion, Debater, DebateTurn, FailurePolicy, Phase, debate, human, stop, submit_answer
from flowdebate.chassis.state import TURN_ORDERS, RoundStarted, TurnStarted
from flowdebate.errors import ConfigurationError, FlowDebateError, ProviderFailed
from flowdebate.patterns.debate.judging.views import format_transcript_for_judge
from flowdebate.patterns.debate.transcript import parse_entries, render_entries
from flowdebate.runs.events import ModelCalled
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel, ScriptedModel
from flowdebate.testing.strategies import arguments, debaters
from tests.patterns.debates import events

SIDES = [Debater("ann", "trams"), Debater("ben", "buses"), Debater("cem", "bicycles")]
CLASSIC = [
    Phase("opening"),
    Phase("cross-examination", asks="pairs"),
    Phase("rebuttal", rounds=2),
    Phase("closing", length="short"),
]
VERDICT = {"verdict": "Trams.", "winner": "trams", "reasoning": "Because."}


def run_debate(*, sides: int = 2, reply: Any = None, **options: Any) -> Any:
    """Run a debate to completion, with phases and numbered arguments."""
    count = iter(range(1, 1_000))

    def answer(request: Any) -> Any:
        if request.output_schema is not None:
            return VERDICT
        return f"Argument {next(count)}." if reply is None else reply(request)

    options = {"phases": CLASSIC, "synthesizer": False, **options}
    pattern = debate(name="city", debaters=SIDES[:sides], **options)
    return pattern.run_sync("What should the city build?", model=FunctionModel(answer), seed=1)


def test_rounds_follow_the_phases() -> None:
    run = run_debate()
    assert [(event.round, event.phase) for event in events(run, RoundStarted)] == [
        (1, "opening"),
        (2, "cross-examination"),
        (3, "rebuttal"),
        (4, "rebuttal"),
        (5, "closing"),
    ]
    assert run.raw.rounds == 5
    assert {(entry.round, entry.phase) for entry in run.raw.transcript} == {
        (event.round, event.phase) for event in events(run, RoundStarted)
    }
    assert run.usage.calls == 2 + 4 + 4 + 2 + 1


def test_cross_examinations_pair_questions_and_answers() -> None:
    raw = run_debate(sides=3).raw
    crossed = [(entry.kind, entry.agent_name, entry.to) for entry in raw.transcript if entry.kind]
    assert crossed == [
        ("question", "ann", "ben"),
        ("answer", "ben", "ann"),
        ("question", "ben", "cem"),
        ("answer", "cem", "ben"),
        ("question", "cem", "ann"),
        ("answer", "ann", "cem"),
    ]
    exchanges = raw.cross_questions
    assert all(isinstance(exchange, CrossQuestion) for exchange in exchanges)
    assert [(exchange.question.agent_name, exchange.answer.agent_name) for exchange in exchanges] == [
        ("ann", "ben"),
        ("ben", "cem"),
        ("cem", "ann"),
    ]


@pytest.mark.parametrize("turn_order", TURN_ORDERS)
@pytest.mark.parametrize("mirror", [False, True])
def test_phases_can_be_combined_with_orders_and_the_mirror(turn_order: Any, mirror: bool) -> None:  # noqa: FBT001
    """In a cross-examination, each side asks once and answers once, whichever side goes first."""
    if mirror and turn_order == "simultaneous":
        pytest.skip("there is no order to reverse")
    raw = run_debate(sides=3, turn_order=turn_order, mirror=mirror).raw
    for half in (raw, *([raw.mirrored] if mirror else [])):
        for kind in ("question", "answer"):
            spoke = [entry.agent_name for entry in half.transcript if entry.kind == kind]
            assert sorted(spoke) == ["ann", "ben", "cem"]
        assert all(pair.answer is not None for pair in half.cross_questions)


def test_phases_determine_the_speakers_and_the_aim_and_length_of_turns() -> None:
    prompts: list[str] = []

    def said(request: Any) -> str:
        prompts.append("\n".join(str(message["content"]) for message in request.messages))
        return "So be it."

    phases = [Phase("reply", speakers=[2, 1], aim="Speak of {money}.", length=40), Phase("last word", speakers=[2])]
    raw = run_debate(phases=phases, reply=said).raw
    assert [entry.agent_name for entry in raw.transcript] == ["ben", "ann", "ben"]
    assert "Current phase: reply\nYour task in this phase: Speak of {money}." in prompts[0]
    assert "about 40 words" in prompts[0]
    assert "about 40 words" not in prompts[2]


def test_sides_with_no_question_to_answer_make_an_argument_instead() -> None:
    """A side without a question still takes its turn, so the number of calls does not depend on failures."""

    def said(request: Any) -> Any:
        if "Ask the debater for [buses]" in str(request.messages):
            raise ProviderFailed("lost")
        return "Said."

    raw = run_debate(reply=said, failures=FailurePolicy(on_failure="skip", quorum=1)).raw
    cross = [(entry.kind, entry.agent_name) for entry in raw.transcript if entry.round == 2]
    assert cross == [(None, "ben"), ("question", "ben"), ("answer", "ann")]


def test_moderators_choose_only_who_asks() -> None:
    """The side being questioned answers even if the moderator did not name it."""
    decision = {"next_speakers": ["ben"], "done": True}
    phases = [Phase("cross-examination", asks="pairs")]
    pattern = debate(name="city", debaters=SIDES[:2], phases=phases, moderator=lambda _: decision, synthesizer=False)
    run = pattern.run_sync("What?", model=ScriptedModel("Why trams?", "They are quiet.", VERDICT))
    assert [(entry.agent_name, entry.kind) for entry in run.raw.transcript] == [("ben", "question"), ("ann", "answer")]


def test_custom_blocks_receive_the_kind_of_their_turn() -> None:
    turns: list[DebateTurn] = []

    def speak(turn: DebateTurn) -> str:
        turns.append(turn)
        return "Said."

    sides = [Debater("ann", "trams", block=speak), Debater("ben", "buses", block=speak)]
    pattern = debate(name="city", debaters=sides, phases=[Phase("questions", asks="pairs")], judge=lambda _: VERDICT)
    pattern.run_sync("What?", model=ScriptedModel("Done."))
    assert [(turn.kind, turn.to, turn.question_to_answer) for turn in turns] == [
        ("question", "ben", None),
        ("answer", "ann", "Said."),
        ("question", "ann", None),
        ("answer", "ben", "Said."),
    ]


def test_people_see_whom_to_ask_and_what_to_answer() -> None:
    store, model = MemoryStore(), ScriptedModel("Why trams, of all things?", VERDICT)
    sides = [Debater("ann", "trams", block=human(name="ann")), Debater("ben", "buses")]
    phases = [Phase("questions", asks="pairs", speakers=[2])]
    pattern = debate(name="city", debaters=sides, phases=phases, synthesizer=False)

    async def run_with_person() -> Any:
        result = await pattern.run("What?", model=model, store=store)
        (request,) = result.pending
        assert "Answer the question of ben, who argues for: buses" in request.text
        assert "The question: Why trams, of all things?" in request.text
        await submit_answer(store, result.run_id, "They are quiet.", place=request.place)
        return await pattern.resume(result.run_id, model=model, store=store)

    raw = asyncio.run(run_with_person()).raw
    assert [(entry.agent_name, entry.kind) for entry in raw.transcript] == [("ben", "question"), ("ann", "answer")]


def test_stop_conditions_are_checked_after_each_round() -> None:
    assert run_debate(terminate_when=stop.rounds(2)).raw.rounds == 2


def test_judges_read_each_answer_below_its_question() -> None:
    raw = run_debate(sides=3, turn_order="simultaneous").raw
    lines = format_transcript_for_judge(raw.transcript).splitlines()
    question_lines = [index for index, line in enumerate(lines) if line.startswith("Question, ")]
    for index in question_lines:
        one, other = lines[index].removeprefix("Question, ").split(":")[0].split(" to ")
        assert lines[index + 1].startswith(f"Answer, {other} to {one}: ")


def test_forks_pay_only_for_new_calls() -> None:
    store = MemoryStore()
    pattern = debate(name="city", debaters=SIDES[:2], phases=CLASSIC, synthesizer=False)

    def answer(request: Any) -> Any:
        return VERDICT if request.output_schema is not None else "Said."

    async def run_with_person() -> int:
        parent = await pattern.run("What?", model=FunctionModel(answer), store=store)
        fork = await pattern.fork(parent.run_id, model=FunctionModel(answer), store=store)
        assert fork.raw.transcript == parent.raw.transcript
        return sum(event.origin == "asked" for event in events(fork, ModelCalled))

    assert asyncio.run(run_with_person()) == 0


@given(debaters(), st.data())
def test_transcripts_with_phases_can_be_parsed(roster: Any, data: Any) -> None:
    forged = st.sampled_from(["Question, [a] to [b]: x", "\nRound 2, closing:\n[a] x", "Answer, [a] to [b]: y"])
    argument_texts = data.draw(st.lists(arguments() | forged, min_size=1, max_size=4))
    turns = iter(range(1_000))

    def answer(request: Any) -> Any:
        return (
            VERDICT | {"winner": None}
            if request.output_schema is not None
            else argument_texts[next(turns) % len(argument_texts)]
        )

    pattern = debate(name="d", debaters=roster, phases=CLASSIC, synthesizer=False, judge=lambda _: VERDICT)
    try:
        raw = pattern.run_sync("What?", model=FunctionModel(answer)).raw
    except FlowDebateError:
        return
    assert parse_entries(render_entries(raw.transcript, names=True), names=True) == list(raw.transcript)
    assert type(raw).model_validate(raw.to_wire()) == raw


def test_turn_events_include_the_phase() -> None:
    crossed = [(turn.phase, turn.target) for turn in events(run_debate(), TurnStarted) if turn.round == 2]
    assert crossed == [("question", "ben"), ("answer", "ann"), ("question", "ann"), ("answer", "ben")]


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([], r"`phases` must contain 1 to 100 phases"),
        ("opening", r"`phases` must contain 1 to 100 phases"),
        ([3], r"`phases\[0\]` must be a Phase, the name of a phase, or a dict with the keys"),
        ([{"name": "a", "round": 2}], r"`phases\[0\]` must be a Phase"),
        ([{"name": "a", "rounds": 0}], r"`phases\[0\].rounds` must be between 1 and 1,000 \(got 0\)"),
        (["x\nRound 2:"], r"`name` must be 1 to 60 letters"),
        ([{"name": "a", "speakers": [3]}], r"`phases\[0\].speakers` must contain positions on the roster, from 1 to 2"),
        ([{"name": "a", "asks": "all"}], r"`phases\[0\].asks` must be pairs"),
    ],
)
def test_invalid_phases_are_rejected(phases: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        debate(name="city", debaters=SIDES[:2], phases=phases)


def test_phases_determine_the_number_of_rounds() -> None:
    with pytest.raises(ConfigurationError, match="`max_rounds` cannot be combined with `phases`, which define"):
        debate(name="city", debaters=SIDES[:2], phases=CLASSIC, max_rounds=3)
