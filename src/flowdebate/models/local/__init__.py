"""Local model, run in a child process (llama.cpp)."""
