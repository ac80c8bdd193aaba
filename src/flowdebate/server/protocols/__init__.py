"""Additional server protocols: OpenAI-compatible chat completions, and AG-UI."""
