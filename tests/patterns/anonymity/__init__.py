"""Hidden names: aliases, leaks and what may look like a name."""
