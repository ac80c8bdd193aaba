"""Every pattern's guarantees about failing providers, late calls and interrupted runs."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import FailurePolicy, Limits, StandIn, handler
from flowdebate.chassis.state import RoleFailed, TurnFinished, TurnStarted
from flowdebate.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionLost,
    ContentFiltered,
    EmptyResponse,
    FlowDebateError,
    LimitReached,
    ModelNotFound,
    ModelTimeout,
    ProviderFailed,
    QuorumLost,
    RateLimited,
    Refused,
)
from flowdebate.models.call import in_queue
from flowdebate.runs.events import ModelCalled, RunFinished, TextDelta
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from flowdebate.testing.cases import Returns, Sabotage
from flowdebate.testing.strategies import hostile_values
from tests.patterns.debates import events
from tests.patterns.every import PATTERNS
from tests.patterns.talks import DECIDERS, QUESTION, TURNS, WORD, Talkers, role_of, talk, words_in
from tests.profiles import example_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.errors import ModelError
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio
each_pattern = pytest.mark.parametrize("pattern", PATTERNS)
each_turn = pytest.mark.parametrize(("pattern", "turn"), [(name, turn) for name in PATTERNS for turn in TURNS[name]])
each_decider = pytest.mark.parametrize("pattern", DECIDERS)

DOWN = ProviderFailed("the endpoint answered 503", status=503)
FAILURES: list[ModelError] = [
    DOWN,
    ConnectionLost("the connection broke"),
    RateLimited("slow down"),
    Refused("I would rather not"),
    ContentFiltered("filtered"),
    EmptyResponse("nothing came"),
    ModelTimeout(1),
    AuthenticationFailed("no such key", status=401),
    ModelNotFound("No endpoints found", status=404),
]
SKIP = FailurePolicy(on_failure="skip", quorum=1)
FAIL = FailurePolicy(on_failure="fail")
PANELS = ("round_robin", "consensus", "council", "critique", "review")
"""Patterns that continue without a failed member by default."""
REVIEWS = ("reviewer", "examiner")
"""Turns of reviewers and examiners; an examiner's turn takes two calls, one in each order."""
OF_LOSSES = {"reviewer": "reviewer", "examiner": "reviewer", "critic": "critic"}
"""Role under which a failed turn is reported, keyed by turn; all other turns are reported as "debater"."""
DATA = ("handoff", "critique", "review")
"""Patterns whose speakers answer with structured data, which is not streamed."""
ONE_AFTER_THE_OTHER = ("debate", "round_robin")
"""Patterns whose speakers wait for the previous speaker in the round."""


def first_call(role: str, *names: str, fails: Exception = DOWN) -> Callable[[ModelRequest], Exception | None]:
    """Fail the first call by each of `names` in this role, or the role's first call if no names are given."""
    pending = list(names) or [role]

    def lost(request: ModelRequest) -> Exception | None:
        name = request.block.rpartition("-")[2]
        if role_of(request) == role and name in pending:
            pending.remove(name)
            return fails
        return None

    return lost


def losses(run: Any) -> list[tuple[str, str, str]]:
    """Return each failure's role, name and recovery."""
    return [(loss.role, loss.name, loss.instead) for loss in run.raw.losses]


@each_turn
def test_failed_turns_fail_the_run_under_the_fail_policy(pattern: str, turn: str) -> None:
    failure = ProviderFailed("down", status=503)
    talkers = Talkers(first_call(turn, "bob", fails=failure))
    with pytest.raises(ProviderFailed) as caught:
        talk(pattern, policy=FAIL).run_sync(QUESTION, model=talkers.model())
    assert caught.value is failure
    run: Any = caught.value.run
    stop_reason = "max_rounds" if turn == "vote" else None  # the vote takes place after the rounds
    assert (run.status, run.raw.status, run.raw.stop_reason) == ("failed", "failed", stop_reason)
    assert run.raw.entries[0].speaker == ("author" if pattern == "critique" else "ann")
    assert words_in(run.raw) <= talkers.words
    assert (run.raw.losses, events(run, RoleFailed)) == ([], [])


@each_turn
def test_only_panels_continue_without_a_failed_member_by_default(pattern: str, turn: str) -> None:
    """If a policy sets only a quorum or a deadline, failed speakers are still handled as they are by default."""
    talkers = Talkers(first_call(turn, "bob"))
    for policy in (None, FailurePolicy(turn_timeout=60), FailurePolicy(quorum=2)):
        if pattern in PANELS:
            talkers = Talkers(first_call(turn, "bob"))
            result = talk(pattern, policy=policy).run_sync(QUESTION, model=talkers.model())
            check_skipped(result, talkers, ProviderFailed)
        else:
            with pytest.raises(ProviderFailed):
                talk(pattern, policy=policy).run_sync(QUESTION, model=Talkers(first_call(turn, "bob")).model())


def check_skipped(result: Any, talkers: Talkers, error: type[Exception]) -> None:
    """Check that only bob's turn is missing, with an errored task and a recorded failure."""
    (loss,) = result.raw.losses
    assert (loss.name, loss.instead) == ("bob", "skipped")
    assert error.__name__ in loss.error
    assert "\n" not in loss.error
    assert words_in(result.raw) == talkers.words
    assert (result.status, result.raw.status, result.output.status) == ("degraded", "degraded", "degraded")
    assert [(event.name, event.instead) for event in events(result, RoleFailed)] == [("bob", "skipped")]
    assert len(events(result, TurnStarted)) == len(events(result, TurnFinished)) + 1
    assert [(task.assignee, task.status) for task in result.tasks.list() if task.status != "completed"] == [
        ("bob", "errored")
    ]
    assert result.usage.calls == len(talkers.asked)


@each_turn
def test_skipped_turns_leave_only_a_recorded_loss(pattern: str, turn: str) -> None:
    talkers = Talkers(first_call(turn, "bob"))
    result = talk(pattern, policy=SKIP).run_sync(QUESTION, model=talkers.model())
    check_skipped(result, talkers, ProviderFailed)
    assert result.raw.losses[0].role == OF_LOSSES.get(turn, "debater")


@each_pattern
@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_every_provider_failure_can_be_skipped(pattern: str, error: ModelError) -> None:
    talkers = Talkers(first_call(TURNS[pattern][0], "bob", fails=error))
    check_skipped(talk(pattern, policy=SKIP).run_sync(QUESTION, model=talkers.model()), talkers, type(error))


@each_pattern
async def test_text_from_failed_calls_is_discarded(pattern: str) -> None:
    """Listeners to the stream have seen some of the text, but it reaches neither the other speakers nor the result."""
    talkers, streamed = Talkers(first_call(TURNS[pattern][0], "bob")), ""
    handle: Any = talk(pattern, policy=SKIP).start(QUESTION, model=talkers.model())
    async for event in handle:
        streamed += event.text if isinstance(event, TextDelta) else ""
    result = await handle
    unsaid = set(WORD.findall(streamed)) - talkers.words
    assert len(unsaid) == int(pattern not in DATA)
    assert all(not unsaid & set(WORD.findall(str(request.messages))) for request in talkers.asked)
    assert words_in(result.raw) == talkers.words


@each_turn
def test_fallback_models_replace_a_failed_speaker(pattern: str, turn: str) -> None:
    talkers, other = Talkers(first_call(turn, "bob")), Talkers()
    policy = FailurePolicy(on_failure=StandIn(other.model("other")))
    result = talk(pattern, policy=policy).run_sync(QUESTION, model=talkers.model())
    assert [(loss.name, loss.instead) for loss in result.raw.losses] == [("bob", "stand_in")]
    request = other.asked[0]
    assert len(other.asked) == (2 if turn == "examiner" else 1)
    assert (role_of(request), request.block) == (turn, f"x-stand-in-{turn}-bob")
    assert "You are bob of the city council." in str(request.messages)
    assert words_in(result.raw) == talkers.words | other.words
    assert (result.status, result.raw.status) == ("degraded", "degraded")
    assert {task.status for task in result.tasks.list()} == {"completed"}
    if turn not in ("vote", *REVIEWS):
        spoke = {entry.speaker for entry in result.raw.entries if other.words & set(WORD.findall(entry.text))}
        assert spoke == {"bob"}


@each_turn
def test_turns_are_skipped_if_the_fallback_model_fails(pattern: str, turn: str) -> None:
    talkers, other = Talkers(first_call(turn, "bob")), Talkers(lambda _: Refused("not I"))
    policy = FailurePolicy(on_failure=StandIn(other.model("other")), quorum=1)
    result = talk(pattern, policy=policy).run_sync(QUESTION, model=talkers.model())
    assert [(loss.name, loss.instead) for loss in result.raw.losses] == [("bob", "stand_in"), ("bob", "skipped")]
    assert ["ProviderFailed" in loss.error for loss in result.raw.losses] == [True, False]
    assert words_in(result.raw) == talkers.words
    assert result.usage.calls == len(talkers.asked) + len(other.asked)


@each_pattern
def test_fewer_speakers_than_the_quorum_end_the_run(pattern: str) -> None:
    """Only a handoff continues. The quorum does not apply to it, because its speakers take turns."""
    talkers = Talkers(first_call(TURNS[pattern][0], "bob", "cy"))
    policy = FailurePolicy(on_failure="skip", quorum=2)
    if pattern == "handoff":
        assert talk(pattern, policy=policy).run_sync(QUESTION, model=talkers.model()).status == "degraded"
        return
    with pytest.raises(QuorumLost) as caught:
        talk(pattern, policy=policy).run_sync(QUESTION, model=talkers.model())
    assert (caught.value.heard, caught.value.quorum) == (("for" if pattern == "debate" else "ann",), 2)
    run: Any = caught.value.run
    assert (run.status, words_in(run.raw)) == ("failed", talkers.words)
    role = OF_LOSSES.get(TURNS[pattern][0], "debater")
    assert losses(run) == [(role, name, "skipped") for name in ("bob", "cy")]
    assert len(talkers.asked) == (4 if pattern == "critique" else 3)  # a critique also calls the author
    talkers = Talkers(first_call(TURNS[pattern][0], "bob"))
    assert talk(pattern, policy=policy).run_sync(QUESTION, model=talkers.model()).status == "degraded"


@each_decider
@pytest.mark.parametrize("on_failure", ["skip", "stand-in"])
def test_failed_decisions_do_not_affect_anything_else(pattern: str, on_failure: str) -> None:
    role, instead = DECIDERS[pattern]
    other = Talkers()
    policy = SKIP if on_failure == "skip" else FailurePolicy(on_failure=StandIn(other.model("other")), quorum=1)
    talkers = Talkers(first_call(role))
    result = talk(pattern, policy=policy).run_sync(QUESTION, model=talkers.model())
    assert losses(result) == [(role, f"x-{role}", instead)]
    status = "no_verdict" if instead == "no_verdict" else "degraded"
    assert (result.status, result.raw.status) == (status, status)
    assert words_in(result.raw) == talkers.words
    assert other.asked == []
    with pytest.raises(ProviderFailed):
        talk(pattern, policy=FAIL).run_sync(QUESTION, model=Talkers(first_call(role)).model())


@pytest.mark.parametrize("pattern", ["debate", "council"])
async def test_failed_judges_and_chairs_are_called_again_on_resume(pattern: str) -> None:
    """Resuming the run repeats only the failed call, even if that call fails again."""
    store, role = MemoryStore(), DECIDERS[pattern]
    talkers, status = Talkers(first_call(role.role)), "no_verdict" if pattern == "debate" else "degraded"
    degraded = await talk(pattern).run(QUESTION, model=talkers.model(), store=store)
    assert (degraded.status, losses(degraded)) == (status, [(role.role, f"x-{role.role}", role.instead)])
    texts = [entry.text for entry in degraded.raw.entries]
    still = Talkers(first_call(role.role))
    still_degraded = await talk(pattern).resume(degraded.run_id, model=still.model(), store=store, allow_changes=True)
    assert (still_degraded.status, losses(still_degraded), len(still.asked)) == (status, losses(degraded), 1)
    recovered = Talkers()
    result = await talk(pattern).resume(degraded.run_id, model=recovered.model(), store=store, allow_changes=True)
    assert (result.status, result.raw.losses, len(recovered.asked)) == ("complete", [], 1)
    assert [entry.text for entry in result.raw.entries] == texts
    assert result.raw.answer is not None
    nobody = Talkers()
    repeated = await talk(pattern).resume(degraded.run_id, model=nobody.model(), store=store, allow_changes=True)
    assert (repeated.raw.to_wire(), nobody.asked) == (result.raw.to_wire(), [])


@pytest.mark.parametrize("pattern", ["debate", "round_robin"])
@pytest.mark.parametrize("options", [{}, {"output_schema": dict[str, int]}], ids=["text", "schema"])
def test_failed_synthesizers_leave_the_raw_output_intact(pattern: str, options: dict[str, Any]) -> None:
    """If the synthesizer fails, the output is None, even if the pattern has an output schema."""
    talkers = Talkers(first_call("synthesizer"))
    pattern_without_synthesizer = talk(pattern, policy=SKIP, synthesizer=None, **options)
    result = pattern_without_synthesizer.run_sync(QUESTION, model=talkers.model())
    assert (result.output, result.status, result.raw.status) == (None, "degraded", "degraded")
    assert losses(result) == [("synthesizer", "x-synthesizer", "no_output")]
    assert words_in(result.raw) == talkers.words


def _raising_block(error: Exception) -> Callable[[object], str]:
    def block(_: object) -> str:
        raise error

    return block


@each_turn
@pytest.mark.parametrize("on_failure", ["skip", "stand-in"])
def test_application_errors_are_never_skipped(pattern: str, turn: str, on_failure: str) -> None:
    """Exceptions in blocks and models reach the caller unchanged, as does the error for a missing key.

    No fallback is used.
    """
    other = Talkers()
    policy = SKIP if on_failure == "skip" else FailurePolicy(on_failure=StandIn(other.model("other")), quorum=1)
    bug, no_key = KeyError("a bug"), AuthenticationFailed("there is no API key")
    for failure in (bug, no_key):
        with pytest.raises(type(failure)) as caught:
            talk(pattern, policy=policy).run_sync(
                QUESTION, model=Talkers(first_call(turn, "bob", fails=failure)).model()
            )
        assert caught.value is failure
    with pytest.raises(KeyError) as caught:
        talk(pattern, block=_raising_block(bug), policy=policy).run_sync(QUESTION, model=Talkers().model())
    assert caught.value is bug
    if pattern in DECIDERS:
        with pytest.raises(KeyError) as caught:
            talk(pattern, decider=_raising_block(bug), policy=policy).run_sync(QUESTION, model=Talkers().model())
        assert caught.value is bug
    assert other.asked == []


@each_pattern
def test_limit_errors_raised_by_a_block_are_ordinary_errors(pattern: str) -> None:
    """An error raised by a block must not be mistaken for the run reaching a limit."""
    failing = _raising_block(LimitReached("calls", limit=1, used=1))
    with pytest.raises(LimitReached):
        talk(pattern, block=failing, policy=SKIP).run_sync(QUESTION, model=Talkers().model())


class Hanging:
    """A block that never answers; `calls` is the number of its calls that have not been cancelled yet."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, _: object) -> str:
        self.calls += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.calls -= 1
        raise AssertionError


@each_pattern
async def test_turn_deadline_covers_all_work_in_the_turn(pattern: str) -> None:
    """A block is cancelled wherever it hangs, and the timeout counts as a provider failure."""
    talkers, hang = Talkers(), Hanging()
    late = talk(pattern, block=hang.__call__, policy=FailurePolicy(on_failure="fail", turn_timeout=0.05))
    with pytest.raises(ModelTimeout) as caught:
        await late.run(QUESTION, model=talkers.model())
    assert str(caught.value.block).endswith("-bob")
    assert "no answer within 0.05 s" in str(caught.value)
    policy = FailurePolicy(on_failure="skip", quorum=1, turn_timeout=0.05)
    result = await talk(pattern, block=hang.__call__, policy=policy).run(QUESTION, model=talkers.model())
    assert {(loss.name, loss.instead) for loss in result.raw.losses} == {("bob", "skipped")}
    assert "bob" not in {entry.speaker for entry in result.raw.entries}
    assert hang.calls == 0


async def answer_late(_: object) -> str:
    """Catch the cancellation and answer anyway."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "Better late than never."
    raise AssertionError


async def never_answer(_: object) -> str:
    """Catch every cancellation and keep waiting."""
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@each_pattern
async def test_late_texts_are_discarded(pattern: str) -> None:
    """A block that catches the cancellation and then returns text is still late."""
    talkers = Talkers()
    policy = FailurePolicy(on_failure="skip", quorum=1, turn_timeout=0.05)
    result = await talk(pattern, block=answer_late, policy=policy).run(QUESTION, model=talkers.model())
    assert {(loss.name, loss.instead) for loss in result.raw.losses} == {("bob", "skipped")}
    assert "bob" not in {entry.speaker for entry in result.raw.entries}
    assert result.status == "degraded"


async def test_blocks_that_ignore_cancellation_are_abandoned() -> None:
    """A block has one second to clean up after being cancelled."""
    talkers = Talkers()
    policy = FailurePolicy(on_failure="skip", quorum=1, turn_timeout=0.05)
    result = await talk("round_robin", block=never_answer, policy=policy).run(QUESTION, model=talkers.model())
    assert {(loss.name, loss.instead) for loss in result.raw.losses} == {("bob", "skipped")}
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_runs_have_no_output_after_their_time_limit() -> None:
    with pytest.raises(LimitReached) as caught:
        await handler(answer_late, name="late").run(QUESTION, limits=Limits(seconds=0.05))
    assert caught.value.kind == "seconds"


@each_decider
async def test_decisions_have_the_same_deadline_as_turns(pattern: str) -> None:
    talkers, hang = Talkers(), Hanging()
    policy = FailurePolicy(on_failure="skip", quorum=1, turn_timeout=0.05)
    result = await talk(pattern, decider=hang.__call__, policy=policy).run(QUESTION, model=talkers.model())
    role, instead = DECIDERS[pattern]
    assert {(loss[0], loss[2]) for loss in losses(result)} == {(role, instead)}
    assert words_in(result.raw) == talkers.words
    assert hang.calls == 0


@each_pattern
async def test_late_answers_do_not_make_queued_speakers_fail(pattern: str) -> None:
    """Speakers may share an engine, but only those whose own answers take too long miss their turn."""
    talkers, pending, slot = Talkers(), ["bob"], asyncio.Lock()

    async def one_at_a_time(request: ModelRequest) -> Any:
        with in_queue(request):
            await slot.acquire()
        try:
            if pending and role_of(request) == TURNS[pattern][0] and request.block.endswith("-bob"):
                pending.clear()
                await asyncio.Event().wait()
            return talkers.reply(request)
        finally:
            slot.release()

    policy = FailurePolicy(on_failure="skip", quorum=1, turn_timeout=0.5)
    result = await talk(pattern, policy=policy).run(QUESTION, model=FunctionModel(one_at_a_time))
    assert [loss[1] for loss in losses(result)] == ["bob"]


@pytest.mark.parametrize("queues", [False, True], ids=["answers", "queues"])
@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name != "handoff"])
async def test_round_deadline_covers_all_turns_in_the_round(pattern: str, *, queues: bool) -> None:
    """After the deadline, the current and remaining turns fail.

    The next round has a new deadline.
    """
    talkers, pending = Talkers(), ["bob"]

    async def hang_once(request: ModelRequest) -> Any:
        if pending and role_of(request) == TURNS[pattern][0] and request.block.endswith("-bob"):
            pending.clear()
            with in_queue(request) if queues else nullcontext():
                await asyncio.Event().wait()
        return talkers.reply(request)

    policy = FailurePolicy(on_failure="skip", quorum=1, round_timeout=0.75)
    result = await talk(pattern, policy=policy).run(QUESTION, model=FunctionModel(hang_once))
    late = ["bob", "cy"] if pattern in ONE_AFTER_THE_OTHER else ["bob"]
    role = OF_LOSSES.get(TURNS[pattern][0], "debater")
    assert losses(result) == [(role, name, "skipped") for name in late]
    assert len({loss.round for loss in result.raw.losses}) == 1
    assert words_in(result.raw) == talkers.words


async def count_calls(pattern: str) -> int:
    """Count the calls in a run."""
    talkers = Talkers()
    await talk(pattern).run(QUESTION, model=talkers.model())
    return len(talkers.asked)


@each_pattern
async def test_runs_that_reach_a_limit_keep_their_entries(pattern: str) -> None:
    total = await count_calls(pattern)
    for calls in range(1, total + 1):
        talkers = Talkers()
        result = await talk(pattern, policy=SKIP).run(QUESTION, model=talkers.model(), limits=Limits(calls=calls))
        assert len(talkers.asked) == calls
        assert words_in(result.raw) == talkers.words
        if calls == total:
            assert (result.status, result.raw.status) == ("complete", "complete")
        else:
            assert (result.status, result.output, result.raw.status) == ("limit", None, "limit")
            assert losses(result) == []


@each_pattern
async def test_cancelled_runs_keep_their_entries(pattern: str) -> None:
    for number in range(await count_calls(pattern)):
        talkers, reached = Talkers(), asyncio.Event()

        async def answer(
            request: ModelRequest, talkers: Talkers = talkers, reached: asyncio.Event = reached, number: int = number
        ) -> Any:
            if len(talkers.asked) >= number:
                reached.set()
                await asyncio.Event().wait()
            return talkers.reply(request)

        handle: Any = talk(pattern, policy=SKIP).start(QUESTION, model=FunctionModel(answer))
        await reached.wait()
        handle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handle
        assert handle.status == handle.raw.status == "interrupted"
        assert words_in(handle.raw) == talkers.words
        assert all(task.finished for task in handle.tasks.list())
        assert losses(handle) == []
        assert events(handle, ModelCalled)[-1].error is not None


@each_pattern
@settings(max_examples=example_count(10))
@given(
    faults=st.lists(st.sampled_from([None, None, *FAILURES]), min_size=24, max_size=24),
    quorum=st.integers(1, 2),
)
def test_failed_calls_are_recorded_as_losses(pattern: str, faults: list[ModelError | None], quorum: int) -> None:
    pending = iter(faults)
    talkers = Talkers(lambda _: next(pending, None))
    policy = FailurePolicy(on_failure="skip", quorum=quorum)
    run: Any
    try:
        run = talk(pattern, policy=policy).run_sync(QUESTION, model=talkers.model(), seed=1)
    except FlowDebateError as error:
        run = error.run
        assert run.status == "failed"
    else:
        assert run.status == run.raw.status
        assert (run.status == "complete") == (run.raw.losses == [])
    assert words_in(run.raw) == talkers.words
    assert len(run.raw.losses) * (2 if pattern == "review" else 1) >= talkers.failed
    assert run.usage.calls == len(talkers.asked)


@each_pattern
@settings(max_examples=example_count(10))
@given(data=st.data())
def test_runs_with_hostile_blocks_end_in_time(pattern: str, data: st.DataObject) -> None:
    def role() -> Returns:
        return Returns(*data.draw(st.lists(hostile_values(), min_size=1, max_size=3)), wait=data.draw(st.booleans()))

    policy = FailurePolicy(on_failure=data.draw(st.sampled_from(["fail", "skip"])), quorum=1)
    block = talk(pattern, block=role(), decider=role() if pattern in DECIDERS else None, policy=policy)

    async def ended() -> Any:
        handle = block.start(QUESTION, model=Talkers().model())
        try:
            await handle
        except (FlowDebateError, Sabotage):
            assert handle.status == "failed"
        return handle

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = asyncio.run(ended())
    assert isinstance(run.events[-1], RunFinished)
    assert all(task.finished for task in run.tasks.list())


@each_pattern
@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"on_failure": "ignore"}, "on_failure"),
        ({"on_failure": StandIn("nobody/knows")}, "on_failure"),
        ({"quorum": 0}, "quorum"),
        ({"quorum": True}, "quorum"),
        ({"turn_timeout": 0}, "turn_timeout"),
        ({"round_timeout": float("nan")}, "round_timeout"),
        ({"round_timeout": "1"}, "round_timeout"),
    ],
    ids=str,
)
def test_impossible_policies_are_rejected_before_anything_runs(
    pattern: str, policy: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        talk(pattern, policy=FailurePolicy(**policy))
    assert caught.value.field == field
