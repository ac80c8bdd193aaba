"""Documents of runs as data, and their Markdown and live forms; patterns' pages build on them."""
