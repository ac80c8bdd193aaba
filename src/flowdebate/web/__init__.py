"""HTML of runs: the pages of the server, and the report as a file, from the same templates.

`run/` turns a run into data for a page, `forms` its requests, `written` the same requests as text, `notebook` the pages
of notebooks; `templates` renders, and `report` makes the one file. This package does not serve HTTP.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
