"""Durable runs: resuming, forking and replaying runs from a store."""
