"""Paired comparison of a debate with its baselines."""
