"""Speakers of a plan: those that were given, or default ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.service.options import PatternOptions
    from flowdebate.service.plan import Models

__all__ = ("default_sides", "personas", "roster")


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


# Sides for a question that names none


_MODAL = "should|must|can|could|will|would"
_PRONOUN = re.compile(rf"({_MODAL}) (we|i|you|they|it) (\w.*)", re.IGNORECASE)
_PASSIVE = re.compile(rf"({_MODAL}) (\w.*?) (be \w.*)", re.IGNORECASE)
"""The two forms of question whose subject has a certain end."""
_ENTANGLED = re.compile(r"[.,;:?!\"()]|\b(?:or|not|never|who|whom|whose|which|that|to|what|why|how)\b", re.IGNORECASE)
_ENTANGLED_REST = re.compile(r"[.,;:?!\"]|\b(?:or|not|never)\b|^(?:who|that|which)\b", re.IGNORECASE)
"""Words and signs in subject or rest that make a question more than one plain clause."""
_QUOTED = 300
"""Characters up to which the sides repeat the question."""


def default_sides(question: str) -> list[dict[str, str]]:
    """Two sides for a question of yes or no, each with a stance that reads as a position.

    Models argue best for a claim. Where the question is plain English the claims are made of its own words;
    anywhere else the sides stand for the answers yes and no.

    >>> [side["stance"] for side in default_sides("Should private cars be banned from city centres?")]
    ['Private cars should be banned from city centres', 'Private cars should not be banned from city centres']
    >>> [side["stance"] for side in default_sides("Is tea better than coffee?")]
    ['The answer to "Is tea better than coffee?" is yes', 'The answer to "Is tea better than coffee?" is no']
    """
    asked = " ".join(question.split())
    yes, no = _claims(asked) or _answers(asked)
    return [{"name": "pro", "stance": yes}, {"name": "con", "stance": no}]


def _claims(asked: str) -> tuple[str, str] | None:
    clause = asked.removesuffix("?").rstrip()
    if len(clause) > _QUOTED or not asked.endswith("?"):
        return None
    found = _PRONOUN.fullmatch(clause) or _PASSIVE.fullmatch(clause)
    if found is None or _ENTANGLED.search(found[2]) or _ENTANGLED_REST.search(found[3]):
        return None
    modal, subject, rest = found[1].lower(), found[2][0].upper() + found[2][1:], found[3]
    return f"{subject} {modal} {rest}", f"{subject} {modal} not {rest}"


def _answers(asked: str) -> tuple[str, str]:
    about = f'The answer to "{asked}"' if len(asked) <= _QUOTED else "The answer to the question"
    return f"{about} is yes", f"{about} is no"
