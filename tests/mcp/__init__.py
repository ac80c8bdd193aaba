"""Tests of the MCP server with the SDK's own client."""
