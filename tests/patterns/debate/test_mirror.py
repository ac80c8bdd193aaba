"""Mirrored debates, which run in both speaker orders and have a joint verdict."""

from __future__ import annotations

import asyncio
import math
import re
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowdebate import (
    Debater,
    FailurePolicy,
    JudgeOptions,
    Limits,
    Session,
    create_debate_transcript,
    debate,
    human,
    outline,
    submit_answer,
)
from flowdebate.errors import ConfigurationError, ProviderFailed
from flowdebate.evaluation.judge_audit import full_audit
from flowdebate.events import MirrorStarted, ModelCalled, RoundStarted, TurnsOrdered, VerdictReached
from flowdebate.patterns.debate.document import DebateDocument
from flowdebate.patterns.debate.schemas import DebateRawOutput
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from tests.patterns.debates import QUESTION, decision, events

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

SIDES = [Debater("ann", "for"), Debater("bea", "against"), Debater("cid", "neither")]


def rent(**options: Any) -> Any:
    """Build a mirrored debate with two debaters and two rounds."""
    return debate(**{"name": "rent", "debaters": SIDES[:2], "synthesizer": False, "mirror": True, **options})


def order(raw: Any) -> list[tuple[int, str]]:
    """Return the speakers with their rounds."""
    return [(entry.round, entry.agent_name) for entry in raw.transcript]


def second_opener(request: ModelRequest) -> str:
    """Return the side that speaks last, whose texts contain the highest number."""
    arguments = re.findall(r"\[(for|against|neither)\] \((\d+)\)", str(request.messages[-1]["content"]))
    return str(max(arguments, key=lambda argument: int(argument[1]))[0])


def model(judge: Any) -> FunctionModel:
    """Create a model that returns `answers`."""
    return FunctionModel(answers(judge))


def answers(judge: Any) -> Callable[[ModelRequest], Any]:
    """Let debaters number their turns, and let the judge name the winner that `judge(request)` returns."""

    def answer(request: ModelRequest) -> Any:
        if request.output_schema is None:
            before = len(re.findall(r"\(\d+\)", str(request.messages[-1]["content"]).split("It is your turn")[0]))
            return f"({before + 1}) I say."
        winner = judge(request)
        properties = request.output_schema["properties"]
        if "winner" in properties:
            return {"verdict": f"{winner} it is.", "winner": winner, "reasoning": f"{winner} is better."}
        shares = dict.fromkeys(("for", "against"), 0)
        return {"verdict": f"{winner} it is.", "reasoning": "So.", "scores": {**shares, winner: 100}}

    return answer


def test_mirror_reverses_the_order_and_appears_in_the_output() -> None:
    """A mirrored debate makes twice as many calls and has a joint verdict in addition to those of its halves."""
    plain = rent(mirror=False).run_sync(QUESTION, model=model(lambda _: "for"))
    result = rent().run_sync(QUESTION, model=model(lambda _: "for"))
    raw = result.raw
    assert result.usage.calls == 2 * plain.usage.calls
    assert order(raw) == [(1, "ann"), (1, "bea"), (2, "ann"), (2, "bea")]
    assert order(raw.mirrored) == [(1, "bea"), (1, "ann"), (2, "bea"), (2, "ann")]
    assert raw.transcript == plain.raw.transcript
    assert (raw.verdict.winner, raw.first_verdict.winner, raw.mirrored.verdict.winner) == ("for", "for", "for")
    assert [(ballot.view, ballot.winner, ballot.spoken) for ballot in raw.verdict.judging.ballots] == [
        (0, "for", ["for", "against"]),
        (1, "for", ["against", "for"]),
    ]
    assert raw.verdict.judging.planned == 2
    assert raw.verdict.verdict == "for it is."
    assert DebateRawOutput.model_validate(raw.to_wire()) == raw
    assert {"mirrored", "firstVerdict"} <= raw.to_wire().keys()
    assert not {"mirrored", "firstVerdict"} & plain.raw.to_wire().keys()
    assert result.status == raw.status == "complete"
    assert result.transcript.entries == raw.transcript
    (started,) = events(result, MirrorStarted)
    assert started.block == "rent-mirrored"
    assert [event.verdict.winner for event in events(result, VerdictReached)] == ["for", "for"]
    assert len(events(result, RoundStarted)) == 4


@pytest.mark.parametrize("on_flip", ["average", "abstain", "tie"])
def test_judges_favoring_the_last_word_name_no_winner(on_flip: Any) -> None:
    """Both sides get equal shares, because the debate and its mirror have different winners.

    The option `on_flip` determines the verdict.
    """
    result = rent(judge=JudgeOptions(schedule="swap", on_flip=on_flip)).run_sync(QUESTION, model=model(second_opener))
    verdict = result.raw.verdict
    assert (result.raw.first_verdict.winner, result.raw.mirrored.verdict.winner) == ("against", "for")
    assert verdict.winner is None
    assert verdict.judging.scores == {"for": 0.5, "against": 0.5}
    assert (verdict.judging.flipped, verdict.judging.on_flip) == (True, on_flip)
    assert len(verdict.judging.ballots) == 4
    words = {"average": "It is a tie", "tie": "A tie", "abstain": "The judge abstains"}
    assert verdict.verdict.startswith(words[on_flip])
    single = rent().run_sync(QUESTION, model=model(second_opener)).raw.verdict
    assert (single.winner, single.judging.flipped) == (None, True)
    assert "against is better." in single.reasoning
    assert "for is better." in single.reasoning


def judge_by_letter(lead: float, *, mirror: bool, **options: Any) -> Any:
    """Judge a debate in which "for" leads by `lead` in each view, whoever speaks first."""

    def likely(request: ModelRequest) -> dict[str, float]:
        prompt = str(request.messages[-1]["content"])
        ahead = lead if "Yes," in prompt.split("Side B:", maxsplit=1)[0] else -lead
        return {"A": -math.log1p(math.exp(-ahead)), "B": -math.log1p(math.exp(ahead))}

    sides = [Debater("ann", "for", block=lambda _: "Yes, please."), Debater("bea", "against", block=lambda _: "No.")]
    judge = JudgeOptions(answer_form="letter", **options)
    return rent(debaters=sides, judge=judge, mirror=mirror).run_sync(QUESTION, model=FunctionModel(likely)).raw.verdict


@given(lead=st.floats(-3, 3), threshold=st.sampled_from([0.0, 0.1, 1.5]), quotes=st.booleans())
@example(lead=1.0, threshold=1.5, quotes=True)
@example(lead=0.04, threshold=0.0, quotes=True)
@example(lead=0.04, threshold=0.1, quotes=False)
def test_mirrors_keep_a_winner_confirmed_in_both_orders(lead: float, threshold: float, quotes: bool) -> None:  # noqa: FBT001 - drawn
    """If both orders agree, adding a mirror changes neither the scores nor the verdict's text."""
    alone, mirrored = (
        judge_by_letter(lead, mirror=mirror, min_log_odds=threshold, quotes=quotes) for mirror in (False, True)
    )
    assert mirrored.winner == alone.winner
    assert mirrored.verdict == alone.verdict
    assert mirrored.judging.scores == pytest.approx(alone.judging.scores)
    assert mirrored.judging.quotes == alone.judging.quotes


def test_audit_of_mirrored_debates_finds_a_last_word_bias() -> None:
    """The audit finds a bias if the judge always prefers the last speaker, with or without a mirror.

    An impartial judge shows no bias.
    """
    for mirror in (False, True):
        items = []
        spoken = []
        for at in range(23):
            sides = SIDES[:2] if at % 2 else SIDES[1::-1]
            raw = (
                rent(debaters=sides, mirror=mirror, judge="swap", max_rounds=1)
                .run_sync(QUESTION, model=model(second_opener))
                .raw
            )
            items.append(raw.verdict.judging.ballots)
            spoken.append([side.stance for side in sides])
            assert raw.verdict.winner == (None if mirror else sides[-1].stance)
        audit = full_audit(items, spoken=spoken, resamples=0)
        assert audit.last_word is not None
        assert audit.last_word.rate == 1.0
        assert audit.last_word.p is not None
        assert audit.last_word.p < 1e-6
    fair = rent(judge="swap").run_sync(QUESTION, model=model(lambda _: "for")).raw.verdict
    assert fair.winner == "for"
    last = full_audit([fair.judging.ballots] * 23, resamples=0).last_word
    assert last is not None
    assert (last.rate, last.p) == (0.5, 1.0)


@given(
    turn_order=st.sampled_from(["declared", "rotated", "shuffled"]),
    count=st.integers(2, 3),
    rounds=st.integers(1, 3),
    seed=st.integers(0, 99),
    moderated=st.booleans(),
)
def test_every_mirror_round_reverses_the_order(
    *, turn_order: Any, count: int, rounds: int, seed: int, moderated: bool
) -> None:
    names = [side.name for side in SIDES[:count]]
    moderator = (lambda _, ctx: decision(*names[ctx.sequencer.state.round % 2 :])) if moderated else None
    pattern = rent(debaters=SIDES[:count], turn_order=turn_order, max_rounds=rounds, moderator=moderator)
    result = pattern.run_sync(QUESTION, model=model(lambda _: "for"), seed=seed)
    for number in range(1, rounds + 1):
        spoke, reversed_order = (
            [name for round_number, name in order(raw) if round_number == number]
            for raw in (result.raw, result.raw.mirrored)
        )
        assert spoke == reversed_order[::-1]
    assert pattern.run_sync(QUESTION, model=model(lambda _: "for"), seed=seed).raw == result.raw
    assert "rent-mirrored" in str(outline(pattern))
    if turn_order != "declared":
        ordered = [event.speakers for event in events(result, TurnsOrdered)]
        assert ordered[:rounds] == [order_[::-1] for order_ in ordered[rounds:]]


@pytest.mark.parametrize(("second", "winner"), [("for", "for"), ("against", None), (None, None)])
def test_custom_judges_must_name_the_same_winner_twice(second: str | None, winner: str | None) -> None:
    winners = iter([second, "for"])

    def judge(_: object, ctx: Context) -> dict[str, Any]:
        first = ctx.resources.transcript.state.entries[0].agent_name
        return {"verdict": "v", "winner": next(winners), "reasoning": f"{first} began."}

    raw = rent(judge=judge).run_sync(QUESTION, model=model(lambda _: "for")).raw
    assert raw.verdict.winner == winner
    assert "ann began." in raw.verdict.reasoning
    assert "bea began." in raw.verdict.reasoning
    assert raw.verdict.judging is None


def test_debates_without_a_mirror_verdict_have_no_joint_verdict() -> None:
    def judge(request: ModelRequest) -> str:
        if "mirrored" in request.block:
            raise ProviderFailed("down", status=503)
        return "for"

    result = rent(failures=FailurePolicy(on_failure="skip")).run_sync(QUESTION, model=model(judge))
    assert (result.status, result.raw.status, result.raw.verdict) == ("no_verdict", "no_verdict", None)
    assert result.raw.first_verdict.winner == "for"
    assert result.raw.mirrored.status == "no_verdict"


def test_limit_reached_in_the_mirror_leaves_no_verdict() -> None:
    """The first transcript is complete, but a verdict needs evidence from both halves."""
    result = rent().run_sync(QUESTION, model=model(lambda _: "for"), limits=Limits(calls=6))
    assert (result.status, result.raw.verdict, result.raw.first_verdict) == ("limit", None, None)
    assert len(result.raw.transcript) == 4


@given(st.integers(1, 10), st.sampled_from(["declared", "shuffled"]), st.booleans())
async def test_mirrored_debates_can_be_resumed_at_any_call(stop: int, turn_order: Any, slow: bool) -> None:  # noqa: FBT001 - drawn
    """The output is the same as if nothing had been interrupted, and no answered call is repeated in either half."""
    answered: list[str] = []
    pattern, store, calls = rent(turn_order=turn_order), MemoryStore(), 0
    uninterrupted = await pattern.run(QUESTION, model=model(lambda _: "for"), seed=1)
    inner = answers(lambda _: "for")

    async def answer(request: ModelRequest) -> Any:
        nonlocal calls
        calls += 1
        if calls == stop:
            raise asyncio.CancelledError
        for _ in range(len(request.block) % 5 if slow else 0):
            await asyncio.sleep(0)
        answered.append(request.block)
        return inner(request)

    counted = FunctionModel(answer)
    with pytest.raises(asyncio.CancelledError):
        await pattern.run(QUESTION, model=counted, seed=1, store=store, run_id="it")
    result = await pattern.resume("it", store=store, model=counted)
    assert result.raw == uninterrupted.raw
    assert len(answered) == 10


def delayed_model(turns: list[int], judge: Any = lambda _: "for") -> FunctionModel:
    """Create a model whose answers arrive after a number of event loop iterations."""
    inner, waits = answers(judge), cycle(turns)

    async def answer(request: ModelRequest) -> Any:
        for _ in range(next(waits)):
            await asyncio.sleep(0)
        return inner(request)

    return FunctionModel(answer)


def events_of_half(result: Any, *, mirror: bool) -> list[tuple[str, str]]:
    """Return one half's events, in order."""
    debate_events = [(event.kind, event.path) for event in result.events]
    return [(kind, path) for kind, path in debate_events if ("rent-mirrored" in path) is mirror]


@given(turns=st.lists(st.integers(0, 9), min_size=1, max_size=12), moderated=st.booleans())
async def test_event_order_does_not_depend_on_response_times(*, turns: list[int], moderated: bool) -> None:
    moderator = (lambda _: decision("ann", "bea")) if moderated else None
    pattern = rent(moderator=moderator)
    expected = await pattern.run(QUESTION, model=model(lambda _: "for"), seed=1)
    run = pattern.start(QUESTION, model=delayed_model(turns), seed=1)
    streamed = [event async for event in run]
    result = await run
    assert result.raw == expected.raw
    for half in (True, False):
        assert events_of_half(result, mirror=half) == events_of_half(expected, mirror=half)
    kinds = [(event.kind, event.path) for event in result.events]
    start = next(at for at, (kind, _) in enumerate(kinds) if kind == "mirror_started")
    assert not any("rent-mirrored" in path for _, path in kinds[:start])
    assert {"rounds_ended", "turn_started"} & {kind for kind, path in kinds[start:] if "mirrored" not in path} == set()
    assert [event for event in streamed if event in result.events] == result.events
    assert result.usage.calls == sum(event.usage.calls for event in events(result, ModelCalled))


async def test_mirrored_debates_take_no_longer_than_one_debate() -> None:
    """The test answers a call only when no other call can start.

    The ten calls are answered in five steps, so the halves must run concurrently.
    """
    waiting: list[asyncio.Event] = []

    async def answer(request: ModelRequest) -> Any:
        waiting.append(gate := asyncio.Event())
        await gate.wait()
        return inner(request)

    inner, steps = answers(lambda _: "for"), 0
    run = rent().start(QUESTION, model=FunctionModel(answer))
    while not run.done():
        before = -1
        while before != len(waiting):  # wait until every possible call has been made
            before = len(waiting)
            for _ in range(50):
                await asyncio.sleep(0)
        steps += bool(waiting)
        for gate in waiting:
            gate.set()
        waiting.clear()
    assert (steps, (await run).usage.calls) == (5, 10)


@pytest.mark.parametrize("calls", range(1, 10))
async def test_limits_end_both_halves_and_report_paid_calls(calls: int) -> None:
    """Every call that was paid for appears in the events and in the transcript of its half."""
    result = await rent().run(QUESTION, model=delayed_model([3]), limits=Limits(calls=calls))
    assert (result.status, result.raw.verdict, result.usage.calls) == ("limit", None, calls)
    paid = [event for event in events(result, ModelCalled) if event.usage.calls]
    assert len(paid) == calls
    assert result.session.resources["transcript"].entries == result.raw.transcript


async def test_failures_in_the_mirror_end_the_debate_at_once() -> None:
    blocks: list[str] = []
    inner = answers(lambda _: "for")

    async def answer(request: ModelRequest) -> Any:
        blocks.append(request.block)
        await asyncio.sleep(0)
        if "mirrored" in request.block:
            raise ProviderFailed("down", status=401)
        return inner(request)

    before = asyncio.all_tasks()
    with pytest.raises(ProviderFailed):
        await rent().run(QUESTION, model=FunctionModel(answer))
    assert "rent-judge" not in blocks
    assert asyncio.all_tasks() == before


async def test_people_debate_one_half_after_the_other() -> None:
    """The human's turns in the mirror come after the first debate, so the run waits for an answer twice."""
    store = MemoryStore()
    pattern = rent(debaters=[Debater("ann", "for", block=human(name="ann")), SIDES[1]], max_rounds=1)
    run = await pattern.run(QUESTION, model=delayed_model([2]), store=store, run_id="it", seed=1)
    places = []
    while run.status == "awaiting":
        (request,) = run.pending
        places.append(request.place)
        await submit_answer(store, "it", "(1) So.", place=request.place)
        run = await pattern.resume("it", store=store, model=delayed_model([2]))
    assert [place.split("/")[1] for place in places] == ["round[1]", "rent-mirrored"]
    assert (run.status, run.raw.mirrored.status) == ("complete", "complete")


def test_shared_transcripts_belong_to_the_first_debate() -> None:
    transcript, session = create_debate_transcript(), Session()
    speakers: list[list[str]] = []

    def until(ctx: Context) -> bool:
        speakers.append([entry.agent_name for entry in ctx.resources.transcript.state.entries])
        return False

    pattern = rent(transcript=transcript, terminate_when=until)
    result = pattern.run_sync(QUESTION, model=model(lambda _: "for"), session=session)
    assert session.resources["transcript"].entries == result.raw.transcript
    assert speakers == [["ann", "bea"], ["bea", "ann"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mirror": "yes"}, "`mirror` must be true or false"),
        ({"turn_order": "simultaneous"}, "`mirror` cannot be combined with `turn_order` simultaneous"),
        (
            {"judge": JudgeOptions(schedule="swap", on_flip="human")},
            "`mirror` cannot be combined with `on_flip` human",
        ),
    ],
)
def test_debates_that_cannot_be_mirrored_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        rent(**options)


def test_page_shows_both_debates_and_their_winners() -> None:
    raw = rent(judge="swap").run_sync(QUESTION, model=model(second_opener)).raw
    sections = list(DebateDocument(status="complete", raw=raw).sections())
    titles = [section.title for section in sections if hasattr(section, "title")]
    assert titles == [
        "Round 1", "Round 2", "The debate again, with the speaking order reversed", "Round 1", "Round 2", "Verdict"
    ]  # fmt: skip
    facts = {fact.label: fact.text for fact in sections[-1].facts}  # type: ignore[union-attr]
    assert facts["In this order"] == "bea (against)"
    assert facts["Reversed"] == "ann (for)"
    assert facts["Winner"] == "none"
