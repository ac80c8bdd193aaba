"""Pages for a browser, rendered by `flowdebate.web`."""
