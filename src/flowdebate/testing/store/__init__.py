"""testing/store."""
