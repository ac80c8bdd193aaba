"""A mirrored debate: it is held in both orders of speakers, and one verdict is made of both."""

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
    """Two debaters and two rounds, mirrored."""
    return debate(**{"name": "rent", "debaters": SIDES[:2], "synthesizer": False, "mirror": True, **options})


def order(raw: Any) -> list[tuple[int, str]]:
    """Who spoke when."""
    return [(entry.round, entry.agent_name) for entry in raw.transcript]


def last_in(request: ModelRequest) -> str:
    """The side that opened the debate less than the others: what the judge of these tests goes by is `(nth)`."""
    said = re.findall(r"\[(for|against|neither)\] \((\d+)\)", str(request.messages[-1]["content"]))
    return str(max(said, key=lambda each: int(each[1]))[0])


def model(judge: Any) -> FunctionModel:
    """A model that gives the `answers`."""
    return FunctionModel(answers(judge))


def answers(judge: Any) -> Callable[[ModelRequest], Any]:
    """Debaters say how many have spoken before them in their debate; `judge(request)` names the winner."""

    def answer(request: ModelRequest) -> Any:
        if request.output_schema is None:
            before = len(re.findall(r"\(\d+\)", str(request.messages[-1]["content"]).split("It is your turn")[0]))
            return f"({before + 1}) I say."
        found = judge(request)
        properties = request.output_schema["properties"]
        if "winner" in properties:
            return {"verdict": f"{found} it is.", "winner": found, "reasoning": f"{found} is better."}
        shares = dict.fromkeys(("for", "against"), 0)
        return {"verdict": f"{found} it is.", "reasoning": "So.", "scores": {**shares, found: 100}}

    return answer


def test_it_is_held_again_in_the_reverse_order_and_both_are_in_the_output() -> None:
    """Two debates, two verdicts, and one that is on both; the cost is twice that of one."""
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
def test_a_judge_that_goes_by_the_last_word_makes_nobody_win(on_flip: Any) -> None:
    """It finds otherwise in the mirror: the shares are even, and the rule for flips says what that means."""
    result = rent(judge=JudgeOptions(schedule="swap", on_flip=on_flip)).run_sync(QUESTION, model=model(last_in))
    verdict = result.raw.verdict
    assert (result.raw.first_verdict.winner, result.raw.mirrored.verdict.winner) == ("against", "for")
    assert verdict.winner is None
    assert verdict.judging.scores == {"for": 0.5, "against": 0.5}
    assert (verdict.judging.flipped, verdict.judging.on_flip) == (True, on_flip)
    assert len(verdict.judging.ballots) == 4
    words = {"average": "It is a tie", "tie": "A tie", "abstain": "The judge abstains"}
    assert verdict.verdict.startswith(words[on_flip])
    single = rent().run_sync(QUESTION, model=model(last_in)).raw.verdict
    assert (single.winner, single.judging.flipped) == (None, True)
    assert "against is better." in single.reasoning
    assert "for is better." in single.reasoning


def by_letter(lead: float, *, mirror: bool, **options: Any) -> Any:
    """The verdict on a debate in which "for" is `lead` ahead in each view, whoever speaks first."""

    def likely(request: ModelRequest) -> dict[str, float]:
        shown = str(request.messages[-1]["content"])
        ahead = lead if "Yes," in shown.split("Side B:", maxsplit=1)[0] else -lead
        return {"A": -math.log1p(math.exp(-ahead)), "B": -math.log1p(math.exp(ahead))}

    sides = [Debater("ann", "for", block=lambda _: "Yes, please."), Debater("bea", "against", block=lambda _: "No.")]
    judge = JudgeOptions(answer_form="letter", **options)
    return rent(debaters=sides, judge=judge, mirror=mirror).run_sync(QUESTION, model=FunctionModel(likely)).raw.verdict


@given(lead=st.floats(-3, 3), least=st.sampled_from([0.0, 0.1, 1.5]), quotes=st.booleans())
@example(lead=1.0, least=1.5, quotes=True)
@example(lead=0.04, least=0.0, quotes=True)
@example(lead=0.04, least=0.1, quotes=False)
def test_the_mirror_of_a_debate_with_itself_has_its_winner(lead: float, least: float, quotes: bool) -> None:  # noqa: FBT001 - drawn
    """By letter with any threshold, and in the words of such a verdict: a small lead is no tie."""
    alone, both = (by_letter(lead, mirror=mirror, min_log_odds=least, quotes=quotes) for mirror in (False, True))
    assert both.winner == alone.winner
    assert both.verdict == alone.verdict
    assert both.judging.scores == pytest.approx(alone.judging.scores)
    assert both.judging.quotes == alone.judging.quotes


def test_the_audit_of_mirrored_debates_finds_a_judge_that_goes_by_the_last_word() -> None:
    """Without mirrors 100 percent of last words by 23 debates; with them as well, and quality leans nowhere."""
    for mirror in (False, True):
        items = []
        spoken = []
        for at in range(23):
            sides = SIDES[:2] if at % 2 else SIDES[1::-1]
            raw = (
                rent(debaters=sides, mirror=mirror, judge="swap", max_rounds=1)
                .run_sync(QUESTION, model=model(last_in))
                .raw
            )
            items.append(raw.verdict.judging.ballots)
            spoken.append([side.stance for side in sides])
            assert raw.verdict.winner == (None if mirror else sides[-1].stance)
        found = full_audit(items, spoken=spoken, resamples=0)
        assert found.last_word is not None
        assert found.last_word.rate == 1.0
        assert found.last_word.p is not None
        assert found.last_word.p < 1e-6
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
def test_every_round_of_the_mirror_has_the_reverse_order(
    *, turn_order: Any, count: int, rounds: int, seed: int, moderated: bool
) -> None:
    """Whatever the order, with or without a moderator; the outline shows both, and the same seed gives the same run."""
    names = [side.name for side in SIDES[:count]]
    moderator = (lambda _, ctx: decision(*names[ctx.sequencer.state.round % 2 :])) if moderated else None
    pattern = rent(debaters=SIDES[:count], turn_order=turn_order, max_rounds=rounds, moderator=moderator)
    result = pattern.run_sync(QUESTION, model=model(lambda _: "for"), seed=seed)
    for number in range(1, rounds + 1):
        spoke, again = (
            [name for said_in, name in order(raw) if said_in == number] for raw in (result.raw, result.raw.mirrored)
        )
        assert spoke == again[::-1]
    assert pattern.run_sync(QUESTION, model=model(lambda _: "for"), seed=seed).raw == result.raw
    assert "rent-mirrored" in str(outline(pattern))
    if turn_order != "declared":
        ordered = [event.speakers for event in events(result, TurnsOrdered)]
        assert ordered[:rounds] == [each[::-1] for each in ordered[rounds:]]


@pytest.mark.parametrize(("second", "winner"), [("for", "for"), ("against", None), (None, None)])
def test_a_judge_of_one_s_own_has_to_name_the_same_winner_twice(second: str | None, winner: str | None) -> None:
    """Both reasons are in the verdict."""
    found = iter([second, "for"])

    def judge(_: object, ctx: Context) -> dict[str, Any]:
        first = ctx.resources.transcript.state.entries[0].agent_name
        return {"verdict": "v", "winner": next(found), "reasoning": f"{first} began."}

    raw = rent(judge=judge).run_sync(QUESTION, model=model(lambda _: "for")).raw
    assert raw.verdict.winner == winner
    assert "ann began." in raw.verdict.reasoning
    assert "bea began." in raw.verdict.reasoning
    assert raw.verdict.judging is None


def test_without_a_verdict_on_the_mirror_there_is_none() -> None:
    """One alone would be the verdict of one order; what it was can be read."""

    def judge(request: ModelRequest) -> str:
        if "mirrored" in request.block:
            raise ProviderFailed("down", status=503)
        return "for"

    result = rent(failures=FailurePolicy(on_failure="skip")).run_sync(QUESTION, model=model(judge))
    assert (result.status, result.raw.status, result.raw.verdict) == ("no_verdict", "no_verdict", None)
    assert result.raw.first_verdict.winner == "for"
    assert result.raw.mirrored.status == "no_verdict"


def test_a_limit_in_the_mirror_leaves_the_debate_without_a_verdict() -> None:
    """The transcript is there; no verdict was reached on half of the evidence."""
    result = rent().run_sync(QUESTION, model=model(lambda _: "for"), limits=Limits(calls=6))
    assert (result.status, result.raw.verdict, result.raw.first_verdict) == ("limit", None, None)
    assert len(result.raw.transcript) == 4


@given(st.integers(1, 10), st.sampled_from(["declared", "shuffled"]), st.booleans())
async def test_it_is_resumed_wherever_it_ended(stop: int, turn_order: Any, slow: bool) -> None:  # noqa: FBT001 - drawn
    """To the same output, without asking again what was answered in either half."""
    answered: list[str] = []
    pattern, store, calls = rent(turn_order=turn_order), MemoryStore(), 0
    whole = await pattern.run(QUESTION, model=model(lambda _: "for"), seed=1)
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
    assert result.raw == whole.raw
    assert len(answered) == 10


def late(turns: list[int], judge: Any = lambda _: "for") -> FunctionModel:
    """The model, each of whose answers comes after so many turns of the event loop."""
    inner, waits = answers(judge), cycle(turns)

    async def answer(request: ModelRequest) -> Any:
        for _ in range(next(waits)):
            await asyncio.sleep(0)
        return inner(request)

    return FunctionModel(answer)


def told(result: Any, *, mirror: bool) -> list[tuple[str, str]]:
    """The events of one of the two debates, in order."""
    found = [(event.kind, event.path) for event in result.events]
    return [(kind, path) for kind, path in found if ("rent-mirrored" in path) is mirror]


@given(turns=st.lists(st.integers(0, 9), min_size=1, max_size=12), moderated=st.booleans())
async def test_whichever_half_is_faster_all_that_is_told_is_in_the_same_order(
    *, turns: list[int], moderated: bool
) -> None:
    """The debate's rounds, then the mirror; only the judge may speak while the mirror goes on."""
    moderator = (lambda _: decision("ann", "bea")) if moderated else None
    pattern = rent(moderator=moderator)
    expected = await pattern.run(QUESTION, model=model(lambda _: "for"), seed=1)
    run = pattern.start(QUESTION, model=late(turns), seed=1)
    streamed = [event async for event in run]
    result = await run
    assert result.raw == expected.raw
    for half in (True, False):
        assert told(result, mirror=half) == told(expected, mirror=half)
    kinds = [(event.kind, event.path) for event in result.events]
    start = next(at for at, (kind, _) in enumerate(kinds) if kind == "mirror_started")
    assert not any("rent-mirrored" in path for _, path in kinds[:start])
    assert {"rounds_ended", "turn_started"} & {kind for kind, path in kinds[start:] if "mirrored" not in path} == set()
    assert [event for event in streamed if event in result.events] == result.events
    assert result.usage.calls == sum(event.usage.calls for event in events(result, ModelCalled))


async def test_it_takes_no_more_steps_than_one_debate() -> None:
    """Five calls in a row for ten: each is answered only when nothing else can be asked beside it."""
    waiting: list[asyncio.Event] = []

    async def answer(request: ModelRequest) -> Any:
        waiting.append(gate := asyncio.Event())
        await gate.wait()
        return inner(request)

    inner, steps = answers(lambda _: "for"), 0
    run = rent().start(QUESTION, model=FunctionModel(answer))
    while not run.done():
        before = -1
        while before != len(waiting):  # until all that can be asked has been asked
            before = len(waiting)
            for _ in range(50):
                await asyncio.sleep(0)
        steps += bool(waiting)
        for gate in waiting:
            gate.set()
        waiting.clear()
    assert (steps, (await run).usage.calls) == (5, 10)


@pytest.mark.parametrize("calls", range(1, 10))
async def test_a_limit_ends_both_and_tells_what_was_paid(calls: int) -> None:
    """Each call is in the events and in the transcript of its half, wherever the limit comes."""
    result = await rent().run(QUESTION, model=late([3]), limits=Limits(calls=calls))
    assert (result.status, result.raw.verdict, result.usage.calls) == ("limit", None, calls)
    paid = [event for event in events(result, ModelCalled) if event.usage.calls]
    assert len(paid) == calls
    assert result.session.resources["transcript"].entries == result.raw.transcript


async def test_a_failure_in_the_mirror_ends_the_debate_at_once() -> None:
    """No call that nobody needs any more is paid for, and no task is left."""
    asked: list[str] = []
    inner = answers(lambda _: "for")

    async def answer(request: ModelRequest) -> Any:
        asked.append(request.block)
        await asyncio.sleep(0)
        if "mirrored" in request.block:
            raise ProviderFailed("down", status=401)
        return inner(request)

    before = asyncio.all_tasks()
    with pytest.raises(ProviderFailed):
        await rent().run(QUESTION, model=FunctionModel(answer))
    assert "rent-judge" not in asked
    assert asyncio.all_tasks() == before


async def test_a_person_has_one_debate_after_the_other() -> None:
    """Its turns in the mirror come when the first debate is over; it answers the same run twice."""
    store = MemoryStore()
    pattern = rent(debaters=[Debater("ann", "for", block=human(name="ann")), SIDES[1]], max_rounds=1)
    run = await pattern.run(QUESTION, model=late([2]), store=store, run_id="it", seed=1)
    places = []
    while run.status == "awaiting":
        (request,) = run.pending
        places.append(request.place)
        await submit_answer(store, "it", "(1) So.", place=request.place)
        run = await pattern.resume("it", store=store, model=late([2]))
    assert [place.split("/")[1] for place in places] == ["round[1]", "rent-mirrored"]
    assert (run.status, run.raw.mirrored.status) == ("complete", "complete")


def test_a_shared_transcript_is_that_of_the_debate_itself() -> None:
    """Also in the session, and for blocks that read it."""
    transcript, session = create_debate_transcript(), Session()
    seen: list[list[str]] = []

    def until(ctx: Context) -> bool:
        seen.append([entry.agent_name for entry in ctx.resources.transcript.state.entries])
        return False

    pattern = rent(transcript=transcript, terminate_when=until)
    result = pattern.run_sync(QUESTION, model=model(lambda _: "for"), session=session)
    assert session.resources["transcript"].entries == result.raw.transcript
    assert seen == [["ann", "bea"], ["bea", "ann"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mirror": "yes"}, "`mirror` must be true or false"),
        ({"turn_order": "simultaneous"}, "`mirror` cannot be combined with `turn_order` 'simultaneous'"),
        (
            {"judge": JudgeOptions(schedule="swap", on_flip="human")},
            "`mirror` cannot be combined with `on_flip` 'human'",
        ),
    ],
)
def test_what_cannot_be_mirrored_is_refused(options: dict[str, Any], message: str) -> None:
    """Before anything is built."""
    with pytest.raises(ConfigurationError, match=message):
        rent(**options)


def test_the_page_shows_both_and_which_side_won_each() -> None:
    """The rounds of the mirror under a heading of their own, then one verdict."""
    raw = rent(judge="swap").run_sync(QUESTION, model=model(last_in)).raw
    sections = list(DebateDocument(status="complete", raw=raw).sections())
    titles = [section.title for section in sections if hasattr(section, "title")]
    assert titles == [
        "Round 1", "Round 2", "The debate again, with the order of speakers reversed", "Round 1", "Round 2", "Verdict"
    ]  # fmt: skip
    facts = {fact.label: fact.text for fact in sections[-1].facts}  # type: ignore[union-attr]
    assert facts["In this order"] == "bea (against)"
    assert facts["Reversed"] == "ann (for)"
    assert facts["Winner"] == "none"
