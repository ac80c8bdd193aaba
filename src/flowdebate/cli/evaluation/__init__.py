"""Commands that evaluate debates and their judges: `audit`, `evaluate` and `recount`."""
