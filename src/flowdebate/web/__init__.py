"""HTML of runs: the pages of the server, and the report that is kept, from the same templates.

`run/` has what a page shows of a run as data, `forms/` what it asks, `notebook/` the pages of notebooks; `templates`
renders, and `report` makes the one file. Nothing here serves HTTP.
"""
