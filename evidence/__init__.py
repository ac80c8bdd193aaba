"""Figures in evidence/records/. `python -m evidence` writes evidence.md; other modules write the other records."""
