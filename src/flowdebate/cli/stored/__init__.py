"""Commands for working with stored runs: list, show, watch, resume, fork, report and verify."""
