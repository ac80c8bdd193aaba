"""Handoff answers: how they are requested, parsed and validated.

A model answers by calling `handoff`, in JSON with the same fields, or in text ending in "Transition to NAME". The
schema allows only valid next speakers, but any answer is parsed, whatever its format: a wrong name merely costs another
call, and no text is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from json import JSONDecoder
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic_core import from_json

from flowdebate._text import CutOff, clean_text, is_blank, short_repr
from flowdebate._util.option_types import check_option
from flowdebate._util.wire import WireModel, one_of
from flowdebate.blocks.base import Block
from flowdebate.blocks.functions import Tool, function_schema
from flowdebate.chassis.sentences import trim_to_sentence
from flowdebate.chassis.state import Flag
from flowdebate.chassis.turn import (
    speech_text,
)
from flowdebate.models.base import ModelResponse, ToolSpec
from flowdebate.prompts import name_among
from flowdebate.runs.context import Context

from .schemas import (
    ChosenBy,
    HandoffAnswer,
    TransitionForm,
)
from .transition import read_transition

# The three formats


_DECODER = JSONDecoder()
_TRIES = 50  # maximum number of braces to examine; examining each one takes time proportional to the length of the text


class HandoffFields(BaseModel):
    """The fields of a handover as written by the model."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", defer_build=True)

    response: Any = None
    next_agent_name: Any = None

    def answer(self) -> HandoffAnswer:
        response = clean_text(self.response) if isinstance(self.response, str) else ""
        return HandoffAnswer(response=response, next_agent_name=spell_name(self.next_agent_name))


def handoff_form(transition: TransitionForm, other_names: Sequence[str], *, location: str) -> dict[str, Any]:
    """Return the `generator` options for a handoff to one of `other_names` in the given `transition` format."""
    check_option(TransitionForm, "transition", transition, location=location, optional=False)
    if transition == "text":
        return {}
    if transition == "tool":
        return {"answer_tool": handoff_tool(other_names)}
    return {"output_schema": handoff_model(tuple(other_names))}


def handoff_spec(other_names: Sequence[str]) -> ToolSpec:
    """Build the schema of the function `handoff`, which a model calls to hand over to one of `other_names`.

    >>> handoff_spec(["Con", "Neutral"]).parameters["properties"]["next_agent_name"]["enum"]
    ['Con', 'Neutral']
    """

    def handoff(response: str, next_agent_name: str) -> None:
        """Say something in the debate, and hand over to whoever speaks next.

        Args:
            response: What you say.
            next_agent_name: Who speaks next.
        """

    handoff.__annotations__["next_agent_name"] = one_of(other_names)
    return function_schema(handoff)


def handoff_tool(other_names: Sequence[str]) -> Tool:
    """Create the function `handoff`, which accepts any JSON object as its arguments."""

    async def call(values: dict[str, Any], _: Context) -> HandoffAnswer:
        return HandoffFields(**values).answer()

    return Tool(spec=handoff_spec(other_names), call=call, arguments=HandoffFields)


@lru_cache(maxsize=64)
def handoff_model(other_names: tuple[str, ...]) -> type[HandoffFields]:
    """Build the output schema for a handoff, using the descriptions from `handoff_spec`; it accepts any JSON object."""
    parameters = handoff_spec(other_names).parameters

    def replace_schema(schema: dict[str, Any]) -> None:
        # the title is also the name of the tool used to send the schema to servers that support tools but not schemas
        title = schema["title"]
        schema.clear()
        schema.update({"title": title, **parameters})

    return create_model(
        "Handoff",
        __base__=(type("Told", (HandoffFields,), {"model_config": ConfigDict(json_schema_extra=replace_schema)}),),
    )


def read_output(names: Sequence[str], output: Any, response: ModelResponse, _: Context) -> HandoffAnswer:  # noqa: ANN401 - by the form
    """Parse the answer from a model's output in any of the formats."""
    if isinstance(output, str):
        if response.finish != "length":
            return read_text(output, names)
        return read_text(trim_to_sentence(output), names).model_copy(update={"cut_off": True})
    answer: HandoffAnswer = output if isinstance(output, HandoffAnswer) else output.answer()
    if is_blank(answer.response) and response.tool_calls and not is_blank(response.text):
        return answer.model_copy(update={"response": response.text})  # use the text that accompanies the call
    return answer


def read_text(text: str, names: Sequence[str]) -> HandoffAnswer:
    """Parse the answer from a model's text, which may contain the fields or the function call as JSON."""
    # without tools or schemas, a model may write the call as text
    fields = _find_object(text) if '"response"' in text else None
    if fields is not None:
        return fields.answer()
    transition = read_transition(text, names)
    return HandoffAnswer(response=transition.text, next_agent_name=transition.name)


def salvage_json(answer: str, names: Sequence[str]) -> HandoffAnswer:
    """Parse the answer from text that is not valid JSON: prose, a truncated object, or an object with extra text."""
    if not answer.lstrip().startswith(("{", "[")):
        return read_text(answer, names)
    try:
        from_json(answer)
        cut_short = False
    except ValueError as error:
        cut_short = str(error).startswith(("EOF", "trailing characters"))
    if not cut_short:  # if the JSON is complete but invalid, the error may be anywhere in it
        return HandoffAnswer(response="")
    # ignore a truncated name, since several names may begin that way
    if (text := _part(answer, partial=True)) is not None:
        return HandoffAnswer(response=clean_text(text))
    part = trim_to_sentence(_part(answer, partial="trailing-strings") or "")
    return HandoffAnswer(response=clean_text(part), cut_off=True)


def _find_object(text: str) -> HandoffFields | None:
    """Parse the first JSON object in `text` with a `response` field, looking inside `handoff` calls as well."""
    begin = text.find("{")
    for _ in range(_TRIES):
        if begin == -1:
            break
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):  # either no object begins here, or it is nested too deeply for the decoder
            begin = text.find("{", begin + 1)
            continue
        if value.get("name") == "handoff" and isinstance(value.get("arguments"), dict):
            value = value["arguments"]
        if isinstance(value.get("response"), str):
            return HandoffFields.model_validate(value)
        begin = text.find("{", end)
    return None


def _part(text: str, *, partial: Literal[True, "trailing-strings"]) -> str | None:
    """Return the response from an incomplete object.

    If `partial` is "trailing-strings", the response itself may be incomplete.
    """
    value = from_json(text, allow_partial=partial)
    response = value.get("response") if isinstance(value, dict) else None
    return response if isinstance(response, str) else None


# Decisions


NOTHING = "nothing was said"

_TEXTS = ("response", "text")
_NAMES = ("next_agent_name", "nextAgentName")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffDecision:
    """A speaker's contribution and choice of the next speaker."""

    text: str
    next_agent_name: str | None = None
    """Next speaker, or None if the answer names no valid speaker."""
    chosen_by: ChosenBy | None = None
    problem: str | None = None
    """Problem with the answer, or None if there is none."""
    written_name: str | None = None
    """Name of the next speaker, as written in the answer."""
    cut_off: bool = False
    """True if the text is truncated."""
    speaker: Block[Any, Any] | None = field(default=None, repr=False, compare=False)
    """Block to call again for a valid choice, or None if it cannot be called a second time."""

    @property
    def flag(self) -> Flag | None:
        """Problem with the contribution's text, or None if there is none."""
        return "empty" if not self.text else "cut_off" if self.cut_off else None


def read_answer(value: object, agent_name: str, names: Sequence[str], ctx: Context) -> HandoffAnswer:
    """Parse a block's output as the answer of the speaker `agent_name`.

    The output may be a dict or an object with a `response` or a `text`, and optionally a `next_agent_name`, in either
    key style. Any other output is converted to text by `speech_text`. If the name is not given separately,
    `read_transition` looks for it in the text.
    """
    raw_text = _first_value(value, _TEXTS)
    text = speech_text(raw_text if isinstance(raw_text, str) else value, agent_name, ctx)
    name, cut_off = _first_value(value, _NAMES), isinstance(text, CutOff)
    if name is not None:
        return HandoffAnswer(response=str(text), next_agent_name=spell_name(name), cut_off=cut_off)
    transition = read_transition(str(text), names)
    return HandoffAnswer(response=transition.text, next_agent_name=transition.name, cut_off=cut_off)


def check_decision(
    answer: HandoffAnswer,
    *,
    agent_name: str,
    names: Sequence[str],
    chosen_by: ChosenBy = "speaker",
    speaker: Block[Any, Any] | None = None,
) -> HandoffDecision:
    """Validate `answer`, noting a problem if it has no text or does not name a valid speaker to follow `agent_name`.

    >>> answer = HandoffAnswer(response="Well.", next_agent_name="pro")
    >>> check_decision(answer, agent_name="Pro", names=["Pro", "Con"]).problem
    "'Pro' handed over to itself"
    """
    text, next_name = "" if is_blank(answer.response) else answer.response, answer.next_agent_name
    name = None if next_name is None or is_blank(next_name) else name_among(next_name, names)
    problem: str | None = None  # shown to the model when it is called again
    if next_name is None or is_blank(next_name):
        problem = "no next speaker was named"
    elif name is None:
        problem = f"{short_repr(next_name)} is not a speaker in this debate"
    elif name == agent_name:  # naming oneself is a different problem from naming an unknown speaker
        name, problem = None, f"{name!r} handed over to itself"
    if not text:
        problem = NOTHING if problem is None else f"{NOTHING}, and {problem}"
    return HandoffDecision(
        text=text,
        next_agent_name=name,
        chosen_by=None if name is None else chosen_by,
        problem=problem,
        written_name=next_name,
        cut_off=answer.cut_off,
        speaker=speaker,
    )


def _first_value(value: object, keys: Sequence[str]) -> object:
    """Look up `keys` in `value` in order; return the first value other than None, or None if there is none."""
    if isinstance(value, Mapping):
        return next((value[key] for key in keys if value.get(key) is not None), None)
    if isinstance(value, str):  # ignore attributes of a str subclass
        return None
    return next((field_value for key in keys if (field_value := getattr(value, key, None)) is not None), None)


def spell_name(value: object) -> str | None:
    """Convert a speaker's name to a string; an enum member becomes its value, and None stays None."""
    if isinstance(value, Enum):
        value = value.value
    return clean_text(str(value)) if isinstance(value, str) else None if value is None else short_repr(value)


def handoff_schema(names: Sequence[str]) -> type[WireModel]:
    """Build the schema for an answer, with fields for the response and for the next speaker (one of `names`)."""
    return create_model(
        "HandoffAnswer",
        __base__=WireModel,
        response=(str, Field(description="What you say")),
        next_agent_name=(one_of(names), Field(description="Who speaks next")),
    )
