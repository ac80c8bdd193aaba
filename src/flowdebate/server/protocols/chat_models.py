"""Models of the OpenAI-compatible endpoint: the patterns that can be run with nothing but a chat."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from flowdebate.errors import ConfigurationError
from flowdebate.patterns import PATTERNS
from flowdebate.server.protocols.chat_request import WHERE, with_context
from flowdebate.service.plans.options import OutputOptions
from flowdebate.service.plans.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.patterns import PatternInfo
    from flowdebate.server.protocols.chat_request import ChatRequest
    from flowdebate.service.service import Service


_ANSWER = ":answer"
_PLAIN = "Should rents be capped?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatModel:
    """A pattern as a model: `debate/NAME` for a registered one, `flowdebate/NAME` for a built-in one.

    With `:answer` behind its name, the completion is the output alone.
    """

    pattern: str
    info: PatternInfo | None
    """None for a registered pattern."""
    answer_only: bool

    @property
    def id(self) -> str:
        """Its name as a model."""
        return f"{'debate' if self.info is None else 'flowdebate'}/{self.pattern}{_ANSWER * self.answer_only}"

    def input(self, request: ChatRequest) -> tuple[dict[str, Any], str]:
        """The options and the question of a run for this request; ConfigurationError for what the pattern cannot do."""
        options, whole = with_context(request.question, request.context, self.info, where=WHERE)
        if (schema := request.answer_schema) is not None:
            if not self.answer_only or self.info is None or not _writes_output(self.info):
                allowed = 'text, or left out: only built-in patterns with a synthesizer, as "flowdebate/debate:answer"'
                raise ConfigurationError(WHERE, "response_format", "json_schema", f"{allowed}, answer in a schema")
            options["schema"] = schema
        return options, whole


def chat_models(service: Service) -> Iterator[ChatModel]:
    """All models, each with its answer alone behind it, where there is one."""
    for name in service.patterns:
        yield ChatModel(pattern=name, info=None, answer_only=False)
        yield ChatModel(pattern=name, info=None, answer_only=True)
    if service.plans:
        for info in PATTERNS.values():
            if _needs_only_a_question(info):
                yield ChatModel(pattern=info.name, info=info, answer_only=False)
                if _has_answer(info):
                    yield ChatModel(pattern=info.name, info=info, answer_only=True)


def find_chat_model(service: Service, name: str) -> ChatModel | None:
    """The model of this name."""
    return next((model for model in chat_models(service) if model.id == name), None)


@cache
def _needs_only_a_question(info: PatternInfo) -> bool:
    try:
        return bool(make_plan(info, {info.subject: _PLAIN}).speakers)
    except ConfigurationError:
        return False


def _writes_output(info: PatternInfo) -> bool:
    return issubclass(info.load_page().options, OutputOptions)


@cache
def _has_answer(info: PatternInfo) -> bool:
    """Whether a run comes to an output, or to an answer of the pattern's own; a handoff comes to neither."""
    output = info.load_output()
    own = vars(output).get("answer")
    says = "answer" in output.model_fields or (
        isinstance(own, property) and get_type_hints(own.fget).get("return") is not type(None)
    )
    return says or _writes_output(info)
