"""Docstring examples as fenced code, for the reference on the site: an extension for griffe, which reads docstrings."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n.*\S.*)*", re.MULTILINE)


class Fences(griffe.Extension):
    """Extension that puts each run of `>>>` lines, with their output, into a fence."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - what griffe passes differs by version
        """Change the docstring of a loaded object."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)
