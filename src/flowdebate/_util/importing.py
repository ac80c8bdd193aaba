"""Helpers for loading objects by name, importing libraries with import cycles, and rendering in notebooks."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import TypeVar

from flowdebate.errors import ConfigurationError

T = TypeVar("T")

# Held while importing a library with import cycles; otherwise, another thread could see a half-imported module.
IMPORTING = threading.Lock()


def load_object(spec: str, kind: type[T], *, location: str, field: str = "MODULE:OBJECT") -> T:
    """Load the object named by `spec`; if it is not an instance of `kind`, call it to create one.

    `spec` may refer to a file instead of a module, as in "path/to/file.py:agent"; the file's folder is then added to
    the front of the import path. An invalid `spec` raises ConfigurationError.
    """
    module, _, path = spec.rpartition(":") if ":" in spec else (spec, "", "")
    problem = (
        f"must be MODULE:OBJECT or FILE.py:OBJECT, where OBJECT is a {kind.__name__} or a function that returns one"
    )
    if module.endswith(".py"):
        file = Path(module).expanduser().resolve()
        if not file.is_file():
            raise ConfigurationError(location, field, spec, f"refers to a file that does not exist: {file}")
        sys.path.insert(0, str(file.parent))
        module = file.stem
    try:
        loaded: object = import_module(module)
        for name in path.split("."):
            loaded = getattr(loaded, name)
    except (ValueError, AttributeError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name not in (module, module.partition(".")[0]):
            raise
        raise ConfigurationError(location, field, spec, problem) from error
    if not isinstance(loaded, kind) and callable(loaded):
        loaded = loaded()
    if not isinstance(loaded, kind):
        raise ConfigurationError(location, field, spec, problem)
    return loaded


class InNotebooks:
    """Base class for objects that notebooks show as a page: results, handles, documents and evaluation reports.

    The package that renders HTML and Markdown depends on this one. It is therefore imported by name, and only when
    IPython needs it.
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Render the page as HTML; if there is no page or rendering fails, return None so that the repr is shown."""
        html: str | None = resolve_name("flowdebate.web.notebook:html_of")(self)
        return html

    def _repr_markdown_(self) -> str | None:
        """Render the page as Markdown; return None in the same cases as `_repr_html_`."""
        text: str | None = resolve_name("flowdebate.web.notebook:markdown_of")(self)
        return text
