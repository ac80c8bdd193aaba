"""Validation of counts and times, shared by all options."""

from __future__ import annotations

from math import isfinite

from flowdebate.errors import ConfigurationError

__all__ = (
    "check_count",
    "check_seconds",
)


def check_count(where: str, **options: object) -> None:
    """ConfigurationError for an option that is no int from 1 up.

    >>> check_count("ConcurrencyLimit", max_concurrency=0)
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: ConcurrencyLimit: `max_concurrency` must be an int >= 1, got 0
    """
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigurationError(where, name, value, "an int >= 1")


def check_seconds(where: str, **options: object) -> None:
    """ConfigurationError for an option that is no finite number of seconds above 0."""
    for name, value in options.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not isfinite(value) or value <= 0:
            raise ConfigurationError(where, name, value, "a number of seconds > 0")
