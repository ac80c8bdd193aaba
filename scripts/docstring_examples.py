"""Examples of docstrings as fences, for the reference on the site: an extension of griffe, which reads docstrings."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n.*\S.*)*", re.MULTILINE)


class Fences(griffe.Extension):
    """Put each run of `>>>` lines, with what they print, into a fence."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - what griffe passes differs by version
        """Change the docstring of an object that has been read."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)
