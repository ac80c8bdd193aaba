"""`round_robin()`: debaters with roles take turns speaking, and a synthesizer writes the answer."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
