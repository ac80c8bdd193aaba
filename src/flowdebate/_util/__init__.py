"""Helpers that every part uses."""
