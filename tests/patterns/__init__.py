"""Tests for the patterns."""
