"""Runs that the second edition has stored, of every pattern: they are resumed without `allow_changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import outline
from flowdebate.store import MemoryStore, export_run, import_runs

from .command import BEGUN_SECOND
from .patterns import LAST_CALLS, SECOND, Speaker
from .stores import (
    EXPECTED,
    EXPORT,
    PROMPTS,
    SECOND_DATA,
    SHOWN,
    copied,
    ids_of,
    listed,
    of_store,
    prompts_of,
    read,
    resume,
    resume_by_command,
    shown,
    told,
)
from .test_stored_runs import in_order_of

if TYPE_CHECKING:
    from pathlib import Path

_ALL: dict[str, Any] = read(SECOND_DATA / EXPECTED.name)["runs"]
_SHOWN: dict[str, Any] = read(SECOND_DATA / SHOWN.name)
_PROMPTS: dict[str, Any] = read(SECOND_DATA / PROMPTS.name)
_BY_NAME = {run["name"]: run_id for run_id, run in _ALL.items()}
_BY_COMMAND = [name for name, run_id in _BY_NAME.items() if run_id not in SECOND]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the store for tests that only read."""
    return copied(tmp_path_factory.mktemp("stored"), data=SECOND_DATA)


@pytest.mark.parametrize("name", _BY_NAME)
def test_a_run_is_read_and_shown_as_it_was(name: str, unchanged: Path) -> None:
    """Its status, its raw output, the keys of its steps in their order; its steps, page and report."""
    run_id = _BY_NAME[name]
    assert of_store(unchanged, lambda store: told(store, run_id)) == _ALL[run_id]["stored"]
    assert shown(run_id, unchanged) == _SHOWN["runs"][run_id]


def test_all_runs_are_listed(unchanged: Path) -> None:
    """None is missing, and each is listed as it was."""
    assert of_store(unchanged, ids_of) == list(_ALL)
    assert listed(unchanged) == _SHOWN["list"]


@pytest.mark.parametrize("name", SECOND)
def test_a_run_of_a_program_is_resumed(name: str, tmp_path: Path) -> None:
    """Every recorded answer is accepted, only what is missing is asked for, and it ends as it would have ended."""
    end = of_store(copied(tmp_path, data=SECOND_DATA), lambda store: resume(SECOND[name], name, store))
    expected = dict(_ALL[name]["end"])
    pattern = SECOND[name].pattern
    assert in_order_of(pattern, end.pop("events")) == in_order_of(pattern, expected.pop("events"))
    assert end == expected


@pytest.mark.parametrize("name", _BY_COMMAND)
def test_a_run_of_the_command_is_resumed(name: str, tmp_path: Path) -> None:
    """Built again from its stored options, it comes to the same document."""
    run_id = _BY_NAME[name]
    assert resume_by_command(run_id, copied(tmp_path, data=SECOND_DATA)) == _ALL[run_id]["end"]


@pytest.mark.parametrize("cut", ["interrupted", "interrupted-review", "limit"])
def test_what_was_cut_short_comes_to_the_whole(cut: str) -> None:
    """What is expected of runs that were cut short is what their undisturbed siblings have come to."""
    pairs = {name: name.replace(cut, "complete") for name in _BY_NAME if name.endswith(cut)}
    assert len(pairs) == {"interrupted": len(LAST_CALLS), "interrupted-review": 1, "limit": len(BEGUN_SECOND)}[cut]
    for name, whole in pairs.items():
        one, other = (dict(_ALL[_BY_NAME[each]]["end"]) for each in (name, whole))
        assert one.pop("calls") > other.pop("calls") == 0
        assert sorted(one.pop("events", ())) == sorted(other.pop("events", ()))
        assert one == other


@pytest.mark.parametrize("name", SECOND)
def test_a_pattern_is_outlined_as_it_was(name: str, unchanged: Path) -> None:
    """As the run was started with it, so that it is resumed without `allow_changes`."""
    stored = of_store(unchanged, lambda store: store.run(name)).header.fingerprint["outline"]
    assert outline(SECOND[name].made(Speaker())).structure == stored


@pytest.mark.parametrize("profile", ["concise", "full"])
def test_members_of_a_council_are_told_what_they_were(profile: str) -> None:
    """Every message of one run, to the letter; the other patterns are in `test_stored_runs`."""
    assert {name: prompts_of(name, profile) for name in _PROMPTS[profile]} == _PROMPTS[profile]


@pytest.mark.anyio
async def test_an_export_holds_the_same_runs() -> None:
    """Read into another store, the runs are those of the store that it was made of, and are exported to the letter."""
    store = MemoryStore()
    lines = (SECOND_DATA / EXPORT.name).read_text(encoding="utf-8").splitlines()
    assert (await import_runs(store, lines, trusted=True)).added == tuple(_ALL)
    for run_id, run in _ALL.items():
        assert await told(store, run_id) == run["stored"]
    assert [line for run_id in _ALL async for line in export_run(store, run_id)] == lines
    await store.close()
