"""Tests of what is shipped for tests."""
