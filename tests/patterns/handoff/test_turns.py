"""The order of speakers in a handoff: each one names the next, up to the maximum number of turns."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from flowdebate import HandoffOutput, Persona, outline
from flowdebate.chassis.state import RoundsEnded, RoundStarted, TurnFinished, TurnStarted
from flowdebate.patterns.handoff import HandoffEntry, HandoffMade
from flowdebate.runs.events import ModelCalled
from flowdebate.testing import ScriptedModel
from tests.patterns.debates import events

from .speakers import FORMS, NAMES, PROPOSITION, in_turn, morals, over, script, turns

if TYPE_CHECKING:
    from flowdebate.patterns.handoff.schemas import TransitionForm
    from flowdebate.runs.context import Context


def test_pipeline_is_a_loop_around_a_router() -> None:
    assert str(outline(morals())) == snapshot("""\
morals
  → tap morals-init-transcript
  → tap morals-stamp-question
  → tap morals-increment-round
  → tap morals-take-turn
    → morals-floor (router)
      → Pro:
        → morals-turn-Pro
          → morals-debater-Pro
          → morals-record-Pro
      → Con:
        → morals-turn-Con
          → morals-debater-Con
          → morals-record-Con
      → Neutral:
        → morals-turn-Neutral
          → morals-debater-Neutral
          → morals-record-Neutral
    → then_if morals-ask-again (router)
      → morals-debater-Pro:
        → morals-debater-Pro
      → morals-debater-Con:
        → morals-debater-Con
      → morals-debater-Neutral:
        → morals-debater-Neutral
    → morals-hand-over
  → loop_back (at most 3 passes) ↺ morals-increment-round
  → morals-build-output\
""")


def test_outline_has_no_retry_step_without_retries() -> None:
    """The outline should not show steps that can never run."""
    custom_speakers = [Persona(name, block=lambda _: "x") for name in NAMES]
    for options in ({"on_invalid": "random"}, {"on_invalid": "error"}, {"debaters": custom_speakers}):
        assert "ask-again" not in str(outline(morals(**options)))


@pytest.mark.parametrize("form", FORMS)
def test_named_speaker_speaks_next(form: TransitionForm) -> None:
    model = script(("1", "Neutral"), ("2", "Pro"), ("3", "Neutral"), ("4", "Pro"), form=form)
    output = morals(max_turns=4, transition=form).run_sync(PROPOSITION, model=model).output
    model.assert_complete()
    assert turns(output) == [
        ("Pro", "1", "Neutral", "speaker"),
        ("Neutral", "2", "Pro", "speaker"),
        ("Pro", "3", "Neutral", "speaker"),
        ("Neutral", "4", "Pro", "speaker"),
    ]
    assert [entry.round for entry in output.transcript] == [1, 2, 3, 4]


class Who(enum.Enum):
    """Speaker names as enum members."""

    PRO = "Pro"
    CON = "Con"


@pytest.mark.parametrize("first", [None, "Pro", "Con", Who.CON])
def test_first_speaker_is_the_first_declared_or_configured(first: Any) -> None:
    """The first speaker may be given by name or as the enum member for that name."""
    debaters: Any = [Persona(Who.PRO), {"name": Who.CON}]  # type: ignore[arg-type]
    name = "Con" if first in ("Con", Who.CON) else "Pro"
    other = "Pro" if name == "Con" else "Con"
    model = script(("I open.", other))
    result = morals(debaters=debaters, first=first, max_turns=1).run_sync(PROPOSITION, model=model)
    assert turns(result.output) == [(name, "I open.", other, "speaker")]
    assert "Who." not in model.calls[0].prompt


@given(st.integers(1, 12), st.integers(0, 14), st.sampled_from(FORMS))
def test_max_turns_or_the_predicate_ends_a_handoff(max_turns: int, enough: int, form: TransitionForm) -> None:
    """Each turn takes one call, and `terminate_when` is called after every turn except the last."""
    rounds: list[int] = []

    async def stop(ctx: Context) -> bool:
        rounds.append(ctx.sequencer.state.round)
        assert ctx.sequencer.state.speaker == ctx.resources.transcript.state.entries[-1].next_agent_name
        return bool(ctx.sequencer.state.round >= enough)

    pattern = morals(max_turns=max_turns, terminate_when=stop, transition=form)
    result = pattern.run_sync(PROPOSITION, model=in_turn(form))
    expected = max(min(max_turns, enough), 1)
    output = result.output
    assert (output.turns, len(output.transcript), result.usage.calls) == (expected, expected, expected)
    assert output.stop_reason == ("max_turns" if expected == max_turns else "predicate")
    assert rounds == list(range(1, min(expected, max_turns - 1) + 1))
    assert [entry.agent_name for entry in output.transcript] == [NAMES[n % 3] for n in range(expected)]


def test_output_is_the_raw_output_with_its_history() -> None:
    model = ScriptedModel(over("Yes.", "Bob"), over("Yes.", "Neutral"), over("Hm.", "Con"))
    result = morals(max_turns=2).run_sync(PROPOSITION, model=model, seed=7)
    output = result.output
    assert result.raw == output
    assert (output.proposition, output.status, output.losses, output.seed) == (PROPOSITION, "complete", [], 7)
    assert result.transcript.entries == output.transcript
    wire = output.to_wire()
    assert wire["transcript"][0] == snapshot(
        {
            "round": 1,
            "agentName": "Pro",
            "text": "Yes.",
            "nextAgentName": "Neutral",
            "chosenBy": "retry",
            "problem": "'Bob' is not a speaker in this debate",
        }
    )
    assert HandoffOutput.model_validate(wire) == output
    assert HandoffEntry.model_validate(wire["transcript"][0]) == output.transcript[0]


def test_turn_events_include_the_handover() -> None:
    model = ScriptedModel(over("Yes.", "Con"), over("No.", "Con"), over("No.", "Con"))
    result = morals(max_turns=2).run_sync(PROPOSITION, model=model, seed=1)
    kinds = (RoundStarted, TurnStarted, ModelCalled, TurnFinished, HandoffMade, RoundsEnded)
    assert [type(event).__name__ for event in result.events if isinstance(event, kinds)] == [
        *("RoundStarted", "TurnStarted", "ModelCalled", "TurnFinished", "HandoffMade"),
        *("RoundStarted", "TurnStarted", "ModelCalled", "TurnFinished", "ModelCalled", "HandoffMade"),
        "RoundsEnded",
    ]
    good, bad = events(result, HandoffMade)
    assert (good.round, good.agent_name, good.next_agent_name, good.chosen_by, good.problem) == (
        *(1, "Pro", "Con", "speaker"),
        None,
    )
    assert (bad.round, bad.agent_name, bad.chosen_by) == (2, "Con", "random")
    assert bad.problem == "'Con' handed over to itself"
    paths = [event.path for event in events(result, ModelCalled)]
    assert paths[2] == "morals/turn[2]/morals-take-turn/morals-ask-again/morals-debater-Con"
    assert len(set(paths)) == 3


def test_audit_trail_has_one_task_per_turn() -> None:
    pattern = morals(collection_id="floor")
    result = pattern.run_sync(PROPOSITION, model=in_turn())
    tasks = result.tasks.list()
    assert [(task.assignee, task.status, task.output, task.goal) for task in tasks] == [
        (name, "completed", f"I am {name}.", f"Speak in round {number}") for number, name in enumerate(NAMES, start=1)
    ]
    assert result.tasks.list()[0].id == "floor-1"


LOTTERY = morals(transition="text", on_invalid="random", max_turns=6)


@given(st.integers(0, 2**53))
def test_draws_depend_on_the_seed_and_exclude_the_current_speaker(seed: int) -> None:
    sequences = []
    for _ in range(2):
        result = LOTTERY.run_sync(PROPOSITION, model=ScriptedModel(*["I say nothing of that."] * 6), seed=seed)
        sequences.append([(entry.agent_name, entry.next_agent_name) for entry in result.output.transcript])
    assert sequences[0] == sequences[1]
    assert all(before != after for before, after in sequences[0])


def test_draws_are_uniform() -> None:
    pattern = morals(transition="text", on_invalid="random", max_turns=1)
    next_names = [
        pattern.run_sync(PROPOSITION, model=ScriptedModel("x"), seed=seed).output.transcript[0].next_agent_name
        for seed in range(200)
    ]
    assert min(next_names.count(name) for name in ("Con", "Neutral")) > 70
    assert len(set(next_names)) == 2


def test_retries_can_add_the_missing_text_or_name() -> None:
    """The valid part of the first reply is kept, so the retry only has to supply the missing part."""
    silent = script(("", "Con"), ("Late words.", "Pro"), ("x", "Con"))
    assert turns(morals(max_turns=1).run_sync(PROPOSITION, model=silent).output) == [
        ("Pro", "Late words.", "Con", "speaker")
    ]
