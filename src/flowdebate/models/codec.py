"""The one codec of model calls: digests of requests, answers with their attempts, and errors, as JSON.

A row of a stored run's journal and the answer in a line of a cassette have the same form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from hashlib import blake2b
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import PydanticSerializationError, to_json

import flowdebate.errors
from flowdebate._text import error_text, shown
from flowdebate.models.base import Attempt, ModelRequest, ModelResponse, ToolCall, Usage

if TYPE_CHECKING:
    from flowdebate.models.output import OutputSchema


ErrorT = TypeVar("ErrorT", bound=Exception)
_USAGE = tuple(field.name for field in fields(Usage))


def json_text(value: object) -> str:
    """Serialize `value` as JSON; ValueError, TypeError or RecursionError if it is no JSON data."""
    try:
        return to_json(value, serialize_unknown=False).decode()
    except PydanticSerializationError:  # half a surrogate pair, which JSON can hold and UTF-8 cannot
        return json.dumps(value)


def exact_json(value: object) -> str | None:
    """Serialize `value` as JSON; None where reading it back would give another value."""
    try:
        text = json_text(value)
        same = _is_same(value, json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    return text if same else None


def _is_same(one: object, other: object) -> bool:
    """Return whether both are the same plain JSON data, of the same types at every level: 1, 1.0 and True are not."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other


def digest_of(request: ModelRequest) -> str:
    """Hash everything that a model is given: requests of one block with equal hashes are the same request."""
    settings = request.settings
    given: dict[str, Any] = {
        "messages": request.messages,
        "output": None if request.output is None else request.output.digest,
        "tools": [[tool.name, tool.description, tool.parameters] for tool in request.tools],
        "settings": [settings.temperature, settings.max_tokens, settings.effort, settings.extra],
        "form": [request.begins, request.sentences, request.choices],
    }
    return blake2b(json_text(given).encode(), digest_size=16).hexdigest()


def attempts_row(attempts: Iterable[Attempt]) -> list[list[Any]]:
    """Attempts as JSON data: lists without names, since a long debate has thousands of them."""
    return [
        [made.model, made.asked_as, made.waited, made.seconds, _usage_row(made.usage), made.error] for made in attempts
    ]


def attempts_of(recorded: Iterable[Sequence[Any]]) -> list[Attempt]:
    """Read the attempts that `attempts_row` formatted; TypeError for a part of another type."""
    attempts: list[Attempt] = []
    for model, asked_as, waited, seconds, usage, error in recorded:
        _check_types((model, asked_as, waited, seconds, error), _ATTEMPT)
        attempts.append(
            Attempt(model=model, asked_as=asked_as, waited=waited, seconds=seconds, usage=usage_of(usage), error=error)
        )
    return attempts


def call_row(
    response: ModelResponse, attempts: Sequence[Attempt], *, seconds: float, output: OutputSchema | None
) -> dict[str, Any]:
    """An answered call with all its attempts, as JSON data."""
    recorded: dict[str, Any] = {
        "text": response.text,
        "finish": response.finish,
        "model": response.model,
        "usage": _usage_row(response.usage),
        "seconds": seconds,
        "attempts": attempts_row(attempts),
    }
    if response.asked_as is not None:
        recorded["asked_as"] = response.asked_as
    if response.flags:
        recorded["flags"] = response.flags
    if response.logprobs is not None:
        recorded["logprobs"] = response.logprobs
    if response.tool_calls:
        recorded["tool_calls"] = [[call.id, call.name, call.arguments] for call in response.tool_calls]
    elif output is not None:
        recorded["data"] = output.dump(response.data)
    return recorded


def read_call(body: str, output: OutputSchema | None) -> tuple[ModelResponse, list[Attempt], float, Any]:
    """Read the answer, its attempts, its total seconds, and its origin.

    ValueError, KeyError or TypeError (or SchemaViolation) for any other text.
    """
    recorded = json.loads(body)
    _check_types([recorded["seconds"]], [_NUMBER])
    response = response_of(recorded, output)
    return response, attempts_of(recorded["attempts"]), recorded["seconds"], recorded.get("origin", "asked")


def response_of(recorded: Mapping[str, Any], output: OutputSchema | None) -> ModelResponse:
    """Read the answer in a row of `call_row`; the errors are those of `read_call`."""
    calls = tuple(ToolCall(id=i, name=name, arguments=args) for i, name, args in recorded.get("tool_calls", ()))
    return ModelResponse(
        text=recorded["text"],
        # read as JSON: from Python values a strict schema takes no list for a tuple, and no text for a date
        data=None if calls or output is None else output.validate(json_text(recorded["data"])),
        tool_calls=calls,
        finish=recorded["finish"],
        usage=usage_of(recorded["usage"]),
        model=recorded["model"],
        asked_as=recorded.get("asked_as"),
        flags=tuple(recorded.get("flags", ())),
        logprobs=recorded.get("logprobs"),
        validated=None if calls else output,
    )


def models_asked(body: str) -> tuple[str, ...]:
    """The models that were asked for the answer of `call_row`, in order; none for an edited one."""
    return tuple(str(attempt[0]) for attempt in json.loads(body).get("attempts", ()))


def reused_text(body: str) -> str:
    """The answer of `call_row`, for a run that has it from another one."""
    return json_text({**json.loads(body), "origin": "reused"})


def edited_text(body: str, edit: object) -> str:
    """`edit` in place of the answer of `call_row`; ValueError for an answer of another kind.

    An answer with data takes JSON data or its text, any other one takes text.
    """
    recorded = json.loads(body)
    edited = {"finish": "stop", "model": recorded["model"], "usage": _usage_row(Usage.none()), "seconds": 0.0}
    edited |= {"attempts": [], "origin": "edited"}
    if "data" in recorded:
        data = json.loads(edit) if isinstance(edit, str) and not isinstance(recorded["data"], str) else edit
        return json_text({**edited, "text": json_text(data), "data": data})
    if not isinstance(edit, str) or not edit.strip():
        message = "text that is not blank"
        raise ValueError(message)
    return json_text({**edited, "text": edit})


def _usage_row(usage: Usage) -> list[int | None]:
    return [getattr(usage, name) for name in _USAGE]


_NUMBER, _MAYBE_TEXT, _MAYBE_COUNT = (int, float), (str, NoneType), (int, NoneType)
_ATTEMPT = (str, _MAYBE_TEXT, _NUMBER, _NUMBER, _MAYBE_TEXT)


def _check_types(values: Iterable[object], kinds: Iterable[type | tuple[type, ...]]) -> None:
    """TypeError for a value that is not of its kind: it would fail later, in a sum or in an event, and say less."""
    for value, kind in zip(values, kinds, strict=True):
        if not isinstance(value, kind):
            raise TypeError(f"{shown(value)} is no {kind}")


def usage_of(values: list[Any]) -> Usage:
    """Read the counts of a row of `attempts_row` or `call_row`; ValueError or TypeError for what is no such row."""
    _check_types(values, (int, *[_MAYBE_COUNT] * (len(_USAGE) - 1)))
    return Usage(**dict(zip(_USAGE, values, strict=True)))


def failure_text(error: BaseException) -> str:
    """Serialize `error` with those of its attributes that are JSON data."""
    facts: dict[str, Any] = {}
    tuples: list[str] = []
    for name, value in vars(error).items():
        plain = _as_lists(value)
        if exact_json(plain) is not None:
            facts[name] = plain
            if isinstance(value, tuple):
                tuples.append(name)
    ours = flowdebate.errors.__name__
    kind = next((base.__name__ for base in type(error).__mro__ if base.__module__ == ours), "Exception")
    name, said = type(error).__name__, error_text(error)  # an application's own __str__ may raise
    said = "" if said == name else said.removeprefix(f"{name}: ")
    return json_text({"kind": kind, "name": name, "said": said, "facts": facts, "tuples": tuples})


def failure_of(body: str) -> Exception:
    """Read an error of the same class name and message that `failure_text` serialized."""
    recorded = json.loads(body)
    known = recorded["kind"] in flowdebate.errors.__all__
    base: type[Exception] = getattr(flowdebate.errors, recorded["kind"]) if known else Exception
    name = recorded["name"]
    kind = base if base.__name__ == name else type(name, (base,), {"__module__": base.__module__})
    tuples = recorded["tuples"]
    facts = {name: tuple(value) if name in tuples else value for name, value in recorded["facts"].items()}
    return make_error(kind, recorded["said"], facts)


def make_error(kind: type[ErrorT], message: str, facts: Mapping[str, Any]) -> ErrorT:
    """Build an error past its own constructor, which would write another message."""
    error = kind.__new__(kind)
    error.args = (message,)
    vars(error).update(facts)
    return error


def _as_lists(value: object) -> object:
    return [_as_lists(item) for item in value] if isinstance(value, (tuple, list)) else value
