"""Judge audits."""
