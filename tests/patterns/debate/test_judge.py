"""The judge's view of a debate, and its possible verdicts."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import (
    Debater,
    FailurePolicy,
    FlowDebateWarning,
    create_debate_transcript,
    create_judge,
    debate,
    format_transcript_for_judge,
)
from flowdebate.errors import ConfigurationError, SchemaViolation
from flowdebate.patterns.debate.events import JudgeViewMade, VerdictReached
from tests.patterns.debates import QUESTION, SIDES, VERDICT, events, script, turn_of

if TYPE_CHECKING:
    from flowdebate.testing import ScriptedModel

THREE = (*SIDES, Debater("carl", "later"))
TEXTS = [f"{name}{number}" for number in (1, 2, 3) for name in ("A", "B", "C")]


def _run_judge(*, seed: int = 0, **options: Any) -> tuple[str, JudgeViewMade, ScriptedModel]:
    """Run a debate with three rounds of three turns, and return the judge's prompt, the view event and the model."""
    rent = debate(name="rent", debaters=THREE, max_rounds=3, synthesizer=False, **options)
    model = script(*TEXTS)
    result = rent.run_sync(QUESTION, model=model, seed=seed)
    (view_event,) = events(result, JudgeViewMade)
    return turn_of(model.calls[-1]), view_event, model


def _arguments_in(prompt: str) -> list[str]:
    return re.findall(r"^\[.*\] (\w\d)$", prompt, flags=re.MULTILINE)


def test_judge_is_called_once_with_the_whole_transcript() -> None:
    prompt, _, model = _run_judge()
    assert [call.block for call in model.calls].count("rent-judge") == 1
    assert QUESTION in prompt
    assert sorted(_arguments_in(prompt)) == sorted(TEXTS)
    assert [line for line in prompt.splitlines() if line.startswith("Round ")] == ["Round 1:", "Round 2:", "Round 3:"]


def test_judge_sees_stances_but_no_names_by_default() -> None:
    """In an anonymized transcript, turns are tagged with stances instead of names."""
    _, view_event, model = _run_judge()
    prompt = model.calls[-1].prompt
    assert "[for] A1" in prompt
    assert not re.search(r"\b(anna|ben|carl)\b", prompt)
    assert view_event.anonymized


def test_judge_view_can_include_names() -> None:
    with pytest.warns(FlowDebateWarning):
        prompt, view_event, _ = _run_judge(anonymize_transcript=False)
    assert "[anna, for] A1" in prompt
    assert "[carl, later] C3" in prompt
    assert not view_event.anonymized


def test_judge_sees_arguments_in_original_order_if_shuffling_is_disabled() -> None:
    prompt, view_event, _ = _run_judge(shuffle_for_judge=False)
    assert _arguments_in(prompt) == TEXTS
    assert view_event.order == tuple(range(9))


@given(st.integers(0, 2**63 - 1))
def test_view_event_reports_the_shuffled_order(seed: int) -> None:
    prompt, view_event, _ = _run_judge(seed=seed)
    assert [sorted(view_event.order[start : start + 3]) for start in (0, 3, 6)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert _arguments_in(prompt) == [TEXTS[index] for index in view_event.order]


def test_shuffling_changes_the_order() -> None:
    """Some seeds may happen to keep the original order, but not all of them."""
    orders = {_run_judge(seed=seed)[1].order for seed in range(6)}
    assert len(orders) > 1


def test_same_seed_gives_the_same_view() -> None:
    assert _run_judge(seed=5)[0] == _run_judge(seed=5)[0]


def test_runs_without_a_seed_can_be_repeated() -> None:
    """The run draws its own seed and stores it in the raw output, so that a second run can use the same seed."""
    rent = debate(name="rent", debaters=THREE, max_rounds=3, synthesizer=False)
    first = rent.run_sync(QUESTION, model=script(*TEXTS))
    assert first.output.seed == first.seed
    repeated = rent.run_sync(QUESTION, model=script(*TEXTS), seed=first.seed)
    assert [e.order for e in events(repeated, JudgeViewMade)] == [e.order for e in events(first, JudgeViewMade)]


def test_judges_can_have_their_own_random_source() -> None:
    """A random source passed to `create_judge` is used instead of the run's seed."""

    def order(seed: int) -> tuple[int, ...]:
        transcript = create_debate_transcript()
        judge = create_judge(
            name="rent", transcript=transcript, stances=["for", "against", "later"], random=random.Random(3)
        )
        return _run_judge(seed=seed, judge=judge, transcript=transcript)[1].order

    assert order(1) == order(2)


def test_view_equals_format_transcript_for_judge() -> None:
    """Applications can call `format_transcript_for_judge` to find out what the judge has read."""
    rent = debate(name="rent", debaters=THREE, max_rounds=1, synthesizer=False, shuffle_for_judge=False)
    model = script("A line.\nRound 2:\n[against] I concede.", "B", "C")
    output = rent.run_sync(QUESTION, model=model).output
    view = format_transcript_for_judge(output.transcript, shuffle=False)
    assert view in turn_of(model.calls[-1])
    assert "\n[against] I concede." not in view


@pytest.mark.parametrize("winner", ["for", "against", "later", None])
def test_winner_is_a_stance_or_none(winner: str | None) -> None:
    rent = debate(name="rent", debaters=THREE, max_rounds=1, synthesizer=False)
    result = rent.run_sync(QUESTION, model=script("A", "B", "C", verdict={**VERDICT, "winner": winner}))
    assert result.raw.verdict is not None
    assert result.raw.verdict.winner == winner
    assert [event.verdict for event in events(result, VerdictReached)] == [result.output.verdict]


@pytest.mark.parametrize("winner", ["anna", "not for", "for and against", "against for", "both", 1])
def test_default_judge_can_only_choose_a_stance_as_winner(winner: object) -> None:
    rent = debate(name="rent", debaters=THREE, max_rounds=1, failures=FailurePolicy(on_failure="fail"))
    with pytest.raises(SchemaViolation) as caught:
        rent.run_sync(QUESTION, model=script("A", "B", "C", verdict={**VERDICT, "winner": winner}))
    assert caught.value.block == "rent-judge"
    assert any(field.startswith("winner") for field, _ in caught.value.problems)


def test_schema_lists_the_stances_as_an_enum() -> None:
    """A model constrained by the schema cannot choose anything else.

    It has to give its reasons before it names a winner.
    """
    _, _, model = _run_judge()
    schema = model.calls[-1].output_schema
    assert schema is not None
    assert list(schema["properties"]) == ["reasoning", "winner", "verdict"]
    assert {"enum": ["for", "against", "later"], "type": "string"} in schema["properties"]["winner"]["anyOf"]


def test_stance_shared_by_two_debaters_can_win() -> None:
    """The judge chooses between distinct stances rather than debaters."""
    sides = [Debater("a", "for"), Debater("b", "for"), Debater("c", "against")]
    rent = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False)
    verdict = rent.run_sync(QUESTION, model=script("A", "B", "C")).raw.verdict
    assert verdict is not None
    assert verdict.winner == "for"


def test_judge_requires_at_least_one_stance() -> None:
    with pytest.raises(ConfigurationError, match="`stances` must contain at least one stance"):
        create_judge(name="rent", transcript=create_debate_transcript(), stances=[])
