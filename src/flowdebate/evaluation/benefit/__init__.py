"""Benefit: did the debate help, compared with cheaper baselines on the same questions."""
