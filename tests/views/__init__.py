"""Tests of `flowdebate.views`."""
