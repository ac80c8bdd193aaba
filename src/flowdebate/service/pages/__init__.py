"""Pages of the patterns: options, document and sections of each, in one file."""
