"""Pairs of a true and a false statement from the package textarena (MIT), none of whose code is run."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ("PACKAGE", "FactPair", "Pair", "PairFigures", "fact_pairs", "stored_pairs")

PACKAGE = "textarena==0.7.4"
"""Package to install without its dependencies, since only one of its data files is read."""
_FIGURES = Path(__file__).with_name("pairs.json")
SIDES = ("true", "false")
"""Names of the two statements in results; no judge sees them."""


class Pair(Protocol):
    """Properties of a pair that the tables need."""

    @property
    def id(self) -> str: ...
    @property
    def first_is_true(self) -> bool: ...
    @property
    def longer_is_true(self) -> float: ...
    @property
    def length_matched(self) -> bool: ...


class PairFigures(NamedTuple):
    """Properties of a pair, without its statements."""

    id: str
    first_is_true: bool
    longer_is_true: float
    length_matched: bool

    @classmethod
    def of(cls, pair: Pair) -> PairFigures:
        """Copy the properties of a pair."""
        return cls(pair.id, pair.first_is_true, pair.longer_is_true, pair.length_matched)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactPair:
    """Two statements about the same thing."""

    id: str
    true: str
    false: str
    first_is_true: bool
    """True if the package lists the true statement first; it usually does, so its order is never used."""

    def text(self, side: str) -> str:
        """Return the statement of a side, which is "true" or "false"."""
        return self.true if side == "true" else self.false

    @property
    def longer_is_true(self) -> float:
        """1 if the true statement has more characters, 0 if it has fewer, and 0.5 if the lengths are equal."""
        return 0.5 if len(self.true) == len(self.false) else float(len(self.true) > len(self.false))

    @property
    def length_matched(self) -> bool:
        """True if the longer statement has at most a tenth more characters than the shorter one."""
        short, long = sorted((len(self.true), len(self.false)))
        return long <= 1.1 * short


def stored_pairs() -> list[PairFigures]:
    """Read the properties of all pairs, which are stored in the repository."""
    return [PairFigures(*row) for row in json.loads(_FIGURES.read_text("utf-8"))]


def fact_pairs() -> list[FactPair]:
    """Read all pairs in the order of the package's file, without importing the package.

    Raises ModuleNotFoundError if the package is not installed.
    """
    spec = importlib.util.find_spec("textarena")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the pairs are in another package: pip install --no-deps {PACKAGE}")
    file = Path(spec.submodule_search_locations[0], "envs", "TruthAndDeception", "facts.json")
    return [_pair(number, row) for number, row in enumerate(json.loads(file.read_text("utf-8")))]


def _pair(number: int, row: dict[str, dict[str, str] | str]) -> FactPair:
    facts, right = row["facts"], row["correct_fact"]
    assert isinstance(facts, dict)
    assert isinstance(right, str)
    wrong = next(name for name in facts if name != right)
    return FactPair(id=f"fact-{number:03}", true=facts[right], false=facts[wrong], first_is_true=right == "fact1")
