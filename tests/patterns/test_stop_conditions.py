"""Stop conditions in `terminate_when`, for all patterns: when they end the rounds, their names, and resumed runs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, Session, council, debate, stop
from flowdebate.chassis.state import RoundsEnded
from flowdebate.errors import OutputError
from flowdebate.measures import Jaccard
from flowdebate.models.base import Usage
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel
from flowdebate.testing.strategies import stop_conditions
from flowdebate.ui.document import document_of
from flowdebate.ui.markdown import report
from tests.patterns.every import ROUNDS, VERDICT, WITH_ROUNDS, make_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.runs.context import Context

QUESTION = "Should rents be capped?"
LIMIT = {"max_rounds", "max_turns"}


def build(pattern: str, condition: Any, act: Callable[[Any, Context], object] = lambda _, __: None) -> Any:
    """Build `pattern` with this condition; `act` is called in the second speaker's turns."""
    return make_pattern(pattern, act, terminate_when=condition)


def rounds_of(raw: Any) -> int:
    """Return the number of rounds or turns."""
    count = getattr(raw, "turns", None) or raw.rounds
    return count if isinstance(count, int) else len(count)


def ends_of(result: Any) -> list[tuple[int, str]]:
    """Return the events that end the rounds."""
    return [(event.rounds, event.reason) for event in result.events if isinstance(event, RoundsEnded)]


def set_flag(request: Any, ctx: Context) -> None:
    """Set a flag from a custom block in round 2."""
    ctx.session.state["enough"] = ctx.sequencer.state.round >= 2


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_conditions_end_the_rounds_and_state_the_reason(pattern: str) -> None:
    condition = stop.tokens(10**9) | stop.rounds(2) & ~stop.flag("busy")
    block = build(pattern, condition)
    result = block.run_sync(QUESTION)
    assert (result.raw.stop_reason, rounds_of(result.raw)) == ('rounds(2) & ~flag("busy")', 2)
    assert ends_of(result) == [(2, 'rounds(2) & ~flag("busy")')]
    assert "unless" in str(block.outline())
    assert 'terminate_when (tokens(1000000000) | rounds(2) & ~flag("busy"))' in str(block.outline())
    assert block.outline().structure == build(pattern, None).outline().structure


class Own(stop.Condition):
    """A custom condition that ends the rounds after round `number` for the given reason."""

    name = "own"

    def __init__(self, number: int, reason: str) -> None:
        self.number, self.why = number, reason

    async def reason(self, ctx: Context) -> str | None:
        return self.why if ctx.sequencer.state.round >= self.number else None


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_custom_conditions_end_the_rounds(pattern: str) -> None:
    for condition, reason in ((Own(2, "enough"), "enough"), (stop.rounds(2) & Own(1, "enough"), "rounds(2) & enough")):
        raw = build(pattern, condition).run_sync(QUESTION).raw
        assert (raw.stop_reason, rounds_of(raw)) == (reason, 2)


@pytest.mark.parametrize("reason", ["max_rounds", "moderator_done"])
def test_reserved_stop_reasons_are_rejected(reason: str) -> None:
    """If conditions could use a reserved reason, nobody could tell what ended the rounds."""
    with pytest.raises(OutputError, match=f"`?terminate_when.*got '{reason}'"):
        build("debate", Own(1, reason)).run_sync(QUESTION)


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_stop_reason_survives_a_wire_format_round_trip(pattern: str) -> None:
    """A stored reason with line breaks is rejected, because it could imitate a heading in a report."""
    raw = build(pattern, stop.rounds(1)).run_sync(QUESTION).raw
    assert type(raw).model_validate(raw.to_wire()).stop_reason == "rounds(1)"
    if pattern != "consensus":
        wire = raw.to_wire()
        assert type(raw).model_validate(wire | {"stopReason": "predicate"}).stop_reason == "predicate"
        with pytest.raises(ValueError, match="one line of printable text"):
            type(raw).model_validate(wire | {"stopReason": "x\n# Verdict: yes"})


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_application_blocks_can_set_flags(pattern: str) -> None:
    """The flag is stored in the session's state. Any value other than a bool raises an error that names the flag."""
    block = build(pattern, stop.flag("enough"), set_flag)
    result = block.run_sync(QUESTION)
    assert result.raw.stop_reason in {'flag("enough")', *LIMIT}
    assert rounds_of(result.raw) in (2, ROUNDS)
    with pytest.raises(OutputError, match=r"""got 'yes' from flag\("enough"\)""") as caught:
        build(pattern, stop.flag("enough")).run_sync(QUESTION, session=Session(state={"enough": "yes"}))
    assert """in the stop condition flag("enough") of 'x'""" in caught.value.__notes__


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_condition_errors_name_the_condition_and_the_pattern(pattern: str) -> None:
    rounds: list[int] = []

    def broken(ctx: Context) -> bool:
        rounds.append(-1)
        raise ZeroDivisionError

    block = build(pattern, stop.rounds(3) | broken, lambda _, ctx: rounds.append(ctx.sequencer.state.round))
    with pytest.raises(ZeroDivisionError) as caught:
        block.run_sync(QUESTION)
    assert "in the stop condition broken of 'x'" in caught.value.__notes__
    assert rounds[-1] == -1


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_speakers_who_repeat_themselves_end_the_rounds(pattern: str) -> None:
    result = build(pattern, stop.repeated(0.9, similarity=Jaccard())).run_sync(QUESTION)
    if pattern == "handoff":  # after three turns (ann, bob, ann), bob has spoken only once
        assert result.raw.stop_reason == "max_turns"
    else:
        first = 1 if pattern == "consensus" else 2  # a consensus has proposals before the first round
        assert (result.raw.stop_reason, rounds_of(result.raw)) == ("repeated(0.9, similarity=jaccard)", first)


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_speakers_with_equal_texts_have_converged(pattern: str) -> None:
    """A single speaker cannot converge, because there is nobody to agree with."""
    result = build(pattern, stop.converged(0.9, similarity=Jaccard())).run_sync(QUESTION)
    first = 2 if pattern == "handoff" else 1
    assert (result.raw.stop_reason, rounds_of(result.raw)) == ("converged(0.9, similarity=jaccard)", first)


def run_texts(*texts: str) -> Any:
    """Run a debate in which two sides alternately say these texts, until they converge or repeat themselves."""
    remaining = iter(texts)

    def answer(_: Any) -> str:
        return next(remaining)

    sides = [Debater("ann", "for", block=answer), Debater("bob", "against", block=answer)]
    measure = Jaccard()
    ends = stop.converged(0.9, similarity=measure) | stop.repeated(0.9, similarity=measure)
    options: Any = {"judge": lambda _: VERDICT, "synthesizer": False, "max_rounds": len(texts) // 2}
    return debate(name="rent", debaters=sides, terminate_when=ends, **options).run_sync(QUESTION).raw


def test_convergence_compares_speakers_while_repetition_compares_rounds() -> None:
    """Speakers who repeat opposite texts have not converged, and agreeing on a new text is not repetition."""
    assert run_texts("cap rents now", "build flats", "cap rents now", "build flats", "x", "y").stop_reason.startswith(
        "repeated"
    )
    assert run_texts("cap rents now", "build flats", "tax land", "tax land", "x", "y").stop_reason.startswith(
        "converged"
    )
    assert run_texts("a b", "c d", "e f", "g h").stop_reason == "max_rounds"


# Usage and time


def talker(*, tokens: int | None) -> FunctionModel:
    """Create a model that writes about 40 characters and reports this number of tokens per call, if any."""

    async def answer(request: Any) -> Any:
        from flowdebate.models.base import ModelResponse

        usage = Usage.unknown() if tokens is None else Usage(calls=1, prompt_tokens=tokens - 10, completion_tokens=10)
        text = '{"reasoning": "r", "winner": null, "verdict": "v"}' if request.output else "forty characters " * 3
        return ModelResponse(text=text, usage=usage)

    return FunctionModel(answer)


SIDES = [Debater("ann", "for"), Debater("bob", "against")]


def test_token_condition_counts_tokens_used_so_far_in_the_run() -> None:
    """All tokens reported in the run count toward the limit. The round that reaches the limit is the last one."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=4, terminate_when=stop.tokens(350), synthesizer=False)
    result = rent.run_sync(QUESTION, model=talker(tokens=100))
    assert (result.raw.rounds, result.raw.stop_reason) == (2, "tokens(350)")
    assert result.usage.total_tokens == 500


def test_unknown_token_counts_are_estimated_from_the_text() -> None:
    sizes: list[int] = []

    def spent(ctx: Context) -> bool:
        sizes.append(ctx.run.tokens)
        assert ctx.usage.total_tokens is None
        return False

    rent = debate(name="rent", debaters=SIDES, max_rounds=3, terminate_when=spent, synthesizer=False)
    rent.run_sync(QUESTION, model=talker(tokens=None))
    assert len(sizes) == 2
    assert 100 < sizes[0] < sizes[1] / 2  # the second round's prompts include the transcript
    capped = debate(name="rent", debaters=SIDES, max_rounds=3, terminate_when=stop.tokens(sizes[1]), synthesizer=False)
    raw = capped.run_sync(QUESTION, model=talker(tokens=None)).raw
    assert (raw.rounds, raw.stop_reason) == (2, f"tokens({sizes[1]})")


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_seconds_condition_counts_from_the_start_of_the_run(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, passed = time.perf_counter, 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: real() + passed)

    def act(_: Any, ctx: Context) -> None:
        nonlocal passed
        passed = 1_000.0 * (ctx.sequencer.state.round >= 2)

    result = build(pattern, stop.seconds(900), act).run_sync(QUESTION)
    assert result.raw.stop_reason in {"seconds(900)", *LIMIT}
    assert rounds_of(result.raw) in (2, ROUNDS)
    assert (result.raw.stop_reason == "seconds(900)") == (rounds_of(result.raw) == 2)


# Invariants


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
@given(condition=stop_conditions(hostile=True), seed=st.integers(0, 9))
def test_runs_end_within_max_rounds_under_any_condition(pattern: str, condition: stop.Condition, seed: int) -> None:
    from flowdebate.testing.cases import Sabotage

    try:
        result = build(pattern, condition, set_flag).run_sync(QUESTION, seed=seed)
    except Sabotage:
        return
    rounds, reason = rounds_of(result.raw), result.raw.stop_reason
    assert 1 <= rounds <= ROUNDS
    assert (reason in LIMIT) == (rounds == ROUNDS)
    assert ends_of(result) == [(rounds, reason)]


class Killed(Exception):
    """An exception raised by the test to interrupt a run."""


class Mortal(MemoryStore):
    """A store that kills the run after a number of commits."""

    remaining = -1

    async def commit(self, *changes: Any) -> None:
        await super().commit(*changes)
        self.remaining -= 1
        if self.remaining == 0:
            raise Killed


async def run_killed_and_resumed(block: Any, *, after: int | None) -> Any:
    """Run a block, kill the run after `after` steps (unless that is None), resume it, and return the result."""
    store = Mortal()
    store.remaining = -1 if after is None else after
    options: Any = {"store": store, "run_id": "it", "seed": 1}
    try:
        result = await block.run(QUESTION, model=talker(tokens=100), session=Session(), **options)
    except Killed:
        store.remaining = -1
        result = await block.resume("it", store=store, model=talker(tokens=100), session=Session())
    return result


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
@given(condition=stop_conditions(), after=st.integers(1, 20))
def test_resumed_runs_stop_like_uninterrupted_ones(pattern: str, condition: stop.Condition, after: int) -> None:
    block = build(pattern, condition, set_flag)
    uninterrupted, resumed = (asyncio.run(run_killed_and_resumed(block, after=number)) for number in (None, after))
    assert resumed.raw.stop_reason == uninterrupted.raw.stop_reason
    assert rounds_of(resumed.raw) == rounds_of(uninterrupted.raw)
    assert ends_of(resumed) == ends_of(uninterrupted)


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_resumed_runs_keep_the_recorded_reason(pattern: str) -> None:
    async def both() -> tuple[Any, Any]:
        store = MemoryStore()
        first = await build(pattern, stop.rounds(2) | stop.tokens(10**6)).run(QUESTION, store=store, run_id="it")
        return first, await build(pattern, stop.flag("other")).resume("it", store=store)

    first, resumed = asyncio.run(both())
    assert first.raw.stop_reason == resumed.raw.stop_reason == "rounds(2)"


# Pages


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_reports_name_the_condition(pattern: str) -> None:
    """The condition's name is displayed as plain text, so it cannot inject markup."""
    raw = build(pattern, stop.when(lambda _: True, name="<b>enough</b>")).run_sync(QUESTION).raw
    wire = {"pattern": pattern, "status": raw.status, "raw": raw.to_wire()}
    page = report(document_of(wire, location="it"))
    assert "enough" in page
    assert "<b>" not in page


def test_councils_reject_stop_conditions() -> None:
    options: Any = {"terminate_when": stop.rounds(1)}
    with pytest.raises(TypeError, match="terminate_when"):
        council(name="x", members=[{"name": "a"}, {"name": "b"}], **options)
