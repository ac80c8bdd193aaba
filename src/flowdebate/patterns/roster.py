"""Who debates: the debaters as the application names them, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError
from flowdebate.models.text import clean_text, is_blank

if TYPE_CHECKING:
    from flowdebate.models.base import Model

__all__ = ("Debater", "as_seen", "checked_roster")


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


_FIELDS = tuple(field.name for field in fields(Debater))


def checked_roster(debaters: Sequence[Debater | Mapping[str, Any]], *, where: str) -> tuple[Debater, ...]:
    """`debaters` as they were declared; ConfigurationError that names the entry and the field."""
    if isinstance(debaters, (str, bytes, Mapping)) or not isinstance(debaters, Sequence):
        raise ConfigurationError(where, "debaters", debaters, "a list of Debater or dicts")
    roster = tuple(_debater(entry, where, f"debaters[{index}]") for index, entry in enumerate(debaters))
    if len(roster) < 2:  # noqa: PLR2004 - it takes two
        raise ConfigurationError(where, "debaters", list(debaters), "at least two debaters")
    first: dict[str, int] = {}
    for index, debater in enumerate(roster):
        same = first.setdefault(as_seen(debater.name), index)
        if same != index:
            raise ConfigurationError(
                where,
                f"debaters[{index}].name",
                debater.name,
                f"different from that of debaters[{same}]"
                + ("" if debater.name == roster[same].name else ", and not by case or unseen characters alone"),
            )
    return roster


def as_seen(name: str) -> str:
    r"""What a reader takes `name` for: without what is not seen, whatever its case and compatibility forms.

    >>> as_seen("Anna\u200b") == as_seen("ANNA")
    True
    """
    from unicodedata import category, normalize

    seen = "".join(c for c in normalize("NFKC", name) if category(c) not in {"Cf", "Cc"} or c.isspace())
    return " ".join(normalize("NFKC", seen.casefold()).split())


def _debater(entry: object, where: str, place: str) -> Debater:
    if isinstance(entry, Mapping):
        unknown = [key for key in entry if key not in _FIELDS]
        missing = [key for key in ("name", "stance") if key not in entry]
        if unknown or missing:
            raise ConfigurationError(
                where, place, dict(entry), f"a dict with name, stance, and optionally {', '.join(_FIELDS[2:])}"
            )
        entry = Debater(**entry)
    if not isinstance(entry, Debater):
        raise ConfigurationError(where, place, entry, "a Debater, or a dict with name and stance")
    for field in ("name", "stance"):
        value = getattr(entry, field)
        if not isinstance(value, str) or is_blank(value):
            raise ConfigurationError(where, f"{place}.{field}", value, "a string that is not blank")
        if clean_text(value) != value:
            raise ConfigurationError(where, f"{place}.{field}", value, "valid Unicode without NUL")
    if entry.role is not None and not isinstance(entry.role, str):
        raise ConfigurationError(where, f"{place}.role", entry.role, "a string or None")
    if entry.block is not None and not (isinstance(entry.block, Block) or callable(entry.block)):
        raise ConfigurationError(where, f"{place}.block", entry.block, "a block or a function of (input, ctx)")
    return entry
