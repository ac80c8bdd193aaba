"""Pages of notebooks."""
