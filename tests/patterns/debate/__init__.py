"""Debates: rounds, roles, prompts, judging and outputs."""
