"""Names of a debate's baselines, in a module that commands can import without the rest of the pattern."""

from __future__ import annotations

from typing import Literal

BaselineName = Literal["single", "drafts", "self_consistency", "revision"]
"""Name of a baseline: a single call; a vote among independent first drafts, one per debater; a vote among samples
within the debate's token budget; or a vote among first drafts, each revised separately within the same budget.
"""
Equal = Literal["tokens", "completion_tokens", "cost", "calls"]
"""Unit in which self-consistency and revision get the same budget as the debate.

A debate reads more than it writes, and self-consistency writes more than it reads. Because output tokens cost more than
input tokens, self-consistency is more expensive at equal token counts.
"""
BASELINES: tuple[BaselineName, ...] = ("single", "drafts", "self_consistency")  # in order of cost, cheapest first
"""Baselines selected by `baselines=True`: all except revision, which costs as much as another debate."""
BUDGETED: frozenset[BaselineName] = frozenset({"self_consistency", "revision"})
"""Baselines with a budget equal to the debate's, measured by `equal`."""
