"""Tests of `flowdebate.prompts`, and of every prompt against hostile text."""
