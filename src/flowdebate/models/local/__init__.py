"""Local model, run by llama.cpp in a child process."""
