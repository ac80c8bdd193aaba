"""How strong an agreement is: the share of the eligible voters behind the first choice, and a word for it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError
from flowdebate.schemas.measures import Strength

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("Strength", "agreement", "strength")

_STRONG = Fraction(4, 5)
_MODERATE = Fraction(3, 5)
_WEAK = Fraction(1, 2)


def agreement(counts: Mapping[str, int], eligible: int) -> Fraction:
    """The share of all `eligible` voters who chose what most chose, from 0 to 1; exact.

    Who did not vote, or spoiled the vote, agreed with nobody.

    >>> agreement({"ann": 2, "bob": 1}, eligible=4)
    Fraction(1, 2)
    """
    _check(counts, eligible)
    return Fraction(max(counts.values(), default=0), eligible)


def strength(counts: Mapping[str, int], *, eligible: int) -> Strength:
    """The word for the agreement r: unanimous 1, strong > 4/5, moderate >= 3/5, weak > 1/2, else split.

    Contested is a split in which there are several choices and none has a second vote.

    >>> strength({"ann": 3, "bob": 2}, eligible=5), strength({"ann": 1, "bob": 1}, eligible=3)
    ('moderate', 'contested')
    """
    share = agreement(counts, eligible)
    if share == 1:
        return "unanimous"
    if share > _STRONG:
        return "strong"
    if share >= _MODERATE:
        return "moderate"
    if share > _WEAK:
        return "weak"
    chosen = [count for count in counts.values() if count]
    return "contested" if len(chosen) > 1 and max(chosen) == 1 else "split"


def _check(counts: Mapping[str, int], eligible: object) -> None:
    if isinstance(eligible, bool) or not isinstance(eligible, int) or eligible < 1:
        raise ConfigurationError("agreement()", "eligible", eligible, "an int >= 1")
    whole = all(isinstance(count, int) and count >= 0 for count in counts.values())
    if not whole or sum(counts.values()) > eligible:
        allowed = f"ints >= 0, in all no more than the {eligible} eligible voters"
        raise ConfigurationError("agreement()", "counts", dict(counts), allowed)
