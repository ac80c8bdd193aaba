"""What readers of a run were told while a model was asked, as data and back."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError, model_validator

from flowdebate.models import notices
from flowdebate.models.text import clean_text, without_keys

__all__ = ("Notice",)

_CLASSES: dict[str, Any] = {getattr(notices, name).kind: getattr(notices, name) for name in notices.__all__}


class Notice(BaseModel):
    """One event of `flowdebate.models.notices`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: str
    facts: dict[str, JsonValue]

    @model_validator(mode="after")
    def _is_known(self) -> Notice:
        self.event()
        return self

    @classmethod
    def of(cls, event: object) -> Notice | None:
        """`event` as data; None for what is no event of these kinds."""
        if type(event) not in _CLASSES.values():
            return None
        facts = {
            name: without_keys(clean_text(value)) if isinstance(value, str) else value
            for name, value in asdict(event).items()  # type: ignore[call-overload]
        }
        try:
            return cls(kind=event.kind, facts=facts)  # type: ignore[attr-defined]
        except ValidationError:  # an application's error with a message that is no text
            return None

    def event(self) -> object:
        """The event; ValueError for what none was made of."""
        if self.kind not in _CLASSES:
            problem = "no such kind of event"
            raise ValueError(problem)
        made: object = TypeAdapter(_CLASSES[self.kind]).validate_json(json.dumps(self.facts), strict=True)
        return made
