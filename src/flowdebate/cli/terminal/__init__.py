"""Terminal output: pages, the live screen, text unable to move the cursor, and the process around it."""
