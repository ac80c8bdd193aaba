"""Commands that serve runs to others: over HTTP and MCP."""
