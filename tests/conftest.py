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
    """Run tests with real models first, then alternate between files whose tests wait and files whose tests do not.

    This lets workers share the cores. Files whose tests wait take long, so they come early and none of them runs last.
    """
    if part := config.getoption("--part"):
        number, parts = map(int, part.split("/"))
        # the cases of one matrix take about the same time, so spread them evenly over the parts
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
    """Forget what the models learned about a server, since another server may reuse its port."""
    loaded = sys.modules.get("flowdebate.models.openai.optional")
    if loaded is not None:
        loaded.learned_of.cache_clear()
    thinking = sys.modules.get("flowdebate.models.thinking")
    if thinking is not None:
        thinking._unannounced.clear()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio, the event loop required by openai's client."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Limit the local model's engines to one thread.

    With two threads, one waits for a busy core, and the speed drops to a third.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flowdebate.models.local.server._usable_cores", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def commands() -> Iterator[None]:
    """Build the commands once, as a process does.

    Otherwise, every `CliRunner` call takes a tenth of a second longer.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(get_command))
        yield
