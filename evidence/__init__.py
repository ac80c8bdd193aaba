"""What the numbers of docs/evidence.md are made by: `python -m evidence` writes it."""
