"""Policies: models around models, one idea each."""
