"""Helper functions and types used throughout the library."""
