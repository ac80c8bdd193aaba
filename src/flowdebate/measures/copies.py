"""Copies: how much of a turn is in an earlier one."""

from __future__ import annotations

from typing import NamedTuple

from flowdebate.measures.similarity import copied_run, copied_share, text_words

LONGEST_COPY = 12
"""Words in a row that a turn may share with an earlier one."""
MOST_COPIED = 0.3
"""Share of its word pairs that a turn may have in common with an earlier one."""


class Copy(NamedTuple):
    """How much of a turn is in an earlier one."""

    excess: float
    """Of the bounds; above 1, the turn is a copy."""
    told: str


NOT_COPIED = Copy(0.0, "")


def copied(text: str, earlier: str) -> Copy:
    """How much of `text` is in `earlier`; few words share some pairs by chance, so that only their run counts.

    >>> copied("Trams are quiet.", "They are loud.").excess < 1
    True
    """
    run = copied_run(text, earlier)
    share = copied_share(text, earlier) if len(text_words(text)) > LONGEST_COPY else 0.0
    told = (
        f"it copies {run} words in a row from the transcript"
        if run > LONGEST_COPY
        else f"it shares {share:.0%} of its word pairs with an earlier turn"
    )
    return Copy(max(run / LONGEST_COPY, share / MOST_COPIED), told)
