"""Code that is never run, only checked by mypy and basedpyright in strict mode."""
