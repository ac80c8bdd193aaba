"""Convergence of proposals: similarity, stability of each agent, and stated positions."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from flowdebate._util.validation import check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError, OutputError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flowdebate.measures.similarity import Matrix, Similarity


ConvergenceStatus = Literal["converged", "refining", "diverging", "stagnant"]
"""In agreement; approaching; far apart; repeating without agreement."""


class Convergence(WireModel):
    """Convergence of the proposals of a round."""

    similarity: float
    """The mean over all pairs of proposals, from 0 to 1; 1 for a single one."""
    stability: float | None = None
    """The mean similarity of each agent's text with the same agent's text before; None where nobody had one."""
    status: ConvergenceStatus
    backend: str
    """The name of the measure of similarity."""


def convergence(
    now: Mapping[str, str],
    before: Mapping[str, str] | None = None,
    *,
    positions: Mapping[str, str] | None = None,
    similarity: Similarity | None = None,
    converged: float = 0.85,
    diverging: float = 0.40,
) -> Convergence:
    """Compare the proposals `now` with each other, and with those of the round `before`; both by agent.

    - `positions`: the short answer that each agent states. Similarity is not agreement, so proposals whose positions
      differ (`same_answer`) have not converged, however alike they read. Agents without a position, or with one that
      has no words, contradict nobody.
    - `similarity`: the measure; None is `best_similarity()`.

    "converged" at a similarity of `converged` or more, unless positions differ or a proposal stands apart (its mean
    similarity with the others is below `diverging`); "stagnant" where positions differ and the stability is `converged`
    or more; else "diverging" below `diverging`, and "refining" for all the rest. A single proposal agrees with nobody:
    it is "refining".

    >>> from flowdebate.measures import Jaccard
    >>> texts = {"ann": "We should cap rents now", "bob": "We should not cap rents now"}
    >>> convergence(texts, texts, positions={"ann": "yes", "bob": "no"}, similarity=Jaccard()).status
    'stagnant'
    """
    from flowdebate.measures.similarity import best_similarity
    from flowdebate.measures.statements import answer_words, same_answer

    _check(now, converged, diverging)
    measure = best_similarity() if similarity is None else similarity
    matrix = _measured(measure, list(now.values()))
    alike = _mean(matrix[one][other] for one, other in combinations(range(len(now)), 2))
    stability = _stability(measure, now, before or {})
    stated = [position for agent, position in (positions or {}).items() if agent in now and answer_words(position)]
    differ = any(not same_answer(one, other) for one, other in combinations(stated, 2))
    alone = [_mean(row[:at] + row[at + 1 :]) for at, row in enumerate(map(list, matrix))]
    together = len(now) > 1 and min(alone) >= diverging
    status: ConvergenceStatus
    if alike >= converged and together and not differ:
        status = "converged"
    elif differ and stability is not None and stability >= converged:
        status = "stagnant"
    else:
        status = "diverging" if alike < diverging else "refining"
    return Convergence(similarity=alike, stability=stability, status=status, backend=measure.name)


def _stability(measure: Similarity, now: Mapping[str, str], before: Mapping[str, str]) -> float | None:
    """The mean similarity of each agent's text with its text before; None where nobody had one."""
    texts = [text for agent in now if agent in before for text in (now[agent], before[agent])]
    matrix = _measured(measure, texts) if texts else []
    return _mean(matrix[place][place + 1] for place in range(0, len(texts), 2)) if texts else None


def _mean(numbers: Iterable[float]) -> float:
    """The mean, the same in whatever order: exactly the number that all are, and 1 of none."""
    every = list(numbers) or [1.0]
    return every[0] if every.count(every[0]) == len(every) else math.fsum(every) / len(every)


def _measured(measure: Similarity, texts: Sequence[str]) -> Matrix:
    """The matrix of `measure`; OutputError if the application's own gives something else."""
    matrix = measure(texts)
    count = len(texts)
    square = len(matrix) == count and all(len(row) == count for row in matrix)
    if not square or not all(0 <= score <= 1 for row in matrix for score in row):
        expected = f"{count} rows of {count} numbers from 0 to 1"
        raise OutputError(measure.name, expected, [("", f"got {shown(matrix)}")])
    return matrix


def _check(now: Mapping[str, str], converged: float, diverging: float) -> None:
    if not now:
        raise ConfigurationError("convergence()", "now", now, "at least one proposal")
    check_share("convergence()", converged=converged, diverging=diverging)
    if diverging > converged:
        raise ConfigurationError("convergence()", "diverging", diverging, f"no more than converged={converged}")
