"""Tests for `deliberation()`."""
