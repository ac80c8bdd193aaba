"""Sides for a question that names none: one that says yes, and one that says no."""

from __future__ import annotations

import re

__all__ = ("default_sides",)

_MODAL = "should|must|can|could|will|would"
_PRONOUN = re.compile(rf"({_MODAL}) (we|i|you|they|it) (\w.*)", re.IGNORECASE)
_PASSIVE = re.compile(rf"({_MODAL}) (\w.*?) (be \w.*)", re.IGNORECASE)
"""The two forms of question of which it is certain where the subject ends."""
_ENTANGLED = re.compile(r"[.,;:?!\"()]|\b(?:or|not|never|who|whom|whose|which|that|to|what|why|how)\b", re.IGNORECASE)
_ENTANGLED_REST = re.compile(r"[.,;:?!\"]|\b(?:or|not|never)\b|^(?:who|that|which)\b", re.IGNORECASE)
"""What, in its subject and in the rest, makes a question something else than one plain clause."""
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
