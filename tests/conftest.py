"""Shared fixtures and the order of all tests."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest
import typer.testing
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Iterator

WAITING = ("browser", "cli", "faults", "mcp", "notebook", "runs", "server", "service", "store", "telemetry", "workers")
"""Folders whose tests start processes and wait for them."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests: those with real models come first, and files that wait alternate with others.

    Workers then share the cores. Files that wait take long, so they come earlier and none of them ends last.
    """
    if part := config.getoption("--part"):
        number, parts = map(int, part.split("/"))
        # cases of one matrix take about the same time, so every part gets its share of them
        config.hook.pytest_deselected(items=[item for at, item in enumerate(items) if at % parts != number - 1])
        items[:] = items[number - 1 :: parts]
    waits, computes, places = list[pytest.Item](), list[pytest.Item](), dict[str, float]()
    for item in items:
        place = item.nodeid.partition("::")[0]
        if item.get_closest_marker("local_model"):
            places[place] = -1.0
        else:
            (waits if place.startswith(tuple(f"tests/{folder}/" for folder in WAITING)) else computes).append(item)
    for group, end in ((waits, 0.75), (computes, 1.0)):
        for at, item in enumerate(group):
            places.setdefault(item.nodeid.partition("::")[0], end * at / len(group))
    items.sort(key=lambda item: places[item.nodeid.partition("::")[0]])


def pytest_runtest_setup() -> None:
    """Forget what models have learned about a server, whose port may be reused by another."""
    loaded = sys.modules.get("flowdebate.models.openai.optional")
    if loaded is not None:
        loaded.learned_of.cache_clear()
    thinking = sys.modules.get("flowdebate.models.thinking")
    if thinking is not None:
        thinking._unannounced.clear()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio, the event loop that openai's client needs."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Limit the local model's engines to one thread: with two, one waits for a busy core at a third of the speed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flowdebate.models.local.server._usable_cores", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def commands() -> Iterator[None]:
    """Build the commands once, as in a process: a `CliRunner` would take a tenth of a second for each call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(get_command))
        yield
