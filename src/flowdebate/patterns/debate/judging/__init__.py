"""The judge of a debate: options, views, ballots, verdict."""
