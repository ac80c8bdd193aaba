"""Names of the baselines of a debate, which commands can import without the rest of the pattern."""

from __future__ import annotations

from typing import Literal

BaselineName = Literal["single", "drafts", "self_consistency", "revision"]
"""Name of a baseline: one call; the vote of independent first drafts, one for each debater; the vote of as many samples
as the debate's tokens pay for; the vote of these drafts, each revised alone as often as the debate's tokens pay for."""
Equal = Literal["tokens", "completion_tokens", "cost", "calls"]
"""Budget of self-consistency and revision, equal to the debate's.

A debate reads more than it writes, and self-consistency writes more than it reads. As output tokens cost more than
input tokens, self-consistency costs more at equal tokens.
"""
BASELINES: tuple[BaselineName, ...] = ("single", "drafts", "self_consistency")  # cheapest first
"""The baselines of `baselines=True`. A revision is not among them, because it costs as much as another debate."""
BUDGETED: frozenset[BaselineName] = frozenset({"self_consistency", "revision"})
"""Baselines with a budget equal to the debate's, measured by `equal`."""
