"""Named prompt templates: text with fields, checked when it is made, filled without looking at what is put in."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import ClassVar

from flowdebate.errors import ConfigurationError

__all__ = ("Template", "filled")

_FIELD = re.compile(r"\{(\w+)\}")


def filled(template: str, **values: object) -> str:
    """`template` with each `{field}` replaced; what is put in is never read again."""
    return _FIELD.sub(lambda match: str(values[match[1]]), template)


@dataclass(frozen=True, kw_only=True)
class Template:
    """The texts of one role; override any of them by keyword.

    ConfigurationError for a `{field}` that the renderer does not know.
    """

    known: ClassVar[frozenset[str]]
    """The fields that its texts may use."""

    def __post_init__(self) -> None:
        for part in fields(self):
            for name in _FIELD.findall(getattr(self, part.name)):
                if name not in self.known:
                    allowed = f"text whose fields are among {', '.join(f'{{{known}}}' for known in sorted(self.known))}"
                    raise ConfigurationError(type(self).__name__, part.name, f"{{{name}}}", allowed)
