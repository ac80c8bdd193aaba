"""Models of Anthropic, called natively: `AnthropicModel`."""
