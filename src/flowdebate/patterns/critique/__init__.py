"""Critique pattern: a critic makes claims about an answer, a judge verifies them, and a rule decides."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
