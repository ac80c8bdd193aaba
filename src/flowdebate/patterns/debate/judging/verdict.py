"""Ballots in words: as one verdict, and for a person who decides between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.patterns.debate.schemas import JudgedVerdict
from flowdebate.prompts.escaping import quoted, tag_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.debate.judging.schemas import JudgeBallot, Judging

__all__ = (
    "render_ballots",
    "verdict_of",
)

_UNDECIDED = {
    "abstain": "The judge abstains: it found otherwise when it was shown the same arguments in another order.",
    "tie": "A tie: the judge found otherwise when it was shown the same arguments in another order.",
    None: "A tie: no position has more than all others.",
}


def verdict_of(judging: Judging, winner: str | None) -> JudgedVerdict:
    """The verdict for `winner`, in the words of the ballot that is most clearly for it; its reasons if there is none.

    Where positions had labels, the reasons say which is which.
    """
    used = [ballot for ballot in judging.ballots if ballot.problem is None]
    if winner is None:
        why = _UNDECIDED[judging.on_flip if judging.on_flip in ("abstain", "tie") else None]
        return JudgedVerdict(verdict=why, winner=None, reasoning=_each(used), judging=judging)
    best = max(used, key=lambda ballot: ballot.shares.get(winner, 0.0))  # the first of those that are as clear
    return JudgedVerdict(verdict=best.verdict, winner=winner, reasoning=_reasons(best), judging=judging)


def render_ballots(ballots: Sequence[JudgeBallot]) -> str:
    """What each ballot found, for a person who is asked to decide between them; as text that cannot forge a line."""
    lines = []
    for number, ballot in enumerate(ballots, start=1):
        if ballot.problem is not None:
            continue
        who = "" if ballot.model is None else f" of {tag_text(ballot.model)}"
        found = "nobody" if ballot.winner is None else tag_text(ballot.winner)
        shares = ", ".join(f"{tag_text(side)} {share:.2f}" for side, share in ballot.shares.items())
        first = tag_text(ballot.order[0]) if ballot.order else "nobody"
        lines.append(f"Ballot {number}{who}, which was shown {first} first: {found} ({shares})")
        lines.append(f"  Reasons: {quoted(_reasons(ballot))}")
    return "\n".join(lines)


def _each(ballots: Sequence[JudgeBallot]) -> str:
    return "\n\n".join(f"For {ballot.winner or 'none of them'}: {_reasons(ballot)}" for ballot in ballots)


def _reasons(ballot: JudgeBallot) -> str:
    if ballot.labels is None:
        return ballot.reasoning
    called = "; ".join(f"{ballot.labels[side]}: {side}" for side in ballot.order)
    return f"{ballot.reasoning} ({called})"
