"""The pattern from docs/adding-a-pattern.md, which is stored as a module in examples/."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding-a-pattern.md"
EXAMPLE = ROOT / "examples" / "pattern" / "riddles.py"
_REGISTER = "register(INFO)\n"


def read_riddles() -> str:
    """Return the source of the module."""
    return EXAMPLE.read_text("utf-8")


def load_riddles() -> ModuleType:
    """Return the module. The caller registers its `INFO` for as long as a test needs it."""
    text, module = read_riddles(), ModuleType("riddles")
    assert text.endswith(_REGISTER)
    sys.modules["riddles"] = module  # pydantic looks up annotations there
    try:
        exec(compile(text.removesuffix(_REGISTER), str(EXAMPLE), "exec", dont_inherit=True), vars(module))  # noqa: S102
    finally:
        del sys.modules["riddles"]
    return module
