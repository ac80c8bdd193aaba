"""The documentation site: its collected pages, checked without building it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import docs_site  # noqa: E402 - scripts are no package

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = ("flowdebate", *(f"flowdebate.{name}" for name in ("errors", "events", "models", "service", "store", "testing")))


@pytest.fixture(scope="module")
def collected_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collect the pages in a folder."""
    folder = tmp_path_factory.mktemp("site") / "docs"
    docs_site.gather(folder)
    return folder


def find_links(page: Path) -> Iterator[str]:
    """Return the links on a page that are outside its code."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\[[^\]]*\]\(([^)\s#]+)", text):
        if not link.startswith(("https://", "http://")):
            yield link


@pytest.mark.parametrize("module", TOP)
def test_every_public_name_is_in_the_reference(module: str, collected_pages: Path) -> None:
    page = (collected_pages / "reference" / f"{module}.md").read_text("utf-8").splitlines()
    assert [name for name in docs_site.exported(module) if f"::: {module}.{name}" not in page] == []


def test_modules_imported_by_pages_are_in_the_reference(collected_pages: Path) -> None:
    for page in (*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")):
        for module, names in re.findall(
            r"^from (flowdebate[\w.]*) import ([\w, ]+)$", page.read_text("utf-8"), re.MULTILINE
        ):
            reference = collected_pages / "reference" / f"{module}.md"
            for name in names.split(", "):
                below = collected_pages / "reference" / f"{module}.{name}.md"
                assert below.exists() or f"::: {module}.{name}\n" in reference.read_text("utf-8"), (
                    f"{page.name}: {name}"
                )


def test_links_stay_inside_the_site(collected_pages: Path) -> None:
    """Links to repository files outside docs/ are rewritten."""
    for page in collected_pages.rglob("*.md"):
        broken = [
            link
            for link in find_links(page)
            if not (page.parent / link).resolve().is_relative_to(collected_pages.resolve())
        ]
        assert broken == [], page.name
        assert [link for link in find_links(page) if not (page.parent / link).exists()] == [], page.name


def test_llms_txt_lists_every_page(collected_pages: Path) -> None:
    lines = re.findall(r"^- \[.+?\]\((.+?)\): .+$", (collected_pages / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert {*lines} == {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} | {"reference.md"}
    assert all((collected_pages / line).exists() for line in lines)


TYPED = {
    "word limit": "prompts",
    "cost": "cost",
    "pandas": "batch",
    "model for each debater": "models",
    "csv": "batch",
    "api key": "models",
    "ollama": "models",
    "stop early": "cost",
}
"""Typical user queries, with the pages that answer them."""


@pytest.mark.parametrize("words", TYPED)
def test_typical_queries_match_a_section_of_their_page(collected_pages: Path, words: str) -> None:
    """Sections that contain all words of the query rank above those that contain only some of them.

    Words in code are ignored.
    """
    prose = re.sub(
        r"^```.*?^```$", "", (collected_pages / f"{TYPED[words]}.md").read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    sections = re.split(r"^(?=#+ )", prose, flags=re.MULTILINE)
    assert any(all(re.search(rf"\b{word}", section, re.IGNORECASE) for word in words.split()) for section in sections)


def test_search_finds_pages_and_works_from_files(tmp_path: Path) -> None:
    """The search index omits the API reference.

    Browsers start no web workers for pages opened from files, so the worker's code is embedded in a script.
    """
    workers = tmp_path / "assets" / "javascripts" / "workers"
    workers.mkdir(parents=True)
    (workers / "search.abc.min.js").write_text('onmessage = () => "</script>";')
    items = [{"location": "cost.html"}, {"location": "reference/flowdebate.html#cost"}]
    (tmp_path / "search.json").write_text(json.dumps({"config": {}, "items": items}))
    docs_site.prepare_search(tmp_path)
    assert json.loads((tmp_path / "search.json").read_text())["items"] == items[:1]
    script = (tmp_path / "search.js").read_text()
    assert script.startswith('var __index = {"config": {}, "items": [{"location": "cost.html"}]};')
    assert json.dumps('onmessage = () => "</script>";') in script
