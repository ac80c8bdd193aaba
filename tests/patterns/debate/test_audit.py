"""A debate's shared transcript and audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import (
    Debater,
    TaskCollection,
    create_debate_transcript,
    create_judge,
    create_moderator,
    debate,
    handler,
    sequencer,
)
from flowdebate.chassis.state import TurnFinished, TurnStarted
from flowdebate.errors import ConfigurationError, ResourceConflict
from flowdebate.resources.tasks import TaskChanged
from flowdebate.testing import ScriptedModel
from tests.patterns.debates import QUESTION, SIDES, VERDICT, by_role, decision, events, script

if TYPE_CHECKING:
    from flowdebate.runs.context import Context


def _moderator_with(transcript: Any) -> Any:
    @handler(name="own-moderator", resources={"transcript": transcript})
    def moderate(value: object, ctx: Context) -> dict[str, Any]:
        entries = ctx.resources.transcript.state.entries
        return decision("anna", "ben", done=len(entries) >= 2, briefing=f"{len(entries)} arguments so far")

    return moderate


def test_custom_moderators_read_the_shared_transcript() -> None:
    transcript = create_debate_transcript()
    rent = debate(
        name="rent",
        debaters=SIDES,
        max_rounds=4,
        synthesizer=False,
        moderator=_moderator_with(transcript),
        transcript=transcript,
    )
    output = rent.run_sync(QUESTION, model=by_role()).output
    assert [entry.briefing for entry in output.moderator_decisions] == ["0 arguments so far", "2 arguments so far"]


@pytest.mark.parametrize("role", ["moderator", "judge", "synthesizer", "debater"])
def test_roles_with_a_different_transcript_are_rejected(role: str) -> None:
    custom_block = _moderator_with(create_debate_transcript())
    options: dict[str, Any] = {"debaters": SIDES}
    if role == "debater":
        options["debaters"] = [Debater("anna", "for", block=custom_block), SIDES[1]]
    else:
        options[role] = custom_block
    with pytest.raises(ResourceConflict) as caught:
        debate(name="rent", **options)
    assert isinstance(caught.value, ConfigurationError)
    assert caught.value.key == "transcript"
    assert {"own-moderator", "rent-open-round"} & set(caught.value.owners)
    assert "transcript=transcript" in str(caught.value)
    assert "same reference" in str(caught.value)


def test_default_blocks_with_other_transcripts_are_rejected() -> None:
    one, other = create_debate_transcript(), create_debate_transcript()
    moderator = create_moderator(name="rent", roster_names=["anna", "ben"], transcript=one)
    judge = create_judge(name="rent", stances=["for"], transcript=other)
    with pytest.raises(ResourceConflict):
        debate(name="rent", debaters=SIDES, moderator=moderator, judge=judge, transcript=one)


def test_pipelines_share_the_debate_transcript_by_reference() -> None:
    transcript = create_debate_transcript()
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, transcript=transcript)

    @handler(name="count", resources={"transcript": transcript})
    def count(value: object, ctx: Context) -> list[str]:
        return [entry.text for entry in ctx.resources.transcript.state.entries]

    assert sequencer(name="all").then(rent).then(count).run_sync(QUESTION, model=script("A", "B")).output == ["A", "B"]


def test_pipelines_with_a_different_transcript_are_rejected() -> None:
    rent = debate(name="rent", debaters=SIDES)
    with pytest.raises(ResourceConflict):
        sequencer(name="all").then(rent).then(_moderator_with(create_debate_transcript()))


def test_two_debates_in_one_pipeline_have_separate_transcripts() -> None:
    first = debate(name="first", debaters=SIDES, max_rounds=1, synthesizer=False)
    second = debate(name="second", debaters=SIDES, max_rounds=1, synthesizer=False)
    model = ScriptedModel("A1", "B1", VERDICT, "A2", "B2", VERDICT)
    pipeline = sequencer(name="both").then(first).map(lambda raw: raw.verdict.verdict).then(second)
    result = pipeline.run_sync(QUESTION, model=model)
    assert [entry.text for entry in result.output.transcript] == ["A2", "B2"]
    assert result.output.question == "Cap them."
    assert "A1" not in model.calls[5].prompt
    assert [trail.collection_id for trail in result.task_collections] == ["first", "second"]


def test_audit_trail_has_one_completed_task_per_turn() -> None:
    result = debate(name="rent", debaters=SIDES).run_sync(QUESTION, model=script(*"ABCD", after=("S",)))
    trail = result.tasks
    assert isinstance(trail, TaskCollection)
    assert trail.collection_id == "rent"
    assert [(task.assignee, task.metadata["round"], task.metadata["stance"], task.output) for task in trail.list()] == [
        ("anna", 1, "for", "A"),
        ("ben", 1, "against", "B"),
        ("anna", 2, "for", "C"),
        ("ben", 2, "against", "D"),
    ]
    assert {task.status for task in trail.list()} == {"completed"}
    assert all(task.goal and task.metadata["stance"] in task.goal for task in trail.list())
    assert len({task.id for task in trail.list()}) == 4


def test_collection_id_identifies_the_audit_trail() -> None:
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, collection_id="audit-7")
    assert rent.run_sync(QUESTION, model=script("A", "B")).tasks.collection_id == "audit-7"


def test_each_run_has_its_own_audit_trail() -> None:
    """A second run in the same session starts without the first run's tasks, so its task ids are the same."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    session: dict[str, Any] = {}
    ids = [
        [task.id for task in rent.run_sync(QUESTION, session=session, model=script("A", "B")).tasks.list()]
        for _ in range(2)
    ]
    assert ids[0] == ids[1]


def test_speakers_called_twice_have_a_task_per_turn() -> None:
    model = ScriptedModel("A1", "A2", VERDICT)
    rent = debate(
        name="rent", debaters=SIDES, synthesizer=False, moderator=lambda _: decision("anna", "anna", done=True)
    )
    tasks = rent.run_sync(QUESTION, model=model).tasks.list()
    assert [(task.assignee, task.output, task.status) for task in tasks] == [
        ("anna", "A1", "completed"),
        ("anna", "A2", "completed"),
    ]


def test_task_changes_are_emitted_as_events() -> None:
    result = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False).run_sync(
        QUESTION, model=script("A", "B")
    )
    kinds = (TaskChanged, TurnStarted, TurnFinished)
    transitions = [
        event.change if isinstance(event, TaskChanged) else type(event).__name__
        for event in result.events
        if isinstance(event, kinds)
    ]
    assert transitions == ["added", "claimed", "TurnStarted", "completed", "TurnFinished"] * 2
    changes = events(result, TaskChanged)
    assert {change.collection_id for change in changes} == {"rent"}
    assert [change.task.status for change in changes[:3]] == ["pending", "in_progress", "completed"]
    assert changes[2].task == result.tasks.list()[0]


def test_failed_turns_record_the_error_in_their_task() -> None:
    failure = ValueError("out of ideas")

    def fail(value: object) -> str:
        raise failure

    sides = [SIDES[0], Debater("ben", "against", block=fail), Debater("carl", "later")]
    trails: list[TaskCollection] = []

    def peek(value: object, ctx: Context) -> str:
        trails.append(ctx.resources.audit)
        return "A"

    sides[0] = Debater("anna", "for", block=peek)
    with pytest.raises(ValueError, match="out of ideas") as caught:
        debate(name="rent", debaters=sides).run_sync(QUESTION, model=ScriptedModel())
    assert caught.value is failure
    first, second = trails[0].list()
    assert (first.status, first.output) == ("completed", "A")
    assert (second.status, second.error) == ("errored", "ValueError: out of ideas")
