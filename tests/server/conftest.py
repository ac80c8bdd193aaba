"""Servers shared by several tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import Gate, Stage, answer_debate, staged

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Serve a model that answers immediately."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as stage:
        yield stage


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    """Share one server like `stage` between all tests in a module."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as stage:
        yield stage


@pytest.fixture
def gate() -> Gate:
    """Create the model used by `gated`."""
    return Gate()


@pytest.fixture
def gated(gate: Gate) -> Iterator[Stage]:
    """Serve a model that answers only when the test lets it."""
    with staged(lambda: Service(store="memory:", model=gate)) as stage:
        yield stage
