"""Fixtures of the tests of the command: apart from the user's own runs, and its commands built once."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import pytest
import typer.testing
from typer.main import get_command

from flowdebate.store.open import STORE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="package", autouse=True)
def commands() -> Iterator[None]:
    """The commands are built once, as in a process: a `CliRunner` would take a tenth of a second for each call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(get_command))
        yield


@pytest.fixture(autouse=True)
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The store of all commands of a test, those in processes of their own too: a file that is not there yet."""
    path = tmp_path_factory.mktemp("kept") / "runs.sqlite3"
    before = {name: os.environ.get(name) for name in (STORE_VARIABLE, "XDG_DATA_HOME")}
    os.environ[STORE_VARIABLE] = str(path)
    os.environ["XDG_DATA_HOME"] = str(path.parent)  # for a test that takes the variable away
    yield path
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
