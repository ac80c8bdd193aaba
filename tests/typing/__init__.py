"""What the type checkers find out: never run, only checked by mypy and basedpyright, both strict."""
