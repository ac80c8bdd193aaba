"""OpenAI-compatible models: client, requests, structured answers, error mapping."""
