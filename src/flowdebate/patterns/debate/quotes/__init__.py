"""Quotes in arguments, verified against sources."""
