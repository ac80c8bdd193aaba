"""Objects of the application by name: "MODULE:OBJECT", as command lines have them."""

from __future__ import annotations

from importlib import import_module
from typing import TypeVar

from flowdebate.errors import ConfigurationError

T = TypeVar("T")


def load_object(spec: str, kind: type[T], *, where: str, field: str = "MODULE:OBJECT") -> T:
    """The `kind` that `spec` names, or that the function made which it names; ConfigurationError if there is none."""
    module, _, path = spec.partition(":")
    allowed = f"MODULE:OBJECT, a {kind.__name__} or a function that makes one"
    try:
        found: object = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ValueError, AttributeError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name not in (module, module.partition(".")[0]):
            raise
        raise ConfigurationError(where, field, spec, allowed) from error
    if not isinstance(found, kind) and callable(found):
        found = found()
    if not isinstance(found, kind):
        raise ConfigurationError(where, field, spec, allowed)
    return found
