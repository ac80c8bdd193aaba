"""The cells on the documentation page about notebooks, run in order in a real kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebook.kernel import run_kernel

for library in ("anywidget", "ipykernel", "jupyter_client"):
    pytest.importorskip(library, reason=f"{library} is not installed: make test-notebook")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "notebooks.md"
_CODE = re.compile(r"(?:^```python|^<!--- invisible-code-block: python)\n(.*?)^(?:```|--->)$", re.MULTILINE | re.DOTALL)


def test_every_cell_on_the_page_runs(tmp_path: Path) -> None:
    code = _CODE.findall(PAGE.read_text("utf-8"))
    assert len(code) >= 8
    with run_kernel(str(tmp_path)) as running:
        assert [running.run(cell).error for cell in code] == [None] * len(code)
