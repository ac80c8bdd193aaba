"""Plans of runs: options, models and policies, from a front end, a file or a stored run."""
