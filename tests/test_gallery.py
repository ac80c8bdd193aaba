"""The gallery: every example, with what it prints today."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import gallery  # noqa: E402 - scripts are no package


def test_the_gallery_shows_every_example() -> None:
    """Each script has run just now, and printed what the page shows: `python scripts/gallery.py` writes it."""
    assert {name for names in gallery.GROUPS.values() for name in names} == {
        path.stem for path in (ROOT / "examples").glob("*.py")
    }
    assert gallery.PAGE.read_text("utf-8") == gallery.page()


def test_an_example_has_a_report(tmp_path: Path) -> None:
    """The site has the reports of some: one file each, without a script."""
    gallery.reports(tmp_path, ["council"])
    assert "<script" not in (tmp_path / "council.html").read_text("utf-8")
