"""Mutated answers of a chat completions server.

Everything is drawn from a `Random`: the soak seeds one per case, and hypothesis supplies its own.
"""

from __future__ import annotations

import copy
import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.models.server import chunk, completion, tool_call, usage_chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

__all__ = ("CANARY", "VERDICT", "Answer", "draw_mutated_answer")

Json = Any

CANARY = "sk-canary-0123456789abcdef"
"""API key sent by the client; no error may reveal it."""

VERDICT = {"reasoning": "It was not answered.", "winner": "for", "score": 7}
"""Value that fits the schema of structured answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response body and its headers."""

    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    breaks: str | None = None
    """Transport error that ends the body; None for a complete body."""


def _structured(random: Random) -> Json:
    verdict = json.dumps(VERDICT)
    return random.choice(
        [
            completion(verdict),
            completion(verdict),
            completion(f"```json\n{verdict}\n```"),
            completion(None, finish="tool_calls", tool_calls=[tool_call("Verdict", verdict)]),
            completion("", finish="stop", tool_calls=[tool_call("Verdict", verdict)]),
        ]
    )


def _complete(random: Random) -> Json:
    return random.choice(
        [
            completion("A good point."),
            completion("Cut off", finish="length"),
            completion([{"type": "text", "text": "in"}, {"type": "text", "text": " parts"}]),
            completion(json.dumps(VERDICT)),
            completion(f"Sure:\n```json\n{json.dumps(VERDICT)}\n```\nThat is all."),
            completion(f"Sure: {json.dumps(VERDICT)}"),
            completion(None, finish="tool_calls", tool_calls=[tool_call("look_up", '{"topic": "cost"}')]),
            completion(None, finish="tool_calls", tool_calls=[tool_call("Verdict", json.dumps(VERDICT))]),
            completion(
                "Both.",
                finish="tool_calls",
                tool_calls=[tool_call("look_up", "{}"), tool_call("Verdict", json.dumps(VERDICT), "call_b")],
            ),
            completion(None, refusal="I will not."),
            completion("", finish="content_filter"),
            {**completion("first"), "choices": [*completion("first")["choices"], *completion("second")["choices"]]},
        ]
    )


def _error(random: Random) -> Json:
    return random.choice(
        [
            {"error": {"message": "no", "type": "invalid_request_error", "code": None, "param": None}},
            {"error": {"message": f"Incorrect API key provided: {CANARY}.", "code": "invalid_api_key"}},
            {"error": {"message": "maximum context length is 8192", "code": "context_length_exceeded"}},
            {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}},
            {"error": {"message": "response_format json_schema is not supported", "code": 400}},
            {"error": {"message": "upstream failed", "code": 502, "metadata": {"raw": "x"}}},
            {"error": f"it broke {CANARY}"},
            {"detail": [{"loc": ["body", "model"], "msg": "field required"}]},
            {"message": "Not Found"},
        ]
    )


def _events(random: Random) -> list[Json]:
    pieces = {"index": 0, "id": "call_a", "type": "function", "function": {"name": "look_up", "arguments": '{"to'}}
    rest = {"index": 0, "function": {"arguments": 'pic": "cost"}'}}
    return random.choice(
        [
            [chunk("A good"), chunk(" point."), chunk(finish="stop"), usage_chunk()],
            [chunk("A good"), chunk(" point."), chunk(finish="stop")],
            [chunk("Cut"), chunk(finish="length"), usage_chunk()],
            [chunk(tool_calls=[pieces]), chunk(tool_calls=[rest]), chunk(finish="tool_calls"), usage_chunk()],
            [chunk(refusal="I will"), chunk(refusal=" not."), chunk(finish="stop")],
            [chunk("half"), {"error": {"message": f"bad key {CANARY}", "code": 401}}],
            [{**chunk(), "choices": []}, chunk("x"), chunk(finish="stop"), usage_chunk()],
        ]
    )


# JSON


_DEEP = "@deep@"
"""Placeholder in JSON for a deeply nested value, replaced during serialization."""


_SCALARS: Sequence[Json] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, 10**4000, -(10**3000), 0.5, -0.0, 1e308, float("nan"),
    float("inf"), float("-inf"), "", " ", "\n", "x", "stop", "length", "tool_calls", "content_filter", "error",
    "function_call", "eos", "null", "0", "400", "429", "nan", "\ud800", "\udc00x", "a\ud83d", "\ud83d\ude42", "a\x00b",
    "\x00", "\x1b[2J\x1b]52;c;YQ==\x07", "\u202e\u2066", "\u200b\u200d", "\u2028\u2029", "\ufeff", "é" * 300,
    "[" * 500, "{" * 500, "```json\n{", "```json\n" + "{" * 300, "<tool_call>{", "{{7*7}} {% for x in y %}", CANARY,
    f"Bearer {CANARY}", f"key {CANARY}" * 30, "Bearer " + " " * 5_000, "sk-" + "a" * 3_000, "%s %d {0} ${HOME}",
    '{"winner": NaN}', '{"winner": "for"} {"winner": "against"}', json.dumps(VERDICT), json.dumps(VERDICT)[:-1],
    json.dumps({**VERDICT, "admin": True}), json.dumps({**VERDICT, "score": 1e999}), '{"a":' * 250 + "1" + "}" * 250,
    json.dumps({**VERDICT, CANARY: 1}), json.dumps({**VERDICT, "winner": CANARY}), f'{{"reasoning": {CANARY}}}',
    json.dumps({**VERDICT, **{f"key {n}\u202e": n for n in range(400)}}), json.dumps({**VERDICT, "a": {"b" * 500: 1}}),
    '{"score": ' + "9" * 5_000 + "}", '{"winner": "\\ud800"}',
)  # fmt: skip


_TEXTS = tuple(value for value in _SCALARS if isinstance(value, str))


def _hostile(random: Random) -> Json:
    draw = random.random()
    if draw < 0.80:
        return copy.copy(random.choice(_SCALARS))
    if draw < 0.84:
        return random.choice('ab {["\\\n`é\u2028') * random.choice([10, 1_000, 30_000])
    if draw < 0.845:
        return "long " * random.choice([45_000, 100_000])
    if draw < 0.90:
        return _DEEP
    if draw < 0.95:
        return [_hostile(random) for _ in range(random.randrange(4))]
    keys = [
        "type",
        "text",
        "message",
        "code",
        "name",
        "arguments",
        "function",
        "content",
        "index",
        "\ud800",
        "",
        CANARY,
    ]
    return {random.choice(keys): _hostile(random) for _ in range(random.randrange(4))}


def _places(value: Json, pairs: list[tuple[Json, Any]]) -> None:
    """Yield every container in `value`, paired with each of its keys or indices."""
    if isinstance(value, dict):
        inside: Any = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    else:
        return
    for key, inner in inside:
        pairs.append((value, key))
        _places(inner, pairs)


def _drop(random: Random, container: Json, key: Any, _: Sequence[tuple[Json, Any]]) -> None:
    del container[key]


def _retype(random: Random, container: Json, key: Any, _: Sequence[tuple[Json, Any]]) -> None:
    # strings are usually replaced by strings, since most other types are rejected early
    text = key in ("content", "arguments") and random.random() < 0.6
    container[key] = random.choice(_TEXTS) if text else _hostile(random)


def _wrap(random: Random, container: Json, key: Any, _: Sequence[tuple[Json, Any]]) -> None:
    inner = container[key]
    container[key] = random.choice([[inner], {"text": inner}, [inner, inner], json.dumps(inner), str(inner)])


def _repeat(random: Random, container: Json, key: Any, _: Sequence[tuple[Json, Any]]) -> None:
    if isinstance(container, list):
        container[key:key] = [copy.deepcopy(container[key])] * random.choice([1, 2, 40])
    else:
        container[random.choice(["index", "content", "refusal", "tool_calls", "x"])] = copy.deepcopy(container[key])


def _rename(random: Random, container: Json, key: Any, _: Sequence[tuple[Json, Any]]) -> None:
    if isinstance(container, dict):
        container[random.choice([f"{key}s", str(key).upper(), "", "\ud800", "role", "id"])] = container.pop(key)


def _exchange(random: Random, container: Json, key: Any, places: Sequence[tuple[Json, Any]]) -> None:
    second, second_key = random.choice(places)
    try:
        container[key], second[second_key] = copy.deepcopy(second[second_key]), copy.deepcopy(container[key])
    except (LookupError, TypeError):
        return


def _lengthen(random: Random, container: Json, key: Any, _: Sequence[tuple[Json, Any]]) -> None:
    if isinstance(container[key], str):
        container[key] = random.choice([container[key] + CANARY, container[key] * 50, f"\ud800{container[key]}\x00"])
    else:
        container[key] = _hostile(random)


_JSON_CHANGES = (_drop, _retype, _retype, _wrap, _repeat, _rename, _exchange, _lengthen)


def _changed(value: Json, random: Random) -> Json:
    """Return `value` with up to five changes."""
    value = copy.deepcopy(value)
    for _ in range(random.choice([0, 1, 1, 1, 1, 2, 3])):
        places: list[tuple[Json, Any]] = []
        _places(value, places)
        if not places or random.random() < 0.02:
            value = _hostile(random)
            continue
        container, key = random.choice(places)
        random.choice(_JSON_CHANGES)(random, container, key, places)
    return value


def _dumped(value: Json, random: Random) -> bytes:
    plain = random.random() < 0.5
    try:
        text = json.dumps(value, ensure_ascii=plain)
    except ValueError:  # a number with more than 4,300 digits
        return b"1" * 5_000
    if _DEEP in text:
        opens, ends = random.choice([("[", "]"), ('{"a":', "}"), ('[{"":', "}]")])
        depth = random.choice([60, 150, 250, 450, 900, 1_000, 30_000])
        text = text.replace(f'"{_DEEP}"', f"{opens * depth}1{ends * depth}")
    return text.encode("utf-8", "surrogatepass")


# Bytes


def _cut(body: bytes, random: Random) -> bytes:
    return body[: random.randrange(len(body) + 1)]


def _flip(body: bytes, random: Random) -> bytes:
    flipped = bytearray(body)
    for _ in range(random.choice([1, 1, 2, 8])):
        if flipped:
            flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _insert(body: bytes, random: Random) -> bytes:
    at = random.randrange(len(body) + 1)
    piece = random.choice(
        [b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x9f", b"\xef\xbb\xbf", b"\\ud800", b"\\u0000", b"\n", b"\r",
         b"\n\n", b"\r\n\r\n", b"data: ", b"event: error\n", b": ping\n\n", b"data: [DONE]\n\n", b"id: 1\nretry: x\n",
         b"data: {}\n\n", b"data: null\n\n", b"data: 1\n\n", b'data: "x"\n\n', b"data: []\n\n", b"NaN", b"Infinity",
         b'"content": "twice", ', b"[" * 2_000, b"9" * 5_000, b"{", b"}", b'"', b",", b"<html>", CANARY.encode()]
    )  # fmt: skip
    return body[:at] + piece + body[at:]


def _double(body: bytes, random: Random) -> bytes:
    one, end = sorted((random.randrange(len(body) + 1), random.randrange(len(body) + 1)))
    return body[:end] + body[one:]


def _reencode(body: bytes, random: Random) -> bytes:
    return random.choice(_ENCODINGS)(body)


_ENCODINGS: Sequence[Callable[[bytes], bytes]] = (
    lambda body: body.decode("utf-8", "replace").encode("utf-16"),
    lambda body: body.decode("utf-8", "replace").encode("latin-1", "replace"),
    lambda body: b"\xef\xbb\xbf" + body,
    lambda body: body.replace(b"\n", b"\r\n"),
    lambda body: body.replace(b"\n", b"\r"),
    lambda body: body.replace(b"data: ", b"data:"),
    lambda body: gzip.compress(body, 1, mtime=0),
    lambda body: b" " * 10_000 + body,
)

_BYTE_CHANGES: Sequence[Callable[[bytes, Random], bytes]] = (_cut, _flip, _insert, _double, _reencode)

_STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 418, 422, 425, 429, 429, 451, 500, 500, 502, 503, 504, 529, 599)
_ODD_STATUSES = (100, 101, 103, 201, 202, 204, 205, 206, 226, 300, 301, 302, 303, 304, 307, 308, 399, 600, 700, 999)
_KINDS = (
    "application/json", "application/json; charset=utf-8", "application/json; charset=utf-16",
    "application/json; charset=nonsense", "application/json; charset=\x00", "application/problem+json",
    "text/event-stream", "text/event-stream; charset=latin-1", "text/html", "text/plain", "application/octet-stream",
    "image/png", "", ";;;", "application/json" * 200, CANARY,
)  # fmt: skip
_WAITS = (
    "1", "0", "-5", "1e308", "nan", "inf", "soon", "", " 2 ", "١٢", "9" * 400, "0x10", "1,2",
    "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 9999 07:28:00 GMT", "Fri, 99 Foo 0000", "Tue, 1 Jan 1 00:00:00 +9999",
)  # fmt: skip
_BREAKS = ("ReadError", "ReadTimeout", "RemoteProtocolError", "WriteError", "PoolTimeout", "OSError", "ConnectionReset")


def _headers(random: Random, kind: str) -> list[tuple[str, str]]:
    headers = [("content-type", kind if random.random() < 0.8 else random.choice(_KINDS))]
    if random.random() < 0.15:
        headers.append((random.choice(["retry-after", "retry-after-ms"]), random.choice(_WAITS)))
    if random.random() < 0.04:
        headers.append(("content-encoding", random.choice(["gzip", "deflate", "br", "zstd", "identity", "nonsense"])))
    if random.random() < 0.04:
        headers.append(("content-length", random.choice(["0", "5", "-1", "x", "9" * 30, "99999999", "١٢"])))
    if random.random() < 0.05:
        names = [
            "location",
            "x-request-id",
            "x-should-retry",
            "set-cookie",
            "transfer-encoding",
            "openai-processing-ms",
        ]
        values = ["true", "false", "/elsewhere", f"https://x.invalid/?k={CANARY}", "é", "x" * 2_000, CANARY]
        headers.append((random.choice(names), random.choice(values)))
    if random.random() < 0.02:
        headers.append(headers[0])
    return headers


def _body(random: Random, *, stream: bool, structured: bool, failed: bool) -> tuple[bytes, str]:
    """Return a body before byte-level changes, with its content type."""
    if random.random() < 0.02:
        return f"<html><h1>Log in</h1>{CANARY}</html>".encode(), "text/html"
    if failed:
        return _dumped(_changed(_error(random), random), random), "application/json"
    if stream != (random.random() < 0.05):  # occasionally the server ignores the requested mode
        events = _changed(_events(random), random)
        chunks = [
            b"data: " + _dumped(event, random) + b"\n\n" for event in (events if isinstance(events, list) else [events])
        ]
        return b"".join(chunks) + (b"data: [DONE]\n\n" if random.random() < 0.9 else b""), "text/event-stream"
    return _dumped(
        _changed(_complete(random) if random.random() < 0.95 else _error(random), random), random
    ), "application/json"


def draw_mutated_answer(random: Random, *, stream: bool, structured: bool) -> Answer:
    """Draw a mutation of a valid answer to a request for a stream, for structured data or for plain text."""
    failed = random.random() < 0.2
    body, kind = _body(random, stream=stream, structured=structured, failed=failed)
    for _ in range(random.choice([0, 0, 0, 0, 1, 1, 2])):
        body = random.choice(_BYTE_CHANGES)(body, random)
    status = random.choice(_STATUSES) if failed else 200
    if random.random() < 0.03:
        status = random.choice(_ODD_STATUSES)
    breaks = random.choice(_BREAKS) if random.random() < 0.03 else None
    if breaks is not None:
        body = _cut(body, random)
    return Answer(status=status, headers=tuple(_headers(random, kind)), body=body, breaks=breaks)
