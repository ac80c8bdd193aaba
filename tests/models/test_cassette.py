"""Cassettes written by `RecordingModel` and read by `ReplayModel`: complete, free of keys, rejected when damaged."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import errors
from flowdebate.errors import (
    AuthenticationFailed,
    BadFile,
    MalformedResponse,
    ModelError,
    ProviderFailed,
    RateLimited,
    Refused,
    SchemaViolation,
)
from flowdebate.models import (
    ModelRequest,
    ModelResponse,
    OpenAIModel,
    OutputSchema,
    RecordingModel,
    ReplayModel,
    Retry,
    ToolCall,
    ToolSpec,
    Usage,
)
from flowdebate.models.base import Attempts
from flowdebate.models.call import ask
from flowdebate.models.recording import CLASSES, read_exchanges
from tests.cases import slow_but_first
from tests.models.policies.helpers import Leaf, Naps, endpoint_error, make_request
from tests.models.server import ChatServer, Exchange, chunk, completion, tool_call, usage_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a cassette."""
    return tmp_path / "debate.jsonl"


SCHEMA = OutputSchema.of({"type": "object", "properties": {"a": {"type": "string"}}})
TOOL = ToolSpec(name="look_up", description="Look it up.", parameters={"type": "object"})


def read_text(path: Path) -> str:
    return path.read_text("utf-8")


# Files


def test_an_existing_file_is_not_overwritten_by_default(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(BadFile, match="already exists"):
        RecordingModel(Leaf(), path)
    assert path.read_text() == "mine"
    RecordingModel(Leaf(), path, overwrite=True)
    ReplayModel(path).assert_complete()
    for nowhere in (path.with_name("no") / "file", path.parent):
        with pytest.raises(BadFile):
            RecordingModel(Leaf(), nowhere, overwrite=True)


async def test_an_unwritable_recording_is_reported(path: Path) -> None:
    """The recording is moved away during the test, and no file without a header may be created in its place."""
    model = RecordingModel(Leaf(), path)
    path.rename(path.with_name("elsewhere"))  # noqa: ASYNC240 - a moment
    with pytest.raises(BadFile, match="cannot be written"):
        await ask(model, make_request())
    with pytest.raises(BadFile, match="does not exist"):
        ReplayModel(path)


async def test_an_answer_with_wrong_types_counts_as_malformed(path: Path) -> None:
    """An answer that could not be read back is not written."""
    odd = Usage(calls=1, prompt_tokens="many")  # type: ignore[arg-type]
    with pytest.raises(MalformedResponse, match="cannot be recorded"):
        await ask(RecordingModel(Leaf([ModelResponse(text="x", usage=odd)]), path), make_request())
    ReplayModel(path).assert_complete()


async def test_each_answer_is_written_at_once(path: Path) -> None:
    """Everything that was written before a crash is complete and readable."""
    model = RecordingModel(Leaf(["Ümläut\u2028 🙂"]), path)
    for count in (2, 3):
        await ask(model, make_request())
        lines = read_text(path).split("\n")
        assert [len(lines), lines[-1]] == [count + 1, ""]
        assert "Ümläut" in lines[-2]
        assert json.loads(lines[-2])["occurrence"] == count - 1


def write_cassette() -> bytes:
    """Write a cassette with a text answer, a structured answer, tool calls, an error, and a retry."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "c.jsonl")
        leaf = Leaf(
            [
                endpoint_error(),
                ModelResponse(text="fine", model="served", flags=("cleaned",), usage=Usage(calls=1, prompt_tokens=3)),
                ModelResponse(data={"a": "b"}),
                ModelResponse(tool_calls=(ToolCall(id="1", name="look_up", arguments="{}"),), finish="tool_calls"),
                SchemaViolation([("a", "is wrong")], answer="{}"),
                RateLimited("slow", retry_after=2.5),
            ],
            retry=Retry(attempts=2, sleep=Naps(), on=lambda error: isinstance(error, ProviderFailed)),
        )
        model = RecordingModel(leaf, path)

        async def record() -> None:
            for request in sample_requests():
                await asyncio.gather(ask(model, request), return_exceptions=True)

        asyncio.run(record())
        return path.read_bytes()


def sample_requests() -> list[ModelRequest]:
    """Return the requests that the sample cassette contains."""
    return [
        make_request(),
        make_request(output=SCHEMA),
        make_request(tools=[TOOL]),
        make_request(output=SCHEMA),
        make_request(),
    ]


CASSETTE = write_cassette()
LINES = CASSETTE.splitlines(keepends=True)


@dataclass(frozen=True)
class Bad:
    """A file that is not a valid cassette, and the expected error."""

    id: str
    content: bytes
    message: str


def change_line(number: int, **changes: Any) -> bytes:
    """Return the cassette with values changed in one line."""
    lines = list(LINES)
    lines[number - 1] = json.dumps({**json.loads(lines[number - 1]), **changes}).encode() + b"\n"
    return b"".join(lines)


BAD = [
    Bad("nothing", b"", "line 1: not valid JSON"),
    Bad("random bytes", b"\x00\xff\xfe\n\x80", "line 1: not valid JSON"),
    Bad("another format", b'{"format": "vcr"}\n', "line 1: the file is not a cassette"),
    Bad("a list", b"[1]\n", "line 1: the file is not a cassette"),
    Bad("deep nesting", b"[" * 100_000, "line 1: not valid JSON"),
    Bad(
        "another version",
        change_line(1, version=2),
        "line 1: the cassette has format 2, but only format 1 is supported",
    ),
    Bad("no version", b'{"format": "flowdebate.cassette", "model": 1}\n', "line 1: `model`"),
    Bad("a header alone", LINES[0] + b"\n", "line 2: "),
    Bad("a last line that is cut off", CASSETTE[:-20], "line 6: is not JSON"),
    Bad("a line in the middle that is cut off", LINES[0] + LINES[1][:50] + b"\n" + LINES[2], "line 2: "),
    Bad("a line twice", CASSETTE + LINES[1], "line 7: duplicates a call on an earlier line"),
    Bad("no outcome", change_line(2, answer=None), "line 2: needs an `answer` or an `error`"),
    Bad("two outcomes", change_line(2, error={"kind": "ModelError", "message": "x"}), "line 2: needs an `answer` or"),
    Bad("another question", change_line(2, request={"messages": []}), "line 2: `request` was changed"),
    Bad("another block", change_line(2, block="x"), "line 2: `request` was changed"),
    Bad("a number as text", change_line(2, occurrence="1"), "line 2: `occurrence`"),
    Bad("no text", change_line(2, answer={"text": 5}), "line 2: `answer.text`"),
    Bad("a strange finish", change_line(2, answer={"finish": "eos"}), "line 2: `answer.finish`"),
    Bad("a field too many", change_line(2, admin=True), "line 2: `admin`"),
    Bad(
        "an unknown error",
        change_line(6, error={"kind": "SystemExit", "message": "x"}),
        "line 6: `error` has an unknown `kind` of error",
    ),
    Bad(
        "an error that is none",
        change_line(6, error={"kind": "BadFile", "message": "x"}),
        "line 6: `error` has an unknown `kind` of error",
    ),
    Bad(
        "an error without its facts",
        change_line(6, error={"kind": "Refused", "message": "x"}),
        "`error` has no `reason`, which Refused requires",
    ),
    Bad(
        "an unknown notice",
        change_line(2, notices=[{"kind": "run_finished", "facts": {}}]),
        "has an unknown `kind` of event",
    ),
    Bad(
        "a notice of wrong types",
        change_line(2, notices=[{"kind": "call_retried", "facts": {"block": 1}}]),
        "`notices.0",
    ),
    Bad("a NUL", CASSETTE.replace(b"fine", b"f\x00ne"), "line 2: "),
    Bad("no UTF-8", CASSETTE.replace(b"fine", b"f\xffne"), "line 2: "),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_the_error_for_an_invalid_cassette_names_the_line(case: Bad, path: Path) -> None:
    path.write_bytes(case.content)
    with pytest.raises(BadFile) as caught:
        ReplayModel(path)
    assert str(caught.value).startswith(f"{path}: line ")
    assert case.message in str(caught.value)
    assert str(caught.value).isprintable()
    assert path.read_bytes() == case.content


def test_an_unreadable_cassette_is_reported(path: Path) -> None:
    """Directories, devices and files larger than 100 MB are rejected as cassettes."""
    for wrong, message in (
        (path, "does not exist"),
        (path.parent, "is not a file"),
        (Path("/dev/zero"), "is not a file"),
    ):
        with pytest.raises(BadFile, match=message):
            ReplayModel(wrong)
    with path.open("wb") as file:
        file.truncate(100_000_001)
    with pytest.raises(BadFile, match="larger than 100 MB"):
        ReplayModel(path)
    with pytest.raises(BadFile):
        ReplayModel(f"{path}\0")


async def test_a_cassette_may_end_without_a_newline(path: Path) -> None:
    """An editor may have removed the last newline."""
    path.write_bytes(CASSETTE.rstrip(b"\n"))  # noqa: ASYNC240 - a moment
    assert (await ask(ReplayModel(path), make_request())).text == "fine"


@st.composite
def damaged_cassette(draw: Any) -> bytes:
    """Draw a cassette in which either some bytes or one JSON value has been changed."""
    if draw(st.booleans()):
        begin = draw(st.integers(0, len(CASSETTE)))
        end = draw(st.integers(begin, min(begin + 40, len(CASSETTE))))
        piece: bytes = draw(st.binary(max_size=6) | st.sampled_from([b'"', b"}", b"\n", b"0"]))
        return CASSETTE[:begin] + piece + CASSETTE[end:]
    number = draw(st.integers(0, len(LINES) - 1))
    value = json.loads(LINES[number])
    place, key = draw(st.sampled_from(list(places(value))))
    if draw(st.booleans()):
        del place[key]
    else:
        hostile = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
        place[key] = draw(
            hostile | st.lists(hostile, max_size=2) | st.dictionaries(st.text(max_size=3), hostile, max_size=2)
        )
    return b"".join([*LINES[:number], json.dumps(value).encode() + b"\n", *LINES[number + 1 :]])


def read_or_problem(path: Path) -> ReplayModel | BadFile:
    """Read the file, or return the error."""
    try:
        return ReplayModel(path)
    except BadFile as error:
        return error


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(inside):
        yield value, key
        yield from places(inner)


@given(content=damaged_cassette())
def test_a_damaged_file_is_rejected_or_still_works(content: bytes) -> None:
    """Reading a file may raise only `BadFile`, and replaying requests may raise only `ModelError`."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "c.jsonl")
        path.write_bytes(content)
        replayed = read_or_problem(path)
        if isinstance(replayed, BadFile):
            assert str(replayed).isprintable()
            assert len(replayed.problem) < 700
            return

        async def replay() -> None:
            for request in sample_requests():
                outcome = (await asyncio.gather(ask(replayed, request), return_exceptions=True))[0]
                assert isinstance(outcome, (ModelResponse, ModelError))
                str(outcome)

        asyncio.run(replay())


# Secrets


async def echo(exchange: Exchange) -> None:
    """Echo the client's own key everywhere."""
    authorization = exchange.headers["authorization"]
    number = json.dumps(exchange.body["messages"])
    if "refuse" in number:
        await exchange.json({"error": {"message": f"wrong key: {authorization}", "code": KEY}}, status=401)
    elif "break" in number:
        await exchange.answer(f"<html>{KEY}".encode(), kind="text/html")
    elif "call" in number:
        call = tool_call("look_up", json.dumps({"topic": KEY}), KEY)
        await exchange.json({**completion(None, finish="tool_calls", tool_calls=[call]), "model": KEY})
    elif exchange.body.get("stream"):
        await exchange.events(
            [chunk("the key is "), chunk(KEY[:9]), chunk(KEY[9:]), chunk(finish="stop"), usage_chunk()]
        )
    elif "response_format" in exchange.body:
        await exchange.json(completion(json.dumps({"a": KEY, KEY: 1})))
    else:
        await exchange.json(completion(f"the key is {KEY}"))


@pytest.mark.parametrize("kind", ["refuse", "break", "call", "answer", "stream", "structure"])
async def test_no_key_is_written_to_a_cassette(kind: str, path: Path) -> None:
    """A server may echo the key in answers, tool calls, errors, web pages or even Retry-After headers."""
    async with ChatServer({"m": echo}) as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key=KEY, retry=Retry(attempts=2, sleep=Naps()))
        request = make_request(
            messages=[{"role": "user", "content": kind}],
            on_text=(lambda _: None) if kind == "stream" else None,
            output=SCHEMA if kind == "structure" else None,
            tools=[TOOL] if kind == "call" else (),
            attempts=Attempts(),
        )
        await asyncio.gather(ask(RecordingModel(model, path), request), return_exceptions=True)
    content = read_text(path)
    assert server.posts
    assert content.count("\n") == 2
    assert KEY not in content
    assert KEY[3:] not in content
    assert "[redacted]" in content


async def test_apparent_keys_are_redacted_in_errors(path: Path) -> None:
    """Keys are redacted in every field of an error, even if the error comes from a custom model."""
    error = SchemaViolation([("a", f"got {KEY}")], answer=f"{{{KEY}}}")
    refusal = Refused(f"Bearer {KEY} is wrong")
    model = RecordingModel(Leaf([error, refusal, endpoint_error()], retry=Retry(attempts=2, sleep=Naps())), path)
    for _ in range(2):
        with pytest.raises(ModelError):
            await ask(model, make_request())
    assert KEY not in read_text(path)


def test_only_model_errors_can_be_restored() -> None:
    """A cassette may refer only to classes in `flowdebate.errors` that inherit from `ModelError`."""
    assert all(issubclass(kind, ModelError) and kind.__module__ == errors.__name__ for kind in CLASSES.values())
    assert "BadFile" not in CLASSES


async def test_a_cassette_is_replayed_as_recorded(path: Path) -> None:
    path.write_bytes(CASSETTE)  # noqa: ASYNC240 - a moment
    replayed = ReplayModel(path)
    requests = sample_requests()
    outcomes: list[Any] = []
    for request in requests:
        outcomes += await asyncio.gather(ask(replayed, request), return_exceptions=True)
    text, structured, tool, violation, limited = outcomes
    assert (text.text, text.model, text.flags, text.usage.prompt_tokens) == ("fine", "served", ("cleaned",), 3)
    assert [attempt.error for attempt in requests[0].attempts.made] == ["ProviderFailed", None]
    assert structured.data == {"a": "b"}
    assert tool.tool_calls == (ToolCall(id="1", name="look_up", arguments="{}"),)
    assert (type(violation), violation.problems, violation.answer) == (SchemaViolation, (("a", "is wrong"),), "{}")
    assert (type(limited), limited.retry_after, limited.quota_exhausted) == (RateLimited, 2.5, False)
    replayed.assert_complete()


@pytest.mark.parametrize(
    "text",
    [
        "cannot connect to https://me:pw@gw.example.org/v1?key=1",
        r'{"error": "proxy http:\/\/gw.example.org\/v1 said no"}',
        "upstream gw.example.org:443 timed out",
        "10.20.30.40 refused, [fe80::1]:8080, too",
        "worker gpu-7:8000, worker node3.internal, localhost:11434",
        "ask mallory.b@example.org of org-a1B2c3D4e5",
        "/home/mallory/m.gguf /Users/mallory/m.gguf C:\\Users\\mallory\\m.gguf",
        "Incorrect API key provided: hunter2secret",
    ],
)
async def test_a_cassette_with_exchanges_contains_no_host_or_user_names(text: str, path: Path) -> None:
    plain = "At 12:30, ratio 16:9, see app.py:12, llama3.1:8b, 3.14, x[1:2] and v1.2.3."

    async def serve(exchange: Exchange) -> None:
        if "stream" in exchange.body:
            await exchange.json({"error": {"message": text}}, status=401)
        else:
            await exchange.json(completion(f"{plain} {text}"))

    async with ChatServer({}, otherwise=serve) as server:
        inner = OpenAIModel("m", base_url=server.base_url, api_key="hunter2secret", retry=None)
        model = RecordingModel(inner, path, exchanges=True)
        asks = [{"role": "user", "content": "Where are you?"}]
        await ask(model, ModelRequest(messages=asks, block="b"))
        with pytest.raises(AuthenticationFailed):
            await ask(model, ModelRequest(messages=asks, block="b", on_text=lambda _: None))
    written = read_text(path)
    for part in (
        "example.org",
        "pw",
        "10.20",
        "fe80",
        "gpu-7",
        "node3",
        "11434",
        "mallory",
        "a1B2",
        "hunter2",
        "127.0",
    ):
        assert part not in written, part
    calls = [json.loads(line) for line in written.splitlines()[1:]]
    assert calls[0]["answer"]["text"].startswith(plain)
    assert [len(call["exchanges"]) for call in calls] == [1, 1]
    assert [call.status for call in read_exchanges(path)] == [200, 401]


@pytest.mark.parametrize("piece", slow_but_first(["[a:", "a", "a-", "a.", "a:", "/", "a@", "1-", "org-"]))
async def test_a_long_answer_without_spaces_is_recorded_in_linear_time(piece: str, path: Path) -> None:
    """The search for addresses in the answer must not take quadratic time."""
    text = piece * (150_000 // len(piece))
    async with ChatServer({}, otherwise=lambda exchange: exchange.json(completion(text))) as server:
        inner = OpenAIModel("m", base_url=server.base_url, api_key=KEY, retry=None)
        asks = [{"role": "user", "content": "Write."}]
        await ask(RecordingModel(inner, path, exchanges=True), ModelRequest(messages=asks, block="b"))
    assert (await ask(ReplayModel(path), ModelRequest(messages=asks, block="b"))).text == text
