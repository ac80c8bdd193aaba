"""Stored runs: resume, fork and replay."""
