"""Helpers for every part of the library."""
