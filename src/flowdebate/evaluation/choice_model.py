"""Conditional logit model of choices, including a test for separation and intervals suited to few clusters."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from flowdebate.evaluation.statistics import student_t

if TYPE_CHECKING:
    from flowdebate.evaluation.statistics import Floats, Integers

_CONVERGED = 1e-11
_DOUBTFUL = 10.0
"""Difference in log-odds between two options above which a coefficient may be diverging."""
_NO_VARIANCE = 1e-7
"""Threshold below which standard errors are considered rounding noise."""
_MIN_DEGREES_OF_FREEDOM = 1.5
"""Minimum degrees of freedom for an interval; two clusters are too few, because they are often similar by chance."""
_SOLE = 0.999
"""Leverage above which a direction is treated as depending on a single cluster."""


class ChoiceFit(NamedTuple):
    """Fitted coefficients and their standard errors."""

    coefficients: list[float]
    errors: list[float | None]
    """Standard errors; None if they cannot be estimated from the clusters."""
    freedom: list[float]
    """Degrees of freedom of each standard error."""
    clusters: int

    def interval(self, index: int, *, confidence: float) -> tuple[float | None, float | None]:
        """Return a coefficient's confidence bounds (Student's t); both are None if it has no standard error."""
        value, error = self.coefficients[index], self.errors[index]
        if error is None:
            return None, None
        half = error * student_t(1 - confidence, self.freedom[index])
        return (value - half, value + half) if isfinite(half) else (None, None)

    @property
    def without_interval(self) -> str | None:
        """Reason why no coefficient has an interval; None if at least one does."""
        if any(error is not None for error in self.errors):
            return None
        if self.clusters < _MIN_DEGREES_OF_FREEDOM + 1:
            number = "one question" if self.clusters == 1 else "two questions"
            return f"no intervals: {number} cannot show how results vary; at least three are needed"
        return f"no intervals: the results do not vary across the {self.clusters} questions"


def fit_choices(
    options: Floats,
    shares: Floats,
    clusters: Sequence[Hashable],
    *,
    strengths: int,
    prior: float | None = None,
    times: Mapping[Any, int] | None = None,
) -> ChoiceFit | None:
    """Estimate how much each column of `options` adds to the log-odds of being chosen (McFadden 1974). Needs scipy.

    `options` is an array indexed by choice, option and column; `shares` contains the share that each choice gives to
    each option. The first `strengths` columns are identified only up to a constant, so their coefficients are centered
    on 0. `prior` is the standard deviation of a normal prior on all coefficients. `times` is the number of identical
    clusters represented by each of `clusters`; None means one each.

    Standard errors are cluster-robust, with Bell and McCaffrey's (2002) correction for few clusters. The degrees of
    freedom are one less than the effective number of clusters that contribute to a coefficient, computed from the
    entropy of their contributions: a system with games on three questions has two degrees of freedom, no matter how
    many questions the other systems played on. Without a prior, return None if a coefficient would be infinite (tested
    exactly by linear programming when in doubt) or if columns are collinear.
    """
    import numpy as np

    # The strengths add up to zero, so use an orthonormal basis of the identifiable directions.
    width = options.shape[2]
    contrasts = np.linalg.svd(np.eye(strengths) - 1 / strengths)[0][:, : strengths - 1]
    basis = np.zeros((width, width - 1))
    basis[:strengths, : strengths - 1] = contrasts
    basis[strengths:, strengths - 1 :] = np.eye(width - strengths)
    columns = options @ basis
    weight = 0.0 if prior is None else 1 / prior**2
    if prior is None and not _identified(columns):
        return None
    names, places = list(dict.fromkeys(clusters)), {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    place = np.array([places[cluster] for cluster in clusters])
    number = np.array([1 if times is None else times[name] for name in names], dtype=float)
    coefficients = np.zeros(width - 1)
    # If the optimum is infinite, the steps do not shrink. The exact test needs imports that take 24 MB of memory, so it
    # runs only in doubtful cases.
    is_finite = prior is not None
    for _ in range(500):
        worth = columns @ coefficients
        if not is_finite and np.ptp(worth, axis=1).max() > _DOUBTFUL:
            if _separated(columns, shares):
                return None
            is_finite = True
        chances = np.exp(worth - worth.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        centered = columns - (chances[:, :, None] * columns).sum(axis=1, keepdims=True)
        curvature = np.einsum("g,gk,gkp,gkq->pq", number[place], chances, centered, centered) + weight * np.eye(
            width - 1
        )
        scores = ((shares - chances)[:, :, None] * columns).sum(axis=1)
        step = np.linalg.solve(curvature, number[place] @ scores - weight * coefficients)
        coefficients = coefficients + step / max(
            1.0, float(np.abs(step).max())
        )  # far from the optimum, Newton's method overshoots
        if np.abs(step).max() < _CONVERGED:
            is_finite = True
            break
    if not is_finite and _separated(columns, shares):
        return None
    errors, freedom = _errors(chances, centered, scores, place, number, curvature, weight=weight, basis=basis)
    return ChoiceFit((basis @ coefficients).tolist(), errors, freedom, int(number.sum()))


def _identified(columns: Floats) -> bool:
    """Return whether the coefficients are identified: changing them in any direction must affect some choice."""
    import numpy as np

    centered = (columns - columns.mean(axis=1, keepdims=True)).reshape(-1, columns.shape[2])
    return bool(np.linalg.matrix_rank(centered, tol=1e-9) == columns.shape[2])


def _separated(columns: Floats, shares: Floats) -> bool:
    """Return whether the data are separated, in which case the maximum-likelihood coefficients are infinite."""
    import numpy as np
    from scipy.optimize import linprog  # type: ignore[import-untyped,unused-ignore]

    leads = [
        columns[shares[:, option] > 0, option] - columns[shares[:, option] > 0, rival]
        for option in range(columns.shape[1])
        for rival in range(columns.shape[1])
        if option != rival
    ]
    rows = np.unique(np.concatenate(leads).round(12), axis=0)
    rows /= np.maximum(np.abs(rows).max(axis=0), 1e-300)
    best = linprog(-rows.sum(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1), method="highs")
    return best.fun is None or bool(-best.fun > 1e-6)  # noqa: PLR2004 - the solver's tolerance


def _errors(
    chances: Floats,
    centered: Floats,
    scores: Floats,
    place: Integers,
    number: Floats,
    curvature: Floats,
    *,
    weight: float,
    basis: Floats,
) -> tuple[list[float | None], list[float]]:
    """Return the standard errors and degrees of freedom for all coefficients.

    `place` is the cluster index of each choice, and `number` is the multiplicity of each cluster.
    """
    import numpy as np

    values, vectors = np.linalg.eigh(curvature)
    root = vectors / np.sqrt(values) @ vectors.T
    contrasts = root @ basis.T  # one column for each coefficient
    width = len(curvature)
    # The prior counts as one additional observation.
    meat, alone = weight * root @ root, np.zeros((width, width))
    parts = []
    order = np.argsort(place, kind="stable")
    for rows, same in zip(np.split(order, np.cumsum(np.bincount(place))[:-1]), number, strict=True):
        weighted = np.sqrt(chances[rows])[:, :, None] * centered[rows] @ root
        leverage, axes = np.linalg.eigh(np.einsum("gkp,gkq->pq", weighted, weighted))
        leverage = np.clip(leverage, 0, 1)
        sole = leverage > _SOLE
        scale = np.where(sole, 0.0, 1 / np.sqrt(np.where(sole, 1.0, 1 - leverage)))
        score = axes * scale @ (axes.T @ (root @ scores[rows].sum(axis=0)))
        meat += same * np.outer(score, score)
        alone += same * axes[:, sole] @ axes[:, sole].T
        parts.append(((axes.T @ contrasts) ** 2 * leverage[:, None]).sum(axis=0))
    variance = np.einsum("pc,pq,qc->c", contrasts, meat, contrasts)
    unseen = np.einsum("pc,pq,qc->c", contrasts, alone, contrasts)
    parts_of_whole = np.maximum(parts, 1e-300) / np.maximum(number @ parts, 1e-300)
    # number of equal-sized clusters that would have this entropy
    freedom = np.exp(-number @ (parts_of_whole * np.log(parts_of_whole))) - 1
    errors = [
        None
        if free < _MIN_DEGREES_OF_FREEDOM or seen <= max(_NO_VARIANCE**2, hidden)
        else float(np.sqrt(seen + hidden))
        for seen, hidden, free in zip(variance, unseen, freedom, strict=True)
    ]
    return errors, freedom.tolist()
