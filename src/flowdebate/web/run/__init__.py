"""Data of a run for its page and report, for the view of a single step, and for a comparison with another run."""
