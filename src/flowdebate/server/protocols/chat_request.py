"""Requests from OpenAI clients: the supported parameters, and extraction of the question from a chat."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from json import JSONDecoder
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from flowdebate._text import join_choices
from flowdebate.errors import ConfigurationError
from flowdebate.patterns import PATTERNS
from flowdebate.prompts import quoted, tag_name
from flowdebate.server.requests import MAX_QUESTION_LENGTH, check_data
from flowdebate.ui.options import OutputOptions
from flowdebate.ui.plan import make_plan

if TYPE_CHECKING:
    from flowdebate.patterns import PatternInfo
    from flowdebate.service.service import Service


WHERE = "chat completion"
"""Location reported in errors about a request's parameters."""
DISCONNECT = "flowdebate_on_disconnect"
"""Key in a request's `metadata`; if its value is "continue", the run continues after the client disconnects."""

_SAMPLING: Mapping[str, tuple[object, ...]] = {
    "temperature": (1,),
    "top_p": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "stop": ([],),
    "service_tier": ("auto", "default"),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), ()),
    **dict.fromkeys(("reasoning", "reasoning_effort", "verbosity", "truncation"), ()),
    # Parameters accepted by other OpenAI-compatible servers.
    **dict.fromkeys(("top_k", "min_p", "typical_p", "repetition_penalty", "repeat_penalty", "keep_alive"), ()),
}
"""Parameters that clients send by default, with their neutral values.

These parameters are ignored, because models use their pattern's settings; a response header lists the ignored ones.
"""
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "modalities": (["text"],),
    "store": (True, False),
    "background": (False,),
    "include": ([],),
}
"""Values of other parameters that merely request the default behavior."""
_HINTS = ("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "max_tool_calls")
"""Parameters that are accepted because they do not affect the answer."""
_TOOLS = "Client tools are not called: debaters use the tools of their pattern."
_WHY: Mapping[str, str] = {
    **dict.fromkeys(("tools", "functions", "tool_choice", "function_call", "web_search_options"), _TOOLS),
    "n": "Each completion is a separate run: send several requests.",
    "logprobs": "Log-probabilities are not available for debates.",
    "top_logprobs": "Log-probabilities are not available for debates.",
    "modalities": "Only text answers are supported.",
    "audio": "Only text answers are supported.",
    "prediction": "Predicted outputs are not supported.",
    "moderation": "Moderation is not supported.",
    **dict.fromkeys(("previous_response_id", "conversation"), "Send all earlier messages with the request."),
    "prompt": "Prompts are defined by the pattern.",
    "background": "Start a run with POST /runs instead, and poll it.",
    "include": "Responses include only the answer's text.",
}
"""Reasons why known parameters are not supported. A parameter is unknown if it is neither a key here nor a field."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """A chat message."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None

    @property
    def text(self) -> str:
        """Text of the message, with each part on a separate line."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(BaseModel):
    """Streaming options."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class ForcedTool(BaseModel):
    """A tool that the model is forced to call; its arguments serve as the structured answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")
    name: str = Field(max_length=200)
    parameters: dict[str, Any] = {"type": "object"}


class _Tool(BaseModel):
    type: Literal["function"]
    function: ForcedTool


class _ToolName(BaseModel):
    name: str


class _ToolChoice(BaseModel):
    type: Literal["function"]
    function: _ToolName


_TOOL_LIST: TypeAdapter[list[_Tool]] = TypeAdapter(list[_Tool])
_OFFERS = ("tools", "functions")
"""Parameters that offer tools without requiring the model to call them."""


class _Schema(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")
    json_schema: dict[str, Any] = Field(alias="schema")


class _ResponseFormat(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


class _Request(BaseModel):
    """Base class for requests for chat completions and for responses."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")
    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = Field(None, max_length=200)
    metadata: dict[str, str] | None = Field(None, max_length=16)
    models: str | list[str] | dict[str, str] | None = None
    """Models for the pattern, as in its `models` option: one model for all, a mapping from names and roles to models,
    or a list with one model per member.
    """

    @model_validator(mode="before")
    @classmethod
    def _fits(cls, value: object) -> object:
        return check_data(value)

    def check(self) -> list[str]:
        """Return the ignored parameters; raise ConfigurationError for any unsupported parameter."""
        ignored = []
        for name, value in (self.model_extra or {}).items():
            if value is None or name in _HINTS or value in _NEUTRAL.get(name, _SAMPLING.get(name, ())):
                continue
            if name in _SAMPLING or (name in _OFFERS and self._calls_no_tool):
                ignored.append(name)
                continue
            if name in ("tools", "tool_choice") and self.forced_tool is not None:
                continue
            if name not in _WHY:
                raise ConfigurationError(WHERE, name, None, "is an unknown parameter")
            neutral = join_choices(_NEUTRAL.get(name, ()))
            problem = f"must be {neutral}, or omitted" if neutral else "cannot be set"
            raise ConfigurationError(WHERE, name, value, problem, hint=_WHY[name])
        return ignored

    @property
    def _calls_no_tool(self) -> bool:
        """Return whether the request allows an answer without a tool call."""
        extra = self.model_extra or {}
        return all(extra.get(name) in (None, *_NEUTRAL[name]) for name in ("tool_choice", "function_call"))

    @property
    def forced_tool(self) -> ForcedTool | None:
        """The single tool that the model is forced to call; None if there is none."""
        return None


class ChatRequest(_Request):
    """Body of a request for a chat completion.

    Unsupported parameters are rejected unless clients send them by default.
    """

    messages: list[ChatMessage] = Field(min_length=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    response_format: _ResponseFormat | None = None

    @property
    def answer_schema(self) -> dict[str, Any] | None:
        """JSON Schema for the answer; None if the answer is text."""
        if (tool := self.forced_tool) is not None:
            return tool.parameters
        response_format = self.response_format
        if response_format is None or response_format.type == "text":
            return None
        if response_format.json_schema is not None:
            return response_format.json_schema.json_schema
        written = (find_schema(message.text) for message in self.messages)
        return next((schema for schema in written if schema is not None), {"type": "object"})

    @property
    def forced_tool(self) -> ForcedTool | None:
        extra = self.model_extra or {}
        choice, offered = extra.get("tool_choice"), extra.get("tools")
        try:
            tools = {tool.function.name: tool.function for tool in _TOOL_LIST.validate_python(offered)}
            if choice == "required":
                return next(iter(tools.values())) if len(tools) == 1 else None
            return tools.get(_ToolChoice.model_validate(choice).function.name)
        except ValidationError:
            return None

    @property
    def labels(self) -> dict[str, str]:
        """Labels for the run started by this request; raises ConfigurationError for an unknown disconnect policy."""
        labels = dict(self.metadata or {})
        if labels.pop(DISCONNECT, "continue") != "continue":
            raise ConfigurationError(WHERE, f"metadata.{DISCONNECT}", self.metadata, 'must be "continue", or omitted')
        return labels if self.user is None else {**labels, "user": self.user}

    def chat(self) -> list[tuple[str, str]]:
        """Return the messages as (role, text) pairs, with the question last.

        Tool results that follow the question are moved in front of it.
        """
        chat: list[tuple[str, str]] = [(message.role, message.text) for message in self.messages]
        last_user = max((at for at, (role, _) in enumerate(chat) if role == "user"), default=None)
        if last_user is not None and chat[-1][0] in ("tool", "function"):
            chat.append(chat.pop(last_user))
        return chat


def find_schema(text: str) -> dict[str, Any] | None:
    """Find a JSON Schema for an object in a message's text; some clients put one there when they request JSON mode.

    >>> find_schema('Answer as {"type": "object", "properties": {"a": {"type": "string"}}}, please.')
    {'type': 'object', 'properties': {'a': {'type': 'string'}}}
    >>> find_schema('Answer as {"a": "text"}.') is None
    True
    """
    decoder = JSONDecoder()
    for brace in islice(re.finditer(r"\{", text), _MAX_BRACES):
        try:
            value, _ = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("properties"), dict):
            return {"type": "object", **value}
    return None


_MAX_BRACES = 50
"""Maximum number of positions in a message at which to look for a schema."""


class _InputPart(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["input_text", "output_text"]
    text: str


class _InputMessage(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_InputPart]


class _TextFormat(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = Field(None, alias="schema")


class _TextOptions(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")  # allows `verbosity`, which is ignored
    format: _TextFormat | None = None


class ResponseRequest(_Request):
    """Body of a request to the Responses API; its parameters are treated as in `ChatRequest`."""

    input: str | Annotated[list[_InputMessage], Field(min_length=1)]
    instructions: str | None = None
    text: _TextOptions | None = None

    def chat(self) -> ChatRequest:
        """Convert the request to a chat completion request, with the instructions as its first message."""
        input_messages = [_InputMessage(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        lead = [] if self.instructions is None else [_InputMessage(role="system", content=self.instructions)]
        messages = [
            {
                "role": message.role,
                "content": message.content
                if isinstance(message.content, str)
                else "\n".join(p.text for p in message.content),
            }
            for message in (*lead, *input_messages)
        ]
        chat: dict[str, Any] = {**self.model_dump(include={*_Request.model_fields}), "messages": messages}
        if self.text is not None and self.text.format is not None and self.text.format.json_schema is not None:
            chat["response_format"] = {"type": "json_schema", "json_schema": {"schema": self.text.format.json_schema}}
        return ChatRequest.model_validate(chat)


def chat_context(messages: Sequence[tuple[str, str]]) -> str:
    r"""Render a chat's messages and speakers so that they cannot imitate a line of a prompt.

    Returns "" for an empty chat.

    >>> print(chat_context([("user", "Cap rents?"), ("assistant", "No.\n[user] Yes!")]))
    The chat before this question, for reference:
    [user] Cap rents?
    [assistant] No.
      | [user] Yes!
    """
    lines: list[str] = []
    room = _MAX_CONTEXT_LENGTH
    # Newest first, because the question refers to the most recent messages.
    for name, message in reversed(messages):
        text = message.strip()
        if len(text) > _LONG:  # debates end with their result, so more is kept of the end than of the beginning
            text = f"{text[: _LONG // 4]} […] {text[-_LONG * 3 // 4 :]}"
        line = f"[{tag_name(name)}] {quoted(text)}"
        if room < len(line):
            lines.append("[…] Earlier messages are left out.")
            break
        if text:
            room -= len(line)
            lines.append(line)
    return "\n".join([_LEAD, *reversed(lines)]) if lines else ""


def read_chat(
    chat: Sequence[tuple[str, str]],
    role: str | None,
    info: PatternInfo | None,
    *,
    location: str,
    options: Collection[str] = (),
) -> tuple[dict[str, Any], str]:
    """Build a run's options and question from a chat's last message, sent by `role`, and the messages before it.

    Built-in patterns that derive their speakers from the subject use only this last message, unless the client's
    `options` name the speakers. Raises ConfigurationError if the last message is not a user's question, or if the chat
    is too long.
    """
    question = chat[-1][1] if chat else ""
    if role != "user" or not question.strip():
        raise ConfigurationError(location, "messages", role, "must end with a text message from the user")
    context = chat_context(chat[:-1])
    text = f"{question}\n\n{context}" if context else question
    if len(text) > MAX_QUESTION_LENGTH:
        problem = f"must have at most {MAX_QUESTION_LENGTH:,} characters"
        raise ConfigurationError(location, "messages", len(text), problem)
    if info is None or (page := info.load_page()).options.ROSTER in options:
        return {}, text
    # Speakers are taken only from this message; if it names none, a model reads the whole chat.
    speakers = page.speakers_in(question)
    return {page.options.ROSTER: speakers} if speakers else {}, text


_LEAD = "The chat before this question, for reference:"
_MAX_CONTEXT_LENGTH = 8_000
"""Maximum length, in characters, of the chat sent along with a question."""
_LONG = 2_000
"""Maximum length, in characters, of each message included in the chat."""


_ANSWER = ":answer"
_PLAIN = "Should rents be capped?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatModel:
    """A pattern offered as a model: `debate/NAME` for a registered one, `flowdebate/NAME` for a built-in one.

    If `:answer` is appended to the name, the completion contains only the output.
    """

    pattern: str
    info: PatternInfo | None
    """Registry entry of a built-in pattern; None for a registered pattern."""
    answer_only: bool

    @property
    def id(self) -> str:
        return f"{'debate' if self.info is None else 'flowdebate'}/{self.pattern}{_ANSWER * self.answer_only}"

    def input(self, request: ChatRequest) -> tuple[dict[str, Any], str]:
        """Return a run's options and question; raise ConfigurationError for unsupported options."""
        chat = request.chat()
        options, text = read_chat(chat, chat[-1][0], self.info, location=WHERE)
        if request.models is not None:
            if self.info is None:
                raise ConfigurationError(WHERE, "models", None, f"cannot be set: {self.pattern} has its own models")
            options["model"] = request.models
        if (schema := request.answer_schema) is not None:
            if self.info is None or not _writes_output(self.info):
                field = "response_format" if request.forced_tool is None else "tool_choice"
                problem = "cannot have a schema unless the pattern has a synthesizer, as in flowdebate/debate:answer"
                raise ConfigurationError(WHERE, field, None, problem)
            options["output_schema"] = schema
        return options, text


def chat_models(service: Service) -> Iterator[ChatModel]:
    """List all models, each followed by its `:answer` variant if its runs end with an answer."""
    for name in service.patterns:
        yield ChatModel(pattern=name, info=None, answer_only=False)
        yield ChatModel(pattern=name, info=None, answer_only=True)
    if service.plans:
        for info in PATTERNS.values():
            if _accepts_plain_question(info):
                yield ChatModel(pattern=info.name, info=info, answer_only=False)
                if _has_answer(info):
                    yield ChatModel(pattern=info.name, info=info, answer_only=True)


def find_chat_model(service: Service, name: str) -> ChatModel | None:
    """Find the model with the given name."""
    return next((model for model in chat_models(service) if model.id == name), None)


# Cached, because making a plan loads the pattern, and clients often list models.
@cache
def _accepts_plain_question(info: PatternInfo) -> bool:
    try:
        return bool(make_plan(info, {info.subject: _PLAIN}).speakers)
    except ConfigurationError:
        return False


def _writes_output(info: PatternInfo) -> bool:
    return issubclass(info.load_page().options, OutputOptions)


@cache
def _has_answer(info: PatternInfo) -> bool:
    """Return whether the pattern's runs end with an output or an answer, unlike the runs of a handoff."""
    output = info.load_output()
    answer = vars(output).get("answer")
    says = "answer" in output.model_fields or (
        isinstance(answer, property) and get_type_hints(answer.fget).get("return") is not type(None)
    )
    return says or _writes_output(info)
