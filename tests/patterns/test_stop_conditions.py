"""Stop conditions as `terminate_when`, in all patterns: where they stop, under which name, and in resumed runs."""

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


def built(pattern: str, condition: Any, act: Callable[[Any, Context], object] = lambda _, __: None) -> Any:
    """`pattern` with this condition; `act` is called in the turns of its second speaker."""
    return make_pattern(pattern, act, terminate_when=condition)


def rounds_of(raw: Any) -> int:
    """The number of rounds, or of turns."""
    count = getattr(raw, "turns", None) or raw.rounds
    return count if isinstance(count, int) else len(count)


def ends_of(result: Any) -> list[tuple[int, str]]:
    """The events of the end of the rounds."""
    return [(event.rounds, event.reason) for event in result.events if isinstance(event, RoundsEnded)]


def set_flag(asked: Any, ctx: Context) -> None:
    """A block of the application that has seen enough in round 2."""
    ctx.session.state["enough"] = ctx.sequencer.state.round >= 2


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_a_condition_ends_the_rounds_and_its_name_is_the_reason(pattern: str) -> None:
    """In the raw output, in the event and in the outline."""
    condition = stop.tokens(10**9) | stop.rounds(2) & ~stop.flag("busy")
    block = built(pattern, condition)
    result = block.run_sync(QUESTION)
    assert (result.raw.stop_reason, rounds_of(result.raw)) == ('rounds(2) & ~flag("busy")', 2)
    assert ends_of(result) == [(2, 'rounds(2) & ~flag("busy")')]
    assert "unless" in str(block.outline())
    assert 'terminate_when (tokens(1000000000) | rounds(2) & ~flag("busy"))' in str(block.outline())
    assert block.outline().structure == built(pattern, None).outline().structure


class Own(stop.Condition):
    """A condition of the application's own class: from `number` rounds on, for this reason."""

    name = "own"

    def __init__(self, number: int, reason: str) -> None:
        self.number, self.why = number, reason

    async def reason(self, ctx: Context) -> str | None:
        return self.why if ctx.sequencer.state.round >= self.number else None


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_a_condition_of_a_class_of_its_own_ends_the_rounds(pattern: str) -> None:
    """Alone and combined, with the reason that it gives."""
    for condition, reason in ((Own(2, "enough"), "enough"), (stop.rounds(2) & Own(1, "enough"), "rounds(2) & enough")):
        raw = built(pattern, condition).run_sync(QUESTION).raw
        assert (raw.stop_reason, rounds_of(raw)) == (reason, 2)


@pytest.mark.parametrize("reason", ["max_rounds", "moderator_done"])
def test_no_condition_gives_a_reason_of_the_patterns(reason: str) -> None:
    """The stop reason would say what did not happen."""
    with pytest.raises(OutputError, match=f"`?terminate_when.*got '{reason}'"):
        built("debate", Own(1, reason)).run_sync(QUESTION)


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_the_reason_survives_the_wire(pattern: str) -> None:
    """A stored output is read back with it, and with nothing that fills several lines."""
    raw = built(pattern, stop.rounds(1)).run_sync(QUESTION).raw
    assert type(raw).model_validate(raw.to_wire()).stop_reason == "rounds(1)"
    if pattern != "consensus":
        wire = raw.to_wire()
        assert type(raw).model_validate(wire | {"stopReason": "predicate"}).stop_reason == "predicate"
        with pytest.raises(ValueError, match="printable text of one line"):
            type(raw).model_validate(wire | {"stopReason": "x\n# Verdict: yes"})


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_a_flag_is_set_by_a_block_of_the_application(pattern: str) -> None:
    """In the session's state; a value that is no bool is an error that names the flag."""
    block = built(pattern, stop.flag("enough"), set_flag)
    result = block.run_sync(QUESTION)
    assert result.raw.stop_reason in {'flag("enough")', *LIMIT}
    assert rounds_of(result.raw) in (2, ROUNDS)
    with pytest.raises(OutputError, match=r"""got 'yes' from flag\("enough"\)""") as caught:
        built(pattern, stop.flag("enough")).run_sync(QUESTION, session=Session(state={"enough": "yes"}))
    assert """in the stop condition flag("enough") of 'x'""" in caught.value.__notes__


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_a_condition_that_raises_names_itself_and_the_pattern(pattern: str) -> None:
    """The exception is the application's own; nothing is said after it."""
    said: list[int] = []

    def broken(ctx: Context) -> bool:
        said.append(-1)
        raise ZeroDivisionError

    block = built(pattern, stop.rounds(3) | broken, lambda _, ctx: said.append(ctx.sequencer.state.round))
    with pytest.raises(ZeroDivisionError) as caught:
        block.run_sync(QUESTION)
    assert "in the stop condition broken of 'x'" in caught.value.__notes__
    assert said[-1] == -1


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_speakers_who_repeat_themselves_end_the_rounds(pattern: str) -> None:
    """Everybody has to have spoken twice; what they say is the same in all these patterns."""
    result = built(pattern, stop.repeated(0.9, similarity=Jaccard())).run_sync(QUESTION)
    if pattern == "handoff":  # ann, bob, ann: bob has spoken once
        assert result.raw.stop_reason == "max_turns"
    else:
        first = 1 if pattern == "consensus" else 2  # there is a proposal before the first round
        assert (result.raw.stop_reason, rounds_of(result.raw)) == ("repeated(0.9, similarity=jaccard)", first)


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_speakers_who_say_the_same_have_converged(pattern: str) -> None:
    """One of them alone agrees with nobody."""
    result = built(pattern, stop.converged(0.9, similarity=Jaccard())).run_sync(QUESTION)
    first = 2 if pattern == "handoff" else 1
    assert (result.raw.stop_reason, rounds_of(result.raw)) == ("converged(0.9, similarity=jaccard)", first)


def say(*texts: str) -> Any:
    """A debate in which the two sides say these texts, one after the other, until they converge or repeat."""
    left = iter(texts)

    def answer(_: Any) -> str:
        return next(left)

    sides = [Debater("ann", "for", block=answer), Debater("bob", "against", block=answer)]
    measure = Jaccard()
    ends = stop.converged(0.9, similarity=measure) | stop.repeated(0.9, similarity=measure)
    options: Any = {"judge": lambda _: VERDICT, "synthesizer": False, "max_rounds": len(texts) // 2}
    return debate(name="rent", debaters=sides, terminate_when=ends, **options).run_sync(QUESTION).raw


def test_convergence_compares_speakers_and_repetition_each_with_itself() -> None:
    """Two who repeat opposite texts have not converged; two who say the same new thing do not repeat themselves."""
    assert say("cap rents now", "build flats", "cap rents now", "build flats", "x", "y").stop_reason.startswith(
        "repeated"
    )
    assert say("cap rents now", "build flats", "tax land", "tax land", "x", "y").stop_reason.startswith("converged")
    assert say("a b", "c d", "e f", "g h").stop_reason == "max_rounds"


# Usage and time


def talker(*, tokens: int | None) -> FunctionModel:
    """A model that says 40 characters, and reports this number of tokens for each call, or none."""

    async def answer(request: Any) -> Any:
        from flowdebate.models.base import ModelResponse

        usage = Usage.unknown() if tokens is None else Usage(calls=1, prompt_tokens=tokens - 10, completion_tokens=10)
        text = '{"reasoning": "r", "winner": null, "verdict": "v"}' if request.output else "forty characters " * 3
        return ModelResponse(text=text, usage=usage)

    return FunctionModel(answer)


SIDES = [Debater("ann", "for"), Debater("bob", "against")]


def test_tokens_are_those_of_the_run_so_far() -> None:
    """Of all calls, as reported; the round in which the number is reached is the last."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=4, terminate_when=stop.tokens(350), synthesizer=False)
    result = rent.run_sync(QUESTION, model=talker(tokens=100))
    assert (result.raw.rounds, result.raw.stop_reason) == (2, "tokens(350)")
    assert result.usage.total_tokens == 500


def test_unknown_tokens_are_estimated_from_the_texts() -> None:
    """A condition on tokens works with a server that reports none: prompts and answers count."""
    sizes: list[int] = []

    def spent(ctx: Context) -> bool:
        sizes.append(ctx.run.tokens)
        assert ctx.usage.total_tokens is None
        return False

    rent = debate(name="rent", debaters=SIDES, max_rounds=3, terminate_when=spent, synthesizer=False)
    rent.run_sync(QUESTION, model=talker(tokens=None))
    assert len(sizes) == 2
    assert 100 < sizes[0] < sizes[1] / 2  # the second round's prompts have the transcript, too
    capped = debate(name="rent", debaters=SIDES, max_rounds=3, terminate_when=stop.tokens(sizes[1]), synthesizer=False)
    raw = capped.run_sync(QUESTION, model=talker(tokens=None)).raw
    assert (raw.rounds, raw.stop_reason) == (2, f"tokens({sizes[1]})")


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_seconds_are_those_since_the_run_began(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that is never set back, whatever happens to the machine's."""
    real, passed = time.perf_counter, 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: real() + passed)

    def act(_: Any, ctx: Context) -> None:
        nonlocal passed
        passed = 1_000.0 * (ctx.sequencer.state.round >= 2)

    result = built(pattern, stop.seconds(900), act).run_sync(QUESTION)
    assert result.raw.stop_reason in {"seconds(900)", *LIMIT}
    assert rounds_of(result.raw) in (2, ROUNDS)
    assert (result.raw.stop_reason == "seconds(900)") == (rounds_of(result.raw) == 2)


# Laws


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
@given(condition=stop_conditions(hostile=True), seed=st.integers(0, 9))
def test_every_run_ends_within_its_rounds_whatever_conditions_answer(
    pattern: str, condition: stop.Condition, seed: int
) -> None:
    """With the reason of its limit, or one that the condition has given."""
    from flowdebate.testing.cases import Sabotage

    try:
        result = built(pattern, condition, set_flag).run_sync(QUESTION, seed=seed)
    except Sabotage:
        return
    rounds, reason = rounds_of(result.raw), result.raw.stop_reason
    assert 1 <= rounds <= ROUNDS
    assert (reason in LIMIT) == (rounds == ROUNDS)
    assert ends_of(result) == [(rounds, reason)]


class Killed(Exception):
    """Ends a life of a run."""


class Mortal(MemoryStore):
    """A store that ends its process after a number of commits."""

    left = -1

    async def commit(self, *given: Any) -> None:
        await super().commit(*given)
        self.left -= 1
        if self.left == 0:
            raise Killed


async def lives(block: Any, *, after: int | None) -> Any:
    """The result of a run that is killed after this many steps (None: it is not), and resumed."""
    store = Mortal()
    store.left = -1 if after is None else after
    options: Any = {"store": store, "run_id": "it", "seed": 1}
    try:
        result = await block.run(QUESTION, model=talker(tokens=100), session=Session(), **options)
    except Killed:
        store.left = -1
        result = await block.resume("it", store=store, model=talker(tokens=100), session=Session())
    return result


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
@given(condition=stop_conditions(), after=st.integers(1, 20))
def test_a_resumed_run_stops_where_an_undisturbed_one_stops(
    pattern: str, condition: stop.Condition, after: int
) -> None:
    """Killed after any step, also right after an answer of the condition was recorded."""
    block = built(pattern, condition, set_flag)
    whole, resumed = (asyncio.run(lives(block, after=number)) for number in (None, after))
    assert resumed.raw.stop_reason == whole.raw.stop_reason
    assert rounds_of(resumed.raw) == rounds_of(whole.raw)
    assert ends_of(resumed) == ends_of(whole)


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_a_resumed_run_names_what_had_held(pattern: str) -> None:
    """Its answer is recorded by name: with another condition in the program, the reason is that of the record."""

    async def both() -> tuple[Any, Any]:
        store = MemoryStore()
        first = await built(pattern, stop.rounds(2) | stop.tokens(10**6)).run(QUESTION, store=store, run_id="it")
        return first, await built(pattern, stop.flag("other")).resume("it", store=store)

    first, again = asyncio.run(both())
    assert first.raw.stop_reason == again.raw.stop_reason == "rounds(2)"


# Pages


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
def test_a_report_names_the_condition(pattern: str) -> None:
    """As text: what a condition is called is no markup."""
    raw = built(pattern, stop.when(lambda _: True, name="<b>enough</b>")).run_sync(QUESTION).raw
    wire = {"pattern": pattern, "status": raw.status, "raw": raw.to_wire()}
    page = report(document_of(wire, location="it"))
    assert "enough" in page
    assert "<b>" not in page


def test_a_council_has_no_rounds_to_stop() -> None:
    """The option is unknown."""
    options: Any = {"terminate_when": stop.rounds(1)}
    with pytest.raises(TypeError, match="terminate_when"):
        council(name="x", members=[{"name": "a"}, {"name": "b"}], **options)
