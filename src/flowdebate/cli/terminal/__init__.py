"""Terminal output: pages, the live screen, escaping of control characters, and process handling."""
