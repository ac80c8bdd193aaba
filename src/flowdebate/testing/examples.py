"""Example inputs for checking a pattern: a question, and the models' texts, failures and delays."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

from flowdebate.errors import (
    ConfigurationError,
    ConnectionLost,
    MalformedResponse,
    ProviderFailed,
    Refused,
    SchemaViolation,
    ScriptError,
)
from flowdebate.models.base import ModelRequest, ModelResponse, ToolCall, Usage
from flowdebate.models.output import inline_definitions
from flowdebate.runs.suspend import HumanRequest
from flowdebate.testing.models import Reply, response_of
from flowdebate.testing.simulated.draws import key_of, normal
from flowdebate.testing.simulated.judge import SimJudge, read_view

Answering: TypeAlias = "Callable[[ModelRequest], Reply | None]"
"""Function that answers some requests, and returns None for the others."""


def _raising(make: Callable[[], Exception]) -> Callable[[], ModelResponse]:
    def fail() -> ModelResponse:
        raise make()

    return fail


FAULTS: Mapping[str, Callable[[], ModelResponse]] = {
    "unavailable": _raising(lambda: ProviderFailed("the endpoint answered 503", status=503)),
    "lost": _raising(lambda: ConnectionLost("the connection broke")),
    "refused": _raising(lambda: Refused("not that")),
    "empty": ModelResponse,
    "cut off": lambda: ModelResponse(text='{"', finish="length"),
}
"""Simulated failures of model calls, keyed by name."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """Input for one check of a pattern; its `repr` can be copied into `check_pattern(…, examples=[…])`."""

    question: str = "Why?"
    seed: int = 0
    texts: Sequence[str] = ("Yes.",)
    """Texts for the model to choose from when a request has no schema; the prompt determines the choice."""
    choices: Sequence[int] = (0,)
    """Numbers from which choices in structured answers are derived; the prompt selects the number."""
    faults: Mapping[int, str] = field(default_factory=dict)
    """Failures to simulate: maps the number of a call, starting at 1, to a key of `FAULTS`."""
    delays: Sequence[int] = ()
    """Delays of consecutive answers, in event loop iterations; the sequence repeats once it is exhausted."""

    def without_faults(self) -> Example:
        """Return a copy of the example without model failures."""
        return replace(self, faults={})


class Call(NamedTuple):
    """A request made during a run."""

    block: str
    prompt: str
    """All messages joined into a single string."""


class ExampleModel:
    """Model that plays every role in every pattern as specified by `example`, and records its `calls`.

    An answer depends on the prompt, but not on the order of calls. When asked for a winner, scores or a letter, the
    model prefers the same position regardless of order, except that in a fifth of all cases it prefers none. `answers`
    takes precedence. Calls beyond `max_calls` raise ScriptError.
    """

    name = "example"

    def __init__(self, example: Example, *, answers: Answering | None = None, max_calls: int = 2000) -> None:
        self.calls: list[Call] = []
        self.failed: int = 0
        """Number of calls that failed as the example specifies."""
        self.unending: bool = False
        """True if the run made more than `max_calls` calls."""
        self._example = example
        self._answers = answers
        self._max_calls = max_calls

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return an answer or raise an error, after the delay given by the example."""
        prompt = "\n".join(str(message.get("content") or "") for message in request.messages)
        self.calls.append(Call(request.block, prompt))
        number, delays = len(self.calls), self._example.delays
        if number > self._max_calls:
            self.unending = True
            message = f"the run makes more than {self._max_calls} calls"
            raise ScriptError(message, model=self.name, block=request.block)
        for _ in range(delays[number % len(delays)] if delays else 0):
            await asyncio.sleep(0)
        if number in self._example.faults:
            self.failed += 1
            return FAULTS[self._example.faults[number]]()
        answer = await self._answer(request, prompt)
        return replace(answer, usage=Usage(calls=1, prompt_tokens=len(prompt), cached_tokens=0, completion_tokens=1))

    async def _answer(self, request: ModelRequest, prompt: str) -> ModelResponse:
        answer = None if self._answers is None else self._answers(request)
        if answer is not None:
            return response_of(answer, request, self.name)
        fields = (request.output_schema or {}).get("properties", {})
        if request.choices or fields.keys() & {"winner", "scores"}:
            # The favorite is identified by its stance, or by its arguments if the prompt has no stances, regardless of
            # its slot and name in the judge view. A judge that prefers a slot would break the promise that a verdict
            # does not depend on the order.
            choice_seed = sum(self._example.choices)
            tied = choice_seed % _TIED == _TIED - 1 and '"null"' in json.dumps(fields.get("winner", "null"))
            with suppress(MalformedResponse):  # another block's answer may have a field of the same name
                names = [side.stance for side in read_view(request).sides]
                quality = {name: 0.0 if tied else normal(choice_seed, key_of(name), 0, 0) for name in names}
                by_text = (lambda _: 0.0) if tied else None
                judge = SimJudge(quality=by_text if request.choices else quality, seed=choice_seed)
                return await judge.request(request)
        drawn = _Drawn(self._example, f"{request.block}\0{prompt}")
        # `handoff` is called whenever it is offered; otherwise, most of the pattern would go untested.
        handing_over = [tool for tool in request.tools if tool.name == "handoff"]
        if handing_over:
            arguments = json.dumps(drawn.instance(inline_definitions(dict(handing_over[0].parameters))))
            return ModelResponse(
                tool_calls=[ToolCall(id="1", name="handoff", arguments=arguments)], finish="tool_calls"
            )
        if request.output is None:
            return ModelResponse(text=drawn.text("") + drawn.transition(prompt))
        data = drawn.instance(inline_definitions(request.output.json_schema))
        try:
            request.output.validate(data)
        except SchemaViolation as violation:
            problem = (
                f"must be a function that answers block {request.block}, because no example is valid there: {violation}"
            )
            raise ConfigurationError("check_pattern()", "answers", self._answers, problem) from None
        return ModelResponse(data=data)


# One judge in this many considers all positions equally good.
_TIED = 5
_TRANSITION = re.compile(r'"(Transition to [^"\n]+)"')
# Depth limit for following a schema, which may refer to itself.
_DEEPEST = 6


class _Drawn:
    """Generated answer to a call; each value depends only on the example, the call and the place in the answer."""

    def __init__(self, example: Example, call: str) -> None:
        self._example = example
        self._call = call

    def pick(self, count: int, place: str) -> int:
        """Pick a non-negative integer below `count`."""
        choices = self._example.choices
        return choices[self._hash(place) % len(choices)] % count if choices and count else 0

    def text(self, place: str) -> str:
        texts = self._example.texts
        return texts[self._hash(place) % len(texts)]

    def _hash(self, place: str) -> int:
        # Not hash(), which varies between processes: examples must be reproducible from their repr.
        return crc32(f"{self._call}\0{place}".encode(errors="replace"))

    def transition(self, prompt: str) -> str:
        """Return one of the handoff lines in the prompt, to pass the turn to another speaker; "" if there are none."""
        lines = _TRANSITION.findall(prompt)
        return f"\n\n{lines[self.pick(len(lines), 'next')]}" if lines else ""

    def instance(  # noqa: PLR0911 - kind by kind
        self, schema: Mapping[str, Any], place: str = "", nth: int = 0, depth: int = 0
    ) -> object:
        """Generate an instance of `schema`, which must not contain references; avoid repeated enum values in a list."""
        if "enum" in schema:
            # sorted, to make the order independent of the judge's reading order
            values = sorted(schema["enum"], key=str)
            return values[(self.pick(len(values), place) + nth) % len(values)]
        options = schema.get("anyOf") or schema.get("oneOf")
        if options:
            ends = depth >= _DEEPEST and {"type": "null"} in options
            schema_chosen = {"type": "null"} if ends else options[self.pick(len(options), f"{place}|")]
            return self.instance(schema_chosen, place, nth, depth + 1)
        kind = schema.get("type")
        if kind == "object":
            fields = schema.get("properties", {})
            return {name: self.instance(fields[name], f"{place}.{name}", nth, depth + 1) for name in fields}
        if kind == "array":
            minimum = schema.get("minItems", 0 if depth >= _DEEPEST else 1)
            length = minimum
            if depth < _DEEPEST:
                length = min(minimum + self.pick(3, f"{place}#"), schema.get("maxItems", minimum + 2))
            items = schema.get("items", {})
            return [self.instance(items, f"{place}[]", index, depth + 1) for index in range(length)]
        if kind == "boolean":
            return self.pick(2, place) == 1
        if kind == "null":
            return None
        if kind in ("integer", "number"):
            minimum = schema.get("minimum", 0)
            maximum = schema.get("maximum", minimum + 10)
            value = minimum + (maximum - minimum) * self.pick(11, place) / 10
            return round(value) if kind == "integer" else value
        return self.text(place)[: schema.get("maxLength")]


def answer_of(example: Example, request: HumanRequest) -> object:
    """Generate a human's answer without regard to the transcript so far."""
    if request.problem is not None:  # otherwise, the request would be repeated forever
        problem = f"must have humans with an `ask` function, or humans that accept generated answers: {request.problem}"
        raise ConfigurationError("check_pattern()", "pattern", request.block, problem)
    drawn = _Drawn(example, request.block)
    return drawn.text("") if request.schema is None else drawn.instance(inline_definitions(dict(request.schema)))
