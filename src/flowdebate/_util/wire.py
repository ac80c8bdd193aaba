"""Wire forms: the bases of wire models and of events, snake_case in Python and camelCase on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import to_jsonable_python

__all__ = (
    "SPARSE",
    "BaseEvent",
    "WireModel",
    "as_list",
    "new_dict",
    "new_list",
)


class WireModel(BaseModel):
    """A frozen value that reads both key styles, refuses unknown keys, and writes camelCase `by_alias`."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
        defer_build=True,  # validators are built at first use, so that the import is fast
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values in some fields, as pydantic's own."""
        if deep or self.__pydantic_extra__ is not None:
            return super().model_copy(update=update, deep=deep)
        copy = self.__copy__()
        if update:
            copy.__dict__.update(update)
            copy.__pydantic_fields_set__.update(update)
        return copy

    def __copy__(self) -> Self:
        """A shallow copy, as pydantic's own, in half the time for the usual model: one of declared fields only."""
        if self.__pydantic_private__ is not None or self.__pydantic_extra__ is not None:
            return super().__copy__()
        copy = type(self).__new__(type(self))
        _set(copy, "__dict__", self.__dict__.copy())
        _set(copy, "__pydantic_fields_set__", self.__pydantic_fields_set__.copy())
        _set(copy, "__pydantic_extra__", None)
        _set(copy, "__pydantic_private__", None)
        return copy


_set = object.__setattr__  # frozen models refuse their own


def new_list() -> list[Any]:
    """A new list, as the default of a field: of `list` itself pydantic parses the documentation, in milliseconds."""
    return []


def new_dict() -> dict[str, Any]:
    """A new dict, likewise."""
    return {}


def as_list(value: object) -> object:
    """`value`, with a tuple as a list; iterators are not converted, since they may be endless."""
    return list(value) if isinstance(value, tuple) else value


@dataclass(slots=True, kw_only=True)
class BaseEvent:
    """An event of a run. Emitting it fills in `at`, and `path` where it is not given."""

    kind: ClassVar[str]
    """The kind of event, for readers that do not know the class."""
    path: str = field(default="", compare=False, repr=False)
    """The place of the block that emitted it; for events of the run itself, that of the outermost block."""
    at: float = field(default=0.0, compare=False, repr=False)
    """Seconds since the epoch, by the run's clock. In a stored run it does not advance between two steps."""

    def to_wire(self) -> dict[str, Any]:
        """The event as JSON data: its `kind`, then its fields with camelCase keys."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if _is_written(self, each)}
        return {"kind": self.kind, **{to_camel(name): _wire(value) for name, value in given.items()}}


SPARSE: Mapping[str, Any] = {"sparse": True}
"""Metadata of a field that is written only where it differs from its default."""


def _is_written(event: BaseEvent, field: Field[Any]) -> bool:
    return not field.metadata.get("sparse") or getattr(event, field.name) != field.default


def _wire(value: Any) -> Any:  # noqa: ANN401 - JSON data of any value
    if value is None or isinstance(value, (str, int, float)):
        return value
    to_wire = getattr(value, "to_wire", None)
    if callable(to_wire) and not isinstance(value, type):
        return to_wire()
    if is_dataclass(value) and not isinstance(value, type):
        return {to_camel(each.name): _wire(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _wire(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_wire(part) for part in value]
    return to_jsonable_python(value, by_alias=True, fallback=str, inf_nan_mode="strings")
