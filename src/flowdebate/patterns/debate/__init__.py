"""`debate()`: debaters argue assigned stances, a judge decides, and a synthesizer writes the outcome."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
