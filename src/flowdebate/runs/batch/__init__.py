"""runs/batch."""
