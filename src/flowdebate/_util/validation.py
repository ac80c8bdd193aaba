"""Validation shared by all options: counts, times, shares and optional libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from importlib.util import find_spec
from sys import float_info
from typing import ParamSpec, TypeVar

from flowdebate._text import nearest
from flowdebate.errors import ConfigurationError

P = ParamSpec("P")
T = TypeVar("T")

_MAX_WEIGHT = 1_000_000  # maximum weight of a vote; the sum of larger weights could overflow
# Replacements for option names from other libraries, and for options that belong to a group.
_MEANT = {
    "agents": "debaters",
    "api_key": "model",
    "temperature": "settings=ModelSettings(temperature=…)",
    "max_tokens": "settings=ModelSettings(max_tokens=…)",
    "timeout": "settings=ModelSettings(timeout=…)",
    "response_model": "output_schema",
    "response_format": "output_schema",
    "result_type": "output_schema",
    "output_type": "output_schema",
    "system_prompt": "instructions",
    "profile": "prompts=PromptOptions(profile=…)",
    "length": "prompts=PromptOptions(length=…)",
    "template": "prompts=PromptOptions(template=…)",
    "history": "prompts=PromptOptions(history=…)",
    "hide_names": "prompts=PromptOptions(hide_names=…)",
    "source_tokens": "sources=Sources(…, tokens=…)",
    "equal": "baselines=BaselineOptions(equal=…)",
    "hub": "topology=TopologyOptions(hub=…)",
    "sparsity": "topology=TopologyOptions(sparsity=…)",
    "weights": "voting=VotingOptions(weights=…)",
    "min_votes": "voting=VotingOptions(min_votes=…)",
    "similarity": "convergence=ConvergenceOptions(similarity=…)",
    "judge_model": "judge=JudgeOptions(model=…)",
    "moderator_model": "moderator=ModeratorOptions(model=…)",
    "on_failure": "failures=FailurePolicy(on_failure=…)",
    "quorum": "failures=FailurePolicy(quorum=…)",
    "turn_timeout": "failures=FailurePolicy(turn_timeout=…)",
    "round_timeout": "failures=FailurePolicy(round_timeout=…)",
}


def unknown_option(location: str, option: str, options: Iterable[str]) -> TypeError:
    """Create the error for an unknown keyword argument, with a suggestion."""
    names = list(options)
    meant = _MEANT.get(option)
    if meant is None or meant.partition("=")[0] not in names:
        meant = nearest(option, names)
    hint = f"; did you mean {meant!r}?" if meant else f"; it takes: {', '.join(names)}"
    return TypeError(f"{location}() got an unexpected keyword argument {option!r}{hint}")


def suggesting(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap `function` so its TypeError for an unknown keyword argument suggests a known one."""

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        try:
            return function(*args, **options)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # the error comes from inside the function
            from inspect import signature

            parameters = list(signature(function).parameters)
            unknown = next((option for option in options if option not in parameters), None)
            if unknown is None:
                raise
            raise unknown_option(function.__name__, unknown, parameters) from None

    return checked


def check_count(location: str, *, minimum: int = 1, maximum: int | None = None, **options: object) -> None:
    """Check that an option is an int from `minimum` to `maximum`; otherwise raise ConfigurationError.

    >>> check_count("ConcurrencyLimit", max_concurrency=0)
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: ConcurrencyLimit: `max_concurrency` must be at least 1 (got 0)
    """
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise ConfigurationError(location, name, value, f"an int >= {minimum}")
        if maximum is not None and value > maximum:
            raise ConfigurationError(location, name, value, f"an int <= {maximum:,}")


def check_seconds(location: str, **options: object) -> None:
    """Check that an option is a finite positive number of seconds; otherwise raise ConfigurationError."""
    for name, value in options.items():
        if not is_number(value, maximum=float_info.max):
            raise ConfigurationError(location, name, value, "a number of seconds > 0")


def check_weight(location: str, name: str, weight: object) -> None:
    """Check that the vote weight of `name` is a positive number, small enough to add up.

    Raise ConfigurationError otherwise.

    >>> check_weight("tally()", "ann", -1)
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: tally(): `weights['ann']` must be more than 0 and at most 1,000,000 (got -1)
    """
    if not is_number(weight, maximum=_MAX_WEIGHT):
        raise ConfigurationError(location, f"weights[{name!r}]", weight, f"a number > 0, <= {_MAX_WEIGHT:,}")


def is_number(value: object, *, maximum: float) -> bool:
    """Return whether `value` is a number > 0 and <= `maximum`.

    NaN and integers too large for a float are rejected.
    """
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= maximum


def check_share(location: str, *, ends: bool = True, **options: object) -> None:
    """Raise ConfigurationError unless an option is a number from 0 to 1 (exclusive without `ends`)."""
    for name, value in options.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not (0 <= value <= 1 if ends else 0 < value < 1):  # type: ignore[operator] # it is a number
            allowed = "a number from 0 to 1" if ends else "a number between 0 and 1"
            raise ConfigurationError(location, name, value, allowed)


def check_library(location: str, module: str, *, library: str, extra: str) -> None:
    """Raise ConfigurationError with the install command if the `library` of an optional `extra` is missing."""
    if not find_spec(module):
        message = f'{location} needs {library}, which is not installed: pip install "flowdebate[{extra}]"'
        raise ConfigurationError(location, "library", None, f"{library}, installed", message=message)
