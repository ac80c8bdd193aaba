"""Tests of hidden names: aliases, leaks and words that look like names."""
