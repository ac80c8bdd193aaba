"""Matching findings to planted faults."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import PlantedFault, review_benchmark
from flowdebate.patterns.review.schemas import Finding, Place, Raised

FAULT = PlantedFault(file="a.py", line=10, end_line=12, kind="resource-leak")


def finding(title: str, **place: Any) -> Finding:
    """Create a finding by one reviewer."""
    location = Place(**{"file": "a.py", "line": 10, "found": True, **place})
    raised = Raised(agent_name="Ada", title=title, claim="So it is.", severity="major", place=location)
    return Finding(id="F1", title=title, claim="So it is.", severity="major", place=location, raised=[raised])


@pytest.mark.parametrize(
    ("place", "is_named"),
    [
        ({"line": 11}, True),
        ({"line": 7}, True),
        ({"line": 15}, True),
        ({"line": 1, "end_line": 7}, True),
        ({"line": 6}, False),
        ({"line": 16}, False),
        ({"line": 1, "end_line": 6}, False),
        ({"file": "b.py"}, False),
        ({"file": None}, False),
        ({"line": None}, False),
        ({"found": False}, False),
    ],
)
def test_hits_must_be_in_the_same_file_within_three_lines(place: dict[str, Any], *, is_named: bool) -> None:
    """A location counts only if it exists in the material that was reviewed."""
    assert FAULT.is_named(finding("The file is never closed", **place)) is is_named


@pytest.mark.parametrize(
    ("title", "is_named"),
    [("Resource leak", True), ("The handle is not released", True), ("No docstring", False), ("SQL injection", False)],
)
def test_hits_must_name_the_kind_of_fault(title: str, *, is_named: bool) -> None:
    assert FAULT.is_named(finding(title)) is is_named


def test_benchmark_requires_at_least_one_review() -> None:
    with pytest.raises(ConfigurationError):
        review_benchmark([])
