"""Tests of `handoff()`."""
