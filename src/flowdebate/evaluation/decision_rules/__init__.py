"""Decision rules: stored ballots counted by other rules, without asking anybody again."""
