"""Who speaks: as the command line names them, as a file does, or by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.cli.keys import COMMAND, Key, model_name, speakers, text
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.cli.keys import Given
    from flowdebate.cli.plan import Models

__all__ = ("parse_persona", "parse_side", "personas", "personas_of", "roster", "sides")

_IS_TEXT = text().fits


def sides(option: str) -> Key:
    """Debaters, each with a stance."""
    entries = {"name": text(), "stance": text(), "role": text(), "model": model_name()}
    return speakers(option, parse_side, entries, ("name", "stance"))


def personas(option: str) -> Key:
    """Personas, each for itself."""
    entries = {"name": text(), "role": text(), "system_prompt": text(), "model": model_name()}
    return speakers(option, lambda given: parse_persona(given, option), entries, ("name",))


def parse_side(given: str) -> dict[str, str]:
    """A debater as the command line names it.

    >>> parse_side("skeptic = cars should stay")
    {'name': 'skeptic', 'stance': 'cars should stay'}
    """
    name, sign, stance = (part.strip() for part in given.partition("="))
    if not sign or not _IS_TEXT(name) or not _IS_TEXT(stance):
        raise ConfigurationError(COMMAND, "--debater", given, "name=stance")
    return {"name": name, "stance": stance}


def parse_persona(given: str, option: str) -> dict[str, str]:
    """A persona as the command line names it: with a role, or without one.

    >>> parse_persona("Ada = an economist", "--agent"), parse_persona("Ben", "--agent")
    ({'name': 'Ada', 'role': 'an economist'}, {'name': 'Ben'})
    """
    name, sign, role = (part.strip() for part in given.partition("="))
    if not _IS_TEXT(name) or (sign and not _IS_TEXT(role)):
        raise ConfigurationError(COMMAND, option, given, "name=role, or a name")
    return {"name": name, "role": role} if sign else {"name": name}


def personas_of(
    given: Given, made: Models, *, key: str, default: Sequence[Mapping[str, Any]], least: int = 2
) -> tuple[Any, ...]:
    """The personas that were given under `key`, or the default ones."""
    from flowdebate.patterns.roster import Persona

    return roster(given, made, key=key, kind=Persona, default=default, least=least)


def roster(
    given: Given,
    made: Models,
    *,
    key: str,
    kind: type[Any],
    default: Sequence[Mapping[str, Any]],
    least: int = 2,
) -> tuple[Any, ...]:
    """Those who speak, each a `kind`; ConfigurationError for too few of them, or two of one name."""
    from flowdebate.patterns.roster import checked_roster

    members = [dict(member) for member in given[key] or default]
    where, field = given.place(key)
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
