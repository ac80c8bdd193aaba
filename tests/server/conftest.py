"""Servers that tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import Gate, Stage, debater, staged

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A server whose model answers at once."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(debater))) as stage:
        yield stage


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    """The same for all tests of a module."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(debater))) as stage:
        yield stage


@pytest.fixture
def gate() -> Gate:
    """The model of `gated`."""
    return Gate()


@pytest.fixture
def gated(gate: Gate) -> Iterator[Stage]:
    """A server whose model answers when the test lets it."""
    with staged(lambda: Service(store="memory:", model=gate)) as stage:
        yield stage
