"""Prompt rendering: escaping, templates, names."""
