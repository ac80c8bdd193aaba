"""One run as data for its pages and its report, at one of its steps, and beside another run."""
