"""LangGraph: `RunnableModel` wraps a chat model or graph as a model, and `debate_node` wraps a pattern as a node."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

from flowdebate._util.validation import check_library
from flowdebate.adapters.tool import as_tool
from flowdebate.adapters.translation import (
    RETRY,
    AdaptedModel,
    chat_of,
    framework_failures,
    refuse_tools,
    sampling_of,
    schema_prompt,
    system_of,
    usage_of,
)
from flowdebate.blocks.base import Block
from flowdebate.blocks.functions import result_text
from flowdebate.blocks.human.answers import submit_answer
from flowdebate.errors import ConfigurationError, RunNotFound
from flowdebate.events import wire_of
from flowdebate.models.base import ModelRequest, ModelResponse, Usage
from flowdebate.models.call import Retry
from flowdebate.models.endings import read_finish
from flowdebate.runs.execute import RunOptions
from flowdebate.runs.header import StoreOptions
from flowdebate.runs.result import RunHandle, RunResult
from flowdebate.store.base import Store
from flowdebate.store.open import open_store

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.outputs import LLMResult
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.tools import StructuredTool

# Origin recorded for answers that come from a graph.
_BY = "langgraph"


class RunnableModel(AdaptedModel):
    """A LangChain or LangGraph chat model, chain or graph usable as a model in any role.

    - `runnable`: a chat model; a graph with `messages` in its state (such as an agent), whose last message is the
      answer; or any other runnable that turns a list of messages into a message or a string.
    - `config`: a `RunnableConfig` for each call; graphs get a new `thread_id` for each call.
    - `name`: the name in errors, events and usage; None to use the runnable's name.
    - `retry`: the retry policy; None to disable retries. Each retry also repeats the side effects of an agent's tools.

    A request's temperature and maximum length are passed to chat models; graphs and chains have their own settings. A
    schema is passed to a chat model's structured output, if supported; otherwise it is shown in the prompt. A graph's
    run counts as one call, no matter how often the graph calls models, but all their tokens are counted.
    """

    def __init__(
        self,
        runnable: Runnable[Any, Any],
        *,
        config: Mapping[str, Any] | None = None,
        name: str | None = None,
        retry: Retry | None = RETRY,
    ) -> None:
        location = "langgraph.RunnableModel"
        check_library(location, "langchain_core", library="LangGraph", extra="langgraph")
        from langchain_core.language_models import BaseChatModel
        from langchain_core.runnables import Runnable

        if not isinstance(runnable, Runnable):
            raise ConfigurationError(
                location, "runnable", runnable, "must be a chat model, a compiled graph or another Runnable"
            )
        super().__init__(location, name or f"langgraph/{runnable.get_name()}", retry)
        self._runnable = runnable
        self._chat = runnable if isinstance(runnable, BaseChatModel) else None
        # isinstance would require langgraph, which may not be installed: a chat model needs only langchain_core
        self._graph = hasattr(runnable, "stream_channels") and hasattr(runnable, "channels")
        self._config = config

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Run the runnable once."""
        refuse_tools(self.name, request)
        with framework_failures():
            used, config = self._observed()
            if request.output is not None and self._chat is not None:
                answered = await self._structured(self._chat, request, config)
                if answered is not None:
                    return ModelResponse(**answered, usage=used())
            messages = _messages(request)
            if request.output is not None:
                messages.insert(0, {"role": "system", "content": schema_prompt(request.output)})
            value: object = {"messages": messages} if self._graph else messages
            runnable = self._chat.bind(**sampling_of(request)) if self._chat is not None else self._runnable
            if request.on_text is None or request.output is not None:
                answer = await runnable.ainvoke(value, config)
            elif self._graph:
                answer = await _graph_streamed(runnable, value, config, request.on_text)
            else:
                answer = None
                async for chunk in runnable.astream(value, config):
                    answer = chunk if answer is None else answer + chunk
                    request.on_text(_text(chunk))
            message = answer["messages"][-1] if self._graph else answer
            finish = read_finish(_reason_of(message), calls=False)
            return ModelResponse(text=_text(message), finish=finish.reason, flags=finish.flags, usage=used())

    @staticmethod
    async def _structured(chat: BaseChatModel, request: ModelRequest, config: RunnableConfig) -> dict[str, Any] | None:
        """Return the data or the text of a structured answer, or None if the model does not support such answers."""
        assert request.output is not None  # noqa: S101 - the caller has looked
        # LangChain turns the schema into a function with this name and description
        schema = {"title": request.output.name, "description": "The answer.", **request.output.json_schema}
        try:
            structured_chat = chat.with_structured_output(schema, include_raw=True, **sampling_of(request))
        except NotImplementedError:
            return None
        answer = await structured_chat.ainvoke(_messages(request), config)
        return {"text": _text(answer["raw"])} if answer["parsed"] is None else {"data": answer["parsed"]}

    def _observed(self) -> tuple[Callable[[], Usage], RunnableConfig]:
        """Return the configuration for a call, and a function that returns the call's usage."""
        from langchain_core.callbacks import AsyncCallbackHandler
        from langchain_core.runnables.config import merge_configs

        reports: list[Any] = []

        class Counter(AsyncCallbackHandler):
            """Callback handler that collects the usage reported by each model called."""

            async def on_llm_end(self, response: LLMResult, **_: object) -> None:
                reports.extend(
                    getattr(generation[0].message, "usage_metadata", None) for generation in response.generations
                )

        def used() -> Usage:
            if not reports or not all(reports):
                return usage_of(None, None)
            details = [report.get("input_token_details") or {} for report in reports]
            return usage_of(
                sum(report["input_tokens"] for report in reports),
                sum(report["output_tokens"] for report in reports),
                sum(detail.get("cache_read") or 0 for detail in details),
            )

        config = merge_configs(self._config, {"callbacks": [Counter()]})
        # a new thread, because a checkpointer would prepend messages from earlier calls on the same thread
        config["configurable"] = {**config.get("configurable", {}), "thread_id": uuid4().hex}
        return used, config


def _reason_of(message: object) -> object:
    """Return a message's finish reason, whose key depends on the LangChain integration."""
    metadata = getattr(message, "response_metadata", None) or {}
    return next((metadata[name] for name in ("finish_reason", "stop_reason", "done_reason") if name in metadata), None)


def debate_tool(
    pattern: Block[Any, Any], *, name: str | None = None, description: str | None = None, **options: Unpack[RunOptions]
) -> StructuredTool:
    """Convert a pattern to a LangChain tool, using `as_tool`; `options` are passed to `Block.run()`."""
    check_library("langgraph.debate_tool", "langchain_core", library="LangGraph", extra="langgraph")
    from langchain_core.tools import StructuredTool

    tool_ = as_tool(pattern, name=name, description=description, **options)
    return StructuredTool.from_function(coroutine=tool_, parse_docstring=True)


def debate_node(
    pattern: Block[Any, Any], *, question: str = "question", into: str = "result", **options: Unpack[RunOptions]
) -> Callable[[Any], Awaitable[dict[str, Any]]]:
    """Create a node that runs `pattern` on the state's `question` and stores the output in the state under `into`.

    The output is JSON data: a string or an object. Each of the run's events is passed to the stream writer as JSON data
    (`stream_mode="custom"`). `options` are passed to `Block.run()`. With a `store`, the run is durable: its id combines
    the thread's id and the node's, and it is resumed along with the graph. If the run is waiting for a human, the node
    interrupts the graph with the request and uses the value of `Command(resume=…)` as the answer.
    """
    location = "langgraph.debate_node"
    check_library(location, "langgraph", library="LangGraph", extra="langgraph")
    if options.get("run_id") is not None:
        raise ConfigurationError(location, "run_id", None, "cannot be set, because each call is a separate run")
    own_store = options.get("store")
    store = open_store(own_store.store if isinstance(own_store, StoreOptions) else own_store, location=location)

    async def debate(state: Any) -> dict[str, Any]:  # noqa: ANN401 - the graph's own
        question_text = state[question] if isinstance(state, dict) else getattr(state, question)
        if store is None:
            result = await _follow(pattern.start(question_text, **options))
        else:
            result = await _durable(pattern, question_text, options.copy(), store)
        output = result.output  # must be JSON data, because it is stored in the graph's checkpoints
        return {into: output if isinstance(output, str) else json.loads(result_text(output))}

    debate.__name__ = pattern.name
    return debate


async def _durable(pattern: Block[Any, Any], question: object, options: RunOptions, store: Store) -> RunResult[Any]:
    from langgraph.config import get_config
    from langgraph.types import interrupt

    place = get_config()["configurable"]
    run_id = f"{place.get('thread_id', '')}-{place['checkpoint_ns']}"
    again: dict[str, Any] = {name: value for name, value in options.items() if name not in {"seed", "run_id"}}
    again["store"] = store
    try:
        handle = await pattern.start_resume(run_id, **again)
        for row in await store.steps(run_id):
            if row.kind == "human" and row.body is not None and json.loads(row.body).get("by") == _BY:
                # after each interrupt, LangGraph reruns the node from the beginning and replays earlier answers in
                # order
                interrupt(None)
    except RunNotFound:
        options["run_id"] = run_id
        handle = pattern.start(question, **options)
    result = await _follow(handle)
    while result.pending:
        request = result.pending[0]
        answer = interrupt({"runId": run_id, "place": request.place, **json.loads(request.text)})
        await submit_answer(store, run_id, answer, place=request.place, by=_BY)
        result = await _follow(await pattern.start_resume(run_id, **again))
    return result


async def _follow(handle: RunHandle[Any]) -> RunResult[Any]:
    from langgraph.config import get_stream_writer

    write = get_stream_writer()
    try:
        async for event in handle:
            write(wire_of(event))
        return await handle
    except BaseException:
        handle.cancel()
        raise


def _messages(request: ModelRequest) -> list[dict[str, str]]:
    system = system_of(request)
    first = [{"role": "system", "content": system}] if system else []
    return first + [{"role": role, "content": text} for role, text in chat_of(request)]


def _text(answer: object) -> str:
    if isinstance(answer, str):
        return answer
    text = getattr(answer, "text", "")
    return str(text() if callable(text) and not isinstance(text, str) else text)


async def _graph_streamed(
    graph: Runnable[Any, Any], value: object, config: RunnableConfig, on_text: Callable[[str], None]
) -> Mapping[str, Any]:
    from langchain_core.messages import AIMessage

    state: Mapping[str, Any] = {}
    async for mode, part in graph.astream(value, config, stream_mode=["messages", "values"]):
        if mode == "values":
            state = part
        elif isinstance(part[0], AIMessage):
            on_text(_text(part[0]))
    return state
