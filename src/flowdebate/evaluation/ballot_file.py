"""Ballot files from any source, with one row per ballot, for judge audits, judge quality measures and rankings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log2
from os import PathLike, fspath
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from flowdebate._text import join_choices, typed
from flowdebate._util.option_types import is_text
from flowdebate.errors import BadFile
from flowdebate.evaluation.audit_report import AuditItem
from flowdebate.evaluation.content_audit import ContentChoice
from flowdebate.evaluation.judge_quality import JudgedItem, judged_items
from flowdebate.evaluation.ranking import Game
from flowdebate.patterns.debate.judging.ballots import JudgeBallot
from flowdebate.ui.files import problem_of
from flowdebate.ui.tables import read_table

BallotPath: TypeAlias = str | PathLike[str]
"""Path of a ballot file: CSV, JSON Lines or Parquet."""


def _read_text(value: object) -> object:
    """Read a cell as text; an empty cell becomes None, and a number becomes a string."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:g}"
    return value.strip() or None if isinstance(value, str) else value


def _read_list(value: object) -> object:
    """Read a list from a cell that contains either JSON or values separated by "|"."""
    if isinstance(value, str) and value.strip():
        if not value.lstrip().startswith("["):
            return value.split("|")
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value or None


_Cell = Annotated[str, BeforeValidator(_read_text)]
_Texts = Annotated[list[_Cell], BeforeValidator(_read_list)]


class BallotRow(BaseModel):
    """A ballot: the judge's choice for one order of the sides."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", frozen=True)

    item: _Cell
    """ID of the judged item, such as a debate or a pair of texts; all ballots on it share this ID."""
    order: _Texts
    """Sides in the judge's reading order."""
    choice: _Cell | None = None
    """Side chosen by the judge; None for a tie."""
    judge: _Cell | None = None
    truth: _Cell | None = None
    """The correct side, if known."""
    cluster: _Cell | None = None
    """Cluster of related items, such as all those on the same question or motion."""
    systems: _Texts | None = None
    """Author of each side in `order`; None if the systems being compared are the sides themselves."""
    lengths: Annotated[list[Annotated[float, Field(ge=0)]] | None, BeforeValidator(_read_list)] = None
    """Length of the text of each side in `order`."""
    problem: _Cell | None = None
    """Reason why the answer could not be parsed; None for a usable ballot."""

    @model_validator(mode="after")
    def _fit_together(self) -> BallotRow:
        if len(self.order) < 2 or len(set(self.order)) != len(self.order):  # noqa: PLR2004 - a choice takes two
            raise ValueError(f"`order` must have two or more different sides (got {typed(self.order)})")
        for name, side in (("choice", self.choice), ("truth", self.truth)):
            if side is not None and side not in self.order:
                raise ValueError(
                    f"`{name}` must be one of the sides in `order`: {join_choices(self.order)} (got {typed(side)})"
                )
        for name, values in (("systems", self.systems), ("lengths", self.lengths)):
            if values is not None and len(values) != len(self.order):
                raise ValueError(
                    f"`{name}` must have {len(self.order)} values, one for each side (got {typed(values)})"
                )
        return self


@dataclass(frozen=True, slots=True)
class BallotFile:
    """Contents of a ballot file, with methods for converting them for audits, judge quality measures and rankings."""

    ballots: Sequence[BallotRow]

    @property
    def judges(self) -> list[str]:
        """Names of the judges, in the order of their first ballots."""
        return list(dict.fromkeys(ballot.judge for ballot in self.ballots if ballot.judge is not None))

    def of_judge(self, judge: str) -> BallotFile:
        """Return the ballots of one judge."""
        return BallotFile([ballot for ballot in self.ballots if ballot.judge == judge])

    @property
    def items(self) -> list[AuditItem]:
        """The ballots grouped by item, as input for `audit()`."""
        groups: dict[str, list[BallotRow]] = {}
        for ballot in self.ballots:
            groups.setdefault(ballot.item, []).append(ballot)
        return [
            AuditItem(
                id=item,
                truth=next((ballot.truth for ballot in group if ballot.truth is not None), None),
                ballots=[
                    JudgeBallot(order=row.order, winner=row.choice, model=row.judge, problem=row.problem)
                    for row in group
                ],
            )
            for item, group in groups.items()
        ]

    @property
    def judged(self) -> list[JudgedItem]:
        """The items with a known correct side, as input for `judge_quality()`."""
        clusters = {ballot.item: ballot.cluster for ballot in self.ballots}
        judged = []
        for item in self.items:
            judged += [entry.model_copy(update={"cluster": clusters[item.id or ""]}) for entry in judged_items([item])]
        return judged

    @property
    def games(self) -> list[Game]:
        """The games for `rank_games()`: one for each ballot and pair of systems."""
        games = []
        for ballot in self._usable():
            sides = list(zip(ballot.order, ballot.systems or ballot.order, strict=True))
            for (one, first), (other, second) in combinations(sides, 2):
                if first != second and ballot.choice in (one, other, None):
                    won = 0.5 if ballot.choice is None else float(ballot.choice == one)
                    games.append(Game(first, second, won, ballot.cluster or ballot.item))
        return games

    @property
    def choices(self) -> list[ContentChoice]:
        """The choices on all ballots along with the features of the sides, as input for `content_audit()`."""
        ballots = list(self._usable())
        measured = all(ballot.lengths is not None for ballot in ballots)
        choices = []
        for ballot in ballots:
            systems = ballot.systems or ballot.order
            columns = {"order": [1 / 2 - place / (len(systems) - 1) for place in range(len(systems))]}
            if measured:
                columns["length"] = [log2(max(length, 1)) for length in ballot.lengths or ()]
            columns["kin"] = [float(system == ballot.judge) for system in systems]
            even = 1 / len(systems)
            shares = [even if ballot.choice is None else float(side == ballot.choice) for side in ballot.order]
            cluster = ballot.cluster or ballot.item
            choices.append(ContentChoice(systems=systems, shares=shares, columns=columns, cluster=cluster))
        return choices

    def _usable(self) -> Iterator[BallotRow]:
        return (ballot for ballot in self.ballots if ballot.problem is None)


def read_ballots(path: BallotPath) -> BallotFile:
    """Read a ballot file (CSV, JSON Lines or Parquet; "-" for stdin) with the columns of `BallotRow`.

    In CSV, write a list as JSON or separate its values with "|". Raise BadFile, with the line and column, for invalid
    data.
    """
    return BallotFile(parse_ballots(fspath(path), read_table(fspath(path), column="item")))


def parse_ballots(path: str, rows: Iterator[tuple[int, dict[str, Any]]]) -> list[BallotRow]:
    """Validate the rows of the file at `path`.

    Raise BadFile for an invalid row, for an item with conflicting truths, or if there are no rows.
    """
    ballots: list[BallotRow] = []
    truths: dict[str, str] = {}
    for number, row in rows:
        try:
            ballot = BallotRow.model_validate({name: cell for name, cell in row.items() if is_filled(cell)})
        except ValidationError as error:
            raise BadFile(path, f"line {number}: {problem_of(error)}") from None
        if ballot.truth is not None and truths.setdefault(ballot.item, ballot.truth) != ballot.truth:
            truth, before = typed(ballot.truth), typed(truths[ballot.item])
            raise BadFile(
                path,
                f"line {number}: `truth` of item {typed(ballot.item)} is {truth} here, but {before} on an earlier line",
            )
        ballots.append(ballot)
    if not ballots:
        raise BadFile(path, "has no ballots")
    return ballots


def is_filled(cell: object) -> bool:
    """Return whether a cell contains a value."""
    return is_text(cell) if isinstance(cell, str) else cell is not None
