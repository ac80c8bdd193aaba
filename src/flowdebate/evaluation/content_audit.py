"""Content audit: a regression on length, order, style and model family, and win rates at equal length and style."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import exp, fsum, log1p, log2
from os import PathLike
from statistics import fmean
from typing import TYPE_CHECKING

from flowdebate._util.importing import InNotebooks
from flowdebate._util.validation import check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.audit_report import Figure
from flowdebate.evaluation.choice_model import fit_choices
from flowdebate.evaluation.statistics import check_scipy

if TYPE_CHECKING:
    from flowdebate.patterns.debate.judging.ballots import JudgeBallot

_WHERE = "content_audit()"
_MARKS = re.compile(r"^[ \t]*(?:#{1,6}|[-*+]|\d+[.)])[ \t]|\*\*|`", re.MULTILINE)
"""Pattern matching Markdown elements: headings, list items, bold text and code."""
_UNITS = {
    "length": "twice as long",
    "order": "read first instead of last",
    "style": "e times as many Markdown marks",
    "kin": "of the judge's own model",
}


class ContentChoice(WireModel):
    """A ballot, with the features of each side; all lists are in the judge's reading order."""

    systems: list[str]
    """Authors of the sides."""
    shares: list[float]
    """Share of the points given to each side; 1 and 0 if the ballot only names a winner."""
    columns: dict[str, list[float]]
    """Features of the sides, keyed by name, such as the base-2 logarithm of a text's length. Each feature has one
    number per side.
    """
    cluster: str | None = None
    """Cluster of related choices, such as those on the same question; None for an independent choice."""


class ControlledSystem(WireModel):
    """A system's raw win rate, and its win rate with all content features held equal."""

    system: str
    ballots: int
    share: float
    """Mean share of the points won by the system on its ballots."""
    controlled: Figure
    """Win rate against the average opponent at equal length, style, order and model family."""


class ContentAudit(InNotebooks, WireModel):
    """Effects on ballots of features other than the quality of the content."""

    ballots: int
    effects: dict[str, Figure]
    """Change in a side's log-odds per unit of each column, keyed by column; `n` is the number of clusters."""
    systems: list[ControlledSystem]
    """Systems, ordered by their win rate at equal length."""
    problem: str | None = None
    """Reason why no regression was computed."""
    findings: list[str]


def content_choices(
    ballots: Iterable[JudgeBallot],
    *,
    systems: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
    models: Mapping[str, str] | None = None,
    cluster: str | None = None,
) -> list[ContentChoice]:
    """Convert the usable `ballots` from one debate to choices. All mappings are keyed by side.

    - `systems`: the authors; None if the sides are the systems.
    - `texts`: the arguments from the debate; None to take lengths from the ballots and ignore style.
    - `models`: the models; None to ignore the model family.
    """
    content_choices_found = []
    for ballot in (candidate for candidate in ballots if candidate.problem is None):
        order, odds = ballot.order, ballot.log_odds
        sums = None if odds is None else {side: exp(odds[side]) for side in order}
        shares = ballot.shares if sums is None else {side: odds / fsum(sums.values()) for side, odds in sums.items()}
        lengths = ballot.lengths if texts is None else {side: len(texts[side]) for side in order}
        columns = {"order": [1 / 2 - place / (len(order) - 1) for place in range(len(order))]}
        if lengths is not None:
            columns["length"] = [log2(max(lengths[side], 1)) for side in order]
        if texts is not None:
            columns["style"] = [log1p(len(_MARKS.findall(texts[side]))) for side in order]
        if models is not None:
            columns["kin"] = [float(models.get(side) == ballot.model) for side in order]
        names = order if systems is None else [systems[side] for side in order]
        content_choices_found.append(
            ContentChoice(
                systems=list(names), shares=[shares[side] for side in order], columns=columns, cluster=cluster
            )
        )
    return content_choices_found


def content_audit(choices: Sequence[ContentChoice] | str | PathLike[str], *, confidence: float = 0.95) -> ContentAudit:
    """Regress `choices` on the sides' authors and on all columns at once. Needs scipy.

    A path refers to a ballot file (`read_ballots`).

    The model is a conditional logit (McFadden 1974), fitted to shares by quasi-likelihood; for all intervals, each
    cluster counts as one observation. A system's rate at equal length is the model's prediction for two sides with the
    same value in all columns (as in the length-controlled AlpacaEval, arXiv:2404.04475). Constant columns are omitted.
    If an effect would be infinite, as when a judge always picks the first text, no regression is computed, and
    `problem` gives the reason. Raises ConfigurationError if there are no choices, or if their columns differ.

    >>> def ballot(chars, share):
    ...     return ContentChoice(systems=["a", "b"], shares=[share, 1 - share], columns={"length": [chars, 8.0]})
    >>> found = content_audit([ballot(*each) for each in ((9, 0.7), (10, 0.8), (8, 0.6), (7, 0.4), (9, 0.6), (8, 0.5))])
    >>> round(found.effects["length"].value, 2), found.systems[0].system
    (0.56, 'a')
    """
    check_scipy(_WHERE)
    if isinstance(choices, (str, PathLike)):
        from flowdebate.evaluation.ballot_file import read_ballots

        choices = read_ballots(choices).choices
    import numpy as np

    check_share(_WHERE, ends=False, confidence=confidence)
    _check_choices(choices)
    names = sorted({name for choice in choices for name in choice.systems})
    varied = [column for column in choices[0].columns if any(len({*choice.columns[column]}) > 1 for choice in choices)]
    options = np.array([
        [[float(name == system) for name in names] + [choice.columns[column][place] for column in varied]
         for place, system in enumerate(choice.systems)]
        for choice in choices
    ])  # fmt: skip
    share_rows = np.array([choice.shares for choice in choices])
    clusters = [("alone", row) if choice.cluster is None else choice.cluster for row, choice in enumerate(choices)]
    fit = fit_choices(options, share_rows / share_rows.sum(axis=1, keepdims=True), clusters, strengths=len(names))
    if fit is None:
        problem = "no regression: an effect would be infinite, or the columns are not distinguishable"
        return ContentAudit(ballots=len(choices), effects={}, systems=[], problem=problem, findings=[problem])
    ends = [(value, *fit.interval(index, confidence=confidence)) for index, value in enumerate(fit.coefficients)]
    effects = {
        column: Figure(value=value, n=fit.clusters, low=low, high=high)
        for column, (value, low, high) in zip(varied, ends[len(names) :], strict=True)
    }
    systems = _controlled_systems(choices, dict(zip(names, ends, strict=False)), fit.clusters)
    findings = [_describe_effect(column, figure, confidence) for column, figure in effects.items()]
    findings += [] if fit.without_interval is None else [fit.without_interval]
    findings += [
        f"{entry.system}: {entry.share:.0%} of the whole, {entry.controlled.value:.0%} at equal {' and '.join(varied)}"
        for entry in systems
    ]
    return ContentAudit(ballots=len(choices), effects=effects, systems=systems, findings=findings)


def _check_choices(choices: Sequence[ContentChoice]) -> None:
    if not choices:
        raise ConfigurationError(_WHERE, "choices", None, "must not be empty")
    sides = len(choices[0].systems)
    for index, choice in enumerate(choices):
        lengths = {len(choice.systems), len(choice.shares), *map(len, choice.columns.values())}
        if {*choice.columns} != {*choices[0].columns} or lengths != {sides} or sides < 2:  # noqa: PLR2004
            problem = f"must have the columns {', '.join(sorted(choices[0].columns))}, each with {sides} sides"
            raise ConfigurationError(_WHERE, f"choices[{index}]", sorted(choice.columns), problem)


def _controlled_systems(
    choices: Sequence[ContentChoice],
    strengths: Mapping[str, tuple[float, float | None, float | None]],
    clusters: int,
) -> list[ControlledSystem]:
    """Convert each system's strength and interval to a win rate with all columns equal, sorted highest first."""
    # Strengths have a mean of 0, so a system's lead over the mean of the others is its own strength times this factor.
    apart = len(strengths) / max(len(strengths) - 1, 1)
    systems = []
    for name, strength in strengths.items():
        shares = [
            share for choice in choices for who, share in zip(choice.systems, choice.shares, strict=True) if who == name
        ]
        value, low, high = (None if end is None else 1 / (1 + exp(-apart * end)) for end in strength)
        controlled = Figure(value=value or 0.0, n=clusters, low=low, high=high)
        systems.append(ControlledSystem(system=name, ballots=len(shares), share=fmean(shares), controlled=controlled))
    return sorted(systems, key=lambda system: -system.controlled.value)


def _describe_effect(column: str, figure: Figure, confidence: float) -> str:
    unit, low, high = _UNITS.get(column, "one more"), figure.low, figure.high
    if low is None or high is None:
        return f"{column}: {unit} adds {figure.value:+.2f} log-odds, without an interval"
    sure = "favors it" if low > 0 else "is against it" if high < 0 else "is not clear"
    interval = f"{confidence:.0%} interval {low:+.2f} to {high:+.2f}"
    return f"{column}: {unit} {sure}, by {figure.value:+.2f} log-odds ({interval})"
