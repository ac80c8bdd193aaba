"""HTML for runs: the server's pages and the report files, rendered from the same templates.

`run/` turns a run into page data, `forms` builds forms for requests, `written` formats requests to start a run as text,
and `notebook` builds the pages for notebooks; `templates` renders them, and `report` creates a single file. This
package does not serve HTTP.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
