"""Answer forms of a handoff: a call of `handoff`, JSON with the same fields, text; all read leniently.

The schema allows only those who can speak next; any answer is read, so that
a wrong name costs one more call and no text.
"""

from __future__ import annotations

from functools import lru_cache
from json import JSONDecoder
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, create_model
from pydantic_core import from_json

from flowdebate._util.text import clean_text
from flowdebate._util.wire import one_of
from flowdebate.blocks.tools import Tool, function_schema
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.handoff.decision import written
from flowdebate.patterns.handoff.schemas import HandoffAnswer, TransitionForm
from flowdebate.patterns.handoff.transition import read_transition
from flowdebate.patterns.roles import trim_to_sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.models.base import ToolSpec
    from flowdebate.runs.context import Context


_NAME = "handoff"


class HandoffFields(BaseModel):
    """The fields of a handover, as a model wrote them."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", defer_build=True)

    response: Any = None
    next_agent_name: Any = None

    def answer(self) -> HandoffAnswer:
        """The answer that they make."""
        response = clean_text(self.response) if isinstance(self.response, str) else ""
        return HandoffAnswer(response=response, next_agent_name=written(self.next_agent_name))


def handoff_form(transition: TransitionForm, others: Sequence[str], *, where: str) -> dict[str, Any]:
    """The options of `generator` by which its model hands over to one of `others` in the form of `transition`."""
    if transition == "text":
        return {}
    if transition == "tool":
        return {"answer_tool": handoff_tool(others)}
    if transition == "structured":
        return {"output_schema": handoff_model(tuple(others))}
    raise ConfigurationError(
        where, "transition", transition, f"one of {', '.join(map(repr, get_args(TransitionForm)))}"
    )


def handoff_spec(others: Sequence[str]) -> ToolSpec:
    """Schema of the function `handoff`, by which a model hands over to one of `others`.

    >>> handoff_spec(["Con", "Neutral"]).parameters["properties"]["next_agent_name"]["enum"]
    ['Con', 'Neutral']
    """

    def handoff(response: str, next_agent_name: str) -> None:
        """Say something in the debate, and hand over to whoever speaks next.

        Args:
            response: What you say.
            next_agent_name: Who speaks next.
        """

    handoff.__annotations__["next_agent_name"] = one_of(others)
    return function_schema(handoff)


def handoff_tool(others: Sequence[str]) -> Tool:
    """The function `handoff`, whose call is an answer; any JSON object will do as its arguments."""

    async def call(values: dict[str, Any], _: Context) -> HandoffAnswer:
        return HandoffFields(**values).answer()

    return Tool(spec=handoff_spec(others), call=call, arguments=HandoffFields)


@lru_cache(maxsize=64)
def handoff_model(others: tuple[str, ...]) -> type[HandoffFields]:
    """The same as an output schema: it says what `handoff_spec` says, and takes any JSON object."""
    parameters = handoff_spec(others).parameters

    def as_told(schema: dict[str, Any]) -> None:
        title = schema["title"]  # servers without schemas, but with tools, get it under this name
        schema.clear()
        schema.update({"title": title, **parameters})

    return create_model(
        "Handoff", __base__=(type("Told", (HandoffFields,), {"model_config": ConfigDict(json_schema_extra=as_told)}),)
    )


def read_text(text: str, names: Sequence[str]) -> HandoffAnswer:
    """The answer in a model's text, which may contain the fields, or the call, as JSON."""
    fields = _written_down(text) if '"response"' in text else None
    if fields is not None:
        return fields.answer()
    transition = read_transition(text, names)
    return HandoffAnswer(response=transition.text, next_agent_name=transition.name)


def salvaged(answer: str, names: Sequence[str]) -> HandoffAnswer:
    """The answer in invalid JSON: prose, or an object that was cut off, or that goes on too long."""
    if not answer.lstrip().startswith(("{", "[")):
        return read_text(answer, names)
    if not _begins_well(answer):
        return HandoffAnswer(response="")
    # the name is not taken from what was cut off: it could be the beginning of another one
    if (said := _part(answer, partial=True)) is not None:
        return HandoffAnswer(response=clean_text(said))
    part = trim_to_sentence(_part(answer, partial="trailing-strings") or "")
    return HandoffAnswer(response=clean_text(part), cut_off=True)


def _written_down(text: str) -> HandoffFields | None:
    """The fields in the first object of `text` that has any words, or is a call with them."""
    begin = text.find("{")
    for _ in range(_TRIES):
        if begin == -1:
            break
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            begin = text.find("{", begin + 1)
            continue
        if value.get("name") == _NAME and isinstance(value.get("arguments"), dict):
            value = value["arguments"]
        if isinstance(value.get("response"), str):
            return HandoffFields.model_validate(value)
        begin = text.find("{", end)
    return None


_DECODER = JSONDecoder()
_TRIES = 50
"""Braces that are looked at: each can cost as much time as the text is long."""


def _begins_well(text: str) -> bool:
    """Whether `text` is valid JSON but for its end: what is broken within may be broken anywhere."""
    try:
        from_json(text)
    except ValueError as error:
        return str(error).startswith(("EOF", "trailing characters"))
    return False


def _part(text: str, *, partial: Literal[True, "trailing-strings"]) -> str | None:
    """The response in a part of an object; with "trailing-strings" also where it is itself cut off."""
    value = from_json(text, allow_partial=partial)
    response = value.get("response") if isinstance(value, dict) else None
    return response if isinstance(response, str) else None
