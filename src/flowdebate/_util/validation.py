"""Validation of options such as counts, durations and shares, and checks for optional libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib.util import find_spec
from sys import float_info
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from flowdebate._text import nearest, number_problem, text_problem
from flowdebate.errors import ConfigurationError

P = ParamSpec("P")
T = TypeVar("T")

_MAX_WEIGHT = 1_000_000  # maximum weight of a vote; sums of larger weights could overflow
# Suggestions for option names known from other libraries, and for options that belong to a group.
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
    """Create the error for an unknown keyword argument, suggesting a similar one."""
    names = list(options)
    meant = _MEANT.get(option)
    if meant is None or meant.partition("=")[0] not in names:
        meant = nearest(option, names)
    hint = f"; did you mean {meant!r}?" if meant else f"; it takes: {', '.join(names)}"
    return TypeError(f"{location}() got an unexpected keyword argument {option!r}{hint}")


def suggesting(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap `function` so that its TypeError for an unknown keyword argument suggests a similar one."""

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        try:
            return function(*args, **options)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # the error was raised inside the function
            from inspect import signature

            parameters = list(signature(function).parameters)
            unknown = next((option for option in options if option not in parameters), None)
            if unknown is None:
                raise
            raise unknown_option(function.__name__, unknown, parameters) from None

    return checked


_NONE: Mapping[str, object] = MappingProxyType({})


def check_number(
    location: str,
    values: Mapping[str, object] = _NONE,
    /,
    *,
    whole: bool = False,
    optional: bool = False,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    **options: object,
) -> None:
    """Raise ConfigurationError unless each option is a finite number within the limits.

    Use `values` for options whose names are not valid identifiers. If `optional` is set, None is also valid.

    >>> check_number("elo_changes()", above=0, k=-1)
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: elo_changes(): `k` must be greater than 0 (got -1)
    """
    for name, value in {**values, **options}.items():
        problem = number_problem(value, whole=whole, minimum=minimum, above=above, maximum=maximum, below=below)
        if problem and not (optional and value is None):
            raise ConfigurationError(location, name, value, problem)


def check_count(
    location: str,
    values: Mapping[str, object] = _NONE,
    /,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    optional: bool = False,
    **options: object,
) -> None:
    """Raise ConfigurationError unless each option is an int from `minimum` to `maximum`.

    >>> check_count("ConcurrencyLimit", max_concurrency=0)
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: ConcurrencyLimit: `max_concurrency` must be at least 1 (got 0)
    """
    check_number(location, {**values, **options}, whole=True, optional=optional, minimum=minimum, maximum=maximum)


def check_seconds(
    location: str, values: Mapping[str, object] = _NONE, /, *, optional: bool = False, **options: object
) -> None:
    """Raise ConfigurationError unless each option is a finite number of seconds greater than 0."""
    check_number(location, {**values, **options}, optional=optional, above=0)


def check_weight(location: str, name: str, weight: object) -> None:
    """Raise ConfigurationError unless the vote weight for `name` is positive and at most 1,000,000.

    The maximum prevents sums of weights from overflowing.

    >>> check_weight("tally()", "ann", -1)
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: tally(): `weights.ann` must be greater than 0 and at most 1,000,000 (got -1)
    """
    check_number(location, {f"weights.{name}": weight}, above=0, maximum=_MAX_WEIGHT)


def is_number(value: object, *, maximum: float = float_info.max) -> bool:
    """Return whether `value` is a number greater than 0, at most `maximum`, and small enough for a float."""
    return not number_problem(value, above=0, maximum=maximum)


def check_share(location: str, *, ends: bool = True, **options: object) -> None:
    """Raise ConfigurationError unless each option is a number between 0 and 1.

    The values 0 and 1 themselves are valid only if `ends` is set.
    """
    if ends:
        check_number(location, options, minimum=0, maximum=1)
    else:
        check_number(location, options, above=0, below=1)


def check_text(
    location: str, values: Mapping[str, object] = _NONE, /, *, optional: bool = False, **options: object
) -> None:
    """Raise ConfigurationError unless each option is non-blank text."""
    for name, value in {**values, **options}.items():
        if (problem := text_problem(value)) and not (optional and value is None):
            raise ConfigurationError(location, name, value, problem)


def check_choice(location: str, choices: Iterable[str], **options: object) -> None:
    """Raise ConfigurationError unless each option is one of the `choices`.

    >>> check_choice("import_runs()", ["raise", "skip"], exists="skp")
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: import_runs(): `exists` must be raise or skip (got skp). Did you mean skip?
    """
    names = list(choices)
    for name, value in options.items():
        if value not in names:
            raise ConfigurationError(location, name, value, choices=names)


def check_library(location: str, module: str, *, library: str, extra: str) -> None:
    """Raise ConfigurationError with the install command if the `library` required by an optional `extra` is missing."""
    if not find_spec(module):
        message = f'{location} needs {library}, which is not installed: pip install "flowdebate[{extra}]"'
        raise ConfigurationError(location, "library", None, "is not installed", message=message)
