"""Option types with one check and one sentence each, for Python, plan files, the command line, HTTP and MCP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

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

from flowdebate._text import in_plain_words
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails
    from typing_extensions import TypeForm


def allowed(sentence: str) -> WrapValidator:
    """Describe rejected values of a type with `sentence` instead of pydantic's message."""

    def check(value: object, validate: ValidatorFunctionWrapHandler) -> object:
        try:
            return validate(value)
        except ValidationError:
            raise PydanticCustomError("allowed", "{allowed}", {"allowed": sentence}) from None

    return WrapValidator(check)


@dataclass(frozen=True)
class Reach:
    """Resource, named by a text in a plan, that this program reads or connects to; declared by the type of the text."""

    of: Literal["nothing", "file", "server", "model"]


NOTHING = Reach("nothing")


def is_text(value: str) -> bool:
    """Return whether `value` is non-blank text."""
    # A lone surrogate, as in a broken command-line argument, cannot be encoded in UTF-8, so requests cannot contain it.
    return bool(value.strip()) and value.encode(errors="replace").decode() == value


def _not_blank(value: str) -> str:
    if not is_text(value):
        raise PydanticCustomError("blank", "blank")
    return value


def _off(value: bool) -> bool:  # noqa: FBT001 - a validator
    if value:
        raise PydanticCustomError("on", "on")
    return value


def _at_most_all_rounds(value: int) -> int:
    if value > MAX_ROUNDS:
        raise PydanticCustomError("allowed", "{allowed}", {"allowed": f"an int <= {MAX_ROUNDS:,}"})
    return value


MAX_ROUNDS = 10_000
"""Maximum number of rounds or turns; each prompt contains the transcript, so every context is full long before that."""
_Off = Annotated[bool, AfterValidator(_off)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Ratio = Annotated[float, Field(ge=0, le=1)]
PlainText = Annotated[str, AfterValidator(_not_blank)]
Text = Annotated[PlainText, NOTHING, allowed("text that is not blank")]
Vendors = Annotated[
    list[PlainText],
    NOTHING,
    allowed("the name of a vendor or of a model, or a list of such names"),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]
Flag = Annotated[bool, allowed("true or false")]
Whole = Annotated[int, allowed("an int")]
Count = Annotated[int, Field(ge=1), allowed("an int >= 1")]
Quorum = Count
"""Number of panel members, or of sides in a debate, required for a result; the others may fail."""
Rounds = Annotated[Count, AfterValidator(_at_most_all_rounds)]
Amount = Annotated[_Positive, allowed("a number > 0")]
Money = Annotated[_Positive, allowed("a number > 0")]
Seconds = Annotated[_Positive, allowed("a number of seconds > 0")]
SecondsOrOff = Annotated[_Positive | _Off, allowed("a number of seconds > 0, or off (in a file: false)")]
Lead = Annotated[float, Field(ge=0, allow_inf_nan=False), allowed("a number >= 0")]
Share = Annotated[_Ratio, allowed("a number from 0 to 1")]
ShareOrOff = Annotated[_Ratio | _Off, allowed("a number from 0 to 1, or off (in a file: false)")]
MIN_TURN_WORDS, MAX_TURN_WORDS = 10, 2_000
TurnLength = Annotated[
    Literal["short", "medium", "long"] | Annotated[int, Field(ge=MIN_TURN_WORDS, le=MAX_TURN_WORDS)],
    allowed(f"short, medium, long, or a number of words from {MIN_TURN_WORDS} to {MAX_TURN_WORDS:,}"),
]
RoundsOrAll = Annotated[Literal["all"] | Annotated[int, Field(ge=1)], allowed("a number of rounds >= 1, or all")]


_ADAPTERS: dict[object, TypeAdapter[object]] = {}  # cached, because a pattern checks its options each time it is built


def check_option(kind: TypeForm[object], field: str, value: object, *, location: str, optional: bool = True) -> None:
    """Raise ConfigurationError unless `value` is a `kind`; None is also accepted if the option is `optional`.

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
            raise ConfigurationError(location, field, problem["input"], sentence_of(problem)) from None


def sentence_of(problem: ErrorDetails, needed: tuple[str, ...] = ()) -> str:  # noqa: PLR0911 - an error of pydantic each
    """Describe the valid values for a validation error; `needed` contains the required keys of a table."""
    match problem["type"]:
        case "allowed":
            return problem["msg"]
        case "literal_error":
            return str(problem["ctx"]["expected"])
        case "missing":
            return "text that is not blank"
        case "list_type":
            return f"a list of tables with {' and '.join(needed)}" if needed else "a list"
        case "model_type" | "model_attributes_type":
            return f"a table with {' and '.join(needed)}" if needed else "a table"
        case "too_short" | "too_long" as limit:
            is_short = limit == "too_short"
            bound = problem["ctx"]["min_length" if is_short else "max_length"]
            return f"a list with at {'least' if is_short else 'most'} {bound} {'entry' if bound == 1 else 'entries'}"
        case "dict_type":
            return "a table"
        case _:
            return in_plain_words(problem["msg"]).removeprefix("must be ")
