"""Code that mypy and basedpyright check in strict mode, but that never runs."""
