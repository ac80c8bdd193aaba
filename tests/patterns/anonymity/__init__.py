"""Tests for name hiding: aliases, leaks and words that look like names."""
