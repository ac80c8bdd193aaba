"""A panel and a debate without a moderator go through one loop: the same turns, tasks and events."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import Debater, FailurePolicy, Persona, StandIn, debate, round_robin
from flowdebate.errors import FlowDebateError, ProviderFailed
from flowdebate.patterns.events import RoleFailed, RoundsEnded, RoundStarted, TurnFinished, TurnStarted
from flowdebate.prompts.escaping import as_seen
from flowdebate.resources.tasks import TaskChanged
from flowdebate.testing import FunctionModel
from flowdebate.testing.strategies import arguments, names, termination_predicates

from .panels import QUESTION

LOST = ProviderFailed("the endpoint answered 503", status=503)
TOLD = (RoundsEnded, RoundStarted, RoleFailed, TaskChanged, TurnFinished, TurnStarted)


def replies(script: list[Any]) -> FunctionModel:
    """A model that gives the script's replies in order, and after the last the first again."""
    given: list[str] = []

    def answer(request: Any) -> Any:
        given.append(request.block)
        return script[(len(given) - 1) % len(script)]

    return FunctionModel(answer)


def story(pattern: Any, script: list[Any]) -> list[Any]:
    """All that the loop tells and leaves, without what differs by design: the speakers' positions and block names."""
    run: Any
    try:
        run = pattern.run_sync(QUESTION, model=replies(script), seed=1)
    except FlowDebateError as error:
        run = error.run
    told = [_told(event) for event in run.events if isinstance(event, TOLD)]
    tasks = [(task.id, task.assignee, task.metadata["round"], task.status, task.output) for task in run.tasks.list()]
    entries = [(entry.round, entry.agent_name, entry.text) for entry in run.transcript.entries]
    losses = [(loss.round, loss.name, loss.instead) for loss in run.raw.losses if loss.role == "debater"]
    return [told, tasks, entries, losses, run.raw.rounds, run.raw.stop_reason]


def _told(event: Any) -> tuple[Any, ...]:
    """An event, as both patterns tell it."""
    if isinstance(event, TaskChanged):
        return (event.kind, event.change, event.task.id, event.task.assignee, event.task.status)
    fields = ("round", "rounds", "max_rounds", "agent_name", "reason", "role", "name", "instead")
    return (event.kind, *(getattr(event, field, None) for field in fields))


@settings(max_examples=50, deadline=None)
@given(
    roster=st.lists(names(), min_size=2, max_size=4, unique_by=as_seen),
    script=st.lists(arguments() | st.just(LOST), min_size=1, max_size=6),
    rounds=st.integers(1, 3),
    quorum=st.integers(1, 3),
    failing=st.sampled_from(["fail", "skip", "stand-in"]),
    until=st.none() | termination_predicates(),
)
def test_the_same_answers_give_the_same_turns_tasks_and_events(
    roster: list[str], script: list[Any], rounds: int, quorum: int, failing: str, until: Any
) -> None:
    """Whatever is said and lost, and however it ends: a debate with a judge of its own, and a panel, tell the same."""
    on_failure: Any = StandIn(replies(["instead"])) if failing == "stand-in" else failing
    options: dict[str, Any] = {
        "name": "same",
        "max_rounds": rounds,
        "synthesizer": False,
        "terminate_when": until,
        "failures": FailurePolicy(on_failure=on_failure, quorum=quorum),
    }
    found = {"verdict": "-", "winner": None, "reasoning": "-"}
    sides = [Debater(name, f"the position of {name}") for name in roster]
    debated = debate(debaters=sides, judge=lambda _: found, **options)
    sat = round_robin(debaters=[Persona(name) for name in roster], **options)
    assert story(debated, script) == story(sat, script)
