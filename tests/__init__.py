"""Test suite of flowdebate."""
