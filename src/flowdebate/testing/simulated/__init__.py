"""testing/simulated."""
