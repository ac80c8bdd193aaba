"""A local model in a child process (llama.cpp)."""
