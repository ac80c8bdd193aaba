"""Tests of `flowdebate.models`."""
