"""`flowdebate runs archive`, and the memory of consensus debates."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.models.server import Exchange, completion

from .siblings import ANSWERS
from .stage import PATIENCE, Stage, start_on_pipes
from .test_stored import newest_run, run_command

if TYPE_CHECKING:
    from pathlib import Path

VOTES = {"Planner": "Planner", "Maker": "Planner", "Guardian": "Guardian"}
SHORT = ("--max-rounds", "1", "--seed", "5", "--voting", "weighted")


@dataclass(eq=False)
class Voters(Stage):
    """A stage on which agents vote according to `VOTES`; the guardian votes for itself and gives a reason."""

    async def _answer(self, exchange: Exchange) -> None:
        if '"confidence"' not in json.dumps(exchange.body.get("response_format", {})):
            await super()._answer(exchange)
            return
        name = re.findall(r"You are the agent (\w+)", json.dumps(exchange.body["messages"]))[0]
        ballot = {"reasoning": f"{name} says so.", "choice": VOTES[name], "confidence": 0.9}
        await exchange.json(completion(json.dumps(ballot)))


def voter_stage(**more: Any) -> Voters:
    """Serve a stage that gives all the answers for a consensus debate."""
    return Voters(turns=(("Homes ", "first."),), answers=ANSWERS, **more)


def run_consensus(on: Stage, *more: str) -> dict[str, Any]:
    """Run a consensus debate with the command and return its raw output."""
    result = run_command(*on.options(*SHORT, "--json", *more, verb="consensus"))
    assert result.exit_code == 0, result.stderr
    raw: dict[str, Any] = json.loads(result.stdout)["raw"]
    return raw


def pop_prompts(on: Stage) -> str:
    """Return the prompts received since this function was last called."""
    text = json.dumps(on.bodies)
    on.bodies.clear()
    return text


def list_archive() -> list[dict[str, Any]]:
    """Return the archive as listed by the command."""
    debates: list[dict[str, Any]] = json.loads(run_command("runs", "archive", "--json").stdout)
    return debates


def test_later_debate_sees_dissent_and_weighs_votes_by_outcomes(store: Path) -> None:
    """The outcome of the first debate is recorded before the second one starts.

    Each command is a separate process that uses the same store.
    """
    with voter_stage() as on:
        first = run_consensus(on)
        assert "earlier debate" not in pop_prompts(on)
        (entry,) = list_archive()
        recorded = run_command("runs", "archive", "outcome", entry["id"][:8], "--right", "Guardian")
        second = run_consensus(on)
        prompts = pop_prompts(on)
    assert first["tally"]["weights"] == {"Planner": 2.0, "Maker": 0.0, "Guardian": 1.0}
    assert recorded.exit_code == 0, recorded.stderr
    assert "Turned out: Guardian was right" in recorded.stdout
    for text in ("agreement on Cap rents at 3%.", "vote in it: Guardian says so.", "turned out to be wrong"):
        assert text in prompts
    assert second["tally"]["weights"]["Guardian"] > 1.0
    assert second["tally"]["weights"]["Planner"] < 2.0
    assert [entry["turnedOut"] for entry in list_archive() if "turnedOut" in entry] == ["wrong"]
    assert store.exists()


def test_archive_entry_can_be_listed_shown_corrected_and_deleted() -> None:
    """The other archive commands accept the listed ids. Deleting an entry does not delete the run it came from."""
    with voter_stage() as on:
        run_consensus(on)
        listed = run_command("runs", "archive").stdout
        (run_id,) = re.findall(r"^([0-9a-f]{8}) +\d{4}-\d\d-\d\d .*Cap rents\?$", listed, re.MULTILINE)
        assert "Dissent: Guardian: Guardian says so." in run_command("runs", "archive", "show", run_id).stdout
        changed = run_command("runs", "archive", "correct", run_id, "--answer", "Cap them at 4%.")
        assert "Cap them at 4%." in changed.stdout
        pop_prompts(on)
        run_consensus(on)
        assert "agreement on Cap them at 4%." in pop_prompts(on)
    assert "Deleted" in run_command("runs", "archive", "delete", run_id).stdout
    assert [entry["id"].startswith(run_id) for entry in list_archive()] == [False]
    assert run_command("show", run_id).exit_code == 0


def test_deleted_run_is_removed_from_the_archive(store: Path) -> None:
    with voter_stage() as on:
        run_consensus(on)
        assert run_command("runs", "delete", newest_run(store).header.run_id, "--yes").exit_code == 0
        pop_prompts(on)
        run_consensus(on)
        assert "earlier debate" not in pop_prompts(on)


@pytest.mark.parametrize(
    "without", [("--no-archive",), ("--no-store",), ("--file", "plan.toml")], ids=["flag", "store", "plan"]
)
def test_debate_can_ignore_the_archive(
    without: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag, a key in a plan file, or `--no-store` turns the archive off.

    The debate then neither reads the archive nor is added to it.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text("archive = false\n")
    with voter_stage() as on:
        run_consensus(on)
        pop_prompts(on)
        run_consensus(on, *without)
        assert "earlier debate" not in pop_prompts(on)
    assert len(list_archive()) == 1


def test_batch_uses_the_archive_only_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Using the archive would make the result for a row depend on the rows before it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.txt").write_text("Cap rents?\nCap all rents?\n")
    (tmp_path / "asked.toml").write_text("archive = true\n")
    with voter_stage() as on:
        batch = ("batch", "q.txt", "--pattern", "consensus", "--max-rounds", "1", "--model", "staged", "--base-url")
        options = (on.base_url, "--max-concurrency", "1")
        assert run_command(*batch, *options).exit_code == 0
        assert "earlier debate" not in pop_prompts(on)
        assert list_archive() == []
        assert run_command(*batch, *options, "--file", "asked.toml").exit_code == 0
        assert "an earlier debate about: Cap rents?" in pop_prompts(on)
        assert [entry["task"] for entry in list_archive()] == ["Cap all rents?", "Cap rents?"]


def test_killed_run_is_resumed_with_its_archived_context(store: Path) -> None:
    """SIGKILL arrives while a proposal is being written.

    The archive entries that the proposal used are then corrected, superseded and deleted, but the resumed run must
    still use the original ones.
    """
    with voter_stage() as on:
        run_consensus(on)
        first = newest_run(store).header.run_id
    with voter_stage(hold=(2, 0)) as on, start_on_pipes(*on.options(*SHORT, verb="consensus")) as process:
        on.wait_for_turn(3)
        process.kill()
        process.wait(PATIENCE)
    with voter_stage() as on:
        assert run_command("runs", "archive", "outcome", first, "--right", "Guardian").exit_code == 0
        assert run_command("runs", "archive", "correct", first, "--answer", "Forget it.").exit_code == 0
        assert run_command("runs", "delete", first, "--yes").exit_code == 0
        result = run_command("resume", "--last", "--base-url", on.base_url, "--json")
        prompts = pop_prompts(on)
    assert result.exit_code == 0, result.stderr
    raw = json.loads(result.stdout)["raw"]
    assert [past["answer"] for past in raw["context"]["pastDebates"]] == ["Cap rents at 3%."]
    assert "agreement on Cap rents at 3%." in prompts
    assert "Forget it." not in prompts
    # the weight reflects the debate that the agent lost, but not the outcome that was recorded later
    assert raw["tally"]["weights"]["Guardian"] < 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("outcome", "abcd"), "outcome requires --right AGENT or --wrong AGENT"),
        (("outcome", "abcd", "--right", "a", "--wrong", "b"), "outcome requires --right AGENT or --wrong AGENT"),
        (("show", "abcd", "--right", "a"), "other actions take neither"),
        (("correct", "abcd"), "correct requires --answer TEXT"),
        (("delete", "abcd"), "0 debate IDs begin with abcd"),
        (("show",), "0 debate IDs begin with None"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: tuple[str, ...], sentence: str) -> None:
    result = run_command("runs", "archive", *arguments)
    assert (result.exit_code, sentence in result.stderr) == (2, True), result.stderr
