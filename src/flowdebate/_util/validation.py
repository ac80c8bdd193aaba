"""Validation shared by all options: counts, times, shares and optional libraries."""

from __future__ import annotations

from importlib.util import find_spec
from sys import float_info

from flowdebate.errors import ConfigurationError

__all__ = (
    "check_count",
    "check_library",
    "check_seconds",
    "check_share",
    "check_weight",
    "is_number",
)

_MOST_WEIGHT = 1_000_000


def check_count(where: str, *, least: int = 1, **options: object) -> None:
    """ConfigurationError for an option that is no int from `least` up.

    >>> check_count("ConcurrencyLimit", max_concurrency=0)
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: ConcurrencyLimit: `max_concurrency` must be an int >= 1, got 0
    """
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigurationError(where, name, value, f"an int >= {least}")


def check_seconds(where: str, **options: object) -> None:
    """ConfigurationError for an option that is not a finite number of seconds > 0."""
    for name, value in options.items():
        if not is_number(value, most=float_info.max):
            raise ConfigurationError(where, name, value, "a number of seconds > 0")


def check_weight(where: str, name: str, weight: object) -> None:
    """ConfigurationError for the weight of `name` in a vote that is no number > 0, or so large that sums overflow.

    >>> check_weight("tally()", "ann", 1e308)
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: tally(): `weights['ann']` must be a number > 0, <= 1,000,000, got 1e+308
    """
    if not is_number(weight, most=_MOST_WEIGHT):
        raise ConfigurationError(where, f"weights[{name!r}]", weight, f"a number > 0, <= {_MOST_WEIGHT:,}")


def is_number(value: object, *, most: float) -> bool:
    """Whether `value` is a number > 0, <= `most`; NaN is none, nor are integers that no float can hold."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= most


def check_share(where: str, *, ends: bool = True, **options: object) -> None:
    """ConfigurationError for an option that is no number from 0 to 1; without `ends`, for 0 and 1 too."""
    for name, value in options.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not (0 <= value <= 1 if ends else 0 < value < 1):  # type: ignore[operator] # it is a number
            allowed = "a number from 0 to 1" if ends else "a number between 0 and 1"
            raise ConfigurationError(where, name, value, allowed)


def check_library(where: str, module: str, *, library: str, extra: str) -> None:
    """ConfigurationError, with the command that installs it, for a missing `library` of an optional `extra`."""
    if not find_spec(module):
        hint = f'pip install "flowdebate[{extra}]"'
        raise ConfigurationError(where, "library", f"no {library}", f"{library}, installed", hint=hint)
