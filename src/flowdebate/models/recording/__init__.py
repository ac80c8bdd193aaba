"""Record model calls to a file, and replay them."""
