"""Roster: the debaters or personas as the application declares them, checked."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate._util.text import clean_text, is_blank
from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.prompts.escaping import as_seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.models.base import Model
    from flowdebate.patterns.roles import RoleOptions


@dataclass(frozen=True, slots=True)
class Debater:
    """One side of a debate.

    >>> Debater("advocate", "ship now").stance
    'ship now'
    """

    name: str
    """Stable identifier; the assignee of its tasks in the audit trail."""
    stance: str
    """The position that it argues."""
    role: str | None = None
    """A persona, in a few words; for the default block only."""
    block: Any = None
    """Replaces the default debater: a block, or a sync or async function of `(input, ctx)` or `(input)`. It returns
    `str`, `{"text": str}`, or a model with a `text`."""
    model: Model | str | None = None
    """Its own model; None for that of the debate. For the default block only."""
    options: RoleOptions | None = None
    """`DebaterOptions` of its own, over the debate's. For the default block only."""


@dataclass(frozen=True, slots=True)
class Persona:
    """Somebody who speaks for itself, without an assigned position: in a deliberation, a panel, and so on.

    >>> Persona("Bear", "cautious risk analyst", "You look for what can go wrong.").role
    'cautious risk analyst'
    """

    name: str
    """Stable identifier; the assignee of its tasks in the audit trail."""
    role: str | None = None
    """What it is, in a few words; others see it beside the name."""
    system_prompt: str | None = None
    """Who it is and what it cares for; its own model alone sees it. For the default block only."""
    block: Any = None
    """Replaces the default block: a block, or a sync or async function of `(input, ctx)` or `(input)`."""
    model: Model | str | None = None
    """Its own model; None for that of the pattern. For the default block only."""
    options: RoleOptions | None = None
    """`DebaterOptions` of its own, over the pattern's. For the default block only."""


MANY_MEMBERS = 10
"""More debaters, personas, agents or members than this are warned of."""

MemberT = TypeVar("MemberT", Debater, Persona)


def checked_roster(
    members: Sequence[MemberT | Mapping[str, Any]],
    *,
    where: str,
    kind: type[MemberT] = Debater,  # type: ignore[assignment]  # the default of a type variable
    field: str = "debaters",
    least: int = 2,
    most: int | None = MANY_MEMBERS,
) -> tuple[MemberT, ...]:
    """`members` as they were declared, each a `kind`; ConfigurationError that names the entry and the field."""
    if isinstance(members, (str, bytes, Mapping)) or not isinstance(members, Sequence):
        raise ConfigurationError(where, field, members, f"a list of {kind.__name__} or dicts")
    roster = tuple(_member(entry, kind, where, f"{field}[{index}]") for index, entry in enumerate(members))
    if len(roster) < least:
        count = {1: "one", 2: "two"}.get(least, str(least))
        raise ConfigurationError(where, field, list(members), f"at least {count} {field}")
    names = [member.name for member in roster]
    for index, same in _alike(names):
        unseen = "" if names[index] == names[same] else _NOT_UNSEEN
        raise ConfigurationError(
            where, f"{field}[{index}].name", names[index], f"different from that of {field}[{same}]{unseen}"
        )
    if most is not None and len(roster) > most:
        warnings.warn(
            f"{where}: {len(roster)} {field}: each prompt shows what all of them said, so tokens grow with the square "
            f"of their number; use at most {most}",
            FlowDebateWarning,
            stacklevel=4,  # the caller of the pattern's function
        )
    _check_stances([member.stance for member in roster if hasattr(member, "stance")], where, field)
    return roster


_NOT_UNSEEN = ", and not by case or unseen characters alone"


def _alike(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The indices of texts that read like an earlier one, each with that one's."""
    first: dict[str, int] = {}
    for index, text in enumerate(texts):
        same = first.setdefault(as_seen(text), index)
        if same != index:
            yield index, same


def _check_stances(stances: Sequence[str], where: str, field: str) -> None:
    """Debaters may share a stance, as a team; but there are two stances at least, and none that only looks the same."""
    for index, same in _alike(stances):
        if stances[index] != stances[same]:
            allowed = f"that of {field}[{same}], or different from it{_NOT_UNSEEN}"
            raise ConfigurationError(where, f"{field}[{index}].stance", stances[index], allowed)
    if len(stances) > 1 and len(set(stances)) == 1:
        allowed = f"different from that of {field}[0]: a debate needs two stances"
        raise ConfigurationError(where, f"{field}[1].stance", stances[1], allowed)


def _member(entry: object, kind: type[MemberT], where: str, place: str) -> MemberT:
    known = [field.name for field in fields(kind)]
    needed = [field.name for field in fields(kind) if field.default is MISSING]
    if isinstance(entry, Mapping):
        if not set(needed) <= set(entry) <= set(known):
            optional = ", ".join(name for name in known if name not in needed)
            allowed = f"a dict with {', '.join(needed)}, and optionally {optional}"
            raise ConfigurationError(where, place, dict(entry), allowed)
        entry = kind(**entry)
    if not isinstance(entry, kind):
        raise ConfigurationError(where, place, entry, f"a {kind.__name__}, or a dict with {' and '.join(needed)}")
    for name in needed:
        value = getattr(entry, name)
        if not isinstance(value, str) or is_blank(value):
            raise ConfigurationError(where, f"{place}.{name}", value, "a string that is not blank")
        if clean_text(value) != value:
            raise ConfigurationError(where, f"{place}.{name}", value, "valid Unicode without NUL")
    for name in ("role", "system_prompt"):
        value = getattr(entry, name, None)
        if value is not None and not isinstance(value, str):
            raise ConfigurationError(where, f"{place}.{name}", value, "a string or None")
    if entry.block is not None and not (isinstance(entry.block, Block) or callable(entry.block)):
        raise ConfigurationError(where, f"{place}.block", entry.block, "a block or a function of (input, ctx)")
    return entry
