"""Conditions for ending a pattern's rounds early: by usage, by time, by similarity, or by an application's own rule.

Conditions can be combined with `|` (either holds), `&` (both hold) and `~` (the condition does not hold), and with
plain functions:

>>> from flowdebate import stop
>>> enough = stop.tokens(20_000) | stop.seconds(120) & stop.rounds(2)
>>> print(enough)
tokens(20000) | seconds(120) & rounds(2)
>>> stop.parse("tokens(20_000) | seconds(120) & rounds(2)") == enough
True

Each pattern accepts a condition as `terminate_when=` and reports the name of the condition that held as `stop_reason`.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeAlias

from flowdebate._text import add_note, did_you_mean, is_blank, join_choices, short_repr
from flowdebate._util.validation import check_count, check_seconds, check_share
from flowdebate.blocks.base import Block
from flowdebate.blocks.functions import function_name, result_of, takes
from flowdebate.errors import ConfigurationError, OutputError
from flowdebate.measures.similarity import Convergence, Similarity, best_similarity
from flowdebate.runs.context import Context

PREDICATE = "predicate"
"""Name of a condition created from a function that has no name."""
PATTERNS_OWN = frozenset(
    {"max_rounds", "max_turns", "moderator_done", "settled", "reviewed", "not_reviewed"}
    | {"convergence", "judge", "agents", "confidence", "budget", "timeout"}
)
"""Stop reasons reserved for the patterns themselves; conditions cannot have these names."""
_MAX_NAME_LENGTH = 100
_MAX_TEXT_LENGTH = 1_000


class Condition(ABC):
    """A condition for ending the rounds; combine conditions with `|`, `&` and `~`.

    All members of a combination are evaluated after each round, so their order does not affect whether the rounds end.
    `await condition(ctx)` returns True if the condition holds and False otherwise, and `await condition.reason(ctx)`
    returns the name of the condition that holds.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Expression for the condition, in a form accepted by `parse` unless it contains functions."""

    @abstractmethod
    async def reason(self, ctx: Context) -> str | None:
        """Return the name of the condition that currently holds, or None if none does.

        For `a | b`, this is the name of the first member that holds; for `a & b`, it combines both names.
        """

    @property
    def functions(self) -> tuple[Callable[..., object], ...]:
        """Application functions called by the condition, in order.

        For a condition of a custom class, this is its `reason` method.
        """
        return (self.reason,)

    async def __call__(self, ctx: Context) -> bool:
        return await self.reason(ctx) is not None

    def __or__(self, other: StopWhen) -> Condition:
        return _Any((*_members(self, _Any), *_members(as_condition(other), _Any)))

    def __ror__(self, other: StopWhen) -> Condition:
        return as_condition(other) | self

    def __and__(self, other: StopWhen) -> Condition:
        return _All((*_members(self, _All), *_members(as_condition(other), _All)))

    def __rand__(self, other: StopWhen) -> Condition:
        return as_condition(other) & self

    def __invert__(self) -> Condition:
        return _Not(self)

    def __bool__(self) -> NoReturn:
        raise ConfigurationError(
            "stop", self.name, None, "cannot be combined with `and`, `or` or `not`; use `&`, `|` and `~`"
        )

    def __str__(self) -> str:
        return self.name


StopWhen: TypeAlias = Condition | Callable[["Context"], bool | Awaitable[bool]]
"""Argument for `terminate_when=`: a condition, or a sync or async function that receives `ctx` and returns True or
False.
"""


@dataclass(frozen=True)
class _SingleCondition(Condition):
    """A single condition, as opposed to a combination."""

    called: str
    test: Callable[[Context], object] = field(compare=False, repr=False)
    function: Callable[..., object] | None = None
    """Application function to call; None for built-in conditions."""

    @property
    def name(self) -> str:
        return self.called

    async def reason(self, ctx: Context) -> str | None:
        try:
            reached = _as_bool(await result_of(self.test(ctx)), self.name)
        except Exception as error:
            handle = ctx.scope.sequencer
            place = "" if handle is None else f" of {handle.name!r}"
            add_note(error, f"in the stop condition {self.name}{place}")
            raise
        return self.name if reached else None

    @property
    def functions(self) -> tuple[Callable[..., object], ...]:
        return () if self.function is None else (self.function,)


def _as_bool(answer: object, name: str) -> bool:
    # numpy comparisons return numpy's own bool type.
    if type(answer).__name__ in ("bool", "bool_") and hasattr(answer, "dtype"):
        return bool(answer)
    if not isinstance(answer, bool):
        raise OutputError("terminate_when", "True or False", [("", f"got {short_repr(answer)} from {name}")])
    return answer


@dataclass(frozen=True)
class _Combined(Condition):
    members: tuple[Condition, ...]

    @property
    def functions(self) -> tuple[Callable[..., object], ...]:
        return tuple(function for member in self.members for function in member.functions)

    async def _reasons(self, ctx: Context) -> list[str | None]:
        return [await member.reason(ctx) for member in self.members]


class _Any(_Combined):
    @property
    def name(self) -> str:
        return " | ".join(member.name for member in self.members)

    async def reason(self, ctx: Context) -> str | None:
        return next((reason for reason in await self._reasons(ctx) if reason is not None), None)


class _All(_Combined):
    @property
    def name(self) -> str:
        return " & ".join(f"({member})" if isinstance(member, _Any) else member.name for member in self.members)

    async def reason(self, ctx: Context) -> str | None:
        reasons = await self._reasons(ctx)
        reached_reasons = [reason for reason in reasons if reason is not None]
        return " & ".join(reached_reasons) if len(reached_reasons) == len(reasons) else None


@dataclass(frozen=True)
class _Not(Condition):
    inner: Condition

    @property
    def name(self) -> str:
        return f"~({self.inner})" if isinstance(self.inner, _Combined) else f"~{self.inner}"

    async def reason(self, ctx: Context) -> str | None:
        return self.name if await self.inner.reason(ctx) is None else None

    @property
    def functions(self) -> tuple[Callable[..., object], ...]:
        return self.inner.functions


def _members(condition: Condition, kind: type[_Combined]) -> tuple[Condition, ...]:
    return condition.members if isinstance(condition, kind) else (condition,)


# Conditions


def rounds(number: int) -> Condition:
    """Stop after at least `number` rounds (turns in a handoff); use it with `&` to delay another condition."""
    check_count("stop.rounds()", number=number)
    return _SingleCondition(f"rounds({number})", lambda ctx: bool(ctx.sequencer.state.round >= number))


def tokens(number: int) -> Condition:
    """Stop once the run has used at least `number` tokens, counting the prompts and answers of all its blocks.

    If a server does not report usage, it is estimated at four characters per token.
    """
    check_count("stop.tokens()", number=number)
    return _SingleCondition(f"tokens({number})", lambda ctx: ctx.run.tokens >= number)


def seconds(number: float) -> Condition:
    """Stop when at least `number` seconds have passed since the run was first started.

    If the run is resumed, the time before it was resumed counts too.
    """
    check_seconds("stop.seconds()", number=number)
    return _SingleCondition(f"seconds({_number(number)})", lambda ctx: max(ctx.elapsed, ctx.run.seconds) >= number)


def flag(name: str) -> Condition:
    """Stop when `ctx.session.state[name]` is True, as set by a block or by the application.

    If the value is missing, None or False, the rounds continue; any other value ends the run with an error.
    """
    _check_name("stop.flag()", name)
    return _SingleCondition(f"flag({json.dumps(name, ensure_ascii=False)})", partial(_flag, name))


def _flag(name: str, ctx: Context) -> object:
    value = ctx.session.state.get(name)
    return False if value is None else value


def converged(threshold: float = 0.9, *, similarity: Similarity | None = None) -> Condition:
    """Stop when the speakers' latest contributions have a mean similarity of at least `threshold`.

    The mean is taken over all pairs of speakers. Similarity is not agreement: opposite answers in the same words are
    similar. The condition does not hold if one speaker's contribution differs clearly from the others, if speakers
    state different positions (in `consensus`), or if there is only one speaker. `similarity` is the measure to use (see
    `flowdebate.measures`); None selects the best one installed.
    """
    return _similar("converged", threshold, similarity, lambda convergence: convergence.status == "converged")


def repeated(threshold: float = 0.9, *, similarity: Similarity | None = None) -> Condition:
    """Stop when all speakers repeat themselves: each speaker's latest contribution is similar to the previous one.

    The condition holds once everybody has spoken twice and the mean similarity of each speaker's last two contributions
    is at least `threshold`. `similarity` works as in `converged`.
    """
    return _similar("repeated", threshold, similarity, lambda convergence: (convergence.stability or 0.0) >= threshold)


def _similar(
    kind: str, threshold: float, similarity: Similarity | None, holds: Callable[[Convergence], bool]
) -> Condition:
    location = f"stop.{kind}()"
    check_share(location, threshold=threshold)
    measure: Any = best_similarity() if similarity is None else similarity
    if not isinstance(measure, Similarity):
        problem = "must be a Similarity, a named function that compares text"
        raise ConfigurationError(location, "similarity", measure, problem)

    async def test(ctx: Context) -> bool:
        state = ctx.scope.handle.state
        texts_by_name: dict[str, list[str]] = state.texts_by_speaker(ctx)
        if not texts_by_name or (kind == "repeated" and any(len(texts) == 1 for texts in texts_by_name.values())):
            return False
        from flowdebate.measures.similarity import convergence

        # Run in a thread, because measures load libraries and must not block the event loop.
        measurement = await asyncio.to_thread(
            convergence,
            {speaker: texts[-1] for speaker, texts in texts_by_name.items()},
            {speaker: texts[-2] for speaker, texts in texts_by_name.items() if len(texts) > 1},
            positions=getattr(state, "positions", None),
            similarity=measure,
            converged=threshold,
            diverging=min(0.4, threshold),
        )
        return holds(measurement)

    suffix = "" if similarity is None else f", similarity={measure.name}"
    return _SingleCondition(f"{kind}({_number(threshold)}{suffix})", test)


def when(function: Callable[[Context], bool | Awaitable[bool]], *, name: str | None = None) -> Condition:
    """Stop when the application's own rule says so: a sync or async `function` that receives `ctx` and returns a bool.

    `name` appears in `stop_reason`; by default, it is the function's name, or "predicate" if the function has none.
    """
    if not is_predicate(function):
        raise ConfigurationError("stop.when()", "function", function, "must be a sync or async function of (ctx)")
    if name is None:
        label = str(getattr(function, "__name__", PREDICATE))
        name = label if label.isidentifier() else PREDICATE
    else:
        _check_name("stop.when()", name)
    if name in PATTERNS_OWN:
        hint = 'Pass another name: stop.when(function, name="…")'
        raise ConfigurationError("stop.when()", "name", name, "is reserved for patterns", hint=hint)
    return _SingleCondition(name, function, function)


def as_condition(value: StopWhen) -> Condition:
    """Return `value` itself if it is a condition, or `when(value)` if it is a function."""
    if isinstance(value, Condition):
        return value
    if not is_predicate(value):
        problem = "must be a condition, or a sync or async function of (ctx)"
        raise ConfigurationError("stop", "operand of | or &", value, problem)
    return when(value)


def name_of(value: StopWhen) -> str:
    """Return the name of a condition or function, as it appears in outlines."""
    return value.name if isinstance(value, Condition) else function_name(value)


def is_predicate(value: object) -> bool:
    """Return whether `value` is a function that accepts the context as its only argument and may return a bool."""
    if not callable(value) or isinstance(value, Block):
        return False
    uncalled = any(value is condition for condition in _UNCALLED)  # for example, `stop.rounds` without its number
    generates = inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value)
    return not uncalled and not generates and takes(value, 1)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _check_name(location: str, name: object) -> None:
    if not isinstance(name, str) or is_blank(name) or not name.isprintable() or len(name) > _MAX_NAME_LENGTH:
        raise ConfigurationError(
            location, "name", name, f"must be one line of at most {_MAX_NAME_LENGTH} printable characters"
        )


# Conditions as text


_READABLE: Mapping[str, Callable[..., Condition]] = {
    "tokens": tokens,
    "seconds": seconds,
    "rounds": rounds,
    "converged": converged,
    "repeated": repeated,
    "flag": flag,
}


def parse(text: str, *, location: str = "stop.parse()", field: str = "text", flags: bool = True) -> Condition:
    """Parse a condition, without executing any code: `parse("tokens(20_000) | seconds(120) & rounds(2)")`.

    The string may contain `|`, `&`, `~`, parentheses, and calls to tokens, seconds, rounds, converged, repeated and
    flag (unless `flags` is False), each called with a single number or name. Anything else raises a ConfigurationError
    that states where the problem is.
    """
    reader = _Reader(location, field, text, tuple(name for name in _READABLE if flags or name != "flag"))
    if not isinstance(text, str) or is_blank(text) or len(text) > _MAX_TEXT_LENGTH:
        raise reader.error(
            None, f"must be a condition such as tokens(20000) | rounds(2), of at most {_MAX_TEXT_LENGTH:,} characters"
        )
    try:
        parsed = ast.parse(f"({reader.line})", mode="eval").body
    except SyntaxError as error:
        raise reader.error(
            max((error.offset or 2) - 2, 0), "cannot be read as conditions joined by `|`, `&` or `~`"
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise reader.error(
            None, "cannot be read as conditions joined by `|`, `&` or `~`, or is nested too deeply"
        ) from None
    return reader.read(parsed)


_UNCALLED: tuple[object, ...] = (*_READABLE.values(), when, parse)
"""Functions in this module that create conditions but are not predicates themselves."""


@dataclass(frozen=True)
class _Reader:
    location: str
    field: str
    text: str
    names: tuple[str, ...]

    @property
    def line(self) -> str:
        return self.text.replace("\n", " ")

    def read(self, node: ast.expr) -> Condition:
        match node:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.read(left) | self.read(right)
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self.read(left) & self.read(right)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return ~self.read(operand)
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                raise self.error(node, "must use `|` for `or`, `&` for `and`, and `~` for `not`")
            case ast.Call(func=ast.Name(id=name)) if name not in self.names:
                hint = did_you_mean(name, self.names) or f"Choose {join_choices(self.names)}"
                raise self.error(node, "contains an unknown condition", hint)
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]):
                return self._call(name, argument)
            case _:
                raise self.error(node, "must pass one number to each condition, such as tokens(20000) or rounds(2),")

    def _call(self, name: str, argument: ast.expr) -> Condition:
        try:
            return _READABLE[name](ast.literal_eval(argument))
        except ConfigurationError as error:
            raise self.error(
                argument, f"has an invalid argument in {name}(…)", hint=f"The argument {error.problem}"
            ) from None
        except (ValueError, TypeError):
            raise self.error(argument, f"must pass a plain number or string to {name}(…)") from None

    def error(self, at: ast.expr | int | None, problem: str, hint: str = "") -> ConfigurationError:
        if isinstance(at, ast.expr):
            before = self.line.encode()[: at.col_offset - 1]  # the expression was parsed inside parentheses
            at = len(before.decode(errors="replace"))
        place = "" if at is None else f" at character {at + 1}"
        return ConfigurationError(self.location, self.field, self.text, f"{problem}{place}", hint=hint)
