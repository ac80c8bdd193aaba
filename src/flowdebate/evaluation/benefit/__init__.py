"""evaluation/benefit."""
