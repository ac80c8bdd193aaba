"""Commands for stored runs: list, show, watch, resume, fork, report and verify."""
