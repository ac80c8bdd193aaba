"""Human blocks: requests to humans, their answers, and a terminal interface."""
