"""Who speaks when on a panel, what is seen, and when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import FlowDebateWarning, Persona, round_robin
from flowdebate.patterns.events import RoundsEnded, RoundStarted, TurnFinished, TurnStarted
from flowdebate.patterns.round_robin.schemas import RoundRobinInput
from flowdebate.prompts.escaping import as_seen
from flowdebate.testing import ScriptedModel
from flowdebate.testing.cases import Sabotage
from flowdebate.testing.strategies import names
from tests.patterns.debates import asked, events

from .panels import PANEL, QUESTION, bridge, by_role, refereed, said

if TYPE_CHECKING:
    from flowdebate.runs.context import Context


def test_all_speak_once_a_round_in_declared_order() -> None:
    """Two rounds of two: four turns, each with its round, name and role."""
    result = bridge().run_sync(QUESTION, model=ScriptedModel("A1", "B1", "A2", "B2"))
    assert said(result.output) == [(1, "ada", "A1"), (1, "ben", "B1"), (2, "ada", "A2"), (2, "ben", "B2")]
    assert [entry.role for entry in result.output.transcript] == ["economist", "engineer"] * 2
    assert (result.output.question, result.output.rounds, result.output.stop_reason) == (QUESTION, 2, "max_rounds")
    assert (result.status, result.output.status, result.output.losses) == ("complete", "complete", [])
    assert result.raw is result.output


def test_later_speakers_see_the_earlier_ones_of_the_same_round() -> None:
    """Each prompt holds all that was said before the turn, and nothing that was said after it."""
    model = ScriptedModel("A1", "B1", "A2", "B2")
    bridge().run_sync(QUESTION, model=model)
    for number, call in enumerate(model.calls):
        shown = [text for text in ("A1", "B1", "A2", "B2") if f"] {text}" in call.prompt]
        assert shown == ["A1", "B1", "A2", "B2"][:number]


@pytest.mark.parametrize(
    "asks", [QUESTION, {"question": QUESTION}, RoundRobinInput(question=QUESTION)], ids=["str", "dict", "model"]
)
def test_the_question_may_be_given_in_three_ways(asks: Any) -> None:
    """As text, as a dict, as a `RoundRobinInput`."""
    assert bridge().run_sync(asks, model=by_role()).output.question == QUESTION


def test_a_predicate_ends_the_panel_after_the_round() -> None:
    """It is asked after each round but the last, and sees the transcript and the state."""
    seen: list[tuple[int, int]] = []

    def enough(ctx: Context) -> bool:
        seen.append((ctx.sequencer.state.round, len(ctx.resources.transcript.state.entries)))
        return len(seen) == 2

    result = bridge(max_rounds=4, terminate_when=enough).run_sync(QUESTION, model=by_role())
    assert (result.output.rounds, result.output.stop_reason) == (2, "predicate")
    assert seen == [(1, 2), (2, 4)]
    assert [(event.rounds, event.reason) for event in events(result, RoundsEnded)] == [(2, "predicate")]


def test_a_predicate_of_the_application_may_read_the_audits() -> None:
    """The referee ends nothing; what the application makes of what it found is the application's."""

    async def good_enough(ctx: Context) -> bool:
        return all(found.score >= 80 for found in ctx.sequencer.state.audit.assessments)

    def graded(request: Any) -> Any:
        round_ = 2 if "Round 2:" in str(request.messages[-1]["content"]) else 1
        return {"assessments": [{"agentName": "ada", "issues": [], "score": 45 * round_}], "notes": "-"}

    result = bridge(max_rounds=4, terminate_when=good_enough, **refereed()).run_sync(
        QUESTION, model=by_role(report=graded)
    )
    assert (result.output.rounds, result.output.stop_reason) == (2, "predicate")


def test_what_a_predicate_raises_is_raised() -> None:
    """As it is; what was said so far can be read."""

    def fail(_: Context) -> bool:
        raise Sabotage("terminate_when")

    with pytest.raises(Sabotage):
        bridge(terminate_when=fail).run_sync(QUESTION, model=by_role())


def test_a_panelist_may_be_a_function_or_a_block() -> None:
    """It returns text, a dict with a text, or anything that can be turned into text, with a warning."""

    async def dict_of_text(value: RoundRobinInput) -> dict[str, str]:
        return {"text": f"heard {value.question}"}

    odd = [Persona("ada", block=dict_of_text), Persona("ben", block=lambda _: 42)]
    with pytest.warns(FlowDebateWarning, match="'ben' returned a int"):
        result = bridge(debaters=odd, max_rounds=1).run_sync(QUESTION, model=ScriptedModel())
    assert [entry.text for entry in result.output.transcript] == [f"heard {QUESTION}", "42"]


def test_the_events_of_a_round_come_in_order() -> None:
    """The round opens, each turn starts and finishes, and the loop says why it ends."""
    result = bridge(max_rounds=1).run_sync(QUESTION, model=by_role())
    kinds = (RoundStarted, TurnStarted, TurnFinished, RoundsEnded)
    told = [(event.kind, getattr(event, "agent_name", None)) for event in result.events if isinstance(event, kinds)]
    assert told == [
        ("round_started", None),
        ("turn_started", "ada"),
        ("turn_finished", "ada"),
        ("turn_started", "ben"),
        ("turn_finished", "ben"),
        ("rounds_ended", None),
    ]
    assert {event.stance for event in events(result, TurnStarted)} == {None}


@settings(max_examples=30, deadline=None)
@given(
    roster=st.lists(names(), min_size=2, max_size=5, unique_by=as_seen),
    rounds=st.integers(1, 4),
    stop=st.none() | st.integers(1, 5),
)
def test_the_order_is_declared_whoever_sits_there(roster: list[str], rounds: int, stop: int | None) -> None:
    """For any names: as many rounds as the cap and the predicate say, in each the roster as it was declared."""
    until = None if stop is None else lambda ctx: ctx.sequencer.state.round >= stop
    panelists = [Persona(name, block=lambda _, ctx: ctx.block) for name in roster]
    pattern = round_robin(name="any", debaters=panelists, max_rounds=rounds, terminate_when=until, synthesizer=False)
    output = pattern.run_sync(QUESTION).output
    held = rounds if stop is None else min(rounds, stop)
    assert [(entry.round, entry.agent_name) for entry in output.transcript] == [
        (number, name) for number in range(1, held + 1) for name in roster
    ]
    assert output.stop_reason == ("max_rounds" if held == rounds else "predicate")


def test_default_blocks_are_called_after_pattern_and_role() -> None:
    """`{name}-panelist-{panelist}`, `{name}-referee`, `{name}-synthesizer`."""
    report = {"assessments": [], "notes": "-"}
    model = ScriptedModel("A", "B", report, "The answer.")
    round_robin(name="bridge", debaters=PANEL, max_rounds=1, **refereed()).run_sync(QUESTION, model=model)
    assert asked(model) == ["bridge-panelist-ada", "bridge-panelist-ben", "bridge-referee", "bridge-synthesizer"]
