"""Common base of all patterns: declarations, roles, rounds, turns, state, output, anonymity, and the registry."""
