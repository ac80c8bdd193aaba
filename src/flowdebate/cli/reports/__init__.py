"""What stands in each pattern's Markdown report."""
