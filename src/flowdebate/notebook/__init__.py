"""Debates in notebooks: runs in progress, and a person's turn in a cell.

This needs the extra `notebook`: `pip install "flowdebate[notebook]"`. Results, handles and reports are displayed
without it. See docs/notebooks.md.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
