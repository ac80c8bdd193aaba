"""What endpoints and networks do wrong, one row each, and what happens then."""
