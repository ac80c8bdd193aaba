"""Mutation check for promises shared by all patterns: each broken promise must make its test fail.

Run it with `make break-promises`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from scripts.break_promises import BREAKS, PATTERNS, ROOT, break_promise

from .every import PATTERNS as EVERY

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.break_promises import Break


@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.promise)
def test_each_promise_can_be_broken_by_removing_lines(broken: Break, tmp_path: Path) -> None:
    """The lines to remove must exist, and the remaining code must be valid Python."""
    sources = break_promise(broken, tmp_path)
    for name in (broken.file, *(name for name, _, _ in broken.beside)):
        ast.parse((sources / "flowdebate" / name).read_text(encoding="utf-8"))
    file, _, test = broken.test.partition("::")
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
    assert set(broken.without) <= set(PATTERNS) == set(EVERY) - {"critique"}  # critique is not covered yet
