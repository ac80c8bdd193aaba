"""Data sets of questions with known answers: positions and truth of each row, and its debate."""

from __future__ import annotations

import hashlib
import json
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.cli.batch.rows import Row
from flowdebate.cli.batch.run import Plans
from flowdebate.errors import BadFile, shown
from flowdebate.evaluation.benefit.comparison import DRAFTS
from flowdebate.evaluation.benefit.evaluate import dealt
from flowdebate.patterns.debate.schemas import BASELINES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.patterns.debate.schemas import BaselineName


_CHOICES = "choices"
_YES, _NO = ("yes", "true"), ("no", "false")
_LETTERS = string.ascii_lowercase


@dataclass(frozen=True, kw_only=True)
class LabelledQuestion(Row):
    """A question with a known answer."""

    sides: tuple[Mapping[str, Any], ...]
    """The debaters, as in a plan file."""
    truth: str
    """The right stance."""


def choices_of(row: Row, columns: Sequence[str], *, path: str, number: int) -> list[str]:
    """The positions in a row's own columns; none where it has no such column, and none was named."""
    if not columns and _CHOICES not in row.others:
        return []
    cells = []
    for column in columns or [_CHOICES]:
        if column not in row.others:
            raise BadFile(path, f"question {number}: there is no column `{column}`")
        cells.append(row.others[column])
    values = _listed(cells[0]) if len(cells) == 1 else [cell for cell in cells if cell not in (None, "")]
    texts = [value.strip() if isinstance(value, str) else value for value in values]
    good = all(isinstance(text, str) and text for text in texts) and len(set(texts)) == len(texts)
    if not good or not 2 <= len(texts) <= len(_LETTERS):  # noqa: PLR2004 - two sides
        field = ", ".join(f"`{column}`" for column in columns or [_CHOICES])
        allowed = f"2 to {len(_LETTERS)} different texts"
        raise BadFile(path, f"question {number}: {field} must hold {allowed}, got {shown(values)}")
    return texts


def matched(value: object, stances: Sequence[str], names: Sequence[str]) -> str | None:
    """The stance that `value` names, or None: by its text, its debater's name, its letter, or its place from 0.

    >>> [matched(value, ["tea", "coffee"], ["a", "b"]) for value in ("Coffee", "B", 1, "1", True, "milk")]
    ['coffee', 'coffee', 'coffee', 'coffee', None, None]
    >>> [matched(value, ["it is so", "it is not"], ["pro", "con"]) for value in (True, "no", "PRO")]
    ['it is so', 'it is not', 'it is so']
    """
    if isinstance(value, bool):
        value = "true" if value else "false"
    text = str(value).strip().casefold()
    known = {str(index): stance for index, stance in enumerate(stances)}
    known |= dict(zip(_LETTERS, stances, strict=False))
    if list(names) == ["pro", "con"]:
        known |= dict.fromkeys(_YES, stances[0]) | dict.fromkeys(_NO, stances[1])
    known |= {name.casefold(): stance for name, stance in zip(names, stances, strict=True)}
    known |= {stance.strip().casefold(): stance for stance in stances}
    return known.get(text)


class EvaluationPlans(Plans):
    """Plans of the debates of a data set, with baselines; `rows` are the rows as they were read.

    The positions are the row's choices, dealt to the debaters at random (data sets often have the right one first), or
    those of the named debaters. `baselines`: None for all that can differ from each other. BadFile for a row without a
    truth among its positions.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        file: str | None,
        rows: Sequence[Row],
        *,
        path: str,
        truth: str,
        choices: Sequence[str],
        baselines: Sequence[BaselineName] | None,
    ) -> None:
        super().__init__("debate", options, file, first=rows[0].question)
        if "schema" not in self.stored["options"]:
            self.stored["options"].setdefault("synthesizer", False)  # only verdicts are compared
        self._baselines = baselines
        self.questions: list[LabelledQuestion] = [
            self._question(row, index, path, truth, choices) for index, row in enumerate(rows)
        ]
        for question in self.questions:
            self.of(question)  # refuses impossible options before anything is paid

    def name(self, rows: Sequence[Row]) -> str:
        """The name of a batch of these rows, baselines and positions."""
        positions = [list(map(dict, question.sides)) for question in self.questions]
        about = [super().name(rows), self._baselines and list(self._baselines), positions]
        return f"evaluation-{hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=5).hexdigest()}"

    def options_of(self, row: Row) -> dict[str, Any]:
        """The options of one question: its sides, and the baselines."""
        question = row if isinstance(row, LabelledQuestion) else self.questions[0]  # the bare row of the first question
        options = {**self.options_for(question.question), "debaters": [dict(side) for side in question.sides]}
        return {**options, "baselines": list(self._baselines or _default_baselines(len(question.sides)))}

    def _question(self, row: Row, index: int, path: str, truth: str, columns: Sequence[str]) -> LabelledQuestion:
        number = index + 1
        given = self.stored["options"].get("debaters")
        choices = choices_of(row, columns, path=path, number=number)
        if choices:
            sides = _dealt(choices, given, row.question, seed=self.base.seed, path=path, number=number)
            stances, names = choices, []
        else:
            sides = given or self._default(row.question)
            stances, names = [side["stance"] for side in sides], [side["name"] for side in sides]
        if truth not in row.others:
            raise BadFile(path, f"question {number}: there is no column `{truth}`, which has the right answer")
        right = matched(row.others[truth], stances, names or [""] * len(stances))
        if right is None:
            allowed = f"one of {', '.join(map(shown, stances))}"
            raise BadFile(path, f"question {number}: `{truth}` must be {allowed}, got {shown(row.others[truth])}")
        return LabelledQuestion(question=row.question, others=row.others, sides=tuple(sides), truth=right)

    def _default(self, question: str) -> list[dict[str, str]]:
        from flowdebate.patterns.debate.sides import yes_no_sides

        return [{"name": side.name, "stance": side.stance} for side in yes_no_sides(question)]


def _dealt(
    choices: Sequence[str],
    given: Sequence[Mapping[str, Any]] | None,
    question: str,
    *,
    seed: int | None,
    path: str,
    number: int,
) -> list[dict[str, Any]]:
    """A debater for each choice, at random: the named ones with the row's positions, or ones named by letters."""
    debaters = [{"name": letter} for letter in _LETTERS] if given is None else [dict(side) for side in given]
    if given is not None and len(debaters) != len(choices):
        raise BadFile(path, f"question {number}: has {len(choices)} choices for {len(debaters)} debaters")
    positions = dealt(choices, question=question, seed=seed)
    return [{**debater, "stance": stance} for debater, stance in zip(debaters, positions, strict=False)]


def _default_baselines(sides: int) -> Sequence[BaselineName]:
    """All baselines; without first drafts where they are too few for a vote that could differ from one call."""
    return [name for name in BASELINES if name != "drafts" or sides >= DRAFTS]


def _listed(cell: object) -> list[Any]:
    """The positions in one cell: a list, or a list as JSON."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError):
            return [cell]
    return cell if isinstance(cell, list) else [cell]
