"""What runs for minutes rather than seconds: `make soak`."""
