"""Tests for `flowdebate.testing`."""
