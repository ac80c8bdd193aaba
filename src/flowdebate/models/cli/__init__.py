"""Agent CLIs as models: `CliModel`."""
