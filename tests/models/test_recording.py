"""Recordings made by `RecordingModel` and replayed by `ReplayModel`, which calls no other model."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from flowdebate import Debater, create_debate_transcript, create_moderator, debate
from flowdebate.errors import (
    CassetteMismatch,
    LimitReached,
    ModelError,
    ModelTimeout,
    ProviderFailed,
    RateLimited,
    Refused,
)
from flowdebate.models import (
    Fallback,
    ModelResponse,
    ModelSettings,
    OutputSchema,
    RecordingModel,
    ReplayModel,
    Retry,
    Retrying,
    ToolCall,
    ToolSpec,
    Usage,
    Wrapper,
    forbid_real_models,
)
from flowdebate.models.base import Attempts
from flowdebate.models.call import ask
from flowdebate.models.recording import CLASSES, FACTS, Failure
from flowdebate.runs.events import TextDelta
from flowdebate.runs.limits import Limits
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.models.policies.helpers import Leaf, Naps, answer_with_usage, attempt_errors, endpoint_error, make_request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.models import Attempt, Model, ModelRequest
    from flowdebate.runs.result import RunResult

pytestmark = pytest.mark.anyio

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "debate.jsonl"


def read_lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


# Whole debates


class Deliverable(BaseModel):
    """The synthesizer's output. Its JSON names differ from its field names."""

    model_config = ConfigDict(alias_generator=to_camel)

    next_step: str
    sure_percent: int


def look_up(topic: str) -> str:
    """Look up a measurement."""
    return f"{topic}: 240 ms\nand\u2028more"


def pattern() -> Any:
    """Return a moderated debate with a tool and a structured synthesizer."""
    names = {"mover": "it should move", "stayer": "it should stay"}
    transcript = create_debate_transcript()
    moderator = create_moderator(
        name="region", roster_names=list(names), transcript=transcript, max_rounds=2, tools=[look_up]
    )
    return debate(
        name="region",
        debaters=[Debater(name, stance) for name, stance in names.items()],
        transcript=transcript,
        max_rounds=2,
        moderator=moderator,
        output_schema=Deliverable,
    )


def answer_next(request: ModelRequest) -> Any:
    """Answer as a model in the debate from `pattern`."""
    if request.output_schema is None:
        return ModelResponse(text=f"{request.block} says\n\u2028so.", usage=Usage(calls=1, prompt_tokens=7))
    properties = set(request.output_schema["properties"])
    if properties == {"verdict", "winner", "reasoning"}:
        return {"reasoning": "It held.", "winner": "it should move", "verdict": "Move."}
    if "nextStep" in properties:
        return '{"nextStep": "move", "surePercent": 70}'
    if not any(message["role"] == "tool" for message in request.messages):
        return [ToolCall(id="a", name="look_up", arguments='{"topic": "x"}'), ToolCall(id="b", name="no", arguments="")]
    return {"nextSpeakers": ["mover", "stayer"], "briefing": "240 ms", "newAngle": None, "done": False}


def strip_times(events: Sequence[Any]) -> list[Any]:
    """Return events without times, durations and run ids, since these differ between runs."""
    dropped = {"at", "created_at", "updated_at", "seconds", "run_id", "waited"}

    def plain(value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            field_names = [item.name for item in fields(value) if item.name not in dropped]
            return type(value).__name__, {name: plain(getattr(value, name)) for name in field_names}
        return [plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    return [plain(event) for event in events]


def assert_same(one: RunResult[Any], two: RunResult[Any]) -> None:
    """Check that two runs have the same result."""
    assert two.raw.model_dump_json() == one.raw.model_dump_json()
    assert two.output == one.output
    assert strip_times(two.events) == strip_times(one.events)
    assert two.usage == one.usage


def test_a_debate_is_replayed_exactly(path: Path) -> None:
    live = pattern().run_sync("Should it move?", model=RecordingModel(FunctionModel(answer_next), path), seed=7)
    before = path.read_bytes()
    with forbid_real_models():
        replayed = ReplayModel(path)
        repeat = pattern().run_sync("Should it move?", model=replayed, seed=7)
    assert_same(live, repeat)
    assert repeat.output == Deliverable(nextStep="move", surePercent=70)
    replayed.assert_complete()
    assert replayed.remaining == 0
    assert path.read_bytes() == before
    assert len(before.splitlines()) >= 9


async def test_a_streamed_debate_is_replayed_without_chunks(path: Path) -> None:
    live: list[str] = []
    repeated_pieces: list[str] = []
    inner = FunctionModel(lambda request: "So.\nIndeed." if request.output is None else answer_next(request))
    for pieces, make in ((live, lambda: RecordingModel(inner, path)), (repeated_pieces, lambda: ReplayModel(path))):
        handle = pattern().start("Should it move?", model=make(), seed=7)
        pieces += [event.text async for event in handle if isinstance(event, TextDelta)]
        await handle
    assert live == ["So.\n", "Indeed."] * 4
    assert repeated_pieces == ["So.\nIndeed."] * 4


@given(losses=st.lists(st.sampled_from(["fine", "down", "refused", "blank"]), min_size=1, max_size=8))
def test_a_debate_with_failures_is_replayed_exactly(losses: list[str]) -> None:
    outcomes = iter(losses * 40)

    def faulty(request: ModelRequest) -> Any:
        match next(outcomes):
            case "down":
                raise ProviderFailed("it is down", status=503)
            case "refused":
                raise Refused("I will not.")
            case "blank":
                return answer_with_usage(5, " ")
        return answer_next(request)

    inner = FunctionModel(faulty)
    inner.retry = Retry(attempts=2, sleep=Naps())  # type: ignore[attr-defined]
    with TemporaryDirectory() as folder:
        path = Path(folder, "debate.jsonl")
        live = run_outcome(RecordingModel(inner, path))
        replayed = ReplayModel(path)
        repeat = run_outcome(replayed)
    assert type(repeat) is type(live)
    if isinstance(live, BaseException):
        assert str(repeat) == str(live)
        live, repeat = live.run, repeat.run  # type: ignore[attr-defined]
        assert strip_times(repeat.events) == strip_times(live.events)
    else:
        assert_same(live, repeat)
    replayed.assert_complete()


def run_outcome(model: Model) -> Any:
    """Return a debate's result, or the error that ended it."""
    try:
        return pattern().run_sync("Should it move?", model=model, seed=7)
    except ModelError as error:
        return error


# Single calls

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
names = st.none() | texts
counts = st.none() | st.integers(0, 2**70)
usages = st.builds(
    Usage,
    calls=st.integers(0, 3),
    prompt_tokens=counts,
    cached_tokens=counts,
    completion_tokens=counts,
    reasoning_tokens=counts,
    cache_written_tokens=counts,
)
calls = st.lists(st.builds(ToolCall, id=texts, name=texts, arguments=texts), min_size=1, max_size=2).map(tuple)
answers = st.builds(
    ModelResponse,
    text=texts.map("a{}".format),
    finish=st.sampled_from(["stop", "length"]),
    usage=usages,
    model=names,
    asked_as=names,
    flags=st.lists(st.sampled_from(["cleaned", "usage_unknown"]), unique=True).map(tuple),
    logprobs=st.none() | st.dictionaries(texts, st.floats(-100, 0), max_size=3),
) | st.builds(ModelResponse, text=texts, tool_calls=calls, finish=st.just("tool_calls"), usage=usages)
facts = {
    "status": st.none() | st.integers(100, 599),
    "retry_after": st.none() | st.floats(0, 1e9),
    "quota_exhausted": st.booleans(),
    "seconds": st.floats(0, 1e9),
    "limit": st.integers(0, 10**9),
    "room": st.none() | st.integers(0, 10**6),
    "thought": st.none() | st.integers(0, 10**6),
    "stopped": st.booleans(),
    "unit": texts,
    "reason": texts,
    "problems": st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    "answer": names,
    "rounds": st.integers(1, 9),
}


@st.composite
def failures(draw: Any) -> ModelError:
    """Draw any model error with any details."""
    kind = draw(st.sampled_from(sorted(CLASSES.values(), key=lambda kind: kind.__name__)))
    error = kind.__new__(kind)
    ModelError.__init__(error, draw(texts), model=draw(names), block=draw(names), transient=draw(st.booleans()))
    for name in FACTS[kind.__name__]:
        setattr(error, name, draw(facts[name]))
    return error  # type: ignore[no-any-return]


def comparable(outcome: Any) -> Any:
    """Return the comparable parts of an answer or an error."""
    if isinstance(outcome, ModelError):
        return type(outcome), str(outcome), {name: value for name, value in vars(outcome).items() if name != "run"}
    return outcome


@given(outcomes=st.lists(answers | failures(), min_size=1, max_size=5), different=st.booleans())
def test_answers_and_errors_are_replayed_unchanged(outcomes: list[Any], *, different: bool) -> None:
    async def all_of(model: Model, order: Sequence[int]) -> dict[int, Any]:
        outcomes = {}
        for number in order:
            content = str(number) if different else "the same"
            request = make_request(messages=[{"role": "user", "content": content}])
            outcomes[number] = (await asyncio.gather(ask(model, request), return_exceptions=True))[0]
        return outcomes

    with TemporaryDirectory() as folder:
        path = Path(folder, "calls.jsonl")
        order = range(len(outcomes))
        live = asyncio.run(all_of(RecordingModel(Leaf(outcomes), path), order))
        replayed = ReplayModel(path)
        repeat = asyncio.run(all_of(replayed, list(reversed(order)) if different else order))
    assert {number: comparable(one) for number, one in repeat.items()} == {
        number: comparable(one) for number, one in live.items()
    }
    replayed.assert_complete()


def test_every_model_error_is_recorded_with_all_its_fields() -> None:
    """Details that are added to an error class later must be recorded too.

    If the test fails, it names the class that needs a new case here.
    """
    values: dict[str, Any] = {"seconds": 2.5, "reason": "no", "rounds": 3, "limit": 5, "unit": "bytes", "problems": []}
    for name, kind in CLASSES.items():
        arguments = [item for item in kind.__init__.__code__.co_varnames if item in values]
        error = kind(**{item: values[item] for item in arguments}) if arguments else _made(kind)
        attributes = {
            "message",
            "model",
            "block",
            "transient",
            *FACTS[name],
        }
        assert set(vars(error)) <= attributes, name
        decoded = Failure.model_validate_json(Failure.of(error).model_dump_json()).error()
        assert type(decoded) is kind
        assert str(decoded) == str(error)
        assert {item: getattr(decoded, item) for item in vars(error)} == vars(error)


def _made(kind: type[ModelError]) -> ModelError:
    try:
        return kind("it failed")
    except TypeError:
        return kind()  # type: ignore[call-arg]


class ApplicationError(RateLimited):
    """An error class that cassettes do not know."""


async def test_an_application_error_is_replayed_as_its_base_class(path: Path) -> None:
    """Cassettes restore only the library's own error classes.

    If an error's details are invalid, a plain `ModelError` is raised instead.
    """
    odd = Refused("x")
    odd.reason = 17  # type: ignore[assignment]
    model = RecordingModel(Leaf([ApplicationError("slow down", retry_after=3.0), odd]), path)
    for _ in range(2):
        with pytest.raises(ModelError):
            await ask(model, make_request())
    replayed = ReplayModel(path)
    with pytest.raises(RateLimited, match="slow down") as caught:
        await ask(replayed, make_request())
    assert (type(caught.value), caught.value.retry_after) == (RateLimited, 3.0)
    with pytest.raises(ModelError, match="declined") as plain:
        await ask(replayed, make_request())
    assert type(plain.value) is ModelError


# Structured answers


class Aliased(BaseModel):
    """Schema that rejects unknown fields and whose JSON names differ from its field names."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)

    full_name: str
    amounts: list[Decimal]


@dataclass
class Plain:
    """A dataclass."""

    numbers: set[int]


@dataclass(frozen=True)
class Shape:
    """A structured answer as a model returns it."""

    id: str
    output: Any
    reply: Any


SHAPES = [
    Shape("JSON as text", Aliased, '{"fullName": "Ä \\ud83d\\ude42", "amounts": ["1.10", "2"]}'),
    Shape("JSON in prose", Aliased, 'Sure:\n```json\n{"fullName": "x", "amounts": []}\n```'),
    Shape("a dict", Aliased, {"fullName": "x", "amounts": [Decimal("0.1")]}),
    Shape("a model", Aliased, ModelResponse(data=Aliased(fullName="x", amounts=[]))),
    Shape("a dataclass", Plain, {"numbers": [3, 1]}),
    Shape("a list", list[int], '{"value": [1, 2]}'),
    Shape("a bare list", list[int], ModelResponse(data=[1, 2])),
    Shape("null", int | None, '{"value": null}'),
    Shape("a set", set[str], ModelResponse(data={"a"})),
    Shape("a JSON Schema", {"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n": 1, "m": null}'),
    Shape("a JSON Schema, as data", {"type": "object"}, {"deep": [{"x": None}]}),
    Shape("a number that is no float", Annotated[Decimal, Field(gt=0)], '{"value": "1.10"}'),
]


@pytest.mark.parametrize("case", SHAPES, ids=lambda case: case.id)
async def test_a_structured_answer_is_replayed_as_an_equal_value(case: Shape, path: Path) -> None:
    live = await ask(RecordingModel(FunctionModel(lambda _: case.reply), path), make_request(output=case.output))
    response = await ask(ReplayModel(path), make_request(output=case.output))
    assert response == live
    assert type(response.data) is type(live.data)


async def test_values_that_json_cannot_represent_are_recorded_as_closely_as_possible(path: Path) -> None:
    """A value that cannot be compared or serialized must not cause the recording to fail."""

    class Odd:
        def __eq__(self, _: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    class Loose(BaseModel):
        value: Any

    live = await ask(
        RecordingModel(FunctionModel(lambda _: ModelResponse(data={"value": Odd()})), path), make_request(output=Loose)
    )
    assert isinstance(live.data, Loose)
    response = await ask(ReplayModel(path), make_request(output=Loose))
    assert isinstance(response.data, Loose)
    assert "Odd" in response.data.value


# Matching


async def test_concurrent_calls_can_be_replayed_in_any_order(path: Path) -> None:
    """Equal requests get their answers in the recorded order, however long each answer took."""
    gates = [asyncio.Event() for _ in range(6)]
    arrived: list[int] = []
    all_here = asyncio.Event()

    async def late(_: ModelRequest) -> str:
        number = len(arrived)
        arrived.append(number)
        if len(arrived) == len(gates):
            all_here.set()
        await gates[number].wait()
        return f"answer {number}"

    def requests() -> list[ModelRequest]:
        return [make_request(messages=[{"role": "user", "content": str(n // 2)}]) for n in range(6)]

    async with asyncio.TaskGroup() as group:
        model = RecordingModel(FunctionModel(late), path)
        tasks = [group.create_task(ask(model, request)) for request in requests()]
        await all_here.wait()
        for number in (5, 0, 3, 1, 4, 2):
            gates[number].set()
            await tasks[number]
    live = [task.result().text for task in tasks]
    assert live == [f"answer {n}" for n in range(6)]
    backwards = ReplayModel(path)
    order = [4, 5, 2, 3, 0, 1]
    sent_requests = requests()
    replayed_texts = [(await ask(backwards, sent_requests[number])).text for number in order]
    assert replayed_texts == [live[number] for number in order]


SCHEMA = OutputSchema.of({"type": "object", "properties": {"a": {"type": "string"}}})
TOOL = ToolSpec(name="look_up", description="Look it up.", parameters={"type": "object"})
CHANGES: dict[str, Callable[[], ModelRequest]] = {
    "a message": lambda: make_request(messages=[{"role": "user", "content": "Who is wrong?"}]),
    "a further message": lambda: make_request(
        messages=[*make_request().messages, {"role": "user", "content": "Well?"}]
    ),
    "the output schema": lambda: make_request(output=SCHEMA),
    "a tool": lambda: make_request(tools=[TOOL]),
    "the temperature": lambda: make_request(settings=ModelSettings(temperature=0.0)),
    "the room": lambda: make_request(settings=ModelSettings(max_tokens=5)),
    "an extra parameter": lambda: make_request(settings=ModelSettings(extra={"top_p": float("nan")})),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_mismatch_shows_the_difference_from_the_recording(
    change: Callable[[], ModelRequest], path: Path
) -> None:
    """Everything that may affect an answer is compared, and the error is raised without a model being called."""
    await ask(RecordingModel(Leaf(), path), make_request())
    request = change()
    with pytest.raises(CassetteMismatch) as caught:
        await ask(ReplayModel(path), request)
    message = str(caught.value)
    assert message.startswith(f"{path} does not contain this call")
    assert "--- recorded\n+++ asked\n@@" in message
    assert re.search(r"^\+", message.rpartition("@@")[2], re.MULTILINE)
    assert "another seed" in message
    assert (caught.value.block, caught.value.model) == ("judge", "leaf")
    assert attempt_errors(request.attempts.made) == ["CassetteMismatch"]


async def test_irrelevant_fields_are_not_compared(path: Path) -> None:
    await ask(RecordingModel(Leaf(), path), make_request(tools=[TOOL]))
    request = make_request(
        tools=[ToolSpec(name="look_up", description="Other words.", parameters={"type": "object"})],
        settings=ModelSettings(timeout=3.0, max_chars=500),
        on_text=lambda _: None,
    )
    assert (await ask(ReplayModel(path), request)).text == "fine"


async def test_the_displayed_difference_is_always_short(path: Path) -> None:
    lines = [f"line {n} " + "x" * 300 for n in range(3_000)]
    model = RecordingModel(Leaf(), path)
    await ask(model, make_request(messages=[{"role": "user", "content": "something else"}]))
    await ask(model, make_request(messages=[{"role": "user", "content": "\n".join(lines)}]))
    lines[1] = lines[1][:250] + f"\x1b[2J {KEY} " + "y" * 50_000
    with pytest.raises(CassetteMismatch) as caught:
        await ask(ReplayModel(path), make_request(messages=[{"role": "user", "content": "\n".join(lines)}]))
    message = str(caught.value)
    assert "something else" not in message
    assert "u001b[2J" in message
    assert KEY not in message
    assert len(message) < 3_000
    assert all(line.isprintable() for line in message.split("\n"))
    assert message.count("\n") < 25


async def test_a_different_seed_is_a_mismatch(path: Path) -> None:
    """The seed shuffles the judge's view, so the replay raises an error rather than returning a different verdict."""
    sides = [Debater(name, f"{name} is right") for name in "abcdef"]
    wide = debate(name="wide", debaters=sides, max_rounds=1, synthesizer=False)
    verdict = {"reasoning": "x", "winner": None, "verdict": "y"}
    replies = FunctionModel(lambda request: "Yes." if request.output is None else verdict)
    await wide.run("Who?", model=RecordingModel(replies, path), seed=1)
    with pytest.raises(CassetteMismatch, match="seed"):
        await wide.run("Who?", model=ReplayModel(path), seed=2)


async def test_a_call_beyond_the_recording_is_a_mismatch(path: Path) -> None:
    """Each recorded call is replayed once.

    With `strict=False`, the last of several equal calls is replayed repeatedly.
    """
    model = RecordingModel(Leaf(["one", "two"]), path)
    for _ in range(2):
        await ask(model, make_request())
    strict, loose = ReplayModel(path), ReplayModel(path, strict=False)
    assert [(await ask(strict, make_request())).text for _ in range(2)] == ["one", "two"]
    with pytest.raises(CassetteMismatch, match="no other call of this block"):
        await ask(strict, make_request())
    assert [(await ask(loose, make_request())).text for _ in range(4)] == ["one", "two", "two", "two"]
    loose.assert_complete()
    with pytest.raises(CassetteMismatch):
        await ask(loose, make_request(messages=[{"role": "user", "content": "new"}]))


async def test_unused_recorded_calls_are_listed(path: Path) -> None:
    """A test's failure message lists the unused calls by block and line."""
    model = RecordingModel(Leaf(), path)
    for number in range(8):
        await ask(model, make_request(messages=[{"role": "user", "content": str(number)}]))
    replayed = ReplayModel(path)
    await ask(replayed, make_request(messages=[{"role": "user", "content": "0"}]))
    assert replayed.remaining == 7
    assert repr(replayed) == f"<ReplayModel {str(path)!r}: 1 of 8 calls given>"
    with pytest.raises(AssertionError, match=r"7 of 8 calls .* judge \(line 3\), .* and 2 more") as caught:
        replayed.assert_complete()
    assert isinstance(caught.value, CassetteMismatch)


def test_an_empty_recording_can_be_replayed(path: Path) -> None:
    """A cassette without calls is valid and still contains the recorded model's name."""
    assert RecordingModel(Leaf(name="ada"), path).name == ReplayModel(path).name == "ada"
    ReplayModel(path).assert_complete()


# Retries, deadlines and limits


async def test_a_recorder_around_retries_writes_one_line(path: Path) -> None:
    naps = Naps()
    events: list[Any] = []
    live = make_request(events=events)
    leaf = Leaf(
        [endpoint_error(), answer_with_usage(30, " "), answer_with_usage(40)], retry=Retry(attempts=3, sleep=naps)
    )
    await ask(RecordingModel(leaf, path), live)
    assert len(read_lines(path)) == 2
    replayed_events: list[Any] = []
    request = make_request(events=replayed_events)
    assert (await ask(ReplayModel(path), request)).text == "fine"
    assert len(naps.waits) == 1
    assert [type(event).__name__ for event in events] == ["CallRetried", "CallRetried"]
    assert replayed_events == events
    assert (
        attempt_errors(request.attempts.made)
        == attempt_errors(live.attempts.made)
        == ["ProviderFailed", "EmptyResponse", None]
    )
    assert request.attempts.usage == live.attempts.usage


async def test_a_recorder_inside_retries_writes_a_line_per_request(path: Path) -> None:
    answer = await ask(
        Retrying(RecordingModel(Leaf([endpoint_error(), "fine"]), path), Retry(sleep=Naps())), make_request()
    )
    assert len(read_lines(path)) == 3
    naps = Naps()
    request = make_request()
    response = await ask(Retrying(ReplayModel(path), Retry(sleep=naps)), request)
    assert response.text == answer.text == "fine"
    assert len(naps.waits) == 1
    assert attempt_errors(request.attempts.made) == ["ProviderFailed", None]


async def test_nested_recorders_count_each_request_once(path: Path) -> None:
    first = RecordingModel(Wrapper(Leaf([endpoint_error()], name="one")), path)
    second_path = path.with_name("second.jsonl")
    second = RecordingModel(Wrapper(Leaf([answer_with_usage(9)], name="two")), second_path)
    live = make_request()
    await ask(Fallback(first, second), live)
    request = make_request()
    await ask(Fallback(ReplayModel(path), ReplayModel(second_path)), request)
    assert [(attempt.model, attempt.error) for attempt in request.attempts.made] == [
        (attempt.model, attempt.error) for attempt in live.attempts.made
    ]
    failed, answered = (json.loads(read_lines(file)[1]) for file in (path, second_path))
    assert (len(failed["attempts"]), len(answered["answer"]["attempts"])) == (1, 1)


def test_a_timeout_is_replayed_as_a_timeout(path: Path) -> None:
    """On replay, the error is raised immediately.

    A call cancelled for any other reason is not written to the recording.
    """

    async def hang(_: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    async def run() -> tuple[ModelError, ModelError]:
        model = RecordingModel(FunctionModel(hang), path)
        with pytest.raises(ModelTimeout) as live:
            await ask(model, make_request(timeout=1.0))
        task = asyncio.create_task(ask(model, make_request()))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        with pytest.raises(ModelTimeout) as replay_error:
            await ask(ReplayModel(path), make_request(timeout=1.0))
        return live.value, replay_error.value

    live, replay_error = asyncio.run(run())
    assert str(replay_error) == str(live)
    assert len(read_lines(path)) == 2


async def test_a_replayed_run_reaches_its_limit_again(path: Path) -> None:
    """The replay counts the recorded requests and raises the same error."""
    limits = Limits(calls=3)
    live = await pattern().run(
        "Should it move?", model=RecordingModel(FunctionModel(answer_next), path), seed=7, limits=limits
    )
    repeat = await pattern().run("Should it move?", model=ReplayModel(path), seed=7, limits=limits)
    assert live.status == "limit"
    assert_same(live, repeat)
    full = make_request(attempts=Attempts().belong_to(meter=Full(), notify=None, seed=()))
    with pytest.raises(LimitReached):  # not a mismatch: the call was not made during the recording
        await ask(ReplayModel(path), full)


class Full:
    """Meter that permits no further requests."""

    def reserve(self, model: str, request: ModelRequest) -> object:
        """Raise LimitReached."""
        raise LimitReached("calls", limit=1, used=1)

    def settle(self, reserved: object, attempt: Attempt) -> None:
        """Do nothing, since the method is never called."""

    def release(self, reserved: object) -> None:
        """Do nothing, since the method is never called."""


def test_a_recording_can_replace_a_scripted_model(path: Path) -> None:
    sides = [Debater("a", "for"), Debater("b", "against")]
    short = debate(name="short", debaters=sides, max_rounds=1, synthesizer=False)
    script = ScriptedModel("Yes.", "No.", {"reasoning": "x", "winner": "for", "verdict": "y"})
    live = short.run_sync("Why?", model=RecordingModel(script, path), seed=3)
    script.assert_complete()
    assert_same(live, short.run_sync("Why?", model=ReplayModel(path), seed=3))
