"""Tests for `consensus()`."""
