"""Commands that evaluate debates and their judges: `audit`, `evaluate` and `recount`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ("COMMAND", "check", "check_choice", "check_count", "check_text")

COMMAND = "command line"
"""Where options were given, in errors."""


def check(fits: object, option: str, got: object, allowed: str) -> None:
    """ConfigurationError about `option` unless `fits`."""
    if not fits:
        raise ConfigurationError(COMMAND, option, got, allowed)


def check_text(option: str, value: str | None, allowed: str = "text that is not blank") -> None:
    """ConfigurationError for text that is blank, or cannot be encoded; None was not given."""
    check(value is None or (value.strip() and value.encode(errors="replace").decode() == value), option, value, allowed)


def check_count(option: str, value: int | None) -> None:
    """ConfigurationError for an int below 1; None was not given."""
    check(value is None or value >= 1, option, value, "an int >= 1")


def check_choice(option: str, value: str | None, values: Collection[str]) -> None:
    """ConfigurationError for a word that is none of `values`; None was not given."""
    check(value is None or value in values, option, value, f"one of {', '.join(map(repr, values))}")
