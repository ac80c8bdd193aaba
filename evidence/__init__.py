"""Numbers of evidence/records/; `python -m evidence` writes the first."""
