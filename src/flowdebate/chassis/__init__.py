"""Code shared by all patterns: declarations, roles, rounds, turns, state, output, anonymity, and the registry."""
