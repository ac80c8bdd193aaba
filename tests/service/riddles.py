"""The pattern of docs/adding-a-pattern.md as a module: its data, roles, factory, page and entry."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-pattern.md"
_PART = re.compile(r"^```python\n(# riddles\.py: .*?)^```$", re.MULTILINE | re.DOTALL)
_REGISTER = "register(INFO)\n"


def read_riddles() -> str:
    """The module that the page shows, part by part."""
    return "\n\n".join(_PART.findall(PAGE.read_text("utf-8")))


def load_riddles() -> ModuleType:
    """That module; the caller registers its `INFO`, for as long as a test needs it."""
    text, module = read_riddles(), ModuleType("riddles")
    assert text.endswith(_REGISTER)
    exec(compile(text.removesuffix(_REGISTER), str(PAGE), "exec", dont_inherit=True), vars(module))  # noqa: S102 - ours
    return module
