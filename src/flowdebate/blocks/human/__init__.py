"""Human blocks: requests, answers, and a terminal interface."""
