"""Commands that work on stored runs: list, show, watch, resume, fork, report and verify."""
