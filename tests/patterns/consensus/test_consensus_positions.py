"""Positions from the first proposal on, and changes between the proposal and the first revision."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import ConvergenceOptions
from flowdebate.errors import ConnectionLost
from flowdebate.measures import Jaccard
from flowdebate.patterns.consensus.rounds import split_position
from flowdebate.resources.archive import Archive
from flowdebate.store import MemoryStore

from .debates import TASK, THREE, Call, answer_of, check_emitted, model, plan


def stating(call: Call) -> Any:
    """State a position with each text; bob changes his in the first revision."""
    match call.phase:
        case "proposal":
            return f"{call.agent} would build homes.\n\nPosition: build homes"
        case "revision":
            return {**answer_of(call), "position": "cap all rents" if call.agent == "bob" else "build homes"}
        case _:
            return None


def test_change_of_mind_in_the_first_revision_is_recorded() -> None:
    """The position stated in the proposal belongs to round 0, both in the output and in the ledger."""
    archive = Archive()
    output = plan(max_rounds=1, archive=archive).run_sync(TASK, model=model(stating)).output
    assert [(proposal.text, proposal.position, proposal.round) for proposal in output.proposals] == [
        (f"{name} would build homes.", "build homes", 0) for name in THREE
    ]
    assert output.feedback is not None
    (flip,) = output.feedback.flips
    assert (flip.agent, flip.kind, flip.before.round, flip.after.round) == ("bob", "contradiction", 0, 1)
    ledger = asyncio.run(archive.positions.of("bob"))
    assert [(position.round, position.answer) for position in ledger] == [(0, "build homes"), (1, "cap all rents")]
    assert asyncio.run(archive.personas.of("bob")).flips == 1


def test_position_line_is_removed_from_the_text() -> None:
    """The line only reports the position, so neither critics nor voters see it."""
    calls: list[Call] = []
    result = plan(max_rounds=1).run_sync(TASK, model=model(stating, calls=calls))
    emissions = check_emitted(result)
    assert all("| Position:" not in call.prompt for call in calls)
    assert all('"Position:"' in call.prompt for call in calls if call.phase == "proposal")
    assert all("Position:" not in getattr(event, "text", "") for event in emissions)


def test_proposal_positions_count_toward_convergence() -> None:
    """Bob's revisions fail, so his proposal remains, and the position stated in it contradicts the other agents."""

    def answer(call: Call) -> Any:
        match call.phase:
            case "proposal":
                return f"The same words of everybody.\nPosition: {'no' if call.agent == 'bob' else 'yes'}"
            case "revision" if call.agent == "bob":
                return ConnectionLost("gone")
            case "revision":
                return {"proposal": "The same words of everybody.", "position": "yes", "enough": False}
            case _:
                return None

    output = plan(max_rounds=2).run_sync(TASK, model=model(answer)).output
    assert [one.convergence.status for one in output.rounds if one.convergence] == ["stagnant", "stagnant"]
    assert output.early_end is None


@pytest.mark.parametrize(
    ("written", "text", "position"),
    [
        ("Cap rents.\nPosition: cap them", "Cap rents.", "cap them"),
        ("Cap rents.\n\n**Position:** a cap of 3%  \n\n", "Cap rents.", "a cap of 3%"),
        ("Cap rents.\n> POSITION : *cap*", "Cap rents.", "cap"),
        ("Cap rents.\nPosition:", "Cap rents.\nPosition:", None),
        ("Position: cap them", "Position: cap them", None),
        ("Position: cap them\nCap rents.", "Position: cap them\nCap rents.", None),
        ("My position: cap them.", "My position: cap them.", None),
        ("Cap rents.\nPosition: " + "very " * 50, "Cap rents.\nPosition: " + "very " * 50, None),
        ("Cap rents.", "Cap rents.", None),
    ],
)
def test_last_line_can_state_the_position(written: str, text: str, position: str | None) -> None:
    assert split_position(written) == (text, position)


@given(st.text())
def test_no_text_is_lost_when_a_position_is_extracted(written: str) -> None:
    text, position = split_position(written)
    assert written.startswith(text)
    assert position is None or (position in written[len(text) :] and text.strip())


class Cut(Exception):
    """A failure raised by the application."""


@given(st.integers(0, 14))
def test_resumed_runs_repeat_no_recorded_call(answered: int) -> None:
    async def resumed() -> None:
        store = MemoryStore()
        calls: list[Call] = []

        def cut(call: Call) -> Any:
            if len(calls) > answered:
                raise Cut
            return stating(call)

        debate = plan(max_rounds=1)
        with pytest.raises(Cut):
            await debate.run(TASK, model=model(cut, calls=calls), store=store, run_id="one", seed=1)
        repeated: list[Call] = []
        result = await debate.resume("one", model=model(stating, calls=repeated), store=store)
        uninterrupted = await debate.run(TASK, model=model(stating), seed=1)
        assert [p.position for p in result.output.proposals] == [p.position for p in uninterrupted.output.proposals]
        assert len(repeated) <= 15 - answered

    asyncio.run(resumed())


@pytest.mark.anyio
async def test_resumed_runs_keep_the_recorded_similarities() -> None:
    class Changing(Jaccard):
        name = "changing"
        alike = 1.0

        def __call__(self, texts: Any, /) -> Any:
            return [[self.alike] * len(texts) for _ in texts]

    def cut(call: Call) -> Any:
        return Cut() if call.phase == "vote" else agreeing(call)

    def agreeing(call: Call) -> Any:
        return {**answer_of(call), "position": "build"} if call.phase == "revision" else None

    store, measure = MemoryStore(), Changing()
    debate = plan(max_rounds=2, convergence=ConvergenceOptions(similarity=measure))
    with pytest.raises(Cut):
        await debate.run(TASK, model=model(cut), store=store, run_id="one", seed=1)
    measure.alike = 0.0
    output = (await debate.resume("one", model=model(agreeing), store=store)).output
    assert output.early_end is not None
    assert (output.early_end.source, len(output.rounds)) == ("convergence", 1)


@pytest.mark.anyio
async def test_resumed_runs_keep_the_recorded_judge_rulings() -> None:
    answers: dict[str, Any] = {"conclusive": True, "tie": "bob"}

    def tied(call: Call) -> Any:
        return {**answer_of(call), "choice": call.agent} if call.phase == "vote" else None

    store = MemoryStore()
    debate = plan(
        ("ann", "bob"),
        max_rounds=2,
        convergence=None,
        judge=lambda _: answers["conclusive"],
        tie_break=lambda _: answers["tie"],
    )
    uninterrupted = (await debate.run(TASK, model=model(tied), store=store, run_id="one", seed=1)).output
    answers.update(conclusive=False, tie="ann")
    resumed = (await debate.resume("one", model=model(tied), store=store)).output
    for output in (uninterrupted, resumed):
        assert output.early_end is not None
        assert (output.early_end.source, len(output.rounds), output.winner) == ("judge", 1, "bob")
