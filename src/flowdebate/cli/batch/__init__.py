"""Batches on the command line: read the rows, run them, write the results."""
