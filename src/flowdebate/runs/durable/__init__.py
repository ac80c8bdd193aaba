"""Durable runs: journal, resume, suspend."""
