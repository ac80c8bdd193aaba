"""Batches: one pattern over many inputs."""
