"""runs/durable."""
