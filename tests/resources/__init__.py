"""Tests for `flowdebate.resources`."""
