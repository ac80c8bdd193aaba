"""Shared state of a pipeline."""
