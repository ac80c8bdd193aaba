"""Custom blocks cannot rewrite a pattern's history: the run fails with an error that names the block."""

from __future__ import annotations

import copy
import pickle
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, create_debate_transcript, debate, handler, sequencer
from flowdebate._util.wire import FrozenDict, FrozenList, freeze
from flowdebate.chassis.turn import create_init_transcript
from flowdebate.errors import OutputError, ReadOnly
from flowdebate.patterns.debate.schemas import DebateModeratorDecision, DebateRawOutput, DebateState
from flowdebate.patterns.debate.transcript import create_record_argument
from tests.patterns.every import PATTERNS, VERDICT, WITH_ROUNDS, make_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.runs.context import Context

QUESTION = "Should rents be capped?"


def get_entries(ctx: Context) -> Any:
    """Return the entries in the transcript."""
    return ctx.resources.transcript.state.entries


def get_task_id(ctx: Context) -> str:
    """Return the id of a turn's task."""
    return str(ctx.resources.audit.list()[0].id)


ATTACKS: dict[str, Callable[[Any, Context], object]] = {
    "clears the transcript": lambda _, ctx: get_entries(ctx).clear(),
    "adds to the transcript": lambda _, ctx: get_entries(ctx).append("mine"),
    "takes something out": lambda _, ctx: get_entries(ctx).__delitem__(slice(None)),
    "replaces the transcript": lambda _, ctx: ctx.resources.transcript.set(None),
    "turns the round back": lambda _, ctx: ctx.sequencer.update(round=0),
    "turns the round on": lambda _, ctx: ctx.sequencer.update(round=99),
    "sets the stop reason": lambda _, ctx: ctx.sequencer.update(stop_reason="max_rounds"),
    "replaces the state": lambda _, ctx: setattr(ctx.sequencer, "state", None),
    "moves the deadline": lambda _, ctx: setattr(ctx.sequencer, "deadline", 0.0),
    "removes failures": lambda _, ctx: ctx.sequencer.state.losses.clear(),
    "cancels a turn": lambda _, ctx: ctx.resources.audit.cancel(get_task_id(ctx)),
    "completes a turn": lambda _, ctx: ctx.resources.audit.complete(task_id=get_task_id(ctx), output="mine"),
}
OF_TRANSCRIPTS = {name for name in ATTACKS if "transcript" in name} | {"takes something out"}
"""Attacks on a transcript, which `consensus()` does not have."""


@pytest.mark.parametrize(
    ("pattern", "attack"),
    [
        (pattern_name, attack)
        for pattern_name in PATTERNS
        for attack in ATTACKS
        if pattern_name != "consensus" or attack not in OF_TRANSCRIPTS
    ],
)
def test_changing_history_fails_the_run_with_an_error_naming_the_block(pattern: str, attack: str) -> None:
    with pytest.raises(ReadOnly, match=r"block 'x-\w+-bob' must not change") as caught:
        make_pattern(pattern, ATTACKS[attack]).run_sync(QUESTION)
    assert caught.value.block is not None


def comparable(raw: Any) -> object:
    """Return an output without the parts that differ between runs."""
    wire = raw.to_wire()
    wire.pop("analytics", None)
    return wire


@pytest.mark.parametrize("pattern", PATTERNS)
def test_blocks_that_catch_the_error_still_change_nothing(pattern: str) -> None:
    def try_all(value: Any, ctx: Context) -> None:
        for attack in ATTACKS.values():
            with suppress(ReadOnly, AttributeError):
                attack(value, ctx)

    fair = make_pattern(pattern, lambda _, __: None).run_sync(QUESTION, seed=7)
    attacked = make_pattern(pattern, try_all).run_sync(QUESTION, seed=7)
    assert comparable(attacked.raw) == comparable(fair.raw)
    tasks = [[(task.assignee, task.status, task.output) for task in run.tasks.list()] for run in (fair, attacked)]
    assert tasks[0] == tasks[1]


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_predicates_cannot_change_history(pattern: str) -> None:
    def meddle(ctx: Context) -> bool:
        ctx.sequencer.update(round=0)
        return False

    with pytest.raises(ReadOnly, match="block 'terminate_when' must not change `round` of 'x'"):
        make_pattern(pattern, lambda _, __: None, terminate_when=meddle).run_sync(QUESTION)


SIDES = [Debater("ann", "for", block=lambda _: "Yes."), Debater("bob", "against", block=lambda _: "No.")]


def rent(**options: Any) -> Any:
    """Build a debate that does not call a model."""
    defaults: Any = {"debaters": SIDES, "max_rounds": 2, "judge": lambda _: VERDICT, "synthesizer": False, **options}
    return debate(**{"name": "rent", **defaults})


@pytest.mark.parametrize("role", ["judge", "moderator", "synthesizer"])
@pytest.mark.parametrize("attack", [name for name in ATTACKS if name != "cancels a turn" and "completes" not in name])
def test_deciding_roles_cannot_change_history(role: str, attack: str) -> None:
    def meddle(value: object, ctx: Context) -> object:
        ATTACKS[attack](value, ctx)
        return VERDICT

    with pytest.raises(ReadOnly, match=f"block 'rent-{role}' must not change"):
        rent(**{role: meddle}).run_sync(QUESTION)


def test_decisions_are_deeply_frozen() -> None:
    """A debater must not be able to remove speakers from the moderator's decision."""
    strike = Debater("bob", "against", block=lambda _, ctx: ctx.sequencer.state.decision.next_speakers.clear())
    with pytest.raises(ReadOnly, match="block 'rent-debater-bob'"):
        rent(debaters=[SIDES[0], strike], moderator=lambda _: {"next_speakers": ["ann", "bob"]}).run_sync(QUESTION)


def test_synthesizers_cannot_change_the_raw_output() -> None:
    with pytest.raises(ReadOnly, match="block 'rent-synthesizer'"):
        rent(synthesizer=lambda raw: raw.transcript.clear()).run_sync(QUESTION)
    result = rent(synthesizer=lambda raw: raw).run_sync(QUESTION)
    assert isinstance(result.output, DebateRawOutput)
    assert result.output == result.raw


@pytest.mark.parametrize("what", ["records", "clears"])
def test_debaters_cannot_record_arguments(what: str) -> None:
    """A block that changes a custom pattern's transcript raises an error if it runs inside a debater."""
    transcript = create_debate_transcript()
    shared: Any = {"transcript": transcript, "collection_id": "rent", "name": "own"}
    block = (
        create_record_argument(agent_name="ann", stance="for", **shared)
        if what == "records"
        else create_init_transcript(**shared)
    )
    speaks = sequencer(name="speaks").map(lambda _: "No.").tap(block)
    sides = [SIDES[0], Debater("bob", "against", block=speaks)]
    with pytest.raises(ReadOnly, match="block 'speaks' must not change the pattern's transcript"):
        rent(debaters=sides, transcript=transcript).run_sync(QUESTION)


def test_nested_debates_do_not_change_the_outer_transcript() -> None:
    """Although the two debates share a transcript, the outer one's output contains only its own entries."""
    shared = create_debate_transcript()
    inner = rent(name="inner", transcript=shared).then(lambda raw: f"{len(raw.transcript)} arguments")
    outer = rent(debaters=[SIDES[0], Debater("bob", "against", block=inner)], transcript=shared, max_rounds=1)
    texts = [entry.text for entry in outer.run_sync(QUESTION).output.transcript]
    assert texts == ["Yes.", "4 arguments"]


def test_surrounding_blocks_can_change_a_shared_transcript() -> None:
    """The transcript is read-only for blocks inside the pattern, but not for those around it."""
    shared = create_debate_transcript()

    @handler(name="read", resources={"transcript": shared})
    def read(_: object, ctx: Context) -> int:
        count = len(ctx.resources.transcript.state.entries)
        ctx.resources.transcript.set(shared.initial())
        return count + len(ctx.resources.transcript.state.entries)

    assert sequencer(name="s").then(rent(transcript=shared)).then(read).run_sync(QUESTION).output == 4


def test_blocks_can_add_tasks_to_the_audit_trail() -> None:
    def plan(_: object, ctx: Context) -> str:
        audit = ctx.resources.audit
        task = audit.add_task("look it up", assignee="ann")
        audit.claim(task_id=task.id, by="ann")
        assert audit.get(task.id).status == "in_progress"
        audit.complete(task.id, "found")
        audit.claim(task_id=audit.add_task("and again", assignee="ann").id, by="ann")
        with pytest.raises(AttributeError, match="does not let blocks use 'protected'"):
            audit.protected  # noqa: B018 - the access itself counts
        return "Yes."

    tasks = rent(debaters=[Debater("ann", "for", block=plan), SIDES[1]], max_rounds=1).run_sync(QUESTION).tasks.list()
    assert [(task.goal, task.output) for task in tasks if task.goal != "and again"] == [
        ("Argue 'for' in round 1", "Yes."),
        ("look it up", "found"),
        ("Argue 'against' in round 1", "No."),
    ]
    assert [task.status for task in tasks if task.goal == "and again"] == ["in_progress"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(value=JSON)
def test_frozen_values_equal_the_originals_and_can_be_copied(value: object) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert freeze(frozen) is frozen
    assert pickle.loads(pickle.dumps(frozen)) == copy.copy(frozen) == copy.deepcopy(frozen) == value  # noqa: S301 - our own


CHANGES: list[Callable[[Any], object]] = [
    *(lambda value, name=name: getattr(value, name)() for name in ("clear", "pop", "sort", "reverse", "popitem")),
    *(lambda value, name=name: getattr(value, name)(()) for name in ("append", "extend", "remove", "update")),
    lambda value: value.insert(0, 1),
    lambda value: value.setdefault("a", 1),
    lambda value: value.__setitem__(0, 1),
    lambda value: value.__delitem__(0),
    lambda value: value.__iadd__([1]),
    lambda value: value.__imul__(2),
    lambda value: value.__ior__({"a": 2}),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("frozen", [FrozenList([1, 2]), FrozenDict({"a": 1})], ids=["list", "dict"])
def test_frozen_values_reject_every_change(frozen: object, change: Callable[[Any], object]) -> None:
    """The test calls every method that modifies a list or dict."""
    before = copy.copy(frozen)
    with pytest.raises((ReadOnly, AttributeError)) as caught:
        change(frozen)
    if isinstance(caught.value, ReadOnly):
        assert "nobody may change a" in str(caught.value)
    assert frozen == before


def test_freezing_a_list_does_not_change_its_wire_format() -> None:
    decision = DebateModeratorDecision(round=1, next_speakers=["ann"])
    assert freeze(decision).model_dump_json() == decision.model_dump_json()
    assert freeze(decision) == decision


def test_dir_lists_the_available_resources() -> None:
    """Tab completion in notebooks calls `dir`."""
    names: list[list[str]] = []

    def look(_: object, ctx: Context) -> str:
        names.append(dir(ctx.resources))
        return "Yes."

    rent(debaters=[Debater("ann", "for", block=look), SIDES[1]], max_rounds=1).run_sync(QUESTION)
    assert {"audit", "transcript"} <= set(names[0])


def test_custom_patterns_have_an_audit_trail() -> None:
    transcript = create_debate_transcript()
    shared: Any = {"name": "own", "transcript": transcript, "collection_id": "own"}
    pattern = sequencer(name="own", state=DebateState).tap(create_init_transcript(**shared))
    for name, stance in (("ann", "for"), ("bob", "against")):
        speaks = sequencer(name=f"own-turn-{name}").map(lambda _: "I say so.")
        pattern = pattern.tap(speaks.then(create_record_argument(agent_name=name, stance=stance, **shared)))
    tasks = pattern.run_sync(QUESTION).tasks
    assert tasks.collection_id == "own"
    assert [(task.assignee, task.status, task.output) for task in tasks.list()] == [
        ("ann", "completed", "I say so."),
        ("bob", "completed", "I say so."),
    ]


def test_custom_patterns_complete_tasks_without_an_assignee() -> None:
    transcript = create_debate_transcript()
    shared: Any = {"name": "own", "transcript": transcript, "collection_id": "own"}

    @handler(name="own-plan")
    def plan(value: object, ctx: Context) -> None:
        audit = ctx.resources.audit
        audit.claim(task_id=audit.add_task("speak", assignee="ann").id)

    pattern = (
        sequencer(name="own", state=DebateState).tap(create_init_transcript(**shared)).tap(plan).map(lambda _: "Yes.")
    )
    pattern = pattern.then(create_record_argument(agent_name="ann", stance="for", **shared))
    (task,) = pattern.run_sync(QUESTION).tasks.list()
    assert (task.goal, task.status, task.output) == ("speak", "completed", "Yes.")


@pytest.mark.parametrize("turns", [9, 10_000])
def test_moderators_cannot_assign_unlimited_turns(turns: int) -> None:
    """A debater can have at most four turns per round, and the error names the moderator."""
    with pytest.raises(OutputError, match=f"block 'rent-moderator' must return .* names {turns:,} turns in one round"):
        rent(moderator=lambda _: {"next_speakers": ["ann"] * turns}).run_sync(QUESTION)
    result = rent(moderator=lambda _: {"next_speakers": ["ann", "bob"] * 4}, max_rounds=1).run_sync(QUESTION)
    assert len(result.output.transcript) == 8
