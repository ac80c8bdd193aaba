"""Additional protocols of the server: OpenAI-compatible chat completions, and AG-UI."""
