"""HTML of runs: the pages of the server, and the report that is kept, from the same templates.

`run/` has what a page shows of a run as data, `forms` what it asks, `written` the same requests as text, `notebook` the
pages of notebooks; `templates` renders, and `report` makes the one file. Nothing here serves HTTP.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
