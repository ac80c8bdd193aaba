"""Names of the baselines for a debate.

They are in a separate module so that commands can import them without loading the whole pattern.
"""

from __future__ import annotations

from typing import Literal

BaselineName = Literal["single", "drafts", "self_consistency", "revision"]
"""Name of a baseline.

- "single": a single call.
- "drafts": a vote among independent first drafts, one per debater.
- "self_consistency": a vote among as many samples as fit in the debate's token budget.
- "revision": a vote among first drafts, each revised independently within the same budget.
"""
Equal = Literal["tokens", "completion_tokens", "cost", "calls"]
"""Unit used to match the budget of self-consistency and revision to the debate's usage.

A debate reads more than it writes, whereas self-consistency writes more than it reads. Because output tokens cost more
than input tokens, self-consistency is the more expensive of the two at equal token counts.
"""
BASELINES: tuple[BaselineName, ...] = ("single", "drafts", "self_consistency")  # ordered by cost, cheapest first
"""Baselines selected by `baselines=True`: all except revision, which costs as much as a second debate."""
BUDGETED: frozenset[BaselineName] = frozenset({"self_consistency", "revision"})
"""Baselines that get the same budget as the debate, measured in the unit selected by `equal`."""
