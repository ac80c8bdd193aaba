"""Errors as the command line words them: one paragraph, in terms of options, with what to type."""

from __future__ import annotations

from flowdebate.errors import (
    ConfigurationError,
    DeadLetter,
    RunChanged,
    RunNotFound,
    RunUncertain,
    shown,
)
from flowdebate.service.plans.options import COMMAND

__all__ = ("sentence_of",)

_LINES = 6
"""Maximum number of changed lines shown."""
_LEAVE_OUT = "left out"


def sentence_of(error: Exception) -> str:
    """`error` as one paragraph."""
    match error:
        case ConfigurationError() if str(error).startswith(f"{COMMAND}: "):
            return _about_option(error)
        case RunChanged():
            return _changed(error)
        case RunUncertain():
            return str(error).replace('on_uncertain="retry"', "--on-uncertain retry")
        case DeadLetter():
            return str(error).replace("retry_dead_letter=True", "--retry-dead-letter")
        case RunNotFound():
            return f"{error}. flowdebate runs lists the stored runs."
        case _:
            return str(error)


def _about_option(error: ConfigurationError) -> str:
    said = str(error).removeprefix(f"{error.where}: `{error.field}` must be {error.allowed}, got {shown(error.got)}")
    hint = said if said != str(error) else ""
    if error.allowed.startswith(_LEAVE_OUT):
        return f"Leave {error.field} out{error.allowed.removeprefix(_LEAVE_OUT)}{hint}"
    got = "" if error.got is None else f", got {shown(error.got)}"
    return f"{error.field} must be {error.allowed}{got}{hint}"


def _changed(error: RunChanged) -> str:
    lines = [f"{name} {line.strip()}" for name, changes in error.differences.items() for line in changes]
    more = f" and {len(lines) - _LINES} more lines" if len(lines) > _LINES else ""
    return (
        f"store {error.store}: run {error.run_id} was started with other options (- then, + now): "
        f"{'; '.join(lines[:_LINES])}{more}. --allow-changes resumes it all the same."
    )
