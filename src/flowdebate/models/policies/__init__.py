"""Resilience policies: wrappers around a model."""
