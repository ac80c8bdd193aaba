"""models/openai."""
