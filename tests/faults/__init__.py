"""Faults of endpoints and networks, with the expected outcome of each as a row."""
