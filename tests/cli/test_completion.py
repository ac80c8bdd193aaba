"""Shell completion, using the protocol of the installed scripts."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING

import pytest

from flowdebate import Debater, debate
from flowdebate.testing import ScriptedModel
from tests.warm import Warm

from .stage import COMMAND, PATIENCE, clean_environment

if TYPE_CHECKING:
    from pathlib import Path


def complete(shell: str, line: str) -> list[str]:
    """Return the completions that a shell offers for the last word of `line`, which is empty after a space."""
    words = line.split()
    position = len(words) if line.endswith(" ") else len(words) - 1
    variables = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(position)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    env = {**clean_environment(), **variables, "_FLOWDEBATE_COMPLETE": f"complete_{shell}"}
    return [line for line in run_completion(env=env).splitlines() if line]


def run_completion(*arguments: str, env: dict[str, str]) -> str:
    """Return the output of the command in this environment, after checking that stderr is empty."""
    with Warm(COMMAND, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        stdout, stderr = process.communicate(PATIENCE)
    assert stderr == b""
    return stdout.decode()


@pytest.mark.parametrize(
    ("shell", "line", "offered"),
    [
        ("bash", "flowdebate deb", ["debate"]),
        ("bash", "flowdebate debate --on-f", ["--on-flip", "--on-failure"]),
        ("bash", "flowdebate debate --on-flip a", ["average", "abstain"]),
        ("bash", "flowdebate debate --model op", ["openai/", "openrouter/"]),
        ("zsh", "flowdebate batch --pattern co", ["consensus", "council"]),
        ("fish", "flowdebate runs --status left", ["left_behind"]),
    ],
)
def test_commands_and_options_are_completed(shell: str, line: str, offered: list[str]) -> None:
    completions = "\n".join(complete(shell, line))
    assert all(word in completions for word in offered)
    assert "council" not in completions or "council" in offered


def test_run_ids_are_completed_with_their_questions(store: Path) -> None:
    """The newest runs in the store come first.

    If the shell supports descriptions, each id is shown with its question.
    """
    rent = debate(name="rent", debaters=[Debater("a", "cap"), Debater("b", "free")], max_rounds=1, synthesizer=False)
    model = ScriptedModel("one", "two", {"reasoning": "r", "winner": None, "verdict": "v"})
    result = asyncio.run(rent.run("Cap rents?", model=model, store=str(store)))
    assert complete("bash", "flowdebate show ") == [result.run_id[:8]]
    assert complete("fish", "flowdebate resume ") == [f"{result.run_id[:8]}\tCap rents?"]
    assert complete("bash", "flowdebate show zzzz") == []


@pytest.mark.parametrize("store", ["postgresql://nobody@127.0.0.1:9/none", "/proc/no/such.sqlite3"])
def test_unreadable_store_gives_no_completions(store: str) -> None:
    """Printing an error message would insert it into the line that the user is typing."""
    assert complete("bash", f"flowdebate show --store {store} ") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_for_each_shell_is_printed(shell: str) -> None:
    env = {**clean_environment(), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert f"_FLOWDEBATE_COMPLETE=complete_{shell}" in run_completion("--show-completion", shell, env=env)
