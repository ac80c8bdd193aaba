"""Runs that the first edition has stored are read, shown and resumed, by today's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import outline
from flowdebate.errors import JournalMismatch
from flowdebate.store import MemoryStore, SqliteStore, export_run, import_runs

from .command import command
from .patterns import CASES, WHOLE, Speaker
from .stores import (
    EXPECTED,
    EXPORT,
    PROMPTS,
    SHOWN,
    archived,
    copied,
    ids_of,
    listed,
    of_store,
    prompts_of,
    read,
    resume,
    resume_by_command,
    shown,
    timeless,
    told,
)

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.store import Store

    from .patterns import Case

RENAMED: dict[str, str] = {
    "agent_failure": "role_failed",
    "debate_stopped": "rounds_ended",
    "handed_over": "handoff_made",
    "round_start": "round_started",
    "seat_lost": "role_failed",
}
"""Kinds of events that are called otherwise now, by what they were called in the first edition."""
ADDED: dict[str, set[str]] = {"consensus": {"turn_started", "turn_finished", "rounds_ended"}}
"""Kinds of events that a pattern did not emit in the first edition."""

FIELDS_ADDED = {"feedback": {"debate", "moments", "ratings"}, "analytics": {"relationships"}}
"""Fields of parts of raw outputs that did not exist in the first edition."""
FIELD_RENAMED = {"panelists": "debaters", "seat": "role"}
"""Fields of raw outputs and documents that are called otherwise now."""
PATTERN_RENAMED = {"panel": "round_robin"}
"""Patterns that documents call otherwise now."""
OTHER_LATER = ("debate-interrupted", "debate-failed", "handoff-human-awaiting")
"""Unfinished runs of programs in which only calls that were not made yet are asked otherwise now."""
OTHER_PROMPT = (
    *OTHER_LATER,
    *(f"debate-{kind}-interrupted" for kind in ("moderated", "swap", "panel", "sources")),
    *("deliberation-interrupted", "handoff-interrupted", "round_robin-interrupted"),
    *("debate-flip-awaiting", "deliberation-human-awaiting", "round_robin-human-awaiting"),
)
"""Unfinished runs of programs whose models are asked otherwise now."""
OTHER_PROMPT_OF_COMMAND = (
    *("cli-run-left-behind", "cli-run-limit", "cli-run-panel-limit", "cli-run-awaiting"),
    *("cli-deliberate-limit", "cli-deliberate-failed", "cli-handoff-limit", "cli-panel-limit"),
)
"""Unfinished runs of the command, which has no templates: its models have other prompts now."""
_ONE_AT_A_TIME = ("debate", "debate-strict", "debate-moderated", "debate-human", "handoff", "handoff-human")
"""Patterns in which nothing goes on at the same time."""
_ALL: dict[str, Any] = read(EXPECTED)["runs"]
_SHOWN: dict[str, Any] = read(SHOWN)
_BY_NAME = {run["name"]: run_id for run_id, run in _ALL.items()}
_BY_COMMAND = [name for name, run_id in _BY_NAME.items() if run_id not in CASES]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the store for tests that only read."""
    return copied(tmp_path_factory.mktemp("stored"))


@pytest.mark.parametrize("name", _BY_NAME)
def test_a_run_is_read_as_it_was_stored(name: str, unchanged: Path) -> None:
    """Its status, its raw output, and the keys of its steps in their order."""
    run_id = _BY_NAME[name]
    assert of_store(unchanged, lambda store: told(store, run_id)) == _ALL[run_id]["stored"]


def test_all_runs_are_listed(unchanged: Path) -> None:
    """None is missing, and each is listed as it was."""
    assert of_store(unchanged, ids_of) == list(_ALL)
    assert listed(unchanged) == _SHOWN["list"]


@pytest.mark.parametrize("name", _BY_NAME)
def test_a_run_is_shown_as_it_was(name: str, unchanged: Path) -> None:
    """Step by step, as the page of its command, and as a report."""
    run_id = _BY_NAME[name]
    assert shown(run_id, unchanged) == _SHOWN["runs"][run_id]


@pytest.mark.parametrize("name", [name for name in CASES if name not in OTHER_PROMPT])
def test_a_run_of_a_program_is_resumed(name: str, tmp_path: Path) -> None:
    """Only what is missing is asked for: of a run that is over, nothing. It comes to what it would have come to."""
    end = of_store(copied(tmp_path), lambda store: resume(CASES[name], name, store))
    expected = _renamed(_ALL[name]["end"])
    kinds = [RENAMED.get(kind, kind) for kind in expected.pop("events")]
    added = ADDED.get(CASES[name].pattern.split("-")[0], set())
    emitted = [kind for kind in end.pop("events") if kind not in added]
    pattern = CASES[name].pattern
    assert in_order_of(pattern, emitted) == in_order_of(pattern, kinds)
    assert _without_added(end) == expected


@pytest.mark.parametrize("name", OTHER_PROMPT)
def test_an_unfinished_run_with_another_prompt_is_resumed_if_changes_are_allowed(name: str, tmp_path: Path) -> None:
    """Recorded answers stand as they are."""
    end = check_resumed_with_changes(CASES[name], name, copied(tmp_path), _ALL[name], refused=name not in OTHER_LATER)
    if name == "debate-moderated-interrupted":  # the first edition let a moderator leave sides out without a reason
        assert [made["nextSpeakers"] for made in end["raw"]["moderatorDecisions"][:1]] == [["ann"]]
        assert "bob" in {entry["agentName"] for entry in end["raw"]["transcript"][1:]}


def check_resumed_with_changes(
    case: Case, run_id: str, store: Path, known: Any, *, refused: bool = True
) -> dict[str, Any]:
    """Without `allow_changes`, JournalMismatch says what to do. With it, nothing that was recorded is asked again."""
    if refused:
        with pytest.raises(JournalMismatch, match="allow_changes=True"):
            of_store(store, lambda opened: resume(case, run_id, opened))
    said = of_store(store, lambda opened: _contributions(opened, run_id))
    end: dict[str, Any] = of_store(store, lambda opened: resume(case, run_id, opened, allow_changes=True))
    assert (end["status"], end["raw"].get("losses")) == ("complete", known["end"]["raw"].get("losses"))
    assert {key for key, *_ in known["stored"]["steps"]} <= set(end["steps"])
    assert said == of_store(store, lambda opened: _contributions(opened, run_id, only=set(said)))
    return end


async def _contributions(store: Store, run_id: str, only: set[str] | None = None) -> dict[str, Any]:
    """The recorded answers of a run by the keys of their steps."""
    return {
        step.key: step.body for step in await store.steps(run_id) if step.body and (only is None or step.key in only)
    }


def _renamed(value: Any) -> Any:
    """`value` with the names that fields have now."""
    if isinstance(value, dict):
        return {FIELD_RENAMED.get(key, key): _renamed(part) for key, part in value.items()}
    return [_renamed(part) for part in value] if isinstance(value, list) else value


def _without_added(value: Any, field: str = "") -> Any:
    """The value of `field` without what did not exist in the first edition."""
    if isinstance(value, dict):
        added = FIELDS_ADDED.get(field, set())
        return {key: _without_added(part, key) for key, part in value.items() if key not in added}
    return [_without_added(part) for part in value] if isinstance(value, list) else value


def in_order_of(pattern: str, kinds: list[str]) -> list[str]:
    """The kinds of the events of a run of `pattern`, sorted where turns happen at the same time, in any order."""
    return kinds if pattern in _ONE_AT_A_TIME else sorted(kinds)


@pytest.mark.parametrize("name", _BY_COMMAND)
def test_a_run_of_the_command_is_resumed(name: str, tmp_path: Path) -> None:
    """Built again from what is kept of its options, it asks for what is missing, and comes to the same document."""
    run_id = _BY_NAME[name]
    changed = name in OTHER_PROMPT_OF_COMMAND
    end = resume_by_command(run_id, copied(tmp_path), awaiting=name.endswith("awaiting"), allow_changes=changed)
    expected = _renamed(_ALL[run_id]["end"])
    pattern = expected["document"]["pattern"]
    expected["document"] = {**expected["document"], "pattern": PATTERN_RENAMED.get(pattern, pattern)}
    assert _without_added(end) == expected


@pytest.mark.parametrize("name", OTHER_PROMPT_OF_COMMAND)
def test_the_command_says_that_a_run_with_another_prompt_needs_allow_changes(name: str, tmp_path: Path) -> None:
    """It asks nobody, and the run stays as it is."""
    refused = command("resume", _BY_NAME[name], "--max-calls", "99", store=copied(tmp_path))
    assert refused.exit_code != 0
    assert "--allow-changes" in refused.stderr


@pytest.mark.parametrize("cut", ["interrupted", "limit"])
def test_what_was_cut_short_comes_to_the_whole(cut: str) -> None:
    """What is expected of runs that were cut short is what their undisturbed siblings have come to."""
    pairs = {name: name.replace(cut, "complete") for name in _BY_NAME if name.endswith(cut)}
    assert len(pairs) == {"interrupted": len(WHOLE), "limit": 6}[cut]
    for name, whole in pairs.items():
        one, other = (dict(_ALL[_BY_NAME[each]]["end"]) for each in (name, whole))
        assert one.pop("calls") > other.pop("calls") == 0
        assert sorted(one.pop("events", ())) == sorted(other.pop("events", ()))
        assert one == other


@pytest.mark.parametrize("name", CASES)
def test_a_pattern_is_outlined_as_it_was(name: str, unchanged: Path) -> None:
    """As the run was started with it, so that it is resumed without `allow_changes`."""
    kept = of_store(unchanged, lambda store: store.run(name)).header.fingerprint["outline"]
    assert outline(CASES[name].made(Speaker())).structure == kept


@pytest.mark.parametrize("profile", ["concise", "full"])
@pytest.mark.parametrize("pattern", WHOLE)
def test_models_are_told_what_they_were(pattern: str, profile: str) -> None:
    """Every message of one run of the pattern, to the letter, in either profile."""
    assert prompts_of(pattern, profile) == read(PROMPTS)[profile][pattern]


def test_an_archive_is_read_as_it_was_stored(unchanged: Path) -> None:
    """What debates have left for later ones: documents beside the runs."""
    assert of_store(unchanged, archived) == read(EXPECTED)["archive"]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_export_holds_the_same_runs(kind: str, tmp_path: Path) -> None:
    """Read into any store, the runs are those of the store that it was made of, and are exported to the letter."""
    store: Store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "new.sqlite3")
    lines = EXPORT.read_text(encoding="utf-8").splitlines()
    assert (await import_runs(store, lines, trusted=True)).added == tuple(_ALL)
    for run_id, run in _ALL.items():
        assert await told(store, run_id) == run["stored"]
    assert [line for run_id in _ALL async for line in export_run(store, run_id)] == lines
    await store.close()


@pytest.mark.anyio
async def test_runs_of_an_export_are_resumed_and_forked(tmp_path: Path) -> None:
    """In a store that they were not made in, without the archive that stood beside them."""
    store = SqliteStore(tmp_path / "new.sqlite3")
    await import_runs(store, EXPORT.read_text(encoding="utf-8").splitlines())
    for run_id, case in CASES.items():
        if run_id in OTHER_PROMPT:
            continue
        end = await resume(case, run_id, store)
        expected = _renamed(_ALL[run_id]["end"])
        assert (_without_added(end["raw"]), end["calls"]) == (expected["raw"], expected["calls"])
    for run_id, case in CASES.items():
        if run_id.endswith("complete"):
            # Prompts have changed since: the first fork asks for what they change, its own fork for nothing.
            forks = []
            for parent, fork_id in ((run_id, f"{run_id}-fork"), (f"{run_id}-fork", f"{run_id}-again")):
                spoken = case.speaker(later=True)
                made = case.made(spoken)
                forks.append(await made.fork(parent, fork_id=fork_id, model=spoken.model(), store=store))
            assert (len(spoken.asked), [fork.status for fork in forks]) == (0, ["complete", "complete"])
            unpriced: Any = {"baselines": {"__all__": {"cost"}}}  # what costs nothing is no call of an unknown price
            first, again = (timeless(fork.raw.model_dump(mode="json", exclude=unpriced)) for fork in forks)
            assert first == again
    await store.close()


def test_runs_of_an_export_are_shown(tmp_path: Path) -> None:
    """Through `import`, they are listed and shown as those of the store."""
    store = tmp_path / "new.sqlite3"
    assert command("import", str(EXPORT), store=store).stdout == f"Imported {len(_ALL)} runs.\n"
    assert listed(store) == _SHOWN["list"]
    for run_id in _ALL:
        assert shown(run_id, store) == _SHOWN["runs"][run_id]
