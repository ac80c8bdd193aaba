"""Data of a run for its pages and its report, for the view of a single step, and for comparing it with another run."""
