"""`flowdebate runs fork`: a changed run repeats only the affected calls."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import handler

from .siblings import serve_stage
from .stage import OnTerminal, Stage
from .test_imported import export_forged_run
from .test_run import SIDES
from .test_stored import ALL, newest_run, run_command, use_store

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.store.base import StepRow

SAID = (("Homes ", "first."), ("Build ", "more."))
OF_ANN = "debate/round[1]/debate-turn-pro/debate-debater-pro"


def read_steps(path: Path, run_id: str) -> list[StepRow]:
    """Return the steps of a stored run."""
    return list(use_store(path, lambda store: store.steps(run_id)))


def run_fork(*arguments: str) -> dict[str, Any]:
    """Return the document of a fork."""
    result = run_command("runs", "fork", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_changing_the_judge_repeats_only_judge_calls(store: Path, tmp_path: Path) -> None:
    report = tmp_path / "fork.md"
    with Stage(turns=SAID) as on:
        run_command(*on.options(*SIDES, "--max-rounds", "1", "--seed", "7"))
        parent = newest_run(store)
        before = parent, read_steps(store, parent.header.run_id)
        with OnTerminal("runs", "fork", "--last", "--model", "synthesize=other", "--markdown", str(report)) as terminal:
            assert terminal.end() == 0
        assert [body["model"] for body in on.bodies] == ["staged", "staged", "staged", "other"]
        fork = newest_run(store)
        page, data = run_command("show", "--last"), json.loads(run_command("show", "--last", "--json").stdout)
        document = json.loads(run_command("show", "--last", "--page", "--json").stdout)
        nothing = run_fork(fork.header.run_id)
        assert len(on.bodies) == 4
    short = parent.header.run_id[:8]
    first, *_, last = terminal.screen.strip().splitlines()
    assert first == f"Fork of {short}: reuses its 3 answers if the same model gets the same request"
    assert last == f"Fork of {short}: 2 answers reused, 1 asked for"
    assert "Calls: 1 " in terminal.screen
    account = {"parent": parent.header.run_id, "reused": 2, "edited": [], "asked": 1}
    assert document["fork"] == account
    assert data["parent"] == parent.header.run_id
    assert f"- Fork of {parent.header.run_id}: 2 answers reused, 1 asked for\n" in report.read_text()
    assert f"  Fork of: {parent.header.run_id}: 2 answers reused, 1 asked for\n" in page.stdout
    assert page.stdout.count("(staged, taken from the parent run)") == 2
    assert nothing["fork"] == {**account, "parent": fork.header.run_id, "reused": 3, "asked": 0}
    assert nothing["usage"]["calls"] == 0
    assert (fork.header.seed, nothing["seed"]) == (7, 7)
    assert (use_store(store, lambda opened: opened.run(parent.header.run_id)), before[1]) == (
        before[0],
        read_steps(store, parent.header.run_id),
    )


def test_edited_answer_is_selected_by_path_or_prefix(tmp_path: Path, store: Path) -> None:
    reply = tmp_path / "reply.txt"
    reply.write_text("No = never.\n")
    with Stage(turns=SAID) as on:
        run_command(*on.options(*SIDES, "--max-rounds", "2"))
        parent = newest_run(store).header.run_id
        documents = [
            run_fork(parent, "--edit", "round[1]/con=No = never."),
            run_fork(parent, "--at", "round[1]/con", "--say", str(reply)),
        ]
        piped = run_command(
            "runs", "fork", parent, "--at", "con/debater-con", "--say", "-", "--json", stdin=b"No = never.\n"
        )
        several = run_command("runs", "fork", parent, "--at", "con", "--say", "-", stdin=b"No.")
        verdict = {"reasoning": "I decide.", "winner": "cap rents", "verdict": "Cap."}
        calls = len(on.bodies)
        judged = run_fork(parent, "--edit", f"judge={json.dumps(verdict)}", "--edit", f"{OF_ANN}=Homes first.")
        assert len(on.bodies) == calls  # an edit that leaves the text unchanged repeats no call
    assert piped.exit_code == several.exit_code == 2
    for document in documents:
        texts = [entry["text"] for entry in document["raw"]["transcript"]]
        assert texts[:2] == ["Homes first.", "No = never."]
        place = "debate/round[1]/debate-turn-con/debate-debater-con"
        assert document["fork"] == {"parent": parent, "reused": 1, "edited": [place], "asked": 3}
    assert "con matches 2 answers: debate/round[1]/debate-turn-con/debate-debater-con, " in several.stderr
    assert judged["raw"]["verdict"]["winner"] == "cap rents"


def test_fork_id_can_be_chosen(store: Path) -> None:
    """Scripts can choose the id themselves instead of looking it up.

    An id that already exists is rejected before any call.
    """
    with Stage(turns=SAID) as on:
        run_command(*on.options(*SIDES, "--max-rounds", "1"))
        document = run_fork("--last", "--model", "synthesize=other", "--fork-id", "rents-2")
        calls = len(on.bodies)
        result = run_command("runs", "fork", "rents-2", "--model", "synthesize=third", "--fork-id", "rents-2")
        blank = run_command("runs", "fork", "rents-2", "--fork-id", " ")
        assert len(on.bodies) == calls
    assert document["runId"] == newest_run(store).header.run_id == "rents-2"
    assert (result.exit_code, blank.exit_code) == (2, 2)
    assert "Run rents-2 already exists. To continue it, add --resume.\n" in result.stderr
    assert "--fork-id must not be blank" in blank.stderr


def test_calls_from_a_given_step_on_are_repeated(store: Path) -> None:
    with Stage(turns=SAID) as on:
        run_command(*on.options(*SIDES, "--max-rounds", "2"))
        calls = len(on.bodies)
        result = run_command("runs", "fork", "--last", "--at", "round[2]/pro", "--quiet")
        assert len(on.bodies) == calls + 3
    assert result.exit_code == 0
    assert result.stdout.endswith(": 2 answers reused, 3 asked for\n")
    assert "Round 1" not in result.stdout


@pytest.mark.parametrize("verb", ALL)
def test_fork_without_changes_makes_no_calls(verb: str) -> None:
    with serve_stage() as on:
        run_command(*on.options(*ALL[verb][1], "--seed", "5", verb=verb))
        original = json.loads(run_command("show", "--last", "--page", "--json").stdout)
        calls = len(on.bodies)
        copy = run_fork("--last")
        assert len(on.bodies) == calls
    assert copy["fork"]["asked"] == 0
    assert copy["fork"]["reused"] == original["usage"]["calls"]
    different = {key for key in original if original[key] != copy[key]}
    assert different <= {"runId", "seconds", "usage", "raw"}
    if verb != "consensus":  # the document of a consensus debate contains timings
        assert original["raw"] == copy["raw"]


def test_any_plan_option_can_be_changed() -> None:
    """A fork with a different stop condition makes calls only for the additional rounds."""
    with Stage(turns=SAID) as on:
        run_command(*on.options(*SIDES, "--max-rounds", "3", "--terminate-when", "rounds(1)"))
        calls = len(on.bodies)
        longer = run_fork("--last", "--set", "terminate_when=rounds(2)")
        assert len(on.bodies) == calls + 3
        brief = run_fork(
            "--last", "--max-rounds", "2", "--set", "terminate_when=", "--set", 'instructions = "Be brief."'
        )
        limited = run_command("runs", "fork", "--last", "--max-rounds", "3", "--max-calls", "1")
        resumed = run_command("resume", "--last", "--max-calls", "99", "--json")
    assert longer["raw"]["rounds"] == brief["raw"]["rounds"] == 2
    assert (longer["fork"]["reused"], brief["fork"]["reused"]) == (2, 0)
    assert brief["raw"]["stopReason"] == "max_rounds"
    assert limited.exit_code == 3
    assert re.search(r"To resume: flowdebate resume \w{8} --max-calls N", limited.stderr)
    assert json.loads(resumed.stdout)["raw"]["rounds"] == 3
    assert json.loads(resumed.stdout)["fork"]["parent"]


def test_fork_uses_the_same_models_as_the_original_run(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork keeps the original models even if the environment now selects others."""
    with Stage(turns=SAID) as on:
        monkeypatch.setenv("OPENAI_BASE_URL", on.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("FLOWDEBATE_MODEL", "openai/staged")
        run_command("debate", "Cap rents?", *SIDES, "--max-rounds", "1", "--schedule", "single")
        monkeypatch.setenv("FLOWDEBATE_MODEL", "openai/ann-model")
        run_fork("--last", "--model", "synthesize=openai/other")
        assert [body["model"] for body in on.bodies] == ["staged", "staged", "staged", "other"]
        assert newest_run(store).header.model == {"chat": "openai/staged", "synthesize": "openai/other"}


def test_unforkable_runs_are_reported_in_one_message(store: Path) -> None:
    block = handler(_program_block, name="mine")
    asyncio.run(block.run("Cap rents?", store=store, run_id="my-run"))
    with Stage(turns=SAID) as on:
        run_command(*on.options(*SIDES, "--max-rounds", "1"))
        run_id, count = newest_run(store).header.run_id, len(on.bodies)
        cases: dict[tuple[str, ...], str] = {
            (): "Say which run: flowdebate runs fork RUN, or --last.",
            (run_id, "--last"): "A run ID cannot be combined with --last.",
            ("nobody",): "there is no run nobody",
            ("my-run",): "await block.fork('my-run') in Python",
            (run_id, "--say", "x"): "--say requires --at PLACE",
            (run_id, "--at", "judge", "--say", "not-there.txt"): "not-there.txt: cannot be read",
            (run_id, "--at", "ann"): "--at: the run has no answer at ann. Places with an answer: debate/round[1]/",
            (run_id, "--edit", "judge"): "--edit must be PLACE=TEXT (got judge)",
            (run_id, "--edit", "con= "): "text that is not blank",
            (run_id, "--edit", "judge=nonsense"): "a valid answer for the step",
            (run_id, "--set", "rounds"): "--set must be KEY=VALUE, where KEY is a plan file key (got rounds)",
            (run_id, "--set", "roundz=3"): "--set: unknown key `roundz`. Did you mean `",
            (run_id, "--set", "max_rounds=0"): "--set: `max_rounds` must be at least 1 (got 0)",
            (run_id, "--set", "question=Why?"): "`question` cannot be changed: a fork keeps its run's question",
            (run_id, "--max-rounds", "0"): "--max-rounds must be at least 1 (got 0)",
        }
        for arguments, words in cases.items():
            result = run_command("runs", "fork", *arguments)
            assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), arguments
            assert words in result.stderr, result.stderr
        assert len(on.bodies) == count
    assert len(use_store(store, lambda opened: opened.runs())) == 2


def test_fork_of_an_imported_run_contacts_no_server_without_consent(tmp_path: Path, store: Path) -> None:
    """With the user's consent, the fork reuses the recorded answers in the file."""
    with Stage(turns=SAID) as sender:
        run_id, file = export_forged_run(sender, tmp_path, answered=True)
        run_command("import", str(file))
        result = run_command("runs", "fork", run_id)
        assert (result.exit_code, sender.bodies) == (2, [])
        assert f"flowdebate runs fork {run_id} --trust-plan" in result.stderr
        document = run_fork(run_id, "--trust-plan", "--max-calls", "9")
        assert len(sender.bodies) == 2
    assert document["fork"] == {"parent": run_id, "reused": 1, "edited": [], "asked": 2}
    assert newest_run(store).header.foreign


async def _program_block(value: str) -> str:
    """Return text from a model, as a block in another program would."""
    return value
