"""patterns/anonymity."""
