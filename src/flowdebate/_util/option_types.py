"""Option types, each with one validator and description shared by Python, plan files, the CLI, HTTP and MCP."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from flowdebate._text import number_problem, rephrase_problem, text_problem
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails
    from typing_extensions import TypeForm


def rejected(problem: str) -> PydanticCustomError:
    """Create an error for a validator to raise, with a message that is shown unchanged."""
    return PydanticCustomError("rejected", "{problem}", {"problem": problem})


def explained(problem: str | Callable[[object], str]) -> WrapValidator:
    """Use `problem` as the error message for invalid values of a type, in place of pydantic's message."""

    def check(value: object, validate: ValidatorFunctionWrapHandler) -> object:
        try:
            return validate(value)
        except ValidationError:
            raise rejected(problem if isinstance(problem, str) else problem(value)) from None

    return WrapValidator(check)


def number(**limits: Any) -> WrapValidator:  # noqa: ANN401 - those of `number_problem`
    """Use a description of the type's limits as the error message for invalid numbers, in place of pydantic's."""
    return explained(partial(number_problem, **limits))


@dataclass(frozen=True)
class Reach:
    """Annotation for a string type: the kind of resource to which a plan's string refers, such as a file or server."""

    of: Literal["nothing", "file", "server", "model"]


NOTHING = Reach("nothing")


def is_text(value: str) -> bool:
    """Return whether `value` is non-blank text."""
    # Lone surrogates, for example from a broken command-line argument, cannot be encoded in UTF-8 and therefore cannot
    # be sent.
    return bool(value.strip()) and value.encode(errors="replace").decode() == value


def _not_blank(value: str) -> str:
    if not is_text(value):
        raise PydanticCustomError("blank", "must not be blank")
    return value


def _off(value: bool) -> bool:  # noqa: FBT001 - a validator
    if value:
        raise PydanticCustomError("on", "on")
    return value


def _at_most_all_rounds(value: int) -> int:
    if value > MAX_ROUNDS:
        raise rejected(f"must be at most {MAX_ROUNDS:,}")
    return value


MAX_ROUNDS = 10_000
"""Maximum number of rounds or turns. Context windows fill up much sooner, since every prompt contains the
transcript.
"""
_Off = Annotated[bool, AfterValidator(_off)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Ratio = Annotated[float, Field(ge=0, le=1)]
PlainText = Annotated[str, AfterValidator(_not_blank)]
Text = Annotated[PlainText, NOTHING, explained(lambda value: text_problem(value) or "must be valid Unicode")]
Vendors = Annotated[
    list[PlainText],
    NOTHING,
    explained("must be the name of a vendor or model, or a list of such names"),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]
Flag = Annotated[bool, explained("must be true or false")]
Whole = Annotated[int, number(whole=True)]
Count = Annotated[int, Field(ge=1), number(whole=True, minimum=1)]
Quorum = Count
"""Minimum number of panel members or debate sides whose answers are needed for a result; the others may fail."""
Rounds = Annotated[Count, AfterValidator(_at_most_all_rounds)]
Amount = Annotated[_Positive, number(above=0)]
Money = Annotated[_Positive, number(above=0)]
Seconds = Annotated[_Positive, number(above=0)]
SecondsOrOff = Annotated[
    _Positive | _Off, explained("must be a number of seconds greater than 0, or off (false in a file)")
]
Lead = Annotated[float, Field(ge=0, allow_inf_nan=False), number(minimum=0)]
Share = Annotated[_Ratio, number(minimum=0, maximum=1)]
ShareOrOff = Annotated[_Ratio | _Off, explained("must be a number between 0 and 1, or off (false in a file)")]
MIN_TURN_WORDS, MAX_TURN_WORDS = 10, 2_000
TurnLength = Annotated[
    Literal["short", "medium", "long"] | Annotated[int, Field(ge=MIN_TURN_WORDS, le=MAX_TURN_WORDS)],
    explained(f"must be short, medium, long, or a number of words from {MIN_TURN_WORDS} to {MAX_TURN_WORDS:,}"),
]
RoundsOrAll = Annotated[
    Literal["all"] | Annotated[int, Field(ge=1)], explained("must be all, or a whole number of rounds of at least 1")
]


# cached because a pattern validates its options each time it is built
_ADAPTERS: dict[object, TypeAdapter[object]] = {}


def check_option(kind: TypeForm[object], field: str, value: object, *, location: str, optional: bool = True) -> None:
    """Raise ConfigurationError unless `value` is valid for the type `kind`; None is also valid if `optional` is set.

    >>> check_option(Count, "max_rounds", 0, location="debate 'rent'")
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: debate 'rent': `max_rounds` must be at least 1 (got 0)
    """
    if value is not None or not optional:
        try:
            if (adapter := _ADAPTERS.get(kind)) is None:
                adapter = _ADAPTERS[kind] = TypeAdapter(kind)
            adapter.validate_python(value, strict=True)
        except ValidationError as error:
            problem = error.errors()[0]
            raise ConfigurationError(
                location, field, problem["input"], problem_of(problem), choices=choices_of(problem)
            ) from None


def choices_of(error: ErrorDetails) -> list[str]:
    """Return the choices allowed by the `Literal` type that rejected a value."""
    return re.findall(r"'([^']*)'", error["ctx"]["expected"]) if error["type"] == "literal_error" else []


def problem_of(error: ErrorDetails, needed: tuple[str, ...] = ()) -> str:
    """Describe a validation error; `needed` lists the required keys of a table."""
    keys = f" with {' and '.join(needed)}" if needed else ""
    match error["type"]:
        case "rejected":
            return error["msg"]
        case "missing":
            return "is required"
        case "list_type":
            return f"must be a list of tables{keys}" if needed else "must be a list"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"must be a table{keys}"
        case _:
            return rephrase_problem(error["msg"])
