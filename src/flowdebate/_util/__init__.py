"""Helpers used throughout the library."""
