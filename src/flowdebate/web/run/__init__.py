"""Data about a run for its page and report, for the view of a single step, and for comparison with another run."""
