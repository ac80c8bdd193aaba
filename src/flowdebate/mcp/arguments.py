"""Arguments of tools, and the options that a plan makes of them."""

from __future__ import annotations

from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from flowdebate.errors import ConfigurationError
from flowdebate.patterns import PATTERNS, find_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mcp.server.mcpserver import Context

    from flowdebate.patterns import PatternInfo
    from flowdebate.service.service import Service


ServiceOf: TypeAlias = "Callable[[Context[Any, Any]], Service]"
"""Gives the service for a call of a tool: where there are several users, that of the one who called."""

_TOOL = "start_debate"


class Side(BaseModel):
    """Somebody who takes part."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    stance: str = Field(
        max_length=500, description="In a debate the position to argue, as a claim; in other patterns the role."
    )
    name: str | None = Field(default=None, max_length=60, description="Default: Side A, Side B, …")
    human: bool = Field(default=False, description="The person at this host argues this side. Only in a debate.")


Question: TypeAlias = Annotated[str, Field(min_length=1, max_length=20_000, description="The question or the task.")]
Sides: TypeAlias = Annotated[
    list[Side],
    Field(
        min_length=2,
        max_length=6,
        description="Who argues what. Left out, a plain yes-or-no question gives its own two sides, and other "
        "patterns have speakers of their own.",
    ),
]
Rounds: TypeAlias = Annotated[int, Field(ge=1, le=10, description="Rounds at most (turns in a handoff).")]
Seconds: TypeAlias = Annotated[
    float, Field(ge=0, le=50, description="Seconds to wait at most: hosts cut calls of a minute.")
]
RunId: TypeAlias = Annotated[str, Field(min_length=1, max_length=200, description="The id of a run.")]
Place: TypeAlias = Annotated[
    str, Field(max_length=1_000, description="Which request, as `pending` names it; needed where there are several.")
]
Seen: TypeAlias = Annotated[int, Field(ge=0, description="Parts that you have read: `said` has only later ones.")]


def pattern_names(registered: Iterable[str], *, plans: bool = True) -> str:
    """The patterns that can be named, the built-in ones if there are `plans`, as the description of an argument."""
    return ", ".join(dict.fromkeys([*registered, *(PATTERNS if plans else ())]))


def options_of(pattern: str, sides: Sequence[Side] | None, rounds: int | None) -> dict[str, Any] | None:
    """The options of a plan of the built-in `pattern`; None without any.

    ConfigurationError for what the pattern does not have.
    """
    info = find_pattern(pattern)
    if info is None:
        raise ConfigurationError(_TOOL, "pattern", pattern, f"one of {pattern_names(())}, or one of the application's")
    page = info.load_page()
    options: dict[str, Any] = {}
    if sides:
        options |= _roster(info, page.options, sides)
    if rounds is not None:
        if page.options.LENGTH not in page.options.model_fields:
            raise ConfigurationError(_TOOL, "rounds", rounds, f"left out: {info.name} has no rounds")
        options[page.options.LENGTH] = rounds
    return options or None


def _roster(info: PatternInfo, kind: Any, sides: Sequence[Side]) -> dict[str, Any]:  # noqa: ANN401 - a PatternOptions class
    key = "stance" if info.name == "debate" else "role"
    entries = [{"name": side.name or f"Side {ascii_uppercase[at]}", key: side.stance} for at, side in enumerate(sides)]
    humans = [entry["name"] for entry, side in zip(entries, sides, strict=True) if side.human]
    if humans and "humans" not in kind.model_fields:
        raise ConfigurationError(_TOOL, "sides", humans, f"without `human`: in {info.name} only models speak")
    return {kind.ROSTER: entries, **({"humans": humans, "suspend": True} if humans else {})}
