"""Stored debates decided by other rules."""
