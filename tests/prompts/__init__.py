"""Tests for `flowdebate.prompts`, and for every prompt with hostile text."""
