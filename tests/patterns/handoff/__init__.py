"""Tests for `handoff()`."""
