"""Language of code and pages: the glossary's terms, and clear names and docstrings."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts import code_measures
from scripts.code_measures import Module, read_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "src").rglob("*.py"))
# this file itself lists the replaced terms
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

REPLACED = {
    "becomes of": "provider failure, recovery",
    "begun": "started",
    "carried on": "resumed",
    "carries on": "resumes",
    "carry on": "resume",
    "crew": "max_concurrency, worker pool",
    "gone over": "retried",
    "handed on": "passed",
    "juries": "panels of judges",
    "jury": "panel of judges",
    "made again": "retried",
    "parked": "suspended",
    "set aside": "suspended",
    "taken up": "resumed",
    "written down": "persisted, recorded",
}
"""Terms of the first edition, with their replacements in the glossary."""

_OLD = re.compile(rf"\b(?:{'|'.join(REPLACED)})\b", re.IGNORECASE)
_RELATIVE = re.compile(r"(?:What|How|Who|Whose|Which|Whether|Where|When)\b")


def prose(path: Path) -> Iterator[str]:
    """Return a module's docstrings and comments, or a page's text without its code."""
    source = path.read_text()
    if path.suffix == ".md":
        yield re.sub(r"```.*?```|`[^`\n]*`", "", source, flags=re.DOTALL)
        return
    if not _OLD.search(source):  # most modules contain none of these terms, and parsing them all would be slow
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)  # docstrings of attributes
    yield from (
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    )


def names(path: Path) -> Iterator[str]:
    """Return the words in the names of a module, its functions and its classes."""
    yield path.stem.replace("_", " ")
    source = path.read_text()
    if _OLD.search(source.replace("_", " ")):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name.replace("_", " ")


@pytest.mark.parametrize("paths", [MODULES, PAGES, TESTS], ids=["modules", "pages", "tests"])
def test_prose_uses_glossary_terms(paths: list[Path]) -> None:
    occurrences = {
        f"{path.relative_to(ROOT)}: {match.group()!r}": REPLACED[match.group().lower()]
        for path in paths
        for text in prose(path)
        for match in _OLD.finditer(text)
    }
    assert not occurrences


def test_test_names_use_glossary_terms() -> None:
    """The terms must match so that a search for "resume", "retry" or "suspend" also finds the tests."""
    occurrences = {
        f"{path.relative_to(ROOT)}: {name}": REPLACED[match.group().lower()]
        for path in TESTS
        for name in names(path)
        for match in _OLD.finditer(name)
    }
    assert not occurrences


def test_modules_begin_with_a_noun_phrase() -> None:
    headlines = {path: re.search(r'^"""(.*)', path.read_text("utf-8"), re.MULTILINE) for path in MODULES}
    assert not {path for path, line in headlines.items() if line is None or _RELATIVE.match(line[1])}


def group_by_folder(modules: list[Module]) -> dict[str, list[Module]]:
    """Group modules by top-level folder."""
    rooms: dict[str, list[Module]] = {}
    for module in modules:
        rooms.setdefault(module.room, []).append(module)
    return rooms


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    """Read the modules of the library."""
    return read_modules(ROOT / "src" / "flowdebate")


def test_variables_are_named_with_domain_nouns(modules: list[Module]) -> None:
    assert code_measures.share_of_vague_names(modules) <= 0.005


@pytest.mark.slow
def test_test_variables_are_named_with_domain_nouns() -> None:
    rooms = group_by_folder(read_modules(ROOT / "tests"))
    shares = {room: code_measures.share_of_vague_names(parts) for room, parts in rooms.items()}
    assert {room: share for room, share in shares.items() if share > 0.005} == {}


def test_function_docstrings_begin_with_a_verb(modules: list[Module]) -> None:
    shares = {room: code_measures.share_of_verb_headlines(parts) for room, parts in group_by_folder(modules).items()}
    assert {room: share for room, share in shares.items() if share < 0.8} == {}


def test_docstrings_stand_alone(modules: list[Module]) -> None:
    assert code_measures.share_of_attributes_with_subject(modules) >= 0.95
    assert code_measures.relative_clauses(modules) <= 15
    assert code_measures.bare_heads(modules) <= 2
