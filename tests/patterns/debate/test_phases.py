"""Phases: rounds are for something, sides ask each other, and every law of a debate holds."""

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


def held(*, sides: int = 2, said: Any = None, **options: Any) -> Any:
    """A debate with phases, over; its arguments are numbered."""
    count = iter(range(1, 1_000))

    def answer(request: Any) -> Any:
        if request.output_schema is not None:
            return VERDICT
        return f"Argument {next(count)}." if said is None else said(request)

    options = {"phases": CLASSIC, "synthesizer": False, **options}
    pattern = debate(name="city", debaters=SIDES[:sides], **options)
    return pattern.run_sync("What should the city build?", model=FunctionModel(answer), seed=1)


def test_each_round_is_for_its_phase() -> None:
    """The debate has the rounds of its phases, and the transcript says which they were for."""
    run = held()
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


def test_in_a_cross_examination_one_side_asks_and_the_other_answers() -> None:
    """Both are entries of their own kind, and the output pairs them."""
    raw = held(sides=3).raw
    crossed = [(each.kind, each.agent_name, each.to) for each in raw.transcript if each.kind]
    assert crossed == [
        ("question", "ann", "ben"),
        ("answer", "ben", "ann"),
        ("question", "ben", "cem"),
        ("answer", "cem", "ben"),
        ("question", "cem", "ann"),
        ("answer", "ann", "cem"),
    ]
    asked = raw.cross_questions
    assert all(isinstance(each, CrossQuestion) for each in asked)
    assert [(each.question.agent_name, each.answer.agent_name) for each in asked] == [
        ("ann", "ben"),
        ("ben", "cem"),
        ("cem", "ann"),
    ]


@pytest.mark.parametrize("turn_order", TURN_ORDERS)
@pytest.mark.parametrize("mirror", [False, True])
def test_phases_compose_with_orders_and_the_mirror(turn_order: Any, mirror: bool) -> None:  # noqa: FBT001
    """Each asks once and answers once in a cross-examination, whoever begins."""
    if mirror and turn_order == "simultaneous":
        pytest.skip("there is no order to reverse")
    raw = held(sides=3, turn_order=turn_order, mirror=mirror).raw
    for each in (raw, *([raw.mirrored] if mirror else [])):
        for kind in ("question", "answer"):
            spoke = [entry.agent_name for entry in each.transcript if entry.kind == kind]
            assert sorted(spoke) == ["ann", "ben", "cem"]
        assert all(pair.answer is not None for pair in each.cross_questions)


def test_a_phase_says_who_speaks_what_it_is_for_and_how_long_turns_are() -> None:
    """Its speakers in its order, its aim in their prompts, its length in place of the debate's."""
    prompts: list[str] = []

    def said(request: Any) -> str:
        prompts.append("\n".join(str(each["content"]) for each in request.messages))
        return "So be it."

    phases = [Phase("reply", speakers=[2, 1], aim="Speak of {money}.", length=40), Phase("last word", speakers=[2])]
    raw = held(phases=phases, said=said).raw
    assert [entry.agent_name for entry in raw.transcript] == ["ben", "ann", "ben"]
    assert "Current phase: reply\nYour task in this phase: Speak of {money}." in prompts[0]
    assert "about 40 words" in prompts[0]
    assert "about 40 words" not in prompts[2]


def test_without_a_question_the_asked_side_argues() -> None:
    """Its turn is taken in any case, so that the number of calls does not depend on who fails."""

    def said(request: Any) -> Any:
        if "Ask the debater for [buses]" in str(request.messages):
            raise ProviderFailed("lost")
        return "Said."

    raw = held(said=said, failures=FailurePolicy(on_failure="skip", quorum=1)).raw
    cross = [(entry.kind, entry.agent_name) for entry in raw.transcript if entry.round == 2]
    assert cross == [(None, "ben"), ("question", "ben"), ("answer", "ann")]


def test_a_moderator_calls_those_who_ask() -> None:
    """Whom they ask answers."""
    decision = {"next_speakers": ["ben"], "done": True}
    phases = [Phase("cross-examination", asks="pairs")]
    pattern = debate(name="city", debaters=SIDES[:2], phases=phases, moderator=lambda _: decision, synthesizer=False)
    run = pattern.run_sync("What?", model=ScriptedModel("Why trams?", "They are quiet.", VERDICT))
    assert [(each.agent_name, each.kind) for each in run.raw.transcript] == [("ben", "question"), ("ann", "answer")]


def test_blocks_of_ones_own_are_told_what_their_turn_is_for() -> None:
    """By their input, which is a `DebateTurn`."""
    seen: list[DebateTurn] = []

    def speak(turn: DebateTurn) -> str:
        seen.append(turn)
        return "Said."

    sides = [Debater("ann", "trams", block=speak), Debater("ben", "buses", block=speak)]
    pattern = debate(name="city", debaters=sides, phases=[Phase("questions", asks="pairs")], judge=lambda _: VERDICT)
    pattern.run_sync("What?", model=ScriptedModel("Done."))
    assert [(turn.kind, turn.to, turn.put) for turn in seen] == [
        ("question", "ben", None),
        ("answer", "ann", "Said."),
        ("question", "ann", None),
        ("answer", "ben", "Said."),
    ]


def test_a_person_is_told_whom_to_ask_and_what_to_answer() -> None:
    """And the run waits for the answer, and goes on with it."""
    store, model = MemoryStore(), ScriptedModel("Why trams, of all things?", VERDICT)
    sides = [Debater("ann", "trams", block=human(name="ann")), Debater("ben", "buses")]
    phases = [Phase("questions", asks="pairs", speakers=[2])]
    pattern = debate(name="city", debaters=sides, phases=phases, synthesizer=False)

    async def go() -> Any:
        result = await pattern.run("What?", model=model, store=store)
        (asked,) = result.pending
        assert "Answer the question of ben, who argues for: buses" in asked.text
        assert "The question: Why trams, of all things?" in asked.text
        await submit_answer(store, result.run_id, "They are quiet.", place=asked.place)
        return await pattern.resume(result.run_id, model=model, store=store)

    raw = asyncio.run(go()).raw
    assert [(entry.agent_name, entry.kind) for entry in raw.transcript] == [("ben", "question"), ("ann", "answer")]


def test_stop_conditions_are_asked_after_each_round() -> None:
    """A debate with phases may end before its last."""
    assert held(terminate_when=stop.rounds(2)).raw.rounds == 2


def test_a_judge_reads_each_answer_below_its_question() -> None:
    """In whatever order the sides are shown."""
    raw = held(sides=3, turn_order="simultaneous").raw
    lines = format_transcript_for_judge(raw.transcript).splitlines()
    asked = [index for index, line in enumerate(lines) if line.startswith("Question, ")]
    for index in asked:
        one, other = lines[index].removeprefix("Question, ").split(":")[0].split(" to ")
        assert lines[index + 1].startswith(f"Answer, {other} to {one}: ")


def test_fork_pays_for_what_is_new() -> None:
    """A fork of a debate with phases takes its parent's answers."""
    store = MemoryStore()
    pattern = debate(name="city", debaters=SIDES[:2], phases=CLASSIC, synthesizer=False)

    def answer(request: Any) -> Any:
        return VERDICT if request.output_schema is not None else "Said."

    async def go() -> int:
        parent = await pattern.run("What?", model=FunctionModel(answer), store=store)
        fork = await pattern.fork(parent.run_id, model=FunctionModel(answer), store=store)
        assert fork.raw.transcript == parent.raw.transcript
        return sum(event.origin == "asked" for event in events(fork, ModelCalled))

    assert asyncio.run(go()) == 0


@given(debaters(), st.data())
def test_a_transcript_with_phases_reads_back_whatever_is_said(roster: Any, data: Any) -> None:
    """Nothing that is said can pass for a heading, a question or an answer."""
    forged = st.sampled_from(["Question, [a] to [b]: x", "\nRound 2, closing:\n[a] x", "Answer, [a] to [b]: y"])
    said = data.draw(st.lists(arguments() | forged, min_size=1, max_size=4))
    turns = iter(range(1_000))

    def answer(request: Any) -> Any:
        return VERDICT | {"winner": None} if request.output_schema is not None else said[next(turns) % len(said)]

    pattern = debate(name="d", debaters=roster, phases=CLASSIC, synthesizer=False, judge=lambda _: VERDICT)
    try:
        raw = pattern.run_sync("What?", model=FunctionModel(answer)).raw
    except FlowDebateError:
        return
    assert parse_entries(render_entries(raw.transcript, names=True), names=True) == list(raw.transcript)
    assert type(raw).model_validate(raw.to_wire()) == raw


def test_every_turn_is_told() -> None:
    """What it is for is in its events."""
    crossed = [(turn.phase, turn.target) for turn in events(held(), TurnStarted) if turn.round == 2]
    assert crossed == [("question", "ben"), ("answer", "ann"), ("question", "ann"), ("answer", "ben")]


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([], r"`phases` must be 1 to 100 phases"),
        ("opening", r"`phases` must be 1 to 100 phases"),
        ([3], r"`phases\[0\]` must be a Phase, its name, or a dict of"),
        ([{"name": "a", "round": 2}], r"`phases\[0\]` must be a Phase"),
        ([{"name": "a", "rounds": 0}], r"`phases\[0\].rounds` must be at least 1 \(got 0\)"),
        (["x\nRound 2:"], r"`name` must be 1 to 60 letters"),
        ([{"name": "a", "speakers": [3]}], r"`phases\[0\].speakers` must be places on a roster of 2, from 1"),
        ([{"name": "a", "asks": "all"}], r"`phases\[0\].asks` must be 'pairs' or None"),
    ],
)
def test_phases_that_cannot_be_are_refused(phases: Any, message: str) -> None:
    """With the phase and its field, before anything is built."""
    with pytest.raises(ConfigurationError, match=message):
        debate(name="city", debaters=SIDES[:2], phases=phases)


def test_phases_say_how_many_rounds_there_are() -> None:
    """Another number beside them is refused."""
    with pytest.raises(ConfigurationError, match="`max_rounds` cannot be combined with `phases`, which have"):
        debate(name="city", debaters=SIDES[:2], phases=CLASSIC, max_rounds=3)
