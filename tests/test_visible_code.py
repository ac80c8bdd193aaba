"""Visible Python code of each page, run in order as pasted, without hidden setup.

Models are local stubs of their vendors' APIs. A block that needs more than its page is preceded by `<!--- fragment
--->`. The README and tutorials have no fragments, and other pages have at most one in ten blocks.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import pytest

from flowdebate.testing import forbid_real_models
from tests.vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIALS = {"README.md", "index.md", "first-debate.md"}
SLOW = {"compare.md", "evaluate.md"}
"""Pages with hundreds of model calls."""
_BLOCK = re.compile(
    r"(?P<comments>(?:<!---[^\n]*?-->\n+)*)^(?P<indent> *)```python[^\n]*\n(?P<code>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
_HIDDEN = re.compile(r"<!--- invisible-code-block.*?-->", re.DOTALL)


class VisibleBlock(NamedTuple):
    """A fenced Python block of a page."""

    line: int
    code: str
    fragment: bool
    needs: str | None
    """Package that the block requires; the block is skipped if it is missing."""


def visible_blocks(path: Path) -> Iterator[VisibleBlock]:
    """Return the fenced Python blocks of a page in order."""
    text = _HIDDEN.sub(lambda hidden: "\n" * hidden[0].count("\n"), path.read_text(encoding="utf-8"))
    for block in _BLOCK.finditer(text):
        needs = re.search(r'skip: next if\(missing\("(\w+)"\)', block["comments"])
        line = text.count("\n", 0, block.start("code")) + 1
        yield VisibleBlock(
            line, dedent(block["code"]), "<!--- fragment" in block["comments"], needs[1] if needs else None
        )


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.name, marks=[pytest.mark.slow] if path.name in SLOW else []) for path in PAGES],
)
def test_visible_code_runs_without_setup(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code blocks of a page share one namespace and run in an empty folder.

    Stubs that always answer take the place of the models.
    """
    blocks = [block for block in visible_blocks(path) if not block.fragment]
    if not blocks:
        return
    monkeypatch.chdir(tmp_path)
    module = ModuleType("pasted")  # classes defined on a page look up their module
    monkeypatch.setitem(sys.modules, "pasted", module)
    with vendors() as stubs, forbid_real_models(allow_local=True):
        stubs["anthropic"].models = ("claude-haiku-4-5", "claude-sonnet-4-5")
        for block in blocks:
            if block.needs is None or find_spec(block.needs) is not None:
                code = "\n" * (block.line - 1) + block.code.replace('"local"', '"ollama/gemma3"')
                exec(compile(code, str(path), "exec"), vars(module))  # noqa: S102 - the page's own code


def test_few_blocks_are_fragments() -> None:
    blocks = {path.name: list(visible_blocks(path)) for path in PAGES}
    fragments = {name: [block.line for block in page_blocks if block.fragment] for name, page_blocks in blocks.items()}
    assert not any(fragments[name] for name in TUTORIALS), fragments
    other_blocks = [block for name, page_blocks in blocks.items() if name not in TUTORIALS for block in page_blocks]
    assert sum(block.fragment for block in other_blocks) * 10 <= len(other_blocks), fragments
