"""Tests of `flowdebate.resources`."""
