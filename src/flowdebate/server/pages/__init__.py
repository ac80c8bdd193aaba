"""Browser pages, rendered by `flowdebate.web`."""
