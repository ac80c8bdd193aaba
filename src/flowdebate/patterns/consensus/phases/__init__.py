"""Phases of a consensus debate."""
