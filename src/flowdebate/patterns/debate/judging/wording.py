"""Words of a verdict that are assembled from its data, so that they cannot contradict the winner."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.debate.judging.ballots import JudgeQuote, Judging, Statement


HINT = "A small model was the judge, and small models judge weakly."
"""The last line of a verdict by a model whose profile is concise."""


def headed(verdict: str, winner: str | None, sides: Sequence[str]) -> str:
    """`verdict`, after a headline with the winner if it names other sides only.

    >>> headed("The shop should close.", "The shop should open", ["The shop should open", "The shop should close"])
    'The judge sides with: The shop should open. In its own words: The shop should close.'
    """
    others = [side for side in sides if side != winner]
    if winner is None or _names(verdict, winner) or not any(_names(verdict, side) for side in others):
        return verdict
    return f"The judge sides with: {_ended(winner)} In its own words: {verdict}"


def letter_verdict(winner: str | None, sides: int, *, usable: bool) -> str:
    """The conclusion of a judge that answered with letters."""
    if winner is not None:
        return (
            f"The judge sides with: {_ended(winner)} It gave the {'more' if sides < 3 else 'most'} concrete evidence."  # noqa: PLR2004
        )
    if not usable:
        return "No winner: the answers of the judge were not among the letters that it was asked for."
    return f"No winner: {'neither' if sides < 3 else 'no'} side gave clearly more concrete evidence."  # noqa: PLR2004


def letter_reasoning(judging: Judging, *, hint: bool) -> str:
    """What was said: the statement of each side that the judge picked, and what another side said afterwards."""
    lines = [_quote(quote) for quote in judging.quotes or ()]
    if not lines:
        shares = ", ".join(f"{side} {share:.0%}" for side, share in judging.scores.items())
        lines.append(f"The mean of {len(judging.ballots)} ballots by letter: {shares}.")
    return "\n\n".join([*lines, *([HINT] if hint else [])])


def _quote(quote: JudgeQuote) -> str:
    reply = "Nobody else spoke after it." if quote.reply is None else f"Said afterwards (turn {_said(quote.reply)}"
    return f"{quote.side} (turn {_said(quote.statement)} {reply}"


def _said(statement: Statement) -> str:
    return f"{statement.turn}): “{' '.join(statement.text.split())}”"


def _ended(side: str) -> str:
    """A stance as a sentence."""
    return side if side.rstrip()[-1:] in (".", "!", "?", "…") else f"{side}."


def _names(text: str, side: str) -> bool:
    """Whether `text` names `side`, as whole words in any case."""
    wanted = re.escape(" ".join(side.split()).rstrip(".!?…").casefold())
    return re.search(rf"(?<!\w){wanted}(?!\w)", " ".join(text.split()).casefold()) is not None
