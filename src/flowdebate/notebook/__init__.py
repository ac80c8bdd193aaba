"""Notebook support: a live display of runs in progress, and cells in which a person takes a turn.

Requires the `notebook` extra: `pip install "flowdebate[notebook]"`. Results, handles and reports can be displayed
without it. See docs/notebooks.md.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
