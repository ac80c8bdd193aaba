"""Every event has a path and a time, and concurrent calls have different paths."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import (
    Debater,
    FailurePolicy,
    FlowDebateWarning,
    JudgeOptions,
    Persona,
    StandIn,
    consensus,
    council,
    critique,
    debate,
    deliberation,
    escalate,
    generator,
    handler,
    handoff,
    human,
    review,
    round_robin,
    sequencer,
)
from flowdebate.errors import FlowDebateError
from flowdebate.events import CallFellBack, CallStarted, Event, ModelCalled, TextDelta
from flowdebate.models import CircuitBreaker, Fallback, ModelResponse, Retry, Retrying, ToolCall
from flowdebate.patterns.review import FindingsRequest
from flowdebate.testing import SimJudge
from flowdebate.testing.cases import Sabotage
from flowdebate.testing.examples import Example, ExampleModel
from flowdebate.testing.strategies import debates, examples
from tests.cases import slow_but_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flowdebate._util.wire import BaseEvent
    from flowdebate.blocks.base import Block
    from flowdebate.models import Model, ModelRequest

SKIP = FailurePolicy(on_failure="skip", quorum=1)
SIDES = [Debater("ann", "for"), Debater("bob", "against"), Debater("cy", "abstain")]
PEOPLE = [Persona("ann"), Persona("bob"), Persona("cy")]


class Slow:
    """A wrapper around `inner` that uses tools, streams text, and yields to the event loop so that calls overlap.

    The text in `begins` is streamed first.
    """

    def __init__(self, inner: Model, *begins: str) -> None:
        self.name = inner.name
        self._inner = inner
        self._begins = begins or ("Well, ",)

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        for _ in range(3):
            await asyncio.sleep(0)
        if request.tools and not any(message["role"] == "tool" for message in request.messages):
            return ModelResponse(tool_calls=[ToolCall(id="1", name="look_up", arguments='{"topic": "rents"}')])
        if request.on_text is not None:
            for piece in self._begins:
                request.on_text(piece)
        return await self._inner.request(request)


def look_up(topic: str) -> str:
    """Look up a topic."""
    return f"nothing on {topic}"


def _with_human() -> Any:
    person = Persona("dee", block=human(name="dee", ask=lambda _: "I agree."))
    return deliberation(name="x", debaters=[*PEOPLE, person], max_rounds=2, failures=SKIP)


def _parallel_blocks() -> Any:
    """Build a pipeline that runs one block in several parallel branches."""
    voice = generator(name="voice", prompt="Speak.", tools=[look_up])
    return sequencer(name="x").then(handler(lambda _: list("abcdef"), name="split")).for_each(voice, max_concurrency=4)


PATTERNS: Mapping[str, Callable[[], Any]] = {
    "debate": lambda: debate(name="x", debaters=SIDES, moderator=True, failures=SKIP),
    "debate, all at once": lambda: debate(name="x", debaters=SIDES, turn_order="simultaneous", failures=SKIP),
    "debate, mirrored": lambda: debate(name="x", debaters=SIDES[:2], mirror=True, judge="swap", failures=SKIP),
    "debate, judged by a panel": lambda: debate(
        name="x",
        debaters=SIDES,
        max_rounds=1,
        judge=JudgeOptions(schedule="full", panel=[Slow(SimJudge(name="one")), Slow(SimJudge(name="two"))], quorum=1),
        baselines=True,
        failures=SKIP,
    ),
    "debate with tools": lambda: debate(
        name="x", debaters=SIDES[:2], tools=[look_up], turn_order="simultaneous", failures=SKIP
    ),
    "debate with a stand-in": lambda: debate(
        name="x", debaters=SIDES, failures=FailurePolicy(on_failure=StandIn(ExampleModel(Example())))
    ),
    "deliberation": lambda: deliberation(name="x", debaters=PEOPLE, max_rounds=2, failures=SKIP),
    "deliberation with a human": _with_human,
    "handoff": lambda: handoff(name="x", debaters=PEOPLE, max_turns=4, failures=SKIP),
    "consensus": lambda: consensus(name="x", agents=PEOPLE, max_rounds=2),
    "consensus by polls": lambda: consensus(name="x", agents=PEOPLE, max_rounds=3, confidence=0.9, convergence=None),
    "council": lambda: council(name="x", members=PEOPLE, failures=SKIP),
    "review": lambda: review(name="x", reviewers=[*PEOPLE, Persona("dee", block=_find_nothing)], failures=SKIP),
    "critique": lambda: critique(name="x", critics=[*PEOPLE, Persona("dee", block=_find_a_fault)], failures=SKIP),
    "critique of a given answer": lambda: critique(name="x", answer="Yes.", critics=PEOPLE[:1]),
    "round robin": lambda: round_robin(
        name="x", debaters=PEOPLE, max_rounds=2, turn_order="simultaneous", referee=True, failures=SKIP
    ),
    "escalation": lambda: escalate(
        name="x",
        steps=[
            generator(name="first", prompt="Answer."),
            generator(name="second", prompt="Answer."),
            debate(name="duel", debaters=SIDES, failures=SKIP),
            council(name="panel", members=PEOPLE, failures=SKIP),
        ],
    ),
    "one block in many branches": _parallel_blocks,
}


def _find_nothing(request: Any) -> Any:
    return {"verdicts": []} if isinstance(request, FindingsRequest) else []


def _find_a_fault(_: Any) -> Any:
    return [{"claim": "It gives no figures.", "kind": "missing"}]


async def _run_and_collect(pattern: Block[Any, Any], question: str, model: Model, seed: int) -> list[Any]:
    handle = pattern.start(question, model=model, seed=seed)
    run_events = [event async for event in handle]
    with suppress(FlowDebateError, Sabotage):
        await handle
    return run_events


def events_of_run(pattern: Block[Any, Any], question: str, model: Model, seed: int = 0) -> list[Any]:
    """Return a run's events, including live ones, however the run ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowDebateWarning)
        return asyncio.run(_run_and_collect(pattern, question, model, seed))


def find_misplaced(events: Iterable[BaseEvent]) -> list[str]:
    """Return the events without a path or time, and those that do not belong to exactly one call in progress."""
    problems, calls = [], set()
    for event in events:
        if not (event.path and event.at > 0):
            problems.append(f"nowhere or never: {event!r}")
        match event:
            case CallStarted(path=path):
                if path in calls:
                    problems.append(f"two calls at {path}")
                calls.add(path)
            case ModelCalled(path=path):
                if path not in calls:
                    problems.append(f"a call that ends at {path} without having started")
                calls.discard(path)
            case TextDelta(path=path) | CallFellBack(path=path) if path not in calls:
                problems.append(f"{event.kind} of no call at {path}")
            case _:
                pass
    return problems + [f"a call without an end at {path}" for path in calls]


@pytest.mark.parametrize("name", slow_but_first(PATTERNS))
@given(example=examples())
def test_event_paths_distinguish_concurrent_calls(name: str, example: Example) -> None:
    assert (
        find_misplaced(events_of_run(PATTERNS[name](), example.question, Slow(ExampleModel(example)), example.seed))
        == []
    )


@given(case=st.booleans().flatmap(lambda hostile: debates(hostile=hostile)))
def test_debate_event_paths_are_distinct(case: Any) -> None:
    """Any role may be filled by a custom block, even by one that deliberately misbehaves."""
    assert find_misplaced(events_of_run(case.debate(), case.question, Slow(case.model()), case.seed)) == []


def unreliable_model() -> Model:
    """Create a model that retries calls, opens a circuit breaker and has a fallback."""
    example = Example(faults={1: "unavailable", 2: "lost", 5: "empty", 6: "unavailable"})
    first = CircuitBreaker(
        Retrying(ExampleModel(example), Retry(attempts=2, first_wait=0.0)), failures=1, cooldown=1e-9
    )
    return Slow(Fallback(first, ExampleModel(Example())))


@pytest.mark.parametrize("name", PATTERNS)
def test_retry_and_fallback_event_paths_are_distinct(name: str) -> None:
    assert find_misplaced(events_of_run(PATTERNS[name](), "Why?", unreliable_model())) == []


def test_runs_in_this_module_emit_every_kind_of_event() -> None:
    kinds = {
        type(event)
        for make in PATTERNS.values()
        for model in (
            unreliable_model(),
            Slow(ExampleModel(Example(faults={2: "refused"}))),
            Slow(ExampleModel(Example()), "Well\n", "</think>\n"),
        )
        for event in events_of_run(make(), "Why?", model)
    }
    assert set(get_args(Event)) - kinds == set()


def test_ambiguous_events_are_detected() -> None:
    started = CallStarted(block="a", model="m", path="a", at=1.0)
    piece = TextDelta(block="a", text="Well", path="a#1", at=0.0)
    assert find_misplaced([started, started, piece]) == [
        "two calls at a",
        f"nowhere or never: {piece!r}",
        "text_delta of no call at a#1",
        "a call without an end at a",
    ]
