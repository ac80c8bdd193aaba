"""Tests of `deliberation()`."""
