"""Numbers of docs/evidence.md; `python -m evidence` writes the page."""
