"""Setup for the pages in docs/: one module per page, and one function per `<!--- setup: NAME --->`."""
