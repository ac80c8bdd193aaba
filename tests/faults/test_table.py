"""The fault table in the documentation matches the rows that the tests run."""

from __future__ import annotations

from collections import Counter

import pytest

from .rows import FAULTS
from .table import PAGE, with_table

pytestmark = pytest.mark.fault

_CATALOG = {
    *range(1, 5), *range(6, 13), *range(15, 23), 25, 26, 27, 28,
    *range(31, 45), *range(46, 49), 50, 51,
    *range(52, 58), 59, 60, 61, 66, 67,
    *range(68, 70), 73, 74,
}  # fmt: skip
"""Catalog numbers of faults in single calls; faults 29, 30 and 75 have separate tests."""


def test_the_page_shows_the_current_table() -> None:
    """If this test fails, run `python -m tests.faults.table` to update the page."""
    page = PAGE.read_text("utf-8")
    assert page == with_table(page)


def test_fault_ids_are_unique_and_every_row_has_a_fault() -> None:
    assert [name for name, count in Counter(fault.id for fault in FAULTS).items() if count > 1] == []
    numbers = {int(part) for fault in FAULTS if (part := fault.id.partition("-")[0]).isdecimal()}
    assert numbers >= _CATALOG


def test_every_fault_has_a_description() -> None:
    assert len(FAULTS) > 200
    for fault in FAULTS:
        assert fault.title, fault.id
        assert fault.description, fault.id
        assert "\n" not in fault.title + fault.description, fault.id
