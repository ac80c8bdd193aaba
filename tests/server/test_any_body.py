"""Property tests: no request makes the server fail, whatever its body, path, query or headers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, Stage, answer_debate, staged

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDES = [{"name": "Ann", "stance": "Ship"}, {"name": "Ben", "stance": "Wait"}]
WAITING = {**BRIEF, "options": {"max_rounds": 1, "debaters": SIDES, "humans": ["judge"]}, "runId": "waiting"}

texts = st.text(max_size=30) | st.sampled_from(
    ["\ud83d", "\x00", "NaN", "a" * 20_001, "../..", "debate", "waiting", "ended"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
OPTIONS = """
    rounds debaters agents turns model base_url schema sources record replay stop price schedule humans
    panel members max_calls attempts fallback synthesizer moderator length profile seed question
""".split()  # noqa: SIM905 - shorter
KNOWN: dict[str, st.SearchStrategy[Any]] = {
    "pattern": st.sampled_from(["debate", "council", "handoff", "consensus", "round_robin", "deliberation"]),
    "question": st.text(min_size=1, max_size=40),
    "runId": st.sampled_from(["a", "b", "ended", "waiting"]),
    "seed": st.integers(0, 9),
    "labels": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    "limits": st.fixed_dictionaries({}, optional={"calls": st.integers(0, 3), "seconds": st.floats(0, 9)}),
    "options": st.dictionaries(
        st.sampled_from(OPTIONS),
        values | st.sampled_from([1, "openai/gpt-5", "local", ["judge"], SIDES, {"type": "object"}, "rounds(1)"]),
        max_size=4,
    ),
    "answer": values | st.fixed_dictionaries({"winner": values, "verdict": values, "reasoning": values}),
    "place": texts,
    "resume": st.booleans(),
    "at": texts,
    "edits": st.dictionaries(texts, values, max_size=3),
    "onUncertain": st.sampled_from(["retry", "raise"]),
    "allowChanges": st.booleans(),
    "seconds": st.floats(-1, 10**7),
}
bodies = values | st.fixed_dictionaries({}, optional={name: valid | values for name, valid in KNOWN.items()})
POSTS = [
    "",
    "/waiting/answers",
    "/ended/answers",
    "/waiting/fork",
    "/ended/fork",
    "/waiting/links",
    "/ended/resume",
    "/waiting/cancel",
]


@pytest.fixture(scope="module")
def shared_stage() -> Iterator[Stage]:
    """Serve a finished run and a run that waits for a human."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate), max_concurrency=1000)) as stage:
        stage.finished(runId="ended")
        stage.post("/runs", WAITING)
        stage.get("/runs/waiting?wait=30")
        yield stage


def check_status(answer: Any) -> None:
    """Check that the response is not a server error. Its format was checked on arrival."""
    assert answer.status_code < 500, answer.text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(POSTS), body=bodies)
@example(path="", body={**BRIEF, "options": {"output_schema": {"$ref": "#"}}})
@example(
    path="",
    body={
        **BRIEF,
        "options": {"output_schema": {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}},
    },
)
@example(path="", body={**BRIEF, "question": "\u0000"})
@example(path="", body={**BRIEF, "question": " "})
@example(path="", body={"pattern": "\x00", "question": "x"})
@example(path="", body={**BRIEF, "labels": {"\x00": "\x00"}})
@example(path="/waiting/answers", body={"answer": {"winner": "Ann", "verdict": "\ud83d", "reasoning": "x"}})
@example(path="/waiting/answers", body={"answer": "x" * 900_000})
@example(path="/ended/fork", body={"edits": {"debate/round[1]/debate-turn-pro/debate-debater-pro": {"a": 1}}})
def test_request_bodies_never_make_the_server_fail(shared_stage: Stage, path: str, body: Any) -> None:
    content = json.dumps(body)
    check_status(
        shared_stage.http.post(f"/api/v1/runs{path}", content=content, headers={"content-type": "application/json"})
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200))
@example(content=b'{"a":' * 2_000)
@example(content=b"\xef\xbb\xbf{}")
@example(content=b'{"pattern":"debate","pattern":"council"}')
def test_raw_bytes_never_make_the_server_fail(shared_stage: Stage, content: bytes) -> None:
    check_status(shared_stage.http.post("/api/v1/runs", content=content, headers={"content-type": "application/json"}))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["/runs", "/runs/ended/events", "/events", "/runs/ended", "/runs/waiting/tasks"]),
    query=st.dictionaries(
        st.sampled_from(
            ["status", "pattern", "text", "label", "limit", "before", "after", "runs", "wait", "token", "x"]
        ),
        st.text(alphabet=st.characters(codec="utf-8"), max_size=20)
        | st.sampled_from(
            [
                "0",
                "1",
                "nan",
                "inf",
                "-1",
                "1e999-x",
                "nan-x",
                "inf-x",
                "ended,waiting",
                "a=b",
                "running",
                "left_behind",
            ]
        ),
        max_size=3,
    ),
)
@example(path="/runs", query={"before": "nan-x"})
@example(path="/runs", query={"before": "inf-x"})
@example(path="/runs", query={"before": "-inf-\x00"})
@example(path="/runs/ended", query={"wait": "nan"})
@example(path="/events", query={"runs": "ended,waiting", "after": "1-a,%00"})
def test_queries_never_make_the_server_fail(shared_stage: Stage, path: str, query: dict[str, str]) -> None:
    check_status(shared_stage.get(path, params=query))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.lists(
        st.sampled_from(
            ["api", "v1", "runs", "ended", "..", "%00", "%2F", "%ff", "events", "links", "", "style.css", "%"]
        ),
        max_size=6,
    ),
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH", "QUERY"]),
)
def test_paths_never_make_the_server_fail(shared_stage: Stage, path: list[str], method: str) -> None:
    if method != "DELETE" or path[:4] != ["api", "v1", "runs", "ended"]:
        check_status(shared_stage.http.request(method, f"{shared_stage.url}/{'/'.join(path)}"))
