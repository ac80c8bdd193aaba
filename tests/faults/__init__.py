"""Faults of endpoints and networks, each a row with its expected outcome."""
