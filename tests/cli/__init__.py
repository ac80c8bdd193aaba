"""Tests for the `flowdebate` command."""
