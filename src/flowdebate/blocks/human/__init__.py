"""blocks/human."""
