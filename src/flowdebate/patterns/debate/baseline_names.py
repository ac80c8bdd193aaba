"""Names of the baselines of a debate, which commands can import without the rest of the pattern."""

from __future__ import annotations

from typing import Literal

BaselineName = Literal["single", "drafts", "self_consistency", "revision"]
"""Name of a baseline: a single call; a vote of independent first drafts, one per debater; a vote of as many samples as
the debate's tokens pay for; or a vote of the first drafts after each was revised separately within the same budget.
"""
Equal = Literal["tokens", "completion_tokens", "cost", "calls"]
"""Unit in which the budget of self-consistency and revision equals the debate's.

A debate reads more than it writes, and self-consistency writes more than it reads. As output tokens cost more than
input tokens, self-consistency costs more at equal tokens.
"""
BASELINES: tuple[BaselineName, ...] = ("single", "drafts", "self_consistency")  # cheapest first
"""The baselines selected by `baselines=True`. They do not include revision, which costs as much as another debate."""
BUDGETED: frozenset[BaselineName] = frozenset({"self_consistency", "revision"})
"""Baselines with a budget equal to the debate's, measured by `equal`."""
