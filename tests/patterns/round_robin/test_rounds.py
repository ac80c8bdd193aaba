"""The order of speakers on a panel, what each of them sees, and how the panel ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, FailurePolicy, FlowDebateWarning, Persona, StandIn, debate, round_robin
from flowdebate.chassis.state import RoleFailed, RoundsEnded, RoundStarted, TurnFinished, TurnStarted
from flowdebate.errors import FlowDebateError, ProviderFailed
from flowdebate.prompts import as_seen
from flowdebate.resources.tasks import TaskChanged
from flowdebate.testing import FunctionModel, ScriptedModel
from flowdebate.testing.cases import Sabotage
from flowdebate.testing.strategies import arguments, names, termination_predicates
from tests.patterns.debates import events, system_of

from .panels import PANEL, QUESTION, bridge, by_role, entries_of, refereed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.round_robin.schemas import RoundRobinInput
    from flowdebate.runs.context import Context
    from flowdebate.testing import RecordedCall


def test_each_panelist_speaks_once_per_round() -> None:
    result = bridge().run_sync(QUESTION, model=ScriptedModel("A1", "B1", "A2", "B2"))
    assert entries_of(result.output) == [(1, "ada", "A1"), (1, "ben", "B1"), (2, "ada", "A2"), (2, "ben", "B2")]
    assert [entry.role for entry in result.output.transcript] == ["economist", "engineer"] * 2
    assert (result.output.question, result.output.rounds, result.output.stop_reason) == (QUESTION, 2, "max_rounds")
    assert (result.status, result.output.status, result.output.losses) == ("complete", "complete", [])
    assert result.raw is result.output


def test_later_speakers_see_earlier_entries_of_the_round() -> None:
    model = ScriptedModel("A1", "B1", "A2", "B2")
    bridge().run_sync(QUESTION, model=model)
    for number, call in enumerate(model.calls):
        visible = [text for text in ("A1", "B1", "A2", "B2") if f"] {text}" in call.prompt]
        assert visible == ["A1", "B1", "A2", "B2"][:number]


def test_predicate_ends_the_panel_after_the_round() -> None:
    """The predicate is called with the transcript and the state after each round except the last."""
    rounds: list[tuple[int, int]] = []

    def enough(ctx: Context) -> bool:
        rounds.append((ctx.sequencer.state.round, len(ctx.resources.transcript.state.entries)))
        return len(rounds) == 2

    result = bridge(max_rounds=4, terminate_when=enough).run_sync(QUESTION, model=by_role())
    assert (result.output.rounds, result.output.stop_reason) == (2, "predicate")
    assert rounds == [(1, 2), (2, 4)]
    assert [(event.rounds, event.reason) for event in events(result, RoundsEnded)] == [(2, "predicate")]


def test_predicates_can_read_the_audits() -> None:
    """The referee itself cannot end a panel, but the application can use the referee's findings to do so."""

    async def good_enough(ctx: Context) -> bool:
        return all(assessment.score >= 80 for assessment in ctx.sequencer.state.audit.assessments)

    def graded(request: Any) -> Any:
        round_ = 2 if "Round 2:" in str(request.messages[-1]["content"]) else 1
        return {"assessments": [{"agentName": "ada", "issues": [], "score": 45 * round_}], "notes": "-"}

    result = bridge(max_rounds=4, terminate_when=good_enough, **refereed()).run_sync(
        QUESTION, model=by_role(report=graded)
    )
    assert (result.output.rounds, result.output.stop_reason) == (2, "predicate")


def test_exceptions_in_a_predicate_are_raised() -> None:
    def fail(_: Context) -> bool:
        raise Sabotage("terminate_when")

    with pytest.raises(Sabotage):
        bridge(terminate_when=fail).run_sync(QUESTION, model=by_role())


def test_functions_and_blocks_can_act_as_panelists() -> None:
    """A block may return text or a dict with a `text` key.

    Any other value is converted to text with a warning.
    """

    async def dict_of_text(value: RoundRobinInput) -> dict[str, str]:
        return {"text": f"heard {value.question}"}

    odd = [Persona("ada", block=dict_of_text), Persona("ben", block=lambda _: 42)]
    with pytest.warns(FlowDebateWarning, match="'ben' returned a int"):
        result = bridge(debaters=odd, max_rounds=1).run_sync(QUESTION, model=ScriptedModel())
    assert [entry.text for entry in result.output.transcript] == [f"heard {QUESTION}", "42"]


def test_events_in_a_round_are_in_order() -> None:
    result = bridge(max_rounds=1).run_sync(QUESTION, model=by_role())
    kinds = (RoundStarted, TurnStarted, TurnFinished, RoundsEnded)
    emitted = [(event.kind, getattr(event, "agent_name", None)) for event in result.events if isinstance(event, kinds)]
    assert emitted == [
        ("round_started", None),
        ("turn_started", "ada"),
        ("turn_finished", "ada"),
        ("turn_started", "ben"),
        ("turn_finished", "ben"),
        ("rounds_ended", None),
    ]
    assert {event.stance for event in events(result, TurnStarted)} == {None}


@given(
    roster=st.lists(names(), min_size=2, max_size=5, unique_by=as_seen),
    rounds=st.integers(1, 4),
    stop=st.none() | st.integers(1, 5),
)
def test_speaking_order_follows_the_roster(roster: list[str], rounds: int, stop: int | None) -> None:
    until = None if stop is None else lambda ctx: ctx.sequencer.state.round >= stop
    panelists = [Persona(name, block=lambda _, ctx: ctx.block) for name in roster]
    pattern = round_robin(name="any", debaters=panelists, max_rounds=rounds, terminate_when=until, synthesizer=False)
    output = pattern.run_sync(QUESTION).output
    expected_rounds = rounds if stop is None else min(rounds, stop)
    assert [(entry.round, entry.agent_name) for entry in output.transcript] == [
        (number, name) for number in range(1, expected_rounds + 1) for name in roster
    ]
    assert output.stop_reason == ("max_rounds" if expected_rounds == rounds else "predicate")


def record_calls(**options: Any) -> Sequence[RecordedCall]:
    """Return the requests sent to two panelists and the synthesizer."""
    model = ScriptedModel("A", "B", "The answer.")
    round_robin(**{"name": "bridge", "debaters": PANEL, "max_rounds": 1, **options}).run_sync(QUESTION, model=model)
    return model.calls


def test_panelists_see_only_their_own_system_prompt() -> None:
    first, second, _ = (system_of(call) for call in record_calls())
    assert first.endswith("You are ada, economist.\nYou count what it costs.")
    assert second.endswith("You are ben, engineer.\nYou ask whether it holds.")
    assert "holds" not in first


def test_collection_id_identifies_the_audit_trail() -> None:
    trail = bridge(collection_id="trail-7", max_rounds=1).run_sync(QUESTION, model=ScriptedModel("A", "B")).tasks
    assert trail.collection_id == "trail-7"
    assert [(task.goal, task.assignee, task.metadata, task.status, task.output) for task in trail.list()] == [
        ("Speak in round 1", "ada", {"round": 1}, "completed", "A"),
        ("Speak in round 1", "ben", {"round": 1}, "completed", "B"),
    ]
    assert bridge(max_rounds=1).run_sync(QUESTION, model=by_role()).tasks.collection_id == "bridge"


LOST = ProviderFailed("the endpoint answered 503", status=503)
TOLD = (RoundsEnded, RoundStarted, RoleFailed, TaskChanged, TurnFinished, TurnStarted)


def looping_model(script: list[Any]) -> FunctionModel:
    """Create a model that cycles through the replies in the script."""
    blocks: list[str] = []

    def answer(request: Any) -> Any:
        blocks.append(request.block)
        return script[(len(blocks) - 1) % len(script)]

    return FunctionModel(answer)


def comparable_events(pattern: Any, script: list[Any]) -> list[Any]:
    """Return the loop's events and records, without positions and block names, which differ by design."""
    run: Any
    try:
        run = pattern.run_sync(QUESTION, model=looping_model(script), seed=1)
    except FlowDebateError as error:
        run = error.run
    told_events = [_event_fields(event) for event in run.events if isinstance(event, TOLD)]
    tasks = [(task.id, task.assignee, task.metadata["round"], task.status, task.output) for task in run.tasks.list()]
    entries = [(entry.round, entry.agent_name, entry.text) for entry in run.transcript.entries]
    losses = [(loss.round, loss.name, loss.instead) for loss in run.raw.losses if loss.role == "debater"]
    return [told_events, tasks, entries, losses, run.raw.rounds, run.raw.stop_reason]


def _event_fields(event: Any) -> tuple[Any, ...]:
    """Return the fields that an event has in both patterns."""
    if isinstance(event, TaskChanged):
        return (event.kind, event.change, event.task.id, event.task.assignee, event.task.status)
    fields = ("round", "rounds", "max_rounds", "agent_name", "reason", "role", "name", "instead")
    return (event.kind, *(getattr(event, field, None) for field in fields))


@given(
    roster=st.lists(names(), min_size=2, max_size=4, unique_by=as_seen),
    script=st.lists(arguments() | st.just(LOST), min_size=1, max_size=6),
    rounds=st.integers(1, 3),
    quorum=st.integers(1, 3),
    failing=st.sampled_from(["fail", "skip", "stand-in"]),
    until=st.none() | termination_predicates(),
)
def test_debates_and_panels_have_the_same_turns_tasks_and_events(
    roster: list[str], script: list[Any], rounds: int, quorum: int, failing: str, until: Any
) -> None:
    """The debate has a custom judge. Both patterns are run with arbitrary text, failures and ways to end."""
    on_failure: Any = StandIn(looping_model(["instead"])) if failing == "stand-in" else failing
    options: dict[str, Any] = {
        "name": "same",
        "max_rounds": rounds,
        "synthesizer": False,
        "terminate_when": until,
        "failures": FailurePolicy(on_failure=on_failure, quorum=min(quorum, len(roster))),
    }
    verdict = {"verdict": "-", "winner": None, "reasoning": "-"}
    sides = [Debater(name, f"the position of {name}") for name in roster]
    debated = debate(debaters=sides, judge=lambda _: verdict, **options)
    sat = round_robin(debaters=[Persona(name) for name in roster], **options)
    assert comparable_events(debated, script) == comparable_events(sat, script)
