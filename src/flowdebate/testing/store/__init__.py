"""Conformance suite for stores."""
