"""Errors of models as data, and back: class, message and facts, never an object."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from flowdebate import errors
from flowdebate.errors import ModelError, told
from flowdebate.models.text import clean_text, without_keys

__all__ = ("FACTS", "Failure")

CLASSES: dict[str, type[ModelError]] = {
    name: found
    for name in errors.__all__
    if isinstance(found := getattr(errors, name), type) and issubclass(found, ModelError)
}
"""What an error can be made of again."""

FACTS: dict[str, tuple[str, ...]] = {
    "CircuitOpen": ("seconds",),
    "ModelTimeout": ("seconds",),
    "ProviderFailed": ("status", "retry_after"),
    "RateLimited": ("retry_after", "quota_exhausted"),
    "Refused": ("reason",),
    "RequestRejected": ("status",),
    "ResponseTooLarge": ("limit", "unit"),
    "SchemaViolation": ("problems", "answer"),
    "ToolLoopExceeded": ("rounds",),
}
"""The facts that a class, and each class below it, has besides those of `ModelError`."""

_MAY_BE_UNKNOWN = frozenset({"answer", "retry_after", "status"})


class Failure(BaseModel):
    """A `ModelError`; what looks like a key is not in it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: str
    """The class: one of `flowdebate.errors`."""
    message: str
    model: str | None = None
    block: str | None = None
    transient: bool = False
    status: int | None = None
    retry_after: float | None = None
    quota_exhausted: bool | None = None
    seconds: float | None = None
    limit: int | None = None
    unit: str | None = None
    reason: str | None = None
    problems: tuple[tuple[str, str], ...] | None = None
    answer: str | None = None
    rounds: int | None = None

    @model_validator(mode="after")
    def _is_known(self) -> Failure:
        if self.kind not in CLASSES:
            problem = "no such error"
            raise ValueError(problem)
        missing = [name for name in _facts(CLASSES[self.kind]) if getattr(self, name) is None]
        if not _MAY_BE_UNKNOWN.issuperset(missing):
            problem = f"{self.kind} needs {', '.join(missing)}"
            raise ValueError(problem)
        return self

    @classmethod
    def of(cls, error: ModelError) -> Failure:
        """`error` as data; an application's own class as the one of ours that it is derived from."""
        kind = next(base for base in type(error).__mro__ if CLASSES.get(base.__name__) is base)
        try:
            return cls(
                kind=kind.__name__,
                message=_hidden(error.message),
                model=error.model,
                block=error.block,
                transient=error.transient,
                **{name: _hidden(getattr(error, name, None)) for name in _facts(kind)},
            )
        except ValidationError:  # an application's own, with facts of other types
            return cls(kind="ModelError", message=_hidden(told(error)), transient=bool(error.transient))

    def error(self) -> ModelError:
        """The error, as it was raised."""
        kind = CLASSES[self.kind]
        made = kind.__new__(kind)
        # past the class's own constructor, which would write the message anew
        ModelError.__init__(made, self.message, model=self.model, block=self.block, transient=self.transient)
        for name in _facts(kind):
            setattr(made, name, getattr(self, name))
        return made


def _facts(kind: type[ModelError]) -> list[str]:
    return [name for base in kind.__mro__ for name in FACTS.get(base.__name__, ())]


def _hidden(value: Any) -> Any:  # noqa: ANN401 - a fact is of any of the types above
    if isinstance(value, str):
        return without_keys(clean_text(value))
    if isinstance(value, tuple):
        return tuple(_hidden(inner) for inner in value)
    return value
