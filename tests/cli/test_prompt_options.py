"""`--profile`, `--length` and `--instructions`, as options and in plan files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.chassis.roles import INSTRUCTIONS

from .stage import Stage
from .test_run import SIDES, run_command

if TYPE_CHECKING:
    from pathlib import Path


def read_prompts(*options: str) -> list[str]:
    """Return the system messages from one debate run with the command."""
    with Stage() as stage:
        result = run_command(stage, *SIDES, "--max-rounds", "1", *options)
    assert result.exit_code == 0, result.stderr
    return [str(body["messages"][0]["content"]) for body in stage.bodies]


def test_profile_length_and_instructions_reach_the_prompts(tmp_path: Path) -> None:
    full = read_prompts()
    assert "two to four paragraphs" in full[0]
    assert "two or three short sentences" in read_prompts("--profile", "concise", "--answer-form", "winner")[0]
    texts = read_prompts("--length", "120", "--instructions", "Answer in German.")
    assert "about 120 words" in texts[0]
    assert len(texts) == len(full)
    assert all(prompt.endswith(f"{INSTRUCTIONS}\nAnswer in German.") for prompt in texts)
    file = tmp_path / "debate.toml"
    file.write_text('profile = "full"\nlength = 120\ninstructions = "Answer in German."\nschedule = "single"\n')
    assert read_prompts("--file", str(file)) == texts
    assert "five to eight paragraphs" in read_prompts("--file", str(file), "--length", "long")[0]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--length", "5"), "--length must be short, medium, long, or a number of words from 10 to 2,000 (got 5)"),
        (("--length", "tiny"), "--length must be short, medium, long, or a number of words"),
        (("--profile", "small"), "small"),
    ],
)
def test_error_for_an_invalid_choice_names_the_option(options: tuple[str, ...], problem: Any) -> None:
    with Stage() as stage:
        result = run_command(stage, *SIDES, *options)
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.split())
    assert stage.bodies == []
