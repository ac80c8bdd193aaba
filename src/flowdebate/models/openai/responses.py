"""Parser for chat completions, whole or streamed, including structured answers in all modes.

openai does not validate responses, so no type is taken for granted here. `flowdebate.models.endings` determines how an
answer ended; a stream that breaks off without a reason raises OutputTruncated.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from flowdebate._text import clean_text, is_blank, one_line, redact, short_repr
from flowdebate.errors import (
    ContentFiltered,
    EmptyResponse,
    MalformedResponse,
    OutputTruncated,
    Refused,
    ResponseTooLarge,
    SchemaViolation,
)
from flowdebate.models.base import (
    MAX_LOGPROB,
    Flag,
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolSpec,
    Usage,
    arguments_text,
)
from flowdebate.models.endings import ending_of, read_finish
from flowdebate.models.openai.error_mapping import inner_error
from flowdebate.models.openai.history import fields_of, history_of, merge
from flowdebate.models.output import OutputSchema, drop_titles
from flowdebate.models.reading import has_answer
from flowdebate.models.thinking import count_reasoning, without_thinking

_BLOCK = re.compile(r"```(?:json|xml)?\s*(.*?)```|<tool_call>(.*?)</tool_call>|<tools>(.*?)</tools>", re.DOTALL)


def with_tool_calls(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """Parse tool calls from the text of `response` if it consists solely of calls to offered tools."""
    if response.tool_calls or not request.tools:
        return response
    text = response.text.strip()
    blocks = ["".join(groups) for groups in _BLOCK.findall(text)]
    if not blocks or _BLOCK.sub("", text).strip():
        blocks = [text]
    offered = {tool.name for tool in request.tools}
    calls: list[ToolCall] = []
    for index, block in enumerate(blocks):
        value: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(block)
        called = value if isinstance(value, dict) else {}
        name, arguments = called.get("name"), called.get("arguments", called.get("parameters"))
        if not isinstance(name, str) or name not in offered or not isinstance(arguments, dict):
            # only an answer consisting entirely of calls counts; a call within other text is merely an example
            return response
        calls.append(ToolCall(id=f"call_{index}", name=name, arguments=json.dumps(arguments, ensure_ascii=False)))
    return replace(response, text="", tool_calls=tuple(calls), finish="tool_calls")


def parameters_of(
    output: OutputSchema, *, mode: str, messages: Sequence[Message], tools: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Build the request parameters that ask for `output` in `mode`, with `tools` as an alternative."""
    written: dict[str, Any] = {"messages": list(messages)}
    if tools:
        written |= {"tools": list(tools), "tool_choice": "auto"}
    schema = output.json_schema
    if mode == "json_schema":
        form = {"name": output.name, "schema": schema}
        written["response_format"] = {"type": "json_schema", "json_schema": form}
    elif mode == "tools":
        description = schema.get("description", "Give the answer.")
        answer = ToolSpec(name=output.name, description=description, parameters=schema).to_openai()
        alone = {"type": "function", "function": {"name": output.name}}
        written |= {"tools": [*tools, answer], "tool_choice": "required" if tools else alone}
    else:
        # appended at the end, because everything before it is the same in all modes and is cached by the provider
        asks = instruction(output, mode)
        last = messages[-1] if messages else {}
        # some servers reject consecutive messages with the same role
        if last.get("role") == "user" and isinstance(last.get("content"), str):
            written["messages"][-1] = {**last, "content": f"{last['content']}\n\n{asks}"}
        else:
            written["messages"].append({"role": "user", "content": asks})
        if mode == "json":
            written["response_format"] = {"type": "json_object"}
    return written


@lru_cache(maxsize=256)
def instruction(output: OutputSchema, mode: str) -> str:
    """Return a prompt for JSON matching `output`, in instructor's wording if instructor is installed.

    Importing instructor is slow, so call this function in a thread.
    """
    try:
        from instructor import Mode, openai_schema
        from instructor.processing import handle_response_model
    except ImportError:
        schema = json.dumps(drop_titles(output.json_schema), ensure_ascii=False)
        location = " in a ```json block" if mode == "md_json" else ""
        return (
            f"Respond with a single JSON object{location} and nothing else. It must conform to this JSON Schema:\n\n"
            f"{schema}\n\nReturn the data that the schema describes, not the schema itself."
        )
    empty = [{"role": "user", "content": ""}]
    _, written = handle_response_model(openai_schema(output.model), mode=Mode[mode.upper()], messages=empty)
    return "\n\n".join(text for message in written["messages"] if (text := str(message["content"] or "").strip()))


def read(response: ModelResponse, output: OutputSchema, *, mode: str, offered: bool) -> ModelResponse:
    """Parse the answer to a request for `output`: unvalidated text, or tool calls if tools were `offered`.

    An answer written as text instead of a tool call is accepted and recorded as a repair. A truncated answer (`length`)
    is returned unchanged.
    """
    calls = response.tool_calls
    answers = [call for call in calls if call.name == output.name] if mode == "tools" else []
    if response.finish == "length":
        return response
    if calls and not answers:
        if not offered:
            raise SchemaViolation([("", "the model called a tool, but none was offered")])
        return response
    if len(answers) > 1:
        raise SchemaViolation([("", f"{len(answers)} answers were returned instead of one")])
    # an answer sent along with tool calls is premature, because the model has not seen the results of the calls
    if len(calls) > 1:
        return replace(response, tool_calls=tuple(call for call in calls if call.name != output.name))
    text = answers[0].arguments if answers else response.text
    silent = mode == "tools" and is_blank(text)  # the model sent neither a call nor text
    if not silent and not has_answer(text, output):
        raise SchemaViolation(_NOT_ONE, answer=text)
    repaired = ("text for a tool call",) if mode == "tools" and not answers and not silent else ()
    return replace(response, text=text, tool_calls=(), finish="stop", repaired=repaired)


_NOT_ONE = (("", "the answer must be exactly one JSON object without duplicate fields"),)


Json = Any  # an object that openai constructed from a server's JSON without validation


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Parser for one model's answers; its errors never reveal any of the `secrets`."""

    requested_model: str | None = None
    """Name of the requested model; None if the server's answers use another name."""
    strict: bool = False
    """True to raise MalformedResponse if another model answered."""
    secrets: Sequence[str] = ()
    room: int | None = None
    """Requested maximum number of tokens in the answer; None if the request set no limit."""
    blank: bool = False
    """True if an answer with neither text nor tool calls is valid."""

    def completion(self, completion: Json) -> ModelResponse:
        """Parse a complete chat completion."""
        if isinstance(completion, str):  # if a body is not JSON, openai returns it as a string
            if not completion.strip():
                raise MalformedResponse("the response is empty")
            begin = one_line(completion[:200], secrets=self.secrets)
            if completion.lstrip()[0] in "{[":
                raise MalformedResponse(f"the response is incomplete JSON ({begin})")
            problem = f"the response is a web page, not JSON ({begin}). Check base_url: most API addresses end in /v1"
            raise MalformedResponse(problem, transient=False)
        choices = getattr(completion, "choices", None)
        if not isinstance(choices, list) or not choices:
            _raise_error_inside(completion, self.secrets)
            raise MalformedResponse(f"the response has no choices (got {_kind(choices)})")
        choice = choices[0]
        message = getattr(choice, "message", None)
        if message is None:
            raise MalformedResponse("the answer has no message")
        _raise_error_inside(choice, self.secrets)
        calls = [
            ToolCall(
                id=_str(getattr(call, "id", None), "a tool call's id"),
                name=_str(getattr(getattr(call, "function", None), "name", None), "a tool call's name"),
                arguments=_str(getattr(getattr(call, "function", None), "arguments", None), "a tool call's arguments"),
            )
            for call in _list(getattr(message, "tool_calls", None))
        ]
        content = _read_content(getattr(message, "content", None))
        fields = fields_of(message)
        _add_other_fields(content.elsewhere, fields)
        return self._answer(
            content=content,
            refusal=getattr(message, "refusal", None) or content.refusal,
            calls=calls,
            fields=fields,
            reason=_reason_of(choice),
            usage=usage_of(completion),
            completion=completion,
            several=len(choices) > 1,
        )

    async def stream(
        self,
        chunks: AsyncIterator[Json],
        on_text: Callable[[str], None],
        *,
        on_usage: Callable[[Usage], None],
        has_ended: Callable[[], bool],
        max_chars: int,
    ) -> ModelResponse:
        """Parse a stream of chunks, passing text to `on_text` as it arrives.

        The usage is passed to `on_usage` as soon as it is known, even if the answer is unusable. After the last chunk,
        `has_ended` returns whether the server ended the stream.

        Raises ResponseTooLarge if the response exceeds `max_chars` characters, and OutputTruncated if the stream breaks
        off.
        """
        read = 0
        parts = _Parts()
        async with aclosing(chunks):  # type: ignore[type-var]  # every caller passes a generator
            async for chunk in chunks:
                piece = parts.add(chunk)
                if parts.usage is not _UNKNOWN:
                    on_usage(parts.usage)
                if piece:
                    read += len(piece)
                    if read > max_chars:
                        raise ResponseTooLarge(max_chars, "characters")
                    on_text(redact(piece, self.secrets))
        if not parts.chunks:
            raise MalformedResponse(
                "the response is not an event stream. Check base_url: most API addresses end in /v1"
            )
        if ending_of(parts.reason) == "missing" and not (parts.ended or has_ended()):
            raise OutputTruncated("the stream broke off without a finish reason, so the answer may be incomplete")
        content, calls = parts.content(), parts.tool_calls()
        return self._answer(
            content=content,
            refusal="".join(parts.refusal) or content.refusal,
            calls=calls,
            fields=parts.fields() if calls else {},
            reason=parts.reason,
            usage=parts.usage,
            completion=parts,
            several=parts.several,
        )

    def _answer(
        self,
        *,
        content: _Content,
        refusal: object,
        calls: Sequence[ToolCall],
        fields: Mapping[str, Json],
        reason: object,
        usage: Usage,
        completion: Json,
        several: bool,
    ) -> ModelResponse:
        if isinstance(refusal, str) and refusal.strip():
            raise Refused(_clean(refusal, self.secrets))
        spent = self.room is not None and (usage.completion_tokens or 0) >= self.room
        finish = read_finish(reason, calls=bool(calls), spent=spent)
        text = content.text
        if is_blank(text) and not calls:
            if content.unknown:
                raise MalformedResponse(f"the answer's content must be text, got {content.unknown}")
            if not self.blank and finish.reason != "length":
                self._raise_empty(content, reason if finish.flags else None)
        # the maximum rather than the sum, because some servers repeat the same text under two names
        beside = max((count for name, count in content.elsewhere.items() if _THOUGHT.search(name)), default=0)
        thought = content.thought + beside
        cleaned = clean_text(text)
        by, key = (
            _clean(field_value, self.secrets)[:_MAX_NAME_LENGTH] if isinstance(field_value, str) else None
            for field_value in (getattr(completion, "model", None), getattr(completion, "id", None))
        )
        odd: dict[Flag, bool] = {
            "cleaned": cleaned != text,
            "more_choices": several,
            "other_model": bool(by and self.requested_model)
            and str(by) not in str(self.requested_model)
            and str(self.requested_model) not in str(by),
            "usage_unknown": usage.total_tokens is None,
        }
        if self.strict and odd["other_model"]:
            raise MalformedResponse(
                f"model {one_line(str(by))} answered instead of {self.requested_model!r}", transient=False
            )
        tool_calls = tuple(
            ToolCall(
                # some servers send no id, yet require one with the tool result
                id=_clean(call.id, self.secrets) or f"call_{index}",
                name=_clean(call.name, self.secrets),
                arguments=arguments_text(_clean(call.arguments, self.secrets)),
            )
            for index, call in enumerate(calls)
        )
        response = ModelResponse(
            text=redact(cleaned, self.secrets),
            tool_calls=tool_calls,
            history=history_of(fields, tool_calls, self.secrets) if tool_calls else None,
            finish=finish.reason,
            usage=count_reasoning(usage, thought, thought + len(text)),
            model=by,
            id=key or None,
            flags=(*(flag for flag, is_so in odd.items() if is_so), *finish.flags),
        )
        return without_thinking(response)  # remove the thinking before searching the text for JSON and tool calls

    def _raise_empty(self, content: _Content, reason: object) -> None:
        """Raise EmptyResponse, naming another field that contains the text or, failing that, the finish reason."""
        if content.elsewhere:
            field = max(content.elsewhere, key=lambda name: content.elsewhere[name])
            raise EmptyResponse(
                f"the answer has no content: its text is in the {one_line(field[:_MAX_NAME_LENGTH])!r} field, which is "
                "not read as an answer. Turn off the server's reasoning parser or the model's thinking"
            )
        if reason is not None:
            ending = _clean(one_line(str(reason)[:_MAX_NAME_LENGTH]), self.secrets)
            raise EmptyResponse(f"the answer has no text (finish reason {ending!r})")


def logprobs_of(completion: Json, choices: Sequence[str]) -> dict[str, float] | None:
    """Return the log-probability of each of `choices` as the answer's first token; None if the server reports none.

    The probabilities of a choice's spellings ("A", " A", "a") are added up. A choice missing from the reported tokens
    can be no more likely than the least likely of them, and no more likely than all unreported tokens together. The
    smaller of these bounds is used for its log-probability.
    """
    choice_list = _list(getattr(completion, "choices", None))
    tokens = _list(getattr(getattr(choice_list[0], "logprobs", None), "content", None)) if choice_list else []
    if not tokens:
        return None
    first = tokens[0]
    reported = {
        token: logprob
        for item in (first, *_list(getattr(first, "top_logprobs", None)))
        if isinstance(token := getattr(item, "token", None), str)
        and isinstance(logprob := getattr(item, "logprob", None), (int, float))
        and _MIN_LOGPROB < logprob <= MAX_LOGPROB  # NaN fails both comparisons
    }
    if not reported:
        return None
    bound = min(*reported.values(), math.log(max(1 - sum(map(math.exp, reported.values())), _MIN_PROBABILITY)))
    mass: dict[str, float] = {}
    for token, logprob in reported.items():
        seen = token.strip(_AROUND).casefold()
        mass[seen] = mass.get(seen, 0.0) + math.exp(logprob)
    return {
        choice: min(math.log(mass[seen]), 0.0) if mass.get(seen := choice.casefold()) else bound for choice in choices
    }


_MIN_LOGPROB = -100.0  # lower bound, because servers report -9999 and the like for impossible tokens
_MIN_PROBABILITY = 1e-9  # minimum probability, so that the logarithm is defined
_AROUND = " \t\r\n\u2581\u0120"  # whitespace, and tokenizers' markers for a space before a token


@dataclass(slots=True)
class _Call:
    """Tool call arriving in chunks."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Parts:
    """The part of a streamed answer received so far."""

    chunks: int = 0
    text: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    calls: dict[int, _Call] = field(default_factory=dict)
    reason: object = None
    usage: Usage = field(default_factory=Usage.unknown)
    model: object = None
    id: object = None
    several: bool = False
    """True if chunks of more than one answer have arrived; only the first answer is used."""
    ended: bool = False
    """True once the usage, which servers send last, has arrived."""
    thought: int = 0
    unknown: str = ""
    elsewhere: Counter[str] = field(default_factory=Counter)
    deltas: list[Mapping[str, Json]] = field(default_factory=list)
    """Message deltas containing more than text."""

    def add(self, chunk: Json) -> str:
        """Add a chunk and return its cleaned text."""
        self.chunks += 1
        self.model = getattr(chunk, "model", None) or self.model
        self.id = getattr(chunk, "id", None) or self.id
        if getattr(chunk, "usage", None) is not None:
            self.usage = usage_of(chunk)
        choices = _list(getattr(chunk, "choices", None))
        if not choices:  # the final chunk, which contains the usage, or a ping
            self.ended = self.ended or (self.reason is not None and self.usage is not _UNKNOWN)
            return ""
        choice = choices[0]
        if len(choices) > 1 or getattr(choice, "index", None) not in (0, None):
            self.several = True
            choice = next((candidate for candidate in choices if getattr(candidate, "index", None) == 0), None)
            if choice is None:
                return ""
        reason = _reason_of(choice)
        self.reason = self.reason if ending_of(reason) == "missing" else reason
        delta = getattr(choice, "delta", None)
        refusal = getattr(delta, "refusal", None)
        if isinstance(refusal, str):
            self.refusal.append(refusal)
        for call in _list(getattr(delta, "tool_calls", None)):
            index, function = getattr(call, "index", None), getattr(call, "function", None)
            # the chunks of a call share an index; a server without indexes sends each call in one chunk
            part = self.calls.setdefault(index if isinstance(index, int) else len(self.calls), _Call())
            part.id = part.id or _str(getattr(call, "id", None), "a tool call's id")
            part.name = part.name or _str(getattr(function, "name", None), "a tool call's name")
            part.arguments.append(_str(getattr(function, "arguments", None), "a tool call's arguments"))
        content = _read_content(getattr(delta, "content", None))
        fields = fields_of(delta)
        if fields.keys() - _OF_TEXT:
            _add_other_fields(self.elsewhere, fields)
            self.deltas.append(fields)
        if content.refusal:
            self.refusal.append(content.refusal)
        self.thought += content.thought
        self.unknown = self.unknown or content.unknown
        self.text.append(content.text)
        return clean_text(content.text)

    def content(self) -> _Content:
        return _Content("".join(self.text), self.thought, self.unknown, self.elsewhere)

    def fields(self) -> dict[str, Json]:
        """Merge the fields of all message deltas."""
        merged: dict[str, Json] = {}
        for delta in self.deltas:
            merge(merged, delta)
        return {**merged, "content": "".join(self.text)}

    def tool_calls(self) -> list[ToolCall]:
        return [
            ToolCall(id=call.id, name=call.name, arguments="".join(call.arguments))
            for _, call in sorted(self.calls.items())
        ]


_MAX_NAME_LENGTH = 200  # maximum length, in characters, of a reported model name, because every event contains it


def _raise_error_inside(holder: Json, secrets: Sequence[str]) -> None:
    """Raise the error in a response with status 200, if it contains one.

    Some proxies and Google's filter report errors this way.
    """
    feedback = getattr(holder, "promptFeedback", None)
    if isinstance(feedback, dict) and feedback.get("blockReason"):
        raise ContentFiltered(f"the prompt was blocked: {_clean(str(feedback['blockReason']), secrets)}")
    error = getattr(holder, "error", None)
    if error and isinstance(error, (dict, str)):
        raise inner_error(error, secrets=secrets)


class _Content(NamedTuple):
    """Content of an answer or of a single chunk."""

    text: str
    thought: int
    """Length of the thinking in characters; the thinking itself is not part of the text."""
    unknown: str
    """Description of any content other than text and thinking; empty if there is none."""
    elsewhere: Counter[str]
    """Number of characters in the message's other fields, by field name."""
    refusal: str = ""


_THOUGHT = re.compile(r"think|thought|reason|analysis|scratchpad", re.IGNORECASE)
_TEXT = re.compile(r"(\A|_|\b)(text|markdown)\Z", re.IGNORECASE)


def _read_content(content: object) -> _Content:
    """Read content from a string, a part or a list of parts, joining the text; thinking is skipped but counted."""
    if content is None:
        return _Content("", 0, "", Counter())
    if isinstance(content, str):
        return _Content(content, 0, "", Counter())
    if not isinstance(content, (list, dict)):
        return _Content("", 0, _kind(content), Counter())
    texts: list[str] = []
    thought, unknown, refusal = 0, "", ""
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
        name = kind if isinstance(kind, str) else ""
        if isinstance(part, dict) and (_THOUGHT.search(name) or part.get("thought") is True):
            thought += len(_text_in(part))
        elif isinstance(part, dict) and isinstance(part.get("refusal"), str):
            refusal += part["refusal"]
        elif isinstance(part, (str, dict)) and (kind is None or _TEXT.search(name)) and (text := _text_in(part)):
            texts.append(text)
        elif not _TEXT.search(name):
            unknown = unknown or (f"a part of type {one_line(name[:_MAX_NAME_LENGTH])!r}" if name else _kind(part))
    return _Content("".join(texts), thought, unknown, Counter(), "" if any(texts) else refusal)


def _text_in(part: object) -> str:
    """Return the text of a part, which may be nested in an object or a list."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "".join(map(_text_in, part))
    if not isinstance(part, dict):
        return ""
    names = ("text", "value", "content", "thinking", "reasoning", "summary", "thought")
    return next((text for name in names if (text := _text_in(part.get(name)))), "")


# Message fields that contain no text from the model or are handled separately.
_OF_TEXT = frozenset({"role", "content", "refusal", "function_call"})
_OTHER_FIELDS = frozenset({"role", "content", "refusal", "type", "id", "name", "index", "status", "tool_calls"})


def _add_other_fields(counts: Counter[str], fields: Mapping[str, Json]) -> None:
    """Add the lengths of text in a message's other fields, where some servers put the content."""
    for name, value in fields.items():
        if isinstance(value, (str, list, dict)) and name not in _OTHER_FIELDS and not name.startswith("_"):
            text = _text_in(value)
            if not is_blank(text):
                counts[name] += len(text)


def _reason_of(choice: Json) -> object:
    """Return the finish reason from the standard field or, if it is empty, from another field."""
    reason = getattr(choice, "finish_reason", None)
    if ending_of(reason) in ("missing", "unknown"):
        candidates = (getattr(choice, name, None) for name in ("native_finish_reason", "stop_reason", "done_reason"))
        return next(
            (candidate for candidate in candidates if ending_of(candidate) not in ("missing", "unknown")), reason
        )
    return reason


def _clean(text: str, secrets: Sequence[str]) -> str:
    return redact(clean_text(text), secrets)


def _str(value: object, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedResponse(f"{what} must be a str, got {_kind(value)}")
    return value


def _kind(value: object) -> str:
    """Describe a value without revealing its text, since the text may contain a key."""
    return short_repr(value) if value is None or isinstance(value, (bool, int, float)) else f"a {type(value).__name__}"


def _list(value: object) -> list[Json]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedResponse(f"the response must contain a list, got {_kind(value)}")
    return value


def usage_of(completion: Json) -> Usage:
    """Return the usage reported in a completion or chunk; missing counts are None."""
    usage = getattr(completion, "usage", None)
    read = getattr(usage, "prompt_tokens_details", None)
    written = getattr(usage, "completion_tokens_details", None)
    return Usage(
        calls=1,
        prompt_tokens=_count(getattr(usage, "prompt_tokens", None)),
        cached_tokens=_count(getattr(read, "cached_tokens", None)),
        completion_tokens=_count(getattr(usage, "completion_tokens", None)),
        reasoning_tokens=_count(getattr(written, "reasoning_tokens", None)),
        cache_written_tokens=_count(getattr(read, "cache_write_tokens", None)),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_TOKENS else None


# maximum token count of one answer; a larger count is a server error, and would exhaust the limits of any run
_MAX_TOKENS = 100_000_000
_UNKNOWN = Usage.unknown()
