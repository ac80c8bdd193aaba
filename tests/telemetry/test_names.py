"""Documented telemetry names, compared with those in the code."""

from __future__ import annotations

import re
from pathlib import Path

from flowdebate.telemetry import names

PAGE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text("utf-8")
NAMES = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}


def test_page_lists_every_telemetry_name() -> None:
    words = set(re.findall(r"[\w.]+", PAGE))
    assert names.CONVENTIONS[:8] in words
    assert NAMES - {names.CONVENTIONS, names.VERDICT} - words == set()


def test_page_lists_no_other_telemetry_names() -> None:
    page_names = {
        name for name in re.findall(r"`((?:gen_ai|flowdebate|error)\.[\w.]+)`", PAGE) if name != "flowdebate.runs"
    }
    assert page_names - NAMES == set()
