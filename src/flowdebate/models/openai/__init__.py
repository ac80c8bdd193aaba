"""OpenAI-compatible models: clients, requests, structured answers, and error mapping."""
