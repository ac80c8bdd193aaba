"""What composes: `debate`."""
