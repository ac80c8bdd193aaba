"""evaluation/arguments."""
