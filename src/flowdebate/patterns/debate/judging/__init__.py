"""The judge of a debate: its options, view schedules, ballots and verdict."""
