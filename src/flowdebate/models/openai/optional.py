"""Optional parts of a request, how servers reject them, and what has been learned about each server.

A rejected request is retried with fewer and fewer optional parts until the server answers. Rejections are worded in too
many ways to list, so their wording only determines which part to omit first.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

from flowdebate.errors import (
    BadAnswer,
    ContextTooLong,
    FlowDebateWarning,
    MalformedResponse,
    ModelError,
    RateLimited,
    Refused,
    RequestRejected,
)
from flowdebate.models.base import Flag, Message, ModelRequest
from flowdebate.models.providers import StructuredMode

_LOGGER = logging.getLogger("flowdebate.models")

T = TypeVar("T")

Parameters = dict[str, Any]
"""Request parameters, named as in the chat completions API."""


@dataclass(frozen=True, slots=True)
class Part:
    """An optional part of a request."""

    name: str
    hint: re.Pattern[str]
    """Pattern for rejections whose wording suggests omitting this part first."""
    drop: Callable[[Parameters], Parameters]
    """Function that removes or rewrites the part; a request without the part is returned unchanged."""
    flag: Flag | None = None
    """Flag for an answer if this part was omitted; None for parts added by the library rather than the user."""
    vague: bool = False
    """True if the hint may also match rejections for other reasons."""
    only_hinted: bool = False
    """True to omit the part only if the hint matches."""


def _hint(words: str) -> re.Pattern[str]:
    return re.compile(words, re.IGNORECASE)


def _leave_out(*names: str) -> Callable[[Parameters], Parameters]:
    def drop(parameters: Parameters) -> Parameters:
        if parameters.keys().isdisjoint(names):
            return parameters
        return {name: value for name, value in parameters.items() if name not in names}

    return drop


def _rename_limit(parameters: Parameters) -> Parameters:
    for name, other in (("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")):
        if name in parameters:
            return {**_leave_out(name)(parameters), other: parameters[name]}
    return parameters


def _leave_out_tools(parameters: Parameters) -> Parameters:
    # a forced tool call cannot be dropped, because it is the structured answer itself
    return parameters if "tool_choice" in parameters else _leave_out("tools")(parameters)


def _ask_for_stream(parameters: Parameters) -> Parameters:
    return parameters if "stream" in parameters or "logprobs" in parameters else {**parameters, "stream": True}


def _join_contents(first: object, second: object) -> object:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    parts: list[object] = []
    for content in (first, second):
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else list(_items(content))
    return parts


def _items(content: object) -> Sequence[object]:
    return content if isinstance(content, list) else ()


def _join_system(parameters: Parameters) -> Parameters:
    """Move the system messages to the start of the first user message."""
    messages = parameters["messages"]
    system = [message["content"] for message in messages if message["role"] == "system"]
    if not system:
        return parameters
    conversation = [message for message in messages if message["role"] != "system"]
    if not conversation or conversation[0]["role"] != "user":
        conversation.insert(0, {"role": "user", "content": system.pop()})
    for content in reversed(system):
        conversation[0] = {**conversation[0], "content": _join_contents(content, conversation[0]["content"])}
    return {**parameters, "messages": conversation}


def _join_roles(parameters: Parameters) -> Parameters:
    """Join adjacent messages with the same role, except tool messages."""
    joined: list[Any] = []
    for message in parameters["messages"]:
        last = joined[-1] if joined else {}
        plain = not any("tool_calls" in neighbour or "tool_call_id" in neighbour for neighbour in (last, message))
        if plain and last.get("role") == message["role"]:
            joined[-1] = {**last, "content": _join_contents(last["content"], message["content"])}
        else:
            joined.append(message)
    return parameters if len(joined) == len(parameters["messages"]) else {**parameters, "messages": joined}


_PLAIN_FIELDS = ("role", "content", "tool_calls")
_PLAIN_CALL = ("id", "type", "function")


def _leave_out_history(parameters: Parameters) -> Parameters:
    """Remove fields that other servers have added to messages with tool calls."""
    messages = list(map(_without_additions, parameters["messages"]))
    return parameters if messages == parameters["messages"] else {**parameters, "messages": messages}


def _without_additions(message: Message) -> Message:
    if not message.get("tool_calls"):
        return message
    plain = {name: value for name, value in message.items() if name in _PLAIN_FIELDS}
    calls = [{name: call[name] for name in _PLAIN_CALL if name in call} for call in message["tool_calls"]]
    return {**plain, "tool_calls": calls}


@lru_cache
def effort_part(name: str) -> Part:
    """Create the optional part for an effort setting.

    `name` is the setting's field, such as "effort" or the nested "reasoning.effort".
    """
    outer, _, inner = name.partition(".")

    def drop(parameters: Parameters) -> Parameters:
        extra = dict(parameters.get("extra_body", ()))
        setting = extra.get(outer)
        if setting is None or (inner and inner not in setting):
            return parameters
        rest = {key: value for key, value in setting.items() if key != inner} if inner else {}
        extra = {**extra, outer: rest} if rest else _leave_out(outer)(extra)
        return {**parameters, "extra_body": extra} if extra else _leave_out("extra_body")(parameters)

    return Part("effort", _hint(r"reasoning|effort|think"), drop, "without_effort")


STREAM = Part("stream", _hint(r"stream|\bsse\b"), _leave_out("stream", "stream_options"))
WHOLE = Part("whole answer", _hint(r"stream"), _ask_for_stream, only_hinted=True)
HISTORY = Part(
    "additions to the history",
    _hint(r"reasoning|thought|thinking|signature|extra|unknown|unrecogni[sz]ed|additional"),
    _leave_out_history,
    vague=True,
)
SYSTEM = Part("system message", _hint(r"system|\broles?\b|template|jinja|instruction"), _join_system, vague=True)
TEMPERATURE = Part(
    "temperature", _hint(r"temperature|sampling|top_?p"), _leave_out("temperature"), "without_temperature"
)
LIMIT = Part(
    "max_tokens",
    _hint(r"max_?(completion_?|output_?|new_?)?tokens"),
    _leave_out("max_tokens", "max_completion_tokens"),
    "without_max_tokens",
)
TOOLS = Part("tools", _hint(r"tool|function"), _leave_out_tools, "without_tools")

PARTS: tuple[Part, ...] = (
    Part("logprobs", _hint(r"log_?prob"), _leave_out("logprobs", "top_logprobs")),
    Part("stream_options", _hint(r"stream_?options|include_?usage"), _leave_out("stream_options")),
    STREAM,
    WHOLE,
    Part("prompt_cache_key", _hint(r"cache"), _leave_out("prompt_cache_key")),
    Part("name of the limit", _hint(r"max_?(completion_?|output_?|new_?)?tokens"), _rename_limit),
    HISTORY,
    Part("neighbors of one role", _hint(r"\broles?\b|alternat|consecutive|template|jinja"), _join_roles, vague=True),
    SYSTEM,
    TEMPERATURE,
    LIMIT,
    TOOLS,
)
"""Optional parts, in the order in which they are removed if a rejection hints at none of them; parts set by the user
come last.
"""

_MODE_HINT = _hint(
    r"response_?format|output_?config|output_?format|json|schema|structured|tool|function.?call|grammar|\bformat"
)

_IGNORED = 2  # number of consecutive answers without JSON after which a mode is tried last; a single one may be a fluke


@dataclass(frozen=True, slots=True)
class Form:
    """Form in which a request is sent: its structured mode (None for plain text) and its omitted parts."""

    mode: StructuredMode | None
    dropped: frozenset[str]

    def write(self, parameters: Parameters, parts: Sequence[Part]) -> Parameters:
        """Return `parameters` without the `dropped` parts."""
        for part in parts:
            if part.name in self.dropped:
                parameters = part.drop(parameters)
        return parameters

    def flags(self, parameters: Parameters, parts: Sequence[Part]) -> tuple[Flag, ...]:
        """List the flags for the user settings that this form removes from `parameters`."""
        flags = [part.flag for part in parts if part.name in self.dropped and part.drop(parameters) is not parameters]
        return tuple(flag for flag in flags if flag is not None)


@dataclass(slots=True)
class Learned:
    """Record of the request parts that a server rejects for a model, and of how it handles structured modes."""

    dropped: frozenset[str] = frozenset()
    """Names of the rejected parts."""
    tools_apart: bool = False
    """True if the server rejects requests that combine tools with a structured answer."""
    last: dict[StructuredMode, None] = field(default_factory=dict)
    """Modes to try after all others, in the order in which they failed. They are kept because the server may support
    them later.
    """
    prose: Counter[StructuredMode] = field(default_factory=Counter)
    """Number of consecutive answers without a JSON object, per mode; a high number suggests that the server ignores the
    mode.
    """

    def order(self, modes: Sequence[StructuredMode], request: ModelRequest) -> list[StructuredMode]:
        """Sort `modes` for `request`: modes that have not failed, then modes that have, and finally skipped modes."""
        if request.skipped_modes == 0:  # later retries rely on the order set at the start of the call
            for mode in modes:
                if self.prose[mode] >= _IGNORED:
                    self.try_last(mode)
        ordered = [
            *(mode for mode in modes if mode not in self.last),
            *(mode for mode in list(self.last) if mode in modes),
        ]
        skipped = min(request.skipped_modes, len(ordered) - 1)
        request.attempts.modes_left = len(ordered) - 1 - skipped
        return [*ordered[skipped:], *reversed(ordered[:skipped])]

    def try_last(self, mode: StructuredMode) -> None:
        """Move `mode` to the end of the order for all later requests."""
        self.last.pop(mode, None)
        self.last[mode] = None
        self.prose[mode] = 0


@lru_cache(maxsize=1_000)
def learned_of(base_url: str, model: str) -> Learned:
    """Return the record for a model, shared by all runs in this process."""
    del base_url, model  # used only as the key of the cached record
    return Learned()


class Negotiation:
    """Successive forms of a request, tried until the server accepts one.

    - `write`: builds the parameters of the complete request for a given mode.
    - `modes`: the modes for a structured answer, in order; empty for plain text.
    - `parts`: the parts that may be removed.
    - `model`: the model's name, which is ignored when matching the wording of rejections.

    A step that does not change the reason for the rejection is undone before the next step is tried. If no single step
    helps, the last form tried omits all optional parts.
    """

    def __init__(
        self,
        write: Callable[[StructuredMode | None], Parameters],
        *,
        modes: Sequence[StructuredMode],
        parts: Sequence[Part],
        learned: Learned,
        model: str,
    ) -> None:
        self._write = write
        self._modes = modes
        self._parts = parts
        self._learned = learned
        self._model = model
        self._base = Form(modes[0] if modes else None, learned.dropped)
        self.form: Form = self._base
        self._tried: set[str] = set(modes[:1])
        self._first: ModelError | None = None
        self._reason = ""

    async def settle(self, send: Callable[[Form], Awaitable[T]]) -> T:
        """Send the request with `send` until the server accepts a form, and remember the form.

        Raises the first rejection if no form is accepted. Any other error propagates unchanged.
        """
        while True:
            try:
                answered = await send(self.form)
            except ModelError as error:
                if isinstance(error, BadAnswer) and not isinstance(error, (MalformedResponse, Refused)):
                    self._remember()  # the server accepted the request, even if its answer is unusable
                    raise
                failure = error
            else:
                self._remember()
                return answered
            self.form = self._next_form(failure)

    def _next_form(self, error: ModelError) -> Form:
        """Return the form to try after `error`.

        Raises `error` if no other form can help, and the first rejection once all forms have been tried.
        """
        words = re.sub(rf"(?<!\w){re.escape(self._model.lower())}(?!\w)", "", getattr(error, "words", ""))
        if self._first is not None and words != self._reason:
            self._base = self.form  # the server now gives another reason, so the last step helped
        base, self._reason = self._base, words
        carried = [part for part in self._parts if part.name not in base.dropped and self._carries(part)]
        steps = [(part, replace(base, dropped=base.dropped | {part.name})) for part in carried]
        mode = next((mode for mode in self._modes if mode not in self._tried), None)
        if mode is not None:
            steps.insert(0, (Part(mode, _MODE_HINT, dict), replace(base, mode=mode)))
        steps = [step for step in steps if step[0].name not in self._tried]
        hinted = [step for step in steps if step[0].hint.search(words)]
        if not is_open(error, hinted=any(not part.vague for part, _ in hinted)):
            raise self._first if self._first is not None and isinstance(error, MalformedResponse) else error
        self._first = self._first or error
        steps = hinted or [step for step in steps if not step[0].only_hinted]
        if steps:
            part, form = steps[0]
            self._tried.add(part.name)
            return form
        plain = Form(
            self._modes[-1] if self._modes else None,
            base.dropped | {part.name for part in carried if not part.only_hinted},
        )
        if plain == self.form or len(self._tried) - len(self._modes[:1]) < _SEVERAL or _PLAIN in self._tried:
            raise self._first
        self._tried.add(_PLAIN)
        return plain

    def _carries(self, part: Part) -> bool:
        parameters = self._write(self._base.mode)
        return part.drop(parameters) is not parameters

    def _remember(self) -> None:
        """Remember the accepted form for all later requests, and log the omitted user settings."""
        for mode in self._modes[: self._modes.index(self.form.mode)] if self.form.mode else ():
            self._learned.try_last(mode)
        dropped = self.form.dropped - self._learned.dropped
        if dropped:
            _LOGGER.info(
                "model %s rejects %s, which will be omitted from now on", self._model, ", ".join(sorted(dropped))
            )
        self._learned.dropped |= dropped
        for part in self._parts:
            if part.flag and part.name in dropped:
                message = f"model {self._model!r} rejects {part.name}, which will be omitted from now on"
                warnings.warn(message, FlowDebateWarning, stacklevel=2)


_SEVERAL = 2  # minimum number of single steps to try before omitting all optional parts at once
_PLAIN = "all"


def is_open(error: ModelError, *, hinted: bool = False) -> bool:
    """Return whether `error` is a rejection that another form of the request might avoid.

    A rejection for a definite reason does not qualify unless its wording points to an optional part (`hinted`).
    """
    if isinstance(error, RequestRejected) and not error.transient:
        denied = error.status in _DENIALS and not isinstance(error, (ContextTooLong, RateLimited))
        return not error.certain or (hinted and denied)
    return getattr(error, "status", None) == _TOO_EARLY


_DENIALS = (400, 403, 404, 422)
_TOO_EARLY = 425
