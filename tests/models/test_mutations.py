"""Mutated server answers: each leads to a usable answer or a library error.

`make soak` runs the full million cases. These tests run a sample drawn by Hypothesis, and the cases in which the soak
found bugs.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowdebate.errors import MalformedResponse
from flowdebate.models import ModelRequest, ModelResponse, ToolCall, Usage
from tests.profiles import example_count
from tests.soak.endpoint import Case, Fuzzed, check_error, check_response, draw_case
from tests.soak.mutations import CANARY, VERDICT, Answer
from tests.soak.shares import run_answer_cases, run_view_cases
from tests.soak.views import check_views

from .server import chunk, completion, tool_call

if TYPE_CHECKING:
    from random import Random

pytestmark = pytest.mark.anyio


def run_cases(*cases: Case) -> list[str]:
    """Run the cases in order on one client and return their outcomes; raise AssertionError if a promise is broken."""

    async def all_of() -> list[str]:
        async with Fuzzed() as fuzzed:
            return [await fuzzed.outcome(case) for case in cases]

    return asyncio.run(all_of())


@settings(max_examples=example_count(50), suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_a_mutated_answer_is_usable_or_raises_a_library_error(random: Random) -> None:
    run_cases(draw_case(random))


@settings(max_examples=example_count(50), suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_debate_text_cannot_imitate_other_parts_of_a_view(random: Random) -> None:
    """Every view contains all lines of its transcript.

    No other line looks like the start of an argument or a round.
    """
    check_views(random)


@dataclass(frozen=True)
class FixedBug:
    """A case that once broke a promise."""

    id: str
    body: Any
    outcome: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    stream: bool = False
    structured: Any = None

    @property
    def case(self) -> Case:
        """Return the case, with the body encoded as the request expects it."""
        if self.stream:
            body = "".join(f"data: {json.dumps(event)}\n\n" for event in self.body).encode()
        else:
            body = json.dumps(self.body).encode()
        kind = "text/event-stream" if self.stream else "application/json"
        answer = Answer(status=self.status, headers=(("content-type", kind), *self.headers), body=body)
        return Case(answer=answer, stream=self.stream, structured=self.structured, tools=self.structured is None)


def call_completion(arguments: str, *, name: str = "look_up", call_id: str = "a") -> Any:
    """Return a completion with a tool call."""
    return completion(None, finish="tool_calls", tool_calls=[tool_call(name, arguments, call_id)])


FOUND = [
    FixedBug("half a surrogate pair in a tool call's id", call_completion("{}", call_id="\ud800"), "text or calls"),
    FixedBug("a NUL in a tool call's id", call_completion("{}", call_id="\0"), "text or calls"),
    FixedBug("the key in a tool call", call_completion(CANARY, name=CANARY, call_id=CANARY), "text or calls"),
    FixedBug("the key as the model's name", {**completion(), "model": CANARY}, "text or calls"),
    FixedBug("a model's name of megabytes", {**completion(), "model": "m" * 2_000_000}, "text or calls"),
    FixedBug("the key in a stream", [chunk(CANARY), chunk(finish="stop")], "streamed", stream=True),
    FixedBug("a number of thousands of digits", {"choices": 10**4_000}, "MalformedResponse"),
    FixedBug("an error of nothing but escapes", {"error": "\u2028" * 1_000}, "ContextTooLong", status=413),
    FixedBug(
        "fields with names that steer a terminal",
        completion(json.dumps({**VERDICT, "\x1b[2J\ufeff": 1})),
        "structured",
        structured="json_schema",
    ),
    FixedBug(
        "hundreds of fields that nobody asked for",
        completion(json.dumps({**VERDICT, **{f"field {n}": n for n in range(400)}})),
        "structured",
        structured="json_schema",
    ),
    FixedBug(
        "the key as a field's name",
        call_completion(json.dumps({**VERDICT, CANARY: 1}), name="Verdict"),
        "structured",
        structured="tools",
    ),
]


@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.id)
def test_fixed_bugs_stay_fixed(bug: FixedBug) -> None:
    assert run_cases(bug.case) == [bug.outcome]


def test_an_invalid_cookie_does_not_break_later_calls() -> None:
    """The client ignores all cookies."""
    cookie = FixedBug("", completion(), "", headers=(("set-cookie", "a=é\u2028"),))
    assert run_cases(cookie.case, cookie.case) == ["text or calls"] * 2


REQUEST = ModelRequest(messages=[], block="judge")
BROKEN: dict[str, tuple[ModelResponse, str]] = {
    "NUL": (ModelResponse(text="a\0"), "NUL"),
    "half a surrogate pair": (ModelResponse(text="\ud800"), "surrogates not allowed"),
    "the key": (ModelResponse(text=CANARY), "shows the key"),
    "a blank answer": (ModelResponse(text=" "), "blank"),
    "a tool call": (ModelResponse(text="x", tool_calls=(ToolCall(id="\0", name="", arguments=""),)), "NUL"),
    "usage": (ModelResponse(text="x", usage=Usage(calls=1, prompt_tokens=-1)), "odd usage"),
    "a finish": (ModelResponse(text="x", finish="eos"), "odd finish"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_the_answer_check_can_fail(broken: tuple[ModelResponse, str]) -> None:
    """If the check never failed, passing it would prove nothing."""
    response, problem = broken
    with pytest.raises((AssertionError, UnicodeEncodeError), match=problem):
        check_response(response, REQUEST)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (MalformedResponse("x" * 3_000, model="served", block="judge"), "characters"),
        (MalformedResponse(CANARY, model="served", block="judge"), "shows the key"),
        (MalformedResponse("\x1b", model="served", block="judge"), "steer"),
        (MalformedResponse("x", model="served"), "nobody's"),
    ],
)
def test_the_error_check_can_fail(error: MalformedResponse, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        check_error(error)


def test_results_of_case_batches_can_be_added_together() -> None:
    share = run_answer_cases(1, range(5))
    repeated = run_answer_cases(1, range(2, 5))
    assert (share.cases, sum(share.outcomes.values()), share.failed) == (5, 5, None)
    assert repeated.outcomes <= share.outcomes
    share.add(repeated)
    assert share.cases == 8
    texts = run_view_cases(1, range(20))
    assert (texts.cases, texts.failed) == (20, None)
    assert texts.outcomes["texts"] > 20
