"""OpenAI-compatible models: clients, requests, structured answers, error mapping."""
