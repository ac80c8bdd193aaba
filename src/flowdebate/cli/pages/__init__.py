"""How each pattern is shown, while it goes on and when it was saved."""
