"""Generator block: a language model call with prompts, tools and structured output."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeAlias, TypedDict, TypeVar, Unpack, overload

from flowdebate._text import CutOff, Trimmed
from flowdebate._util.validation import check_count
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.functions import (
    Capability,
    Invocation,
    Tool,
    ToolLike,
    as_tools,
    check_resources,
    check_uses,
    invocation,
    result_of,
    tool,
)
from flowdebate.errors import ConfigurationError, SchemaViolation, ToolLoopExceeded
from flowdebate.models.base import (
    Message,
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolCall,
    UnwrittenMessages,
)
from flowdebate.models.output import OutputSchema
from flowdebate.models.resolve import ModelChoice
from flowdebate.resources.resource import Resource
from flowdebate.runs.context import Context, escape_path_segment
from flowdebate.runs.events import BlockAnswered, TextDelta, ToolCalled
from flowdebate.runs.execute import Seat
from flowdebate.runs.journal import TOOL

OutT = TypeVar("OutT")

TextSlot: TypeAlias = str | Callable[..., Any]
"""Text, or a function of `(input, ctx)` or `(input)` that returns it."""
MessagesSlot: TypeAlias = Sequence[Message | str] | Callable[..., Any]
"""Messages (a string is a user message), or a function of `(input, ctx)` or `(input)` that returns them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """Visibility of a block's items in the event stream and in the session's history."""

    client: bool = True
    history: bool = True


class Generator(Block[Any, OutT]):
    """A block that calls a model; create it with `generator`."""

    def __init__(  # noqa: PLR0913 - the parts of one value; applications call generator()
        self,
        name: str,
        *,
        model: Model | str,
        system: Sequence[Invocation],
        before: Sequence[Invocation],
        user: Invocation,
        revisers: Sequence[Callable[[str, Any, Context], Awaitable[str]]] = (),
        checks: Sequence[Callable[[Model, str], None]] = (),
        output: OutputSchema | None,
        choices: Sequence[str],
        tools: Mapping[str, Tool],
        answer_tool: str | None,
        max_tool_rounds: int,
        visibility: Visibility,
        settings: ModelSettings,
        transform: Callable[[Any, ModelResponse, Context], Any] | None,
        resources: Mapping[str, Resource],
        hidden: Mapping[str, Resource],
    ) -> None:
        super().__init__(name, resources=resources, hidden=hidden)
        self.model = model
        self.output = output
        self.choices = choices
        self.tools = tools
        self.answer_tool = answer_tool
        self.visibility = visibility
        self._specs = () if choices else tuple(tool.spec for tool in tools.values())
        self._system = system
        self._before = before
        self._user = user
        self._revisers = revisers
        self._checks = checks
        self._max_tool_rounds = max_tool_rounds
        self._settings = settings
        self._transform = transform
        self._form: Callable[[Any, Context], AnswerForm] | None = None
        self._review: Review | None = None
        self._reading: Reading | None = None
        self._deferred: Deferred | None = None

    async def act(self, value: object, ctx: Context, /) -> OutT:
        with ctx.run.tracing.agent(self.name, ctx.path):
            messages = await self._messages(value, ctx)
            form: AnswerForm = {} if self._form is None else self._form(value, ctx)
            response, call = await self._converse(messages, form, ctx)
            first_counts = False
            if call is None and self._review is not None:
                response, first_counts = await self._review(messages, response, ctx)
            output: Any = response.data
            length = len(response.text)
            if self.output is None:
                if self._reading is not None:
                    text = self._reading.read(response.text, messages, ctx)
                    # deliberately shortened text counts as complete
                    finish = "stop" if isinstance(text, Trimmed) else response.finish
                    response = response if text is response.text else replace(response, text=text, finish=finish)
                output = CutOff(response.text) if response.finish == "length" else response.text
            if call is not None:
                inner = ctx.child(self.name, f"{ctx.path}/{escape_path_segment(call.name)}")
                try:
                    with ctx.run.tracing.tool(call, inner.path):
                        output = await self.tools[call.name].value(call.arguments, inner)
                except SchemaViolation as violation:
                    violation.block = self.name  # a tool does not know which block offers it
                    raise
            if self._transform is not None:
                output = await result_of(self._transform(output, response, ctx))
            if self.visibility.client:
                trimmed = length - len(output) if isinstance(output, Trimmed) else 0
                truncated = response.finish == "length" and not isinstance(output, Trimmed)
                ctx.emit(
                    BlockAnswered(
                        block=self.name, output=output, truncated=truncated, trimmed=trimmed, first_counts=first_counts
                    )
                )
            if self.visibility.history:
                ctx.session.history.append({"role": "assistant", "name": self.name, "content": _as_text(output)})
            result: OutT = output
            return result

    def with_transform(self, transform: Callable[[Any, ModelResponse, Context], Any]) -> Self:
        """Return a copy of this block with a different `transform`."""
        changed = copy.copy(self)  # a judge calls this concurrently, once per view
        changed._transform = transform  # noqa: SLF001 - its own class
        return changed

    def with_form(self, form: Callable[[Any, Context], AnswerForm]) -> Self:
        """Return a copy of this block that requests text answers subject to the constraints in `form(input, ctx)`."""
        changed = copy.copy(self)
        changed._form = form  # noqa: SLF001 - its own class
        return changed

    def with_user(self, user: Callable[[Any, Context], Any], deferred: Deferred | None = None) -> Self:
        """Return a copy of this block whose user message is the result of `user(input, ctx)`, awaited if necessary.

        A replay calls `deferred` instead and renders the message only when it is accessed.
        """
        changed = copy.copy(self)
        changed._user = user  # noqa: SLF001 - its own class
        changed._deferred = deferred  # noqa: SLF001 - its own class
        return changed

    def with_synonyms(self, synonyms: Mapping[str, str]) -> Self:
        """Return a copy of this block that accepts `synonyms` for its schema's choices in structured answers."""
        changed = copy.copy(self)
        changed.output = None if self.output is None else self.output.with_synonyms(synonyms)
        return changed

    def with_review(self, review: Review) -> Self:
        """Return a copy of this block that passes each text answer to `review`, which may request another answer."""
        changed = copy.copy(self)
        changed._review = review  # noqa: SLF001 - its own class
        return changed

    def with_reading(self, reading: Reading) -> Self:
        """Return a copy of this block that uses `reading` to select the part of each text answer to keep."""
        changed = copy.copy(self)
        changed._reading = reading  # noqa: SLF001 - its own class
        return changed

    async def request(self, messages: Sequence[Message], form: AnswerForm, ctx: Context, *, path: str) -> ModelResponse:
        """Send `messages` to the block's model as the run's step at `path`."""
        request = ModelRequest(
            messages=messages,
            block=self.name,
            role=ctx.role,
            output=self.output,
            choices=self.choices,
            tools=self._specs,
            settings=self._settings,
            on_text=self._text_listener(ctx, path),
            **form,
        )
        return await ctx.run.ask(ctx.model(self.model), request, path=path)

    async def _messages(self, value: object, ctx: Context) -> Sequence[Message]:
        system = [str(text) for slot in self._system if (text := await result_of(slot(value, ctx)))]
        messages: list[Message] = [{"role": "system", "content": "\n\n".join(system)}] if system else []
        for slot in self._before:
            slot_messages = await result_of(slot(value, ctx))
            items: Sequence[Any] = (
                [slot_messages] if isinstance(slot_messages, (str, Mapping)) else slot_messages or ()
            )  # a slot may return one message or several
            messages += [{"role": "user", "content": item} if isinstance(item, str) else item for item in items]
        journal = ctx.run.journal
        if self._deferred and not self._revisers and journal is not None and journal.accepts_any_request(ctx.path):
            write = self._deferred(value, ctx)
            if write is not None:
                return UnwrittenMessages(messages, write)
        user = await result_of(self._user(value, ctx))
        if user:
            text = str(user)
            for revise in self._revisers:
                text = await revise(text, value, ctx)
            messages.append({"role": "user", "content": text})
        return messages

    async def _converse(
        self, messages: Sequence[Message], form: AnswerForm, ctx: Context
    ) -> tuple[ModelResponse, ToolCall | None]:
        """Return the model's final response after any tool calls, together with its call to the answer tool, if any."""
        for turn in range(self._max_tool_rounds + 1):
            path = f"{ctx.path}#{turn}" if turn else ctx.path
            response = await self.request(messages, form, ctx, path=path)
            if not response.tool_calls:
                return response, None
            messages = [*messages, response.message()]
            for number, call in enumerate(response.tool_calls, start=1):
                if call.name == self.answer_tool:
                    return response, call
                # skip the last round's tools, because no request would use their results
                if turn < self._max_tool_rounds:
                    messages.append(await self._tool_message(call, ctx, f"[{turn + 1}.{number}]"))
        raise ToolLoopExceeded(self._max_tool_rounds, block=self.name)

    def _text_listener(self, ctx: Context, path: str) -> Callable[[str], None] | None:
        if self.output is not None or self.choices or not self.visibility.client or not ctx.run.records.listeners:
            return None  # nobody is listening, so the model does not need to stream

        def emit_delta(text: str) -> None:
            ctx.run.notify(TextDelta(block=self.name, role=ctx.role, text=text, path=path, at=ctx.now()))

        return emit_delta if self._reading is None else self._reading.listen(emit_delta)

    async def _tool_message(self, call: ToolCall, ctx: Context, place: str) -> Message:
        """Return a message containing the result of `call`.

        The path of the call ends with `place` rather than with the call's ID, because IDs are chosen by the model.
        """
        tool = self.tools.get(call.name)
        if tool is None:
            result = f"Error: there is no tool {call.name!r}; available: {', '.join(self.tools) or 'none'}"
        else:
            inner = ctx.child(self.name, f"{ctx.path}/{escape_path_segment(call.name)}{place}")

            async def execute() -> str:
                with ctx.run.tracing.tool(call, inner.path) as answered:
                    text = await tool.answer(call.arguments, inner)
                    if answered is not None:
                        answered(text)
                return text

            # Recorded, so that resuming the run does not repeat the tool's side effects. A generator used as a tool has
            # its own step at the inner path.
            key = inner.path if tool.block is None else f"{inner.path}{TOOL}"
            result = await ctx.run.step(key, execute, place=inner.path)
        if self.visibility.client:
            ctx.emit(ToolCalled(block=self.name, tool=call.name, arguments=call.arguments, result=result))
        return {"role": "tool", "tool_call_id": call.id, "content": result}

    def seats(self, around: tuple[ModelChoice, ...] = ()) -> list[Seat]:
        return [Seat(self.name, self.model, around, self._checks)]

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="generator")


class Reading(Protocol):
    """Protocol for selecting the part of a block's answer to keep."""

    def read(self, text: str, messages: Sequence[Message], ctx: Context) -> str:
        """Return the part of `text` to keep; if anything is cut, the result is a `Trimmed` string.

        `text` is the answer to `messages`.
        """

    def listen(self, listener: Callable[[str], None]) -> Callable[[str], None]:
        """Wrap `listener` so that it receives only the kept part of a streamed answer."""


class AnswerForm(TypedDict, total=False):
    """Constraints on a text answer; see `ModelRequest`."""

    words: int | None
    begins: str
    sentences: int | None


Deferred: TypeAlias = Callable[[Any, Context], Callable[[], str] | None]
"""Function of `(input, ctx)` that returns a pure function to render a message later, or None to render it
immediately.
"""
Review: TypeAlias = Callable[[Sequence[Message], ModelResponse, Context], Awaitable[tuple[ModelResponse, bool]]]
"""Function that reviews the answer to a block's messages. It returns the accepted answer and a flag: True if a second
answer was requested but the first one was accepted.
"""


class GeneratorOptions(TypedDict, total=False):
    """Options for `generator` that do not affect the type of its output."""

    prompt: TextSlot
    user: TextSlot | None
    context: MessagesSlot
    history: bool | MessagesSlot
    instructions: TextSlot | None
    model: Model | str | None
    choices: Sequence[str]
    tools: Sequence[ToolLike]
    uses: Sequence[Capability]
    max_tool_rounds: int
    visibility: Visibility | Mapping[str, bool] | None
    settings: ModelSettings | None
    resources: Mapping[str, Resource] | None


@overload
def generator(
    *,
    name: str,
    output_schema: None = None,
    answer_tool: None = None,
    transform: None = None,
    **options: Unpack[GeneratorOptions],
) -> Generator[str]: ...


@overload
def generator(
    *,
    name: str,
    output_schema: type[OutT],
    answer_tool: None = None,
    transform: None = None,
    **options: Unpack[GeneratorOptions],
) -> Generator[OutT]: ...


@overload
def generator(
    *,
    name: str,
    output_schema: object = None,
    answer_tool: ToolLike | None = None,
    transform: Callable[[Any, ModelResponse, Context], Awaitable[OutT]],
    **options: Unpack[GeneratorOptions],
) -> Generator[OutT]: ...


@overload
def generator(
    *,
    name: str,
    output_schema: object = None,
    answer_tool: ToolLike | None = None,
    transform: Callable[[Any, ModelResponse, Context], OutT],
    **options: Unpack[GeneratorOptions],
) -> Generator[OutT]: ...


@overload
def generator(
    *,
    name: str,
    output_schema: object = None,
    answer_tool: ToolLike | None = None,
    transform: None = None,
    **options: Unpack[GeneratorOptions],
) -> Generator[Any]: ...


def generator(  # noqa: PLR0913 - every slot of a prompt, each with a default
    *,
    name: str,
    prompt: TextSlot = "",
    user: TextSlot | None = None,
    context: MessagesSlot = (),
    history: bool | MessagesSlot = False,
    instructions: TextSlot | None = None,
    model: Model | str | None = None,
    output_schema: object = None,
    choices: Sequence[str] = (),
    tools: Sequence[ToolLike] = (),
    uses: Sequence[Capability] = (),
    answer_tool: ToolLike | None = None,
    max_tool_rounds: int = 8,
    visibility: Visibility | Mapping[str, bool] | None = None,
    settings: ModelSettings | None = None,
    transform: Callable[[Any, ModelResponse, Context], Any] | None = None,
    resources: Mapping[str, Resource] | None = None,
) -> Generator[Any]:
    """Create a block that requests streamed text from a language model or, with `output_schema`, a validated value.

    The messages are, in this order: the system message (`prompt`, then the instructions of `uses`, then
    `instructions`), `context` and the context of `uses`, `history` (True for the session's history), and `user` (by
    default, the input as text). Each of these slots is a value or a function of `(input, ctx)`. The model may call
    `tools` in at most `max_tool_rounds` rounds, after which `ToolLoopExceeded` is raised. `answer_tool` is offered with
    the other tools, and a call to it is the answer: the block's output is this tool's result, or `SchemaViolation` is
    raised for invalid arguments. Calls before it in the same response are executed; calls after it are not. `model` is
    a `Model`, `"provider/model"`, `"local"`, or an intent resolved by the run; None means `"intent/chat"`.
    `transform(output, response, ctx)` computes the block's output from the model's. If `choices` are given (such as "A"
    and "B"), the model answers with one of them, and `response.logprobs` contains the log-probability of each, or is
    None if the model returns none.

    Raises the model's errors: see `flowdebate.errors.ModelError`.
    """
    location = f"generator {name!r}"
    check_uses(uses, location=location)
    check_count(location, max_tool_rounds=max_tool_rounds)
    raw_settings: object = settings
    if raw_settings is not None and not isinstance(raw_settings, ModelSettings):
        hint = "Write settings=ModelSettings(temperature=0)"
        raise ConfigurationError(location, "settings", raw_settings, "must be ModelSettings", hint=hint)
    if transform is not None and not callable(transform):
        raise ConfigurationError(location, "transform", transform, "must be a function of (output, response, ctx)")
    _check_choices(choices, location=location, alone=output_schema is None and not tools and answer_tool is None)
    if answer_tool is not None and output_schema is not None:
        raise ConfigurationError(location, "answer_tool", None, "cannot be combined with `output_schema`")
    offered = [*tools, answer_tool] if answer_tool is not None and isinstance(tools, (list, tuple)) else tools
    tools_made = as_tools(offered, uses, location=location)
    shared, hidden = merge_resources(
        location,
        [tool.block for tool in tools_made.values() if tool.block is not None],
        declared=check_resources(resources, location=location),
    )
    texts = [
        (prompt, "prompt"),
        *((capability.instructions, "uses") for capability in uses),
        (instructions, "instructions"),
    ]
    before: list[tuple[object, str]] = [(context, "context"), *[(tool_use.context, "uses") for tool_use in uses]]
    past: object = (lambda _, ctx: list(ctx.session.history)) if history is True else history or ()
    before.append((past, "history"))
    return Generator(
        name,
        model="intent/chat" if model is None else model,
        system=[_slot(text, location, field) for text, field in texts if text],
        before=[_slot(messages, location, field) for messages, field in before if messages],
        user=_slot(_as_text if user is None else user, location, "user"),
        revisers=[tool_use.revise for tool_use in uses if tool_use.revise is not None],
        checks=[tool_use.check for tool_use in uses if tool_use.check is not None],
        output=None if output_schema is None else OutputSchema.of(output_schema, location=location),
        choices=tuple(choices),
        tools=tools_made,
        answer_tool=None if answer_tool is None else tool(answer_tool, location=location).spec.name,
        max_tool_rounds=max_tool_rounds,
        visibility=as_visibility(visibility, Visibility(), location=location, field="visibility"),
        settings=settings or ModelSettings(),
        transform=transform,
        resources=shared,
        hidden=hidden,
    )


def _check_choices(choices: Sequence[str], *, location: str, alone: bool) -> None:
    several = isinstance(choices, Sequence) and not isinstance(choices, str)
    if not several or not all(isinstance(choice, str) and choice.strip() == choice != "" for choice in choices):
        raise ConfigurationError(
            location, "choices", choices, 'must be short answers without whitespace, such as ["A", "B"]'
        )
    if len({choice.casefold() for choice in choices}) < len(choices):
        raise ConfigurationError(location, "choices", list(choices), "must be unique (case-insensitive)")
    if choices and not alone:
        raise ConfigurationError(location, "choices", None, "cannot be combined with `output_schema` or `tools`")


def as_visibility(
    value: Visibility | Mapping[str, bool] | None, default: Visibility, *, location: str, field: str
) -> Visibility:
    """Convert `value` to a Visibility; keys missing from a dict default to the values in `default`."""
    if value is None:
        return default
    if isinstance(value, Visibility):
        return value
    audiences = {"client", "history"}
    if (
        not hasattr(value, "items")
        or not audiences.issuperset(value)
        or not all(v in (True, False) for v in value.values())
    ):
        raise ConfigurationError(
            location, field, value, "must be a Visibility, or a dict with the keys `client` and `history`"
        )
    return Visibility(client=value.get("client", default.client), history=value.get("history", default.history))


def _slot(value: object, location: str, field: str) -> Invocation:
    if callable(value):
        return invocation(value, location=location, field=field)
    return lambda *_: value


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    dump = getattr(value, "model_dump_json", None)
    return str(dump(by_alias=True) if dump is not None else value)
