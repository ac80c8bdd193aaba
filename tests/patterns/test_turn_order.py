"""Turn orders: the sequence within a round, the entries visible to each speaker, and the effects of failures."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import (
    Debater,
    FailurePolicy,
    Limits,
    Persona,
    StandIn,
    consensus,
    council,
    debate,
    deliberation,
    handoff,
    human,
    open_requests,
    outline,
    round_robin,
    sequencer,
    submit_answer,
)
from flowdebate.chassis.rounds import order_of_turns, waves_of
from flowdebate.chassis.state import TURN_ORDERS
from flowdebate.errors import ConfigurationError, ProviderFailed, QuorumLost, ReadOnly
from flowdebate.events import RoleFailed, TurnFinished, TurnsOrdered, TurnStarted
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from tests.patterns.debates import QUESTION, VERDICT, by_role, decision, events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

NAMES = ("ann", "bea", "cid", "dan")
SKIP = FailurePolicy(on_failure="skip", quorum=1)
orders = st.sampled_from(TURN_ORDERS)


def sides(count: int, **blocks: Any) -> list[Debater]:
    """Create this many debaters, each with a different stance."""
    return [Debater(name, f"stance of {name}", block=blocks.get(name)) for name in NAMES[:count]]


def build(kind: str, count: int, **options: Any) -> Any:
    """Build a debate or a round robin without a synthesizer."""
    if kind == "debate":
        return debate(**{"name": "rent", "debaters": sides(count), "synthesizer": False, **options})
    people = [Persona(name) for name in NAMES[:count]]
    return round_robin(**{"name": "rent", "debaters": people, "synthesizer": False, **options})


class Speakers:
    """A model that answers for each debater with their name and the call number; some of the calls fail."""

    def __init__(self, failing: frozenset[tuple[str, int]] = frozenset()) -> None:
        self.prompts: list[tuple[str, int, str]] = []
        """Name, number of the call, and prompt of each turn."""
        self.finished: list[str] = []
        self.model = FunctionModel(self._answer)
        self._failing = failing

    async def _answer(self, request: ModelRequest) -> Any:
        if request.output_schema is not None:
            return {**VERDICT, "winner": "stance of ann"}
        name = request.block.rpartition("-")[2]
        count = sum(speaker == name for speaker, _, _ in self.prompts) + 1
        self.prompts.append((name, count, str(request.messages[-1]["content"])))
        await asyncio.sleep(0)
        if (name, count) in self._failing:
            raise ProviderFailed("the endpoint answered 503", status=503)
        self.finished.append(name)
        return text_of(name, count)


def text_of(name: str, count: int) -> str:
    """Return the text of a debater's nth turn."""
    return f"<{name} {count}>"


def transcript(run: Any) -> list[tuple[int, str, str]]:
    """Return the round, speaker and text of each entry."""
    return [(entry.round, entry.agent_name, entry.text) for entry in run.raw.transcript]


@given(st.lists(st.sampled_from(NAMES), max_size=9), orders, st.integers(1, 9), st.integers())
def test_orders_are_seeded_permutations_of_the_speakers(
    speakers: list[str], order: Any, number: int, seed: int
) -> None:
    """In rotation, a different speaker opens each round. Simultaneous turns are recorded in the declared order."""
    turns = order_of_turns(speakers, order, round=number, random=Random(seed))
    assert sorted(turns) == sorted(speakers)
    assert turns == order_of_turns(speakers, order, round=number, random=Random(seed))
    if order in ("declared", "simultaneous"):
        assert turns == speakers
    if order == "rotated" and speakers:
        assert turns[0] == speakers[(number - 1) % len(speakers)]
        assert turns + turns == (speakers * 3)[(at := (number - 1) % len(speakers)) : at + 2 * len(speakers)]


@given(st.lists(st.sampled_from(NAMES), max_size=9))
def test_no_speaker_has_two_turns_in_a_wave(speakers: list[str]) -> None:
    """Turns in a wave are simultaneous, so a speaker who is named several times takes turns in several waves.

    The first of these turns is in the first wave, and there are no more waves than necessary.
    """
    waves = waves_of(speakers)
    assert sorted(name for wave in waves for name in wave) == sorted(speakers)
    assert all(len(set(wave)) == len(wave) for wave in waves)
    assert len(waves) == max(map(speakers.count, speakers), default=0)


@pytest.mark.parametrize("kind", ["debate", "round robin"])
@given(data=st.data(), order=orders, count=st.integers(2, 4), rounds=st.integers(1, 3), seed=st.integers(0, 99))
async def test_visible_entries_depend_on_the_order(
    kind: str, data: st.DataObject, order: Any, count: int, rounds: int, seed: int
) -> None:
    """Sequential speakers see all earlier entries, while simultaneous speakers see only those from earlier rounds."""
    calls = st.tuples(st.sampled_from(NAMES[:count]), st.integers(1, rounds))
    failing = data.draw(st.frozensets(calls, max_size=2 * count))
    pattern = build(kind, count, turn_order=order, max_rounds=rounds, failures=SKIP)

    async def run() -> tuple[Speakers, Any]:
        speakers = Speakers(failing)
        handle = pattern.start(QUESTION, model=speakers.model, seed=seed)
        try:
            return speakers, await handle
        except QuorumLost as error:  # all speakers in a round failed
            return speakers, error.run

    speakers, result = await run()
    ordered = {event.round: list(event.speakers) for event in events(result, TurnsOrdered)}
    assert ordered.keys() == ({*range(1, result.raw.rounds + 1)} if order != "declared" else set())
    entries = transcript(result)
    for number in range(1, result.raw.rounds + 1):
        speaking = ordered.get(number, list(NAMES[:count]))
        assert sorted(speaking) == sorted(NAMES[:count])
        spoken = [(name, text) for entry_round, name, text in entries if entry_round == number]
        assert spoken == [(name, text_of(name, number)) for name in speaking if (name, number) not in failing]
        for name, round_asked, prompt in speakers.prompts:
            if round_asked == number:
                earlier = [text for entry_round, _, text in entries if entry_round < number]
                before = [
                    text_of(other, number)
                    for other in speaking[: speaking.index(name)]
                    if (other, number) not in failing
                ]
                visible = earlier if order == "simultaneous" else [*earlier, *before]
                assert [text for _, _, text in entries if text in prompt] == visible
    assert sorted(loss.name for loss in result.raw.losses if loss.instead == "skipped") == sorted(
        name for name, number in failing if number <= result.raw.rounds
    )
    other = (await run())[1]
    assert other.raw == result.raw
    assert [event.speakers for event in events(other, TurnsOrdered)] == list(map(tuple, ordered.values()))


@pytest.mark.parametrize("kind", ["debate", "round robin"])
@pytest.mark.parametrize("order", TURN_ORDERS)
async def test_simultaneous_rounds_take_no_longer_than_one_turn(kind: str, order: Any) -> None:
    """The test's clock advances only when all callers are waiting.

    A round of simultaneous one-second calls therefore takes one second.
    """
    clock, waiting = 0, 0
    expected_waiting = 4 if order == "simultaneous" else 1
    gate = asyncio.Condition()

    async def answer(request: ModelRequest) -> Any:
        nonlocal clock, waiting
        if request.output_schema is not None:
            return {**VERDICT, "winner": "stance of ann"}
        async with gate:
            waiting += 1
            start = clock
            if waiting == expected_waiting:
                clock, waiting = clock + 1, 0
                gate.notify_all()
            else:
                await gate.wait_for(lambda: clock > start)
        return "So it is."

    pattern = build(kind, 4, turn_order=order, max_rounds=2)
    result = await asyncio.wait_for(pattern.run(QUESTION, model=FunctionModel(answer)), 30)
    assert len(result.raw.transcript) == 8
    assert clock == (2 if order == "simultaneous" else 8)


@given(st.permutations(NAMES))
async def test_transcript_keeps_the_declared_order(arrival: list[str]) -> None:
    answered = {name: asyncio.Event() for name in arrival}
    later: list[str] = []

    async def answer(request: ModelRequest) -> Any:
        if request.output_schema is not None:
            return {**VERDICT, "winner": "stance of ann"}
        name = request.block.rpartition("-")[2]
        if answered[name].is_set():
            later.append(str(request.messages[-1]["content"]))
            return "again"
        if place := arrival.index(name):
            await answered[arrival[place - 1]].wait()
        answered[name].set()
        return text_of(name, 1)

    result = await build("debate", 4, turn_order="simultaneous").run(QUESTION, model=FunctionModel(answer))
    assert [event.agent_name for event in events(result, TurnFinished)][:4] == arrival
    assert [entry.agent_name for entry in result.raw.transcript] == [*NAMES, *NAMES]
    assert [task.assignee for task in result.tasks.list()] == [*NAMES, *NAMES]
    for prompt in later:
        places = [prompt.index(text_of(name, 1)) for name in NAMES]
        assert places == sorted(places)


async def test_other_turns_in_a_failed_round_finish_and_are_not_repeated() -> None:
    """If several turns fail, the first error in declared order is raised.

    The other entries are kept in the raw output and in the store.
    """
    store, speakers = MemoryStore(), Speakers(frozenset({("bea", 1), ("cid", 1)}))
    pattern = build("debate", 4, turn_order="simultaneous", max_rounds=1)
    with pytest.raises(ProviderFailed) as caught:
        await pattern.run(QUESTION, model=speakers.model, store=store, run_id="it")
    assert caught.value.run is not None
    assert [entry.agent_name for entry in caught.value.run.raw.transcript] == ["ann", "dan"]
    assert any("rent-debater-bea" in note or "rent-turn-bea" in note for note in caught.value.__notes__)
    resumed = Speakers()
    result = await pattern.resume("it", store=store, model=resumed.model)
    assert [name for name, _, _ in resumed.prompts] == ["bea", "cid"]
    assert [entry.agent_name for entry in result.raw.transcript] == list(NAMES)


async def test_runs_that_reach_a_limit_keep_all_paid_turns() -> None:
    """Pending calls finish; only the turn that would exceed the limit is cancelled."""
    pattern = build("debate", 4, turn_order="simultaneous", max_rounds=1)
    speakers = Speakers()
    result = await pattern.run(QUESTION, model=speakers.model, limits=Limits(calls=3))
    assert result.status == "limit"
    assert speakers.finished == ["ann", "bea", "cid"]
    assert [entry.agent_name for entry in result.raw.transcript] == ["ann", "bea", "cid"]
    assert [task.status for task in result.tasks.list()] == ["completed"] * 3 + ["cancelled"]


async def test_cancelling_a_run_cancels_all_speakers_and_keeps_entries() -> None:
    cancelled: list[str] = []
    under_way = asyncio.Event()

    async def answer(request: ModelRequest) -> Any:
        name = request.block.rpartition("-")[2]
        if name == "bea":
            return "I am done."
        try:
            if name == "dan":
                await asyncio.sleep(0)
                under_way.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(name)
            raise

    handle = build("debate", 4, turn_order="simultaneous").start(QUESTION, model=FunctionModel(answer))
    await under_way.wait()
    await asyncio.sleep(0)
    handle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handle
    assert sorted(cancelled) == ["ann", "cid", "dan"]
    assert [entry.text for entry in handle.raw.transcript] == ["I am done."]
    assert handle.raw.status == "interrupted"


@given(data=st.data(), order=orders, count=st.integers(2, 4), seed=st.integers(0, 9))
async def test_runs_interrupted_at_any_call_can_be_resumed(
    data: st.DataObject, order: Any, count: int, seed: int
) -> None:
    pattern = build("debate", count, turn_order=order)
    uninterrupted = await pattern.run(QUESTION, model=Speakers().model, seed=seed)
    calls, stop, store = 0, data.draw(st.integers(1, 2 * count)), MemoryStore()

    async def answer(request: ModelRequest) -> Any:
        nonlocal calls
        if request.output_schema is not None:
            return {**VERDICT, "winner": "stance of ann"}
        calls += 1
        if calls == stop:
            raise asyncio.CancelledError
        number = 2 if text_of(request.block.rpartition("-")[2], 1) in str(request.messages[-1]["content"]) else 1
        return text_of(request.block.rpartition("-")[2], number)

    model = FunctionModel(answer)
    with pytest.raises(asyncio.CancelledError):
        await pattern.run(QUESTION, model=model, seed=seed, store=store, run_id="it")
    result = await pattern.resume("it", store=store, model=model)
    assert result.raw == uninterrupted.raw
    in_flight = count if order == "simultaneous" else 1
    assert 2 * count < calls <= 2 * count + in_flight


async def test_simultaneous_human_turns_are_requested_together() -> None:
    """The model's argument is stored while the humans are thinking.

    Neither human sees the other's entry from the same round.
    """
    people = {"ann": human(name="ann"), "cid": human(name="cid")}
    pattern = build("debate", 3, debaters=sides(3, **people), turn_order="simultaneous", max_rounds=2)
    store, speakers = MemoryStore(), Speakers()
    result = await pattern.run(QUESTION, model=speakers.model, store=store, run_id="it")
    for number in (1, 2):
        assert result.status == "awaiting"
        assert [request.block for request in result.pending] == ["ann", "cid"]
        assert [name for name, _, _ in speakers.prompts] == ["bea"] * number
        for request in reversed(await open_requests(store, "it")):
            assert f"in round {number}" not in request.shown
            await submit_answer(store, "it", f"{request.block} in round {number}", place=request.place)
        result = await pattern.resume("it", store=store, model=speakers.model)
    assert result.status == "complete"
    assert transcript(result) == [
        (1, "ann", "ann in round 1"), (1, "bea", text_of("bea", 1)), (1, "cid", "cid in round 1"),
        (2, "ann", "ann in round 2"), (2, "bea", text_of("bea", 2)), (2, "cid", "cid in round 2"),
    ]  # fmt: skip


async def test_late_fallback_models_see_no_more_than_other_speakers() -> None:
    """The fallback model is called after the others have spoken, but it sees only what they saw."""
    stand_in = Speakers()
    failures = FailurePolicy(on_failure=StandIn(stand_in.model))
    pattern = build("debate", 3, turn_order="simultaneous", max_rounds=1, failures=failures)
    result = await pattern.run(QUESTION, model=Speakers(frozenset({("bea", 1)})).model)
    assert [entry.agent_name for entry in result.raw.transcript] == list(NAMES[:3])
    ((_, _, prompt),) = stand_in.prompts
    assert "<" not in prompt
    assert [loss.instead for loss in result.raw.losses] == ["stand_in"]


async def test_losses_are_listed_in_turn_order() -> None:
    """In this test, a later turn is the first to fail."""
    slow = {"ann": 2, "bea": 0, "cid": 1}

    async def answer(request: ModelRequest) -> Any:
        if request.output_schema is not None:
            return {**VERDICT, "winner": "stance of dan"}
        name = request.block.rpartition("-")[2]
        if name in slow:
            for _ in range(slow[name]):
                await asyncio.sleep(0)
            raise ProviderFailed("the endpoint answered 503", status=503)
        return "I am here."

    pattern = build("debate", 4, turn_order="simultaneous", max_rounds=1, failures=SKIP)
    result = await pattern.run(QUESTION, model=FunctionModel(answer))
    assert [loss.name for loss in result.raw.losses] == ["ann", "bea", "cid"]
    assert events(result, RoleFailed)[0].name == "bea"


def test_no_turn_order_lets_blocks_write_to_the_transcript() -> None:
    """Simultaneous speakers would not see changes to the transcript, so a block that writes to it raises an error."""

    def meddle(_: object, ctx: Context) -> str:
        ctx.resources.transcript.set(ctx.resources.transcript.state)
        return "Done."

    for order in TURN_ORDERS:
        pattern = build("debate", 2, debaters=sides(2, bea=meddle), turn_order=order)
        with pytest.raises(ReadOnly, match="rent-debater-bea"):
            pattern.run_sync(QUESTION, model=Speakers().model)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("declared", [["bea", "ann", "cid"], ["cid", "ann"]]),
        ("rotated", [["bea", "ann", "cid"], ["ann", "cid"]]),
        ("simultaneous", [["bea", "ann", "cid"], ["cid", "ann"]]),
    ],
)
def test_moderator_chooses_speakers_and_turn_order_sorts_them(order: Any, expected: list[list[str]]) -> None:
    """By default, turns follow the moderator's order.

    Whatever the turn order, only speakers named by the moderator take turns.
    """

    def moderate(_: object, ctx: Context) -> Any:
        return decision(*[["bea", "ann", "cid"], ["cid", "ann"]][ctx.sequencer.state.round - 1])

    pattern = build("debate", 3, turn_order=order, moderator=moderate)
    result = pattern.run_sync(QUESTION, model=Speakers().model, seed=1)
    spoke = [[name for number, name, _ in transcript(result) if number == which] for which in (1, 2)]
    assert spoke == expected
    assert [moderator_decision.next_speakers for moderator_decision in result.raw.moderator_decisions] == [
        ["bea", "ann", "cid"],
        ["cid", "ann"],
    ]


def test_second_turn_in_a_simultaneous_round_sees_the_first_turns() -> None:
    speakers = Speakers()
    pattern = build(
        "debate", 3, turn_order="simultaneous", moderator=lambda _: decision("bea", "ann", "bea", "cid", done=True)
    )
    result = pattern.run_sync(QUESTION, model=speakers.model)
    assert [name for _, name, _ in transcript(result)] == ["bea", "ann", "cid", "bea"]
    last = speakers.prompts[-1]
    assert last[:2] == ("bea", 2)
    assert all(text_of(name, 1) in last[2] for name in NAMES[:3])
    (ordered,) = events(result, TurnsOrdered)
    assert ordered.speakers == ("bea", "ann", "cid", "bea")


def test_only_non_default_turn_orders_are_recorded() -> None:
    """Runs stored by earlier versions do not record the declared order and must still load."""
    for kind in ("debate", "round robin"):
        for order in TURN_ORDERS:
            pattern = build(kind, 2, turn_order=order)
            result = pattern.run_sync(QUESTION, model=Speakers().model)
            assert (f"rent-turns ({order})" in str(outline(pattern))) == (order != "declared")
            assert result.raw.turn_order == order
            assert result.raw.to_wire().get("turnOrder") == (None if order == "declared" else order)
            assert type(result.raw).model_validate(result.raw.to_wire()) == result.raw
            assert len(events(result, TurnsOrdered)) == (0 if order == "declared" else 2)
            wire = [event.to_wire() for event in events(result, TurnsOrdered)]
            assert all(payload["kind"] == "turns_ordered" and len(payload["speakers"]) == 2 for payload in wire)
            assert len(events(result, TurnStarted)) == 4


@pytest.mark.parametrize("wrong", ["at once", "", None, 2, ["rotated"]])
def test_errors_for_invalid_orders_list_the_valid_ones(wrong: Any) -> None:
    for kind in ("debate", "round robin"):
        with pytest.raises(
            ConfigurationError,
            match=r"`turn_order` must be declared, rotated, shuffled or simultaneous",
        ):
            build(kind, 2, turn_order=wrong)


MEMBERS = [Persona("ann"), Persona("bea")]
OTHERS: Mapping[str, Callable[..., Any]] = {
    "deliberation": lambda **options: deliberation(name="deal", debaters=MEMBERS, **options),
    "handoff": lambda **options: handoff(name="talk", debaters=MEMBERS, **options),
    "consensus": lambda **options: consensus(name="plan", agents=MEMBERS, **options),
    "council": lambda **options: council(name="plan", members=MEMBERS, **options),
}


@pytest.mark.parametrize("pattern", OTHERS)
def test_patterns_with_a_fixed_order_reject_turn_order(pattern: str) -> None:
    """Silently ignoring the option would mislead the caller."""
    with pytest.raises((TypeError, ConfigurationError), match="turn_order"):
        OTHERS[pattern](turn_order="rotated")


def test_two_debates_in_one_run_have_different_orders() -> None:
    """The shuffled order depends not only on the seed but also on the debate's path."""
    first = debate(name="one", debaters=sides(4), turn_order="shuffled", max_rounds=4, synthesizer=False)
    second = debate(name="two", debaters=sides(4), turn_order="shuffled", max_rounds=4, synthesizer=False)
    pipeline = sequencer(name="both").tap(first).then(second)
    result = pipeline.run_sync(QUESTION, model=by_role(verdict={**VERDICT, "winner": "stance of ann"}), seed=4)
    sequences = [event.speakers for event in events(result, TurnsOrdered)]
    assert sequences[:4] != sequences[4:]
