"""Fixture that isolates the command's tests from the user's own runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from flowdebate.store.open import STORE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Use a fresh store for every command in a test, including commands in separate processes."""
    path = tmp_path_factory.mktemp("kept") / "runs.sqlite3"
    before = {name: os.environ.get(name) for name in (STORE_VARIABLE, "XDG_DATA_HOME")}
    os.environ[STORE_VARIABLE] = str(path)
    os.environ["XDG_DATA_HOME"] = str(path.parent)  # for tests that unset FLOWDEBATE_STORE
    yield path
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
