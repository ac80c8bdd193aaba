"""Base of the wire models: frozen values, snake_case in Python and camelCase on the wire."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = (
    "WireModel",
    "as_list",
)


class WireModel(BaseModel):
    """A frozen value that reads both key styles, refuses unknown keys, and writes camelCase `by_alias`."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
        defer_build=True,  # validators are made at first use, which keeps the import fast
    )


def as_list(value: object) -> object:
    """`value`, a tuple as a list. An iterator could go on for ever, so only what has an end is taken for a list."""
    return list(value) if isinstance(value, tuple) else value
