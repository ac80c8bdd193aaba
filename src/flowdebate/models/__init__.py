"""Language models: the `Model` protocol, OpenAI-compatible and local models, policy wrappers, and recording."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
