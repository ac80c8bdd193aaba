"""Spans: their hierarchy, attributes and links."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot
from opentelemetry import trace
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.trace import SpanKind, StatusCode

from flowdebate import Debater, FailurePolicy, Limits, StoreOptions, debate, generator, human, submit_answer
from flowdebate.errors import ConfigurationError, LimitReached, ProviderFailed, RateLimited
from flowdebate.models import ModelResponse, OpenAIModel
from flowdebate.models.call import Retry
from flowdebate.service.service import Service
from flowdebate.store import MemoryStore
from flowdebate.telemetry import OpenTelemetry, names
from flowdebate.testing import FunctionModel, ScriptedModel, ToolCall
from tests.models.server import ChatServer
from tests.telemetry.watched import PATTERNS_OF_ALL_KINDS, QUESTION, Watched, answer, small_model

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from flowdebate.models.base import ModelRequest

pytestmark = pytest.mark.anyio

TREES = snapshot(
    {
        "debate": """\
invoke_workflow rent
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent rent-judge > chat small
  invoke_agent rent-synthesizer > chat small\
""",
        "deliberation": """\
invoke_workflow deal
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small
  invoke_agent deal-moderator > chat small\
""",
        "handoff": """\
invoke_workflow talk
  invoke_agent ann > chat small
  invoke_agent cy > chat small
  invoke_agent ann > chat small
  invoke_agent bob > chat small\
""",
        "round_robin": """\
invoke_workflow panel
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small
  invoke_agent panel-synthesizer > chat small\
""",
        "consensus": """\
invoke_workflow plan
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small
  invoke_agent ann > chat small
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small
  invoke_agent cy > chat small
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small
  invoke_agent ann > chat small
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small
  invoke_agent cy > chat small
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small\
""",
        "council": """\
invoke_workflow ship
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small
  invoke_agent ann > chat small
  invoke_agent bob > chat small
  invoke_agent cy > chat small
  invoke_agent ship-chair > chat small\
""",
    }
)


@pytest.mark.parametrize("name", ["debate", "deliberation", "handoff", "round_robin", "consensus", "council"])
async def test_each_pattern_has_the_expected_span_tree(name: str) -> None:
    watched = Watched()
    await PATTERNS_OF_ALL_KINDS[name]().run(QUESTION, model=small_model(), seed=1, observe=watched.observe)
    assert watched.tree() == TREES[name]
    assert len({span.get_span_context().trace_id for span in watched.spans}) == 1  # type: ignore[union-attr]


async def test_spans_of_concurrent_branches_have_the_right_parents() -> None:
    """Calls may end in a different order than they started."""
    watched, done = Watched(), asyncio.Event()

    async def last_first(request: ModelRequest) -> Any:
        if request.block.endswith(("ann", "bob")):
            await done.wait()
        if request.block.endswith("cy"):
            done.set()
        return answer(request)

    pattern = PATTERNS_OF_ALL_KINDS["at once"]()
    await pattern.run(QUESTION, model=FunctionModel(last_first), seed=1, observe=watched.observe)
    agents = {span.get_span_context().span_id: span for span in watched.named("invoke_agent")}  # type: ignore[union-attr]
    calls = watched.named("chat")
    assert len(calls) == 8
    for call in calls:
        agent = agents[call.parent.span_id]  # type: ignore[union-attr]
        assert call.attributes[names.PATH] == agent.attributes[names.PATH]  # type: ignore[index]
        assert agent.start_time <= call.start_time <= call.end_time <= agent.end_time  # type: ignore[operator]


async def test_spans_of_a_debate_have_the_expected_attributes() -> None:
    watched = Watched()
    model = FunctionModel(answer, name="openai/small")
    pattern = PATTERNS_OF_ALL_KINDS["debate"]()
    await pattern.run(QUESTION, model=model, seed=1, run_id="r1", observe=watched.observe)
    workflow, turn, call, *_ = watched.spans
    assert [span.kind for span in (workflow, turn, call)] == [SpanKind.INTERNAL, SpanKind.INTERNAL, SpanKind.CLIENT]
    assert [dict(span.attributes or {}) for span in (workflow, turn, call)] == snapshot(
        [
            {
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": "rent",
                "gen_ai.conversation.id": "r1",
                "flowdebate.seed": 1,
                "flowdebate.rounds": 2,
                "flowdebate.stop_reason": "max_rounds",
                "flowdebate.status": "complete",
            },
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "ann",
                "gen_ai.conversation.id": "r1",
                "flowdebate.block": "rent-debater-ann",
                "flowdebate.path": "rent/round[1]/rent-turn-ann/rent-debater-ann",
                "flowdebate.round": 1,
                "gen_ai.request.model": "small",
            },
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "small",
                "gen_ai.conversation.id": "r1",
                "gen_ai.output.type": "text",
                "gen_ai.request.stream": False,
                "flowdebate.block": "rent-debater-ann",
                "flowdebate.path": "rent/round[1]/rent-turn-ann/rent-debater-ann",
                "gen_ai.response.finish_reasons": ("stop",),
                "flowdebate.attempts": 1,
            },
        ]
    )
    (verdict,) = workflow.events
    assert verdict.name == "gen_ai.evaluation.result"
    assert dict(verdict.attributes or {}) == snapshot(
        {
            "gen_ai.evaluation.name": "debate.verdict",
            "gen_ai.evaluation.score.label": "side 1",
            "flowdebate.verdict.flipped": False,
            "flowdebate.block": "rent-judge",
            "gen_ai.evaluation.score.value": 1.0,
        }
    )


async def test_tool_spans_are_below_their_agent_span() -> None:
    """Each tool call has a span below the span of its agent.

    The spans of the tool itself, or of a block used as a tool, are below that span.
    """
    watched = Watched()
    tracer = watched.tracers.get_tracer("application")

    def look_up(word: str) -> str:
        """Look up a fact."""
        with tracer.start_as_current_span("GET dictionary"):
            return f"{word}: a word"

    poet = generator(name="poet", prompt="Write a line.")
    ask = generator(name="ask", tools=[look_up, poet])
    calls = [
        ToolCall(id="a", name="look_up", arguments='{"word": "rent"}'),
        ToolCall(id="b", name="poet", arguments='{"input": "x"}'),
    ]
    await ask.run("?", run_id="r1", model=ScriptedModel(calls, "A line.", "Done."), observe=watched.observe)
    assert watched.tree() == snapshot("""\
invoke_workflow ask
  invoke_agent ask
    chat scripted
    execute_tool look_up > GET dictionary
    execute_tool poet > invoke_agent poet > chat scripted
    chat scripted\
""")
    tool = watched.named("execute_tool look_up")[0]
    assert dict(tool.attributes or {}) == snapshot(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.conversation.id": "r1",
            "gen_ai.tool.name": "look_up",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": "a",
            "flowdebate.path": "ask/look_up[1.1]",
        }
    )


async def test_http_client_span_is_below_the_call_span() -> None:
    watched = Watched()
    AioHttpClientInstrumentor().instrument(tracer_provider=watched.tracers)
    try:
        async with ChatServer() as server:
            model = OpenAIModel("fine", base_url=server.base_url, api_key="k")
            await generator(name="ask").run("?", model=model, observe=watched.observe)
    finally:
        AioHttpClientInstrumentor().uninstrument()
    assert watched.tree() == "invoke_workflow ask > invoke_agent ask > chat fine > POST"
    call = dict(watched.named("chat")[0].attributes or {})
    attributes = (
        names.RESPONSE_MODEL,
        names.INPUT_TOKENS,
        names.OUTPUT_TOKENS,
        names.CACHED_TOKENS,
        names.FINISH_REASONS,
    )
    assert [call[name] for name in attributes] == ["served", 10, 3, 4, ("stop",)]
    port = server.port
    answered = (names.PROVIDER, names.RESPONSE_ID, names.SERVER_ADDRESS, names.SERVER_PORT)
    assert [call[name] for name in answered] == ["custom", "c1", "127.0.0.1", port]


@pytest.mark.parametrize(
    ("address", "provider"),
    [
        ("https://me:hunter2@api.mistral.ai/v1", "mistral_ai"),
        ("https://api.openai.com/v1", "openai"),
        ("http://localhost:11434/v1", "custom"),  # any server may be at this address
        ("no address", "custom"),
    ],
)
async def test_provider_behind_a_base_url_has_its_own_name(address: str, provider: str) -> None:
    """For every model, spans and metrics name the provider but reveal no other part of the base URL."""
    watched = Watched()

    class Elsewhere(FunctionModel):
        async def request(self, request: ModelRequest, /) -> ModelResponse:
            request.attempts.server = address
            return await super().request(request)

    await generator(name="poet").run("?", model=Elsewhere(lambda _: "A line."), observe=watched.observe)
    (call,) = watched.named("chat")
    assert (call.attributes or {})[names.PROVIDER] == provider
    assert "hunter2" not in str(call.attributes)


async def test_retry_is_an_event_of_the_call() -> None:
    class Busy(FunctionModel):
        retry = Retry(attempts=3, first_wait=0.0)

    replies: list[Any] = [RateLimited("busy"), RateLimited("busy"), "A line."]

    def busy(_: ModelRequest) -> Any:
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    watched = Watched()
    await generator(name="poet").run("?", model=Busy(busy), observe=watched.observe)
    (call,) = watched.named("chat")
    assert [(event.name, dict(event.attributes or {})) for event in call.events] == snapshot(
        [
            ("flowdebate.retried", {"flowdebate.attempt": 2, "error.type": "RateLimited", "flowdebate.wait": 0.0}),
            ("flowdebate.retried", {"flowdebate.attempt": 3, "error.type": "RateLimited", "flowdebate.wait": 0.0}),
        ]
    )
    assert (call.attributes or {})[names.ATTEMPTS] == 3
    assert call.status.status_code is StatusCode.UNSET


async def test_spans_mark_skipped_and_fatal_failures() -> None:
    """Each span that a failure passes through names the class of the error.

    It leaves out the message, which may quote models.
    """

    def failing(request: ModelRequest) -> Any:
        if request.block.endswith("bob"):
            raise ProviderFailed("CANARY", status=503)
        return answer(request)

    def ends(watched: Watched) -> dict[str, Any]:
        return {span.name: (span.attributes or {}).get(names.ERROR) for span in watched.spans}

    skipped, failed = Watched(), Watched()
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    policy = FailurePolicy(on_failure="skip", quorum=1)
    goes_on = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False, failures=policy)
    await goes_on.run(QUESTION, model=FunctionModel(failing), observe=skipped.observe)
    assert ends(skipped) == {
        "invoke_workflow rent": None,
        "invoke_agent ann": None,
        "chat function": None,
        "invoke_agent bob": "ProviderFailed",
        "invoke_agent rent-judge": None,
    }
    calls = [(span.attributes or {}).get(names.ERROR) for span in skipped.named("chat")]
    assert calls == [None, "ProviderFailed", None]
    assert [event.name for event in skipped.spans[0].events] == [names.ROLE_FAILED, names.EVALUATION_RESULT]
    stops = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False)
    with pytest.raises(ProviderFailed):
        await stops.run(QUESTION, model=FunctionModel(failing), observe=failed.observe)
    assert ends(failed)["invoke_workflow rent"] == "ProviderFailed"
    assert failed.spans[0].status.status_code is StatusCode.ERROR
    assert (failed.spans[0].attributes or {})[names.STATUS] == "failed"
    assert "CANARY" not in skipped.text() + failed.text()


async def test_spans_mark_cancelled_and_limited_runs() -> None:
    watched, called = Watched(), asyncio.Event()

    async def never(_: ModelRequest) -> Any:
        called.set()
        await asyncio.Event().wait()

    handle = PATTERNS_OF_ALL_KINDS["debate"]().start(QUESTION, model=FunctionModel(never), observe=watched.observe)
    await called.wait()
    handle.cancel()
    await handle.wait()
    assert [(span.name, (span.attributes or {}).get(names.ERROR)) for span in watched.spans] == [
        ("invoke_workflow rent", "cancelled"),
        ("invoke_agent ann", "cancelled"),
        ("chat function", "cancelled"),
    ]
    assert (watched.spans[0].attributes or {})[names.STATUS] == "interrupted"
    limited = Watched()
    pattern = PATTERNS_OF_ALL_KINDS["debate"]()
    result = await pattern.run(QUESTION, model=small_model(), limits=Limits(calls=2), observe=limited.observe)
    assert result.status == "limit"
    attributes = limited.spans[0].attributes or {}
    assert (attributes[names.STATUS], attributes[names.ERROR]) == ("limit", LimitReached.__name__)


async def test_suspended_run_ends_its_span_and_the_next_one_links_to_it() -> None:
    """No span stays open while the run is suspended.

    Replayed answers are counted but have neither spans nor metrics.
    """
    watched, store = Watched(), MemoryStore()
    sides = [Debater("ann", "for"), Debater("cy", "against", block=human(name="cy"))]
    pattern = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False)
    await pattern.run(QUESTION, model=small_model(), store=store, run_id="r", observe=watched.observe)
    (first,) = watched.named("invoke_workflow")
    assert (first.attributes or {})[names.STATUS] == "awaiting"
    assert first.status.status_code is StatusCode.UNSET
    await submit_answer(store, "r", "Build more.")
    await pattern.resume("r", model=small_model(), store=store, observe=watched.observe)
    first, second = watched.named("invoke_workflow")
    (link,) = second.links
    first_context: Any = first.get_span_context()
    assert (link.context.trace_id, link.context.span_id) == (first_context.trace_id, first_context.span_id)
    assert (second.attributes or {})[names.REPLAYED_CALLS] == 1
    assert watched.tree() == snapshot("""\
invoke_workflow rent > invoke_agent ann > chat small
invoke_workflow rent > invoke_agent rent-judge > chat small\
""")
    (stored,) = await store.runs()
    assert list(stored.header.labels) == ["traceparent"]


async def test_fork_links_to_the_trace_of_its_parent() -> None:
    """The fork has the link each time it is resumed, as long as the parent is still in the store."""
    watched, store = Watched(), MemoryStore()
    pattern = PATTERNS_OF_ALL_KINDS["debate"]()
    options: dict[str, Any] = {"model": small_model(), "store": store, "observe": watched.observe}
    labeled = StoreOptions(store=store, labels={"series": "rents"})
    await pattern.run(QUESTION, run_id="r", **{**options, "store": labeled})
    fork = await pattern.fork("r", fork_id="f", **options)
    assert fork.parent_labels["series"] == "rents"
    await pattern.resume("f", **options)
    await store.delete("r")
    orphan = await pattern.resume("f", **options)
    assert orphan.parent_labels == {}
    parent, first, second, third = watched.named("invoke_workflow")
    assert list_links(first) == {names.FORKED: span_ids(parent)}
    assert list_links(second) == {names.FORKED: span_ids(parent), names.RESUMED: span_ids(first)}
    assert list_links(third) == {names.RESUMED: span_ids(first)}


def list_links(span: ReadableSpan) -> dict[Any, tuple[int, int]]:
    """Return the spans to which a span links, by kind of link."""
    return {(link.attributes or {})[names.LINK]: (link.context.trace_id, link.context.span_id) for link in span.links}


def span_ids(span: ReadableSpan) -> tuple[int, int]:
    """Return the ids of a span."""
    context: Any = span.get_span_context()
    return context.trace_id, context.span_id


async def test_invalid_trace_label_is_ignored() -> None:
    """The labels of an imported run cannot be trusted."""
    watched, store = Watched(), MemoryStore()
    pattern = PATTERNS_OF_ALL_KINDS["debate"]()
    await pattern.run(QUESTION, model=small_model(), store=store, run_id="r")
    header = (await store.run("r")).header
    for label in ("", "00-1-2-3", "x" * 10_000, "00-" + "0" * 32 + "-" + "0" * 16 + "-01"):
        header.labels["traceparent"] = label  # type: ignore[index]  # as somebody else may have stored it
        await pattern.resume("r", model=small_model(), store=store, observe=watched.observe)
    assert [span.links for span in watched.named("invoke_workflow")] == [()] * 4


async def test_batches_and_services_are_observed() -> None:
    watched = Watched()
    pattern = PATTERNS_OF_ALL_KINDS["debate"]()
    await pattern.batch(["A?", "B?"], model=small_model(), observe=watched.observe).all()
    async with Service({"rent": pattern}, store=MemoryStore(), model=small_model(), observe=watched.observe) as service:
        run = await service.begin("rent", QUESTION)
        await service.wait(run.run_id)
        await service.run(run.run_id)  # reading the run again does not start one
    workflows = watched.named("invoke_workflow")
    assert len(workflows) == 3
    assert [span.parent for span in workflows] == [None] * 3


async def test_run_is_a_child_of_the_current_span() -> None:
    """The current span may be, for example, the span of a request to a server."""
    watched = Watched()
    with watched.tracers.get_tracer("application").start_as_current_span("GET /debate"):
        await generator(name="poet").run("?", model=small_model(), observe=watched.observe)
    assert watched.tree() == "GET /debate > invoke_workflow poet > invoke_agent poet > chat small"
    assert not trace.get_current_span().get_span_context().is_valid


async def test_frozen_exception_passes_through_all_spans_unchanged() -> None:
    """If an application's exception does not allow new attributes, spans must be able to end without setting any."""

    @dataclass(frozen=True)
    class Record(Exception):
        code: int

    raised = Record(5)

    def transform(*_: object) -> str:
        raise raised

    def look_up() -> str:
        raise raised

    for options in ({"transform": transform}, {"tools": [look_up]}):
        watched, call = Watched(), ToolCall(id="a", name="look_up", arguments="{}")
        model = ScriptedModel("A line.") if "transform" in options else ScriptedModel(call)
        invalid: Any = options
        with pytest.raises(Record) as caught:
            await generator(name="poet", **invalid).run("?", model=model, observe=watched.observe)
        assert caught.value is raised
        assert (watched.spans[0].attributes or {})[names.ERROR] == "Record"


async def test_invalid_options_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="must be none or spans"):
        OpenTelemetry(content="all")  # type: ignore[arg-type]
    wrong: Any = print
    with pytest.raises(ConfigurationError, match="an Observer"):
        await generator(name="poet").run("?", model=small_model(), observe=wrong)
