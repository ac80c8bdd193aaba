"""Tests for the MCP server, using the SDK's own client."""
