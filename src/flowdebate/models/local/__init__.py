"""models/local."""
