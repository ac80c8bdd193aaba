"""Judge of a debate: options, schedules of views, ballots, verdict."""
