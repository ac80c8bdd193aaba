"""Prompt templates: named texts with fields, checked when they are created; inserted values are never parsed."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = (
    "Template",
    "filled",
    "listed",
    "uses",
)

_FIELD = re.compile(r"\{(\w+)\}")
_LINES = frozenset(
    {"context", "critiques", "decisions", "framing", "positions", "proposals", "roster", "sources", "transcript"}
)
"""Fields that are rendered as whole lines: each must be alone on its line."""
_NUMBERS = frozenset({"max_rounds", "round", "rounds"})
"""Fields that may be anywhere. All others are text of models or users, and must follow a label."""


def filled(template: str, **values: object) -> str:
    """`template` with each `{field}` replaced; inserted values are never parsed.

    >>> filled("Question: {question}", question="Who is {round}?")
    'Question: Who is {round}?'
    """
    return _format(template) % values


@lru_cache(maxsize=256)
def _format(template: str) -> str:
    """The template as a format of the operator `%`, which fills in all fields in C."""
    return _FIELD.sub(r"%(\1)s", template.replace("%", "%%"))


def listed(*items: str) -> str:
    """`items`, each on its own line."""
    return "\n".join(f"- {item}" for item in items)


def uses(*names: str, lines: Iterable[str] = ()) -> Mapping[str, frozenset[str]]:
    """A template part's metadata: the fields that it may use; those of `lines` are rendered as whole lines."""
    return {"uses": frozenset({*names, *lines}), "lines": _LINES.union(lines)}


@dataclass(frozen=True, kw_only=True)
class Template:
    """The texts of one role; override any of them by keyword.

    ConfigurationError for a `{field}` that the template does not have, and for one in a place where its text could pass
    for the prompt's own words: text of others must not begin a line, and a transcript must not share one.
    """

    def __post_init__(self) -> None:
        for part in fields(self):
            text = getattr(self, part.name)
            known = part.metadata["uses"]
            if not isinstance(text, str):
                raise ConfigurationError(type(self).__name__, part.name, text, "text")
            for match in _FIELD.finditer(text):
                if problem := _problem(match, known, part.metadata["lines"]):
                    raise ConfigurationError(type(self).__name__, part.name, match[0], problem)


def _problem(match: re.Match[str], known: frozenset[str], lines: frozenset[str]) -> str | None:
    """The rule that a field breaks, or None."""
    name, text = match[1], match.string
    begins = match.start() == 0 or text[match.start() - 1] == "\n"
    ends = match.end() == len(text) or text[match.end()] == "\n"
    if name not in known:
        allowed = ", ".join(f"{{{field}}}" for field in sorted(known))
        return f"text whose fields are among {allowed}" if allowed else "text without fields"
    if name in lines and not (begins and ends):
        return f"text in which {match[0]} stands alone on its line"
    if name not in lines | _NUMBERS and begins:
        return f"text in which {match[0]} does not begin a line (put a label before it)"
    return None
