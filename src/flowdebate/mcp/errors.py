"""Errors as the host's model reads them: one sentence, in terms of the tool's own arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import ValidationError

from flowdebate.errors import ConfigurationError, FlowDebateError, StoreError, problems_of
from flowdebate.prompts.escaping import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("sentence_of",)

_LONGEST = 2_000
"""Characters of a message."""
_ARGUMENTS = re.compile(r"\b(debaters|agents|members|humans|turns)(?=[`\[])")
_NAMES: Mapping[str, str] = {"turns": "rounds"}
"""Options of plans that a tool calls by another name than `sides`."""


def sentence_of(error: BaseException) -> str | None:
    """What the caller can mend, on one line; None for a defect of this program."""
    match error:
        case ValidationError():
            return _line("; ".join(f"`{field}`: {problem}" for field, problem in problems_of(error)))
        case ConfigurationError():
            text = str(error).removeprefix(f"{error.where}: ")
            return _line(_ARGUMENTS.sub(lambda found: f"{_NAMES.get(found[1], 'sides')}", text))
        case StoreError():  # where the store is concerns nobody at the host
            return _line(f"{error.problem[:1].upper()}{error.problem[1:]}")
        case FlowDebateError():
            return _line(str(error))
        case _:
            return None


def _line(text: str) -> str:
    line = quoted(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
