"""Set-up of the pages in docs/: a module for each page, a function for each `<!--- setup: NAME --->`."""
