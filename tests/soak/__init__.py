"""Long-running checks, started by `make soak`."""
