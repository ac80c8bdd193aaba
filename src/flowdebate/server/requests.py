"""Request bodies and query parameters of the HTTP interface."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from flowdebate._text import did_you_mean
from flowdebate.evaluation.readers import Shown
from flowdebate.runs.queue_state import LOWEST
from flowdebate.ui.statuses import State

MAX_QUESTION_LENGTH = 20_000
"""Maximum length in characters of a question, or of its JSON form if it is not a string."""
_DEEPEST = 50
"""Maximum nesting depth of JSON; a few hundred levels make other libraries exceed Python's recursion limit."""
_MAX_ID_LENGTH = 200
"""Maximum length in characters of ids, names and labels; 20 ids of this length fit in the `Last-Event-ID` header of a
connection that follows several runs.
"""
_MAX_LABELS = 32
_MAX_EDITS = 200
_YEAR = 31_536_000

T = TypeVar("T")
_EMPTY = BeforeValidator(lambda value: None if value == "" else value)
"""Value of an empty form field."""


def _check_text(value: str) -> str:
    """Reject unpaired surrogates: JSON can represent them, but UTF-8 and the stores cannot."""
    if value.encode(errors="replace").decode() != value:
        raise ValueError("must be valid Unicode")
    return value


def check_data(value: T) -> T:
    """Reject data that cannot be stored, shown or forwarded.

    The data is checked level by level, because recursion into deeply nested data could exceed Python's recursion limit.
    """
    level: list[object] = [value]
    depth = 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise ValueError(f"must be nested at most {_DEEPEST} levels deep")
        values: list[object] = []
        for item in level:
            if isinstance(item, dict):
                values += [*item, *item.values()]
            elif isinstance(item, list):
                values += item
            elif isinstance(item, str):
                _check_text(item)
            elif isinstance(item, float) and not math.isfinite(item):
                raise ValueError("must be valid JSON, which cannot contain NaN or infinity")
        level = values
    return value


def _check_question(value: T) -> T:
    length = len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if length > MAX_QUESTION_LENGTH:
        raise ValueError(f"must have at most {MAX_QUESTION_LENGTH:,} characters, but has {length:,}")
    return value


Data = Annotated[Any, AfterValidator(check_data)]
_Text = Annotated[str, AfterValidator(_check_text)]
# Ids become part of paths and file names, so neither slashes nor a leading dot are allowed.
_RunId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]*$", max_length=_MAX_ID_LENGTH)]
_Place = Annotated[_Text, Field(min_length=1, max_length=1_000)]
_Name = Annotated[_Text, Field(min_length=1, max_length=_MAX_ID_LENGTH)]
_Count = Annotated[int, Field(ge=1, le=10**9)]
_Amount = Annotated[float, Field(gt=0, le=10**9, allow_inf_nan=False)]
# Stores use 64-bit integers.
_Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Labels = Annotated[dict[_Name, Annotated[_Text, Field(max_length=_MAX_ID_LENGTH)]], Field(max_length=_MAX_LABELS)]
_Options = Annotated[dict[str, Data], AfterValidator(check_data)]


def _unknown_field(name: str, names: Sequence[str]) -> PydanticCustomError:
    """Create the error for an unknown field of a request."""
    meant = did_you_mean(name, names, form="`{}`") or f"Fields: {', '.join(names)}."
    return PydanticCustomError("unknown_field", "is not a known field. {meant}", {"meant": meant})


class _Body(BaseModel):
    """Base class for request bodies: fields have camelCase names, and unknown fields are rejected."""

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    @model_validator(mode="wrap")
    @classmethod
    def _suggest_fields(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Add suggestions for the intended field names to errors about unknown fields."""
        try:
            return handler(data)
        except ValidationError as error:
            names = [field.alias or name for name, field in cls.model_fields.items()]
            problems = []
            for item in error.errors(include_url=False):
                kind, location = item["type"], item["loc"]
                is_unknown = kind == "extra_forbidden" and len(location) == 1
                problem = (
                    _unknown_field(str(location[0]), names) if is_unknown else PydanticCustomError(kind, item["msg"])
                )
                problems.append(InitErrorDetails(type=problem, loc=location, input=item["input"]))
            raise ValidationError.from_exception_data(cls.__name__, problems) from None


class LimitsBody(_Body):
    """Limits on a run, which are capped at the server's own limits."""

    calls: _Count | None = None
    tokens: _Count | None = None
    seconds: _Amount | None = None
    working_seconds: _Amount | None = None


class BeginBody(_Body):
    """A request to start a run."""

    pattern: _Name = Field(description="A pattern name listed by `GET /patterns`.")
    question: Annotated[Data, AfterValidator(_check_question)] = Field(
        None, description="What the run is about: text, or the JSON input of a registered pattern."
    )
    options: _Options | None = Field(None, description="Options of a built-in pattern, as in a plan file.")
    run_id: _RunId | None = Field(None, description="ID for the run, which makes the request safe to repeat.")
    seed: _Seed | None = None
    labels: _Labels = {}
    limits: LimitsBody | None = None
    priority: Annotated[int, Field(ge=0, le=LOWEST)] = Field(
        0, description="If runs have to wait, those with lower values start first."
    )


class AnswerBody(_Body):
    """A human's answer."""

    answer: Data = Field(description="Text, or JSON that matches the request's schema.")
    place: _Place | None = Field(
        None, description="Where the run is waiting; required if it is waiting in several places."
    )
    resume: bool = Field(default=True, description="Resume the run as soon as no other answer is awaited.")
    by: _Name | None = Field(None, description="The program that answers on a person's behalf; the journal records it.")


class LinkAnswerBody(_Body):
    """A human's answer, submitted through a link that determines the run and the request."""

    answer: Data = Field(description="Text, or JSON that matches the request's schema.")
    place: _Place | None = Field(
        None, description="Where the run is waiting, so that a later request cannot receive this answer."
    )


class ResumeBody(_Body):
    """Options for resuming a run."""

    on_uncertain: Literal["retry", "raise"] = "retry"
    allow_changes: bool = False
    retry_dead_letter: bool = False
    limits: LimitsBody | None = None


class FilterBody(_Body):
    """Filters for cancelling runs; all matching runs are cancelled."""

    status: State | None = Field(None, description="If omitted, all runs that can be cancelled or resumed.")
    pattern: _Name | None = None
    text: Annotated[_Text, Field(max_length=1_000)] | None = Field(
        None, description="Text to search for in the question."
    )
    labels: _Labels = {}
    limit: Annotated[int, Field(ge=1, le=200)] = 200


class ResumeAllBody(FilterBody):
    """Filters and options for resuming runs."""

    retry_dead_letter: bool = False


class ForkBody(_Body):
    """Options for forking a run."""

    at: _Place | None = Field(None, description="The place from which the journal is no longer reused.")
    edits: Annotated[dict[_Place, Data], Field(max_length=_MAX_EDITS)] | None = Field(
        None, description="Answers that replace recorded ones, keyed by place."
    )
    pattern: _Name | None = None
    options: _Options | None = Field(None, description="Options to change, as in a plan file.")
    fork_id: _RunId | None = Field(None, description="ID for the new run.")
    seed: _Seed | None = None
    labels: _Labels = {}
    limits: LimitsBody | None = None


class NoteBody(_Body):
    """A note on a run."""

    note: Annotated[str, Field(max_length=2_000)] = Field(description="Markdown; empty to delete the note.")


class VoteBody(_Body):
    """A reader's vote, cast before seeing the verdict."""

    winner: Annotated[_Text, Field(max_length=MAX_QUESTION_LENGTH)] | None = Field(
        description="The side that argued better, by its stance; null for neither."
    )
    why: Annotated[_Text, Field(max_length=2_000)] | None = None
    order: Annotated[list[_Text], Field(max_length=_MAX_ID_LENGTH)] | None = Field(
        None, description="The sides in the order in which this reader read them."
    )
    reader: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,64}$")] | None = Field(
        None,
        description="A random ID for the reader, who has one vote; if users sign in, the reader is the user.",
    )


class CorrectionBody(_Body):
    """New or corrected archive entry for a debate, replacing any earlier entry."""

    right: _Name | None = Field(None, description="The agent whose proposal turned out right.")
    wrong: _Name | None = Field(None, description="The agent whose proposal turned out wrong, if only that is known.")
    answer: Annotated[_Text, Field(min_length=1, max_length=MAX_QUESTION_LENGTH)] | None = Field(
        None, description="The answer to show to later debates instead of the one agreed on."
    )


class LinkBody(_Body):
    """Options for a new signed link."""

    place: _Place | None = Field(
        None, description="Where the run is waiting; required if it is waiting in several places."
    )
    role: _Name | None = Field(
        None, description="The block that asks: the link then covers all of its requests, not just one at a place."
    )
    shows: Shown | None = Field(
        None,
        description="Create a public link instead, which cannot be used to answer: to the run or to a blind vote.",
    )
    seconds: Annotated[float, Field(gt=0, le=_YEAR)] = Field(86_400, description="How long the link is valid.")


class AuditQuery(BaseModel):
    """Filters for the runs whose judges are audited."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)
    pattern: Annotated[_Name | None, _EMPTY] = None
    text: Annotated[Annotated[_Text, Field(max_length=1_000)] | None, _EMPTY] = Field(
        None, description="Text to search for in the question."
    )
    label: list[Annotated[str, Field(pattern=r"^[^=]+=.*$", max_length=2 * _MAX_ID_LENGTH)]] = Field(
        [], max_length=_MAX_LABELS, description="`NAME=VALUE`; may be repeated."
    )

    @property
    def filters(self) -> dict[str, Any]:
        return {
            "pattern": self.pattern or None,
            "text": self.text or None,
            "labels": dict(text.split("=", 1) for text in self.label),
        }


class RunsQuery(AuditQuery):
    """Filters for listing runs."""

    status: Annotated[State | None, _EMPTY] = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    before: Annotated[str, Field(max_length=_MAX_ID_LENGTH * 2)] | None = Field(
        None, description="The `next` value of the previous page."
    )

    @property
    def filters(self) -> dict[str, Any]:
        return {"status": self.status or None, **super().filters}
