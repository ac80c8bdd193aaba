"""Runs that later editions have stored, of every pattern, are read, shown and resumed.

Those of patterns that are asked as they were are resumed without `allow_changes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import outline
from flowdebate.store import MemoryStore, export_run, import_runs

from .command import BEGUN_FIFTH, BEGUN_FOURTH, BEGUN_SECOND, BEGUN_THIRD, command
from .patterns import FIFTH, FOURTH, LAST_CALLS, SECOND, THIRD, Case, Speaker
from .stores import (
    EXPECTED,
    EXPORT,
    FIFTH_DATA,
    FOURTH_DATA,
    PROMPTS,
    SECOND_DATA,
    SHOWN,
    THIRD_DATA,
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
from .test_stored_runs import check_resumed_with_changes, in_order_of

if TYPE_CHECKING:
    from pathlib import Path

_DATA = {"second": SECOND_DATA, "third": THIRD_DATA, "fourth": FOURTH_DATA, "fifth": FIFTH_DATA}
_CASES: dict[str, dict[str, Case]] = {"second": SECOND, "third": THIRD, "fourth": FOURTH, "fifth": FIFTH}
_ALL: dict[str, dict[str, Any]] = {edition: read(data / EXPECTED.name)["runs"] for edition, data in _DATA.items()}
_SHOWN: dict[str, Any] = {edition: read(data / SHOWN.name) for edition, data in _DATA.items()}
_PROMPTS: dict[str, Any] = read(SECOND_DATA / PROMPTS.name)
_RUNS = [(edition, run_id) for edition, runs in _ALL.items() for run_id in runs]
_OTHER_PROMPT = {
    edition: [name for name in cases if name.endswith("interrupted")]
    for edition, cases in {"second": THIRD, "third": FIFTH}.items()
}
"""Unfinished runs whose models are asked otherwise now, by edition."""
_OTHER_PROMPT_OF_COMMAND = {
    edition: [f"cli-{name}-limit" for name in begun]
    for edition, begun in {"second": BEGUN_THIRD, "third": BEGUN_FIFTH}.items()
}
"""The same of the command."""


def _name(edition: str, run_id: str) -> str:
    return str(_ALL[edition][run_id]["name"])


def _is_asked_otherwise(edition: str, run_id: str) -> bool:
    changed = (*_OTHER_PROMPT.get(edition, ()), *_OTHER_PROMPT_OF_COMMAND.get(edition, ()))
    return _name(edition, run_id) in changed


_BY_PROGRAM = [(edition, run_id) for edition, run_id in _RUNS if run_id in _CASES[edition]]
_BY_COMMAND = [each for each in _RUNS if each not in _BY_PROGRAM]
_AS_ASKED = [each for each in _BY_PROGRAM if not _is_asked_otherwise(*each)]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A copy of each store for tests that only read."""
    return {edition: copied(tmp_path_factory.mktemp("stored"), data=data) for edition, data in _DATA.items()}


@pytest.mark.parametrize(("edition", "run_id"), _RUNS)
def test_a_run_is_read_and_shown_as_it_was(edition: str, run_id: str, unchanged: dict[str, Path]) -> None:
    """Its status, its raw output, the keys of its steps in their order; its steps, page and report."""
    store = unchanged[edition]
    assert of_store(store, lambda opened: told(opened, run_id)) == _ALL[edition][run_id]["stored"]
    assert shown(run_id, store) == _SHOWN[edition]["runs"][run_id]


@pytest.mark.parametrize("edition", _DATA)
def test_all_runs_are_listed(edition: str, unchanged: dict[str, Path]) -> None:
    """None is missing, and each is listed as it was."""
    assert of_store(unchanged[edition], ids_of) == list(_ALL[edition])
    assert listed(unchanged[edition]) == _SHOWN[edition]["list"]


@pytest.mark.parametrize(("edition", "run_id"), _AS_ASKED)
def test_a_run_of_a_program_is_resumed(edition: str, run_id: str, tmp_path: Path) -> None:
    """Every recorded answer is accepted, only what is missing is asked for, and it ends as it would have ended."""
    case = _CASES[edition][run_id]
    end = of_store(copied(tmp_path, data=_DATA[edition]), lambda store: resume(case, run_id, store))
    expected = dict(_ALL[edition][run_id]["end"])
    emitted, kinds = end.pop("events"), expected.pop("events")
    assert in_order_of(case.pattern, emitted) == in_order_of(case.pattern, kinds)
    assert end == expected


@pytest.mark.parametrize(
    ("edition", "name"), [(edition, name) for edition in _OTHER_PROMPT for name in _OTHER_PROMPT[edition]]
)
def test_an_unfinished_run_with_another_prompt_is_resumed_if_changes_are_allowed(
    edition: str, name: str, tmp_path: Path
) -> None:
    """Recorded answers stand as they are."""
    store = copied(tmp_path, data=_DATA[edition])
    check_resumed_with_changes(_CASES[edition][name], name, store, _ALL[edition][name])


@pytest.mark.parametrize(("edition", "run_id"), _BY_COMMAND)
def test_a_run_of_the_command_is_resumed(edition: str, run_id: str, tmp_path: Path) -> None:
    """Built again from its stored options, it comes to the same document; asked otherwise, if changes are allowed."""
    store, changed = copied(tmp_path, data=_DATA[edition]), _is_asked_otherwise(edition, run_id)
    if changed:
        refused = command("resume", run_id, "--max-calls", "99", store=store)
        assert refused.exit_code != 0
        assert "--allow-changes" in refused.stderr
    assert resume_by_command(run_id, store, allow_changes=changed) == _ALL[edition][run_id]["end"]


@pytest.mark.parametrize(
    ("edition", "cut", "runs"),
    [
        ("second", "interrupted", len(LAST_CALLS)),
        ("second", "interrupted-review", 1),
        ("second", "limit", len(BEGUN_SECOND)),
        ("third", "interrupted", len(_OTHER_PROMPT["second"])),
        ("third", "limit", len(BEGUN_THIRD)),
        ("fourth", "interrupted", 1),
        ("fourth", "interrupted-merging", 1),
        ("fourth", "limit", len(BEGUN_FOURTH)),
        ("fifth", "interrupted", len(_OTHER_PROMPT["third"])),
        ("fifth", "limit", len(BEGUN_FIFTH)),
    ],
)
def test_what_was_cut_short_comes_to_the_whole(edition: str, cut: str, runs: int) -> None:
    """What is expected of runs that were cut short is what their undisturbed siblings have come to."""
    by_name = {run["name"]: run["end"] for run in _ALL[edition].values()}
    pairs = {name: name.replace(cut, "complete") for name in by_name if name.endswith(cut)}
    assert len(pairs) == runs
    for name, whole in pairs.items():
        one, other = dict(by_name[name]), dict(by_name[whole])
        assert one.pop("calls") > other.pop("calls") == 0
        assert sorted(one.pop("events", ())) == sorted(other.pop("events", ()))
        assert one == other


@pytest.mark.parametrize(("edition", "run_id"), _BY_PROGRAM)
def test_a_pattern_is_outlined_as_it_was(edition: str, run_id: str, unchanged: dict[str, Path]) -> None:
    """As the run was started with it, so that it is resumed without `allow_changes`."""
    stored = of_store(unchanged[edition], lambda store: store.run(run_id)).header.fingerprint["outline"]
    assert outline(_CASES[edition][run_id].made(Speaker())).structure == stored


@pytest.mark.parametrize("profile", ["concise", "full"])
def test_members_of_a_council_are_told_what_they_were(profile: str) -> None:
    """Every message of one run, to the letter; the other patterns are in `test_stored_runs`."""
    assert {name: prompts_of(name, profile) for name in _PROMPTS[profile]} == _PROMPTS[profile]


@pytest.mark.anyio
@pytest.mark.parametrize("edition", _DATA)
async def test_an_export_holds_the_same_runs(edition: str) -> None:
    """Read into another store, the runs are those of the store that it was made of, and are exported to the letter."""
    store, runs = MemoryStore(), _ALL[edition]
    lines = (_DATA[edition] / EXPORT.name).read_text(encoding="utf-8").splitlines()
    assert (await import_runs(store, lines, trusted=True)).added == tuple(runs)
    for run_id, run in runs.items():
        assert await told(store, run_id) == run["stored"]
    assert [line for run_id in runs async for line in export_run(store, run_id)] == lines
    await store.close()
