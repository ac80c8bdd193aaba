"""Humans as blocks: requests, their answers, and a terminal."""
