"""What carries a run out: session, context, events, result."""
