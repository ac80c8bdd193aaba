"""Debates between language models: composable blocks, shared resources, and patterns that wire them together.

>>> from flowdebate import Debater, debate
>>> pattern = debate(name="rent", debaters=[Debater("a", "cap rents"), Debater("b", "free rents")])
"""

import logging

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


logging.getLogger("flowdebate").addHandler(logging.NullHandler())
