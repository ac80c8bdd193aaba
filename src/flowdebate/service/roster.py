"""Speakers of a plan: checked, with models of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.service.options import PatternOptions
    from flowdebate.service.plan import Models

__all__ = ("personas", "roster")


def personas(
    options: PatternOptions, made: Models, *, default: Sequence[Mapping[str, Any]], least: int = 2
) -> tuple[Any, ...]:
    """The personas that were given, or the default ones."""
    from flowdebate.patterns.roster import Persona

    return roster(options, made, kind=Persona, default=default, least=least)


def roster(
    options: PatternOptions,
    made: Models,
    *,
    kind: type[Any],
    default: Sequence[Mapping[str, Any]],
    least: int = 2,
) -> tuple[Any, ...]:
    """The speakers, each a `kind`; ConfigurationError for too few of them, or two of one name."""
    from flowdebate.patterns.roster import checked_roster

    key = options.ROSTER
    given = getattr(options, key)
    members = [dict(each) for each in default] if not given else [each.model_dump(exclude_unset=True) for each in given]
    where, field = options.place(key)
    for index, member in enumerate(members):
        if "model" in member:
            member["model"] = made(member["model"], where, f"{field}[{index}].model")
    try:
        return checked_roster(members, where=where, kind=kind, field=key, least=least)
    except ConfigurationError as error:
        if error.field == key:
            names = [member["name"] for member in members]
            raise ConfigurationError(where, field, names, "given at least twice") from None
        raise
