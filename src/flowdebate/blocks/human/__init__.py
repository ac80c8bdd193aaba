"""Humans as blocks: the request, its answer, a terminal."""
