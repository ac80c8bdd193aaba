"""HTML of runs: the pages of the server, and the report that is kept, from the same templates.

`sheet` is one run as data for a page, `record` what stands beside it, `templates` renders, and `report` makes the one
file. Nothing here serves HTTP.
"""
