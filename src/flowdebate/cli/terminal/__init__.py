"""Terminal output: pages, the live screen, text that cannot move the cursor, and process handling."""
