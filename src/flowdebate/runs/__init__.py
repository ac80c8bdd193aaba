"""Runs: execution, events, limits and results."""
