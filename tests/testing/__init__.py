"""Tests of `flowdebate.testing`."""
