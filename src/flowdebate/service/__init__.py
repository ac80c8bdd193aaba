"""Service that every front end shares: plans, runs, documents and pages. It prints nothing and knows no terminal."""
