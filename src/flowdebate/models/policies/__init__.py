"""Policies around a model: one wrapper a file."""
