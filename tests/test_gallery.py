from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import gallery  # noqa: E402 - scripts are no package


def test_gallery_shows_every_example() -> None:
    """Each script is run again and must print what the page shows. `python scripts/gallery.py` updates the page."""
    assert {name for names in gallery.GROUPS.values() for name in names} == {
        path.stem for path in (ROOT / "examples").glob("*.py")
    }
    assert gallery.PAGE.read_text("utf-8") == gallery.page()


def test_example_reports_exist(tmp_path: Path) -> None:
    gallery.reports(tmp_path, ["council"])
    assert "<script" not in (tmp_path / "council.html").read_text("utf-8")
