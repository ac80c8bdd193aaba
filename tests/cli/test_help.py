"""Help of the command: panels, first sentences, and a hint for a question without a command."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.patterns import PATTERNS

LONGEST = 65
"""Characters of a first sentence that stand on one line of a terminal with 80 columns, beside the name."""


def test_commands_are_listed_in_panels_with_whole_sentences() -> None:
    """No sentence is cut off, and every pattern is in the panel of the patterns."""
    listed = CliRunner().invoke(app, ["--help"]).stdout
    patterns = listed[listed.index("Patterns:") : listed.index("Runs:")]
    assert "..." not in listed[listed.index("Patterns:") :]
    assert listed.index("Runs:") < listed.index("Evaluation:")
    assert all(f"\n  {info.verb} " in patterns for info in PATTERNS.values())


@pytest.mark.parametrize("name", PATTERNS)
def test_the_help_of_a_pattern_begins_with_a_sentence_for_one_line(name: str) -> None:
    """The list of commands shows it."""
    sentence, dot, _ = PATTERNS[name].help.partition(". ")
    assert dot
    assert len(sentence) <= LONGEST


def test_options_are_listed_in_panels() -> None:
    """Shared options stand behind those of the pattern, by what they are for."""
    listed = CliRunner().invoke(app, ["debate", "--help"]).stdout
    panels = ["Arguments:", "Options:", "Models:", "Limits:", "Storage:", "Output:"]
    assert [line for line in listed.splitlines() if line.endswith(":") and line[0] != " "] == panels


def test_a_question_without_a_command_is_answered_with_the_command() -> None:
    """The error names the command that debates it."""
    result = CliRunner().invoke(app, ["Should we cap rents?"])
    assert result.exit_code == 2
    assert 'flowdebate debate "…"' in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["runs", "--help"]], ids=" ".join)
def test_help_and_version_load_no_pattern(arguments: list[str]) -> None:
    """Patterns are listed from the registry; their options, pages and plans are loaded where they are used."""
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from flowdebate.cli.app import app\n"
        f"assert CliRunner().invoke(app, {arguments}).exit_code == 0\n"
        "heavy = ('flowdebate.service.pages', 'flowdebate.service.plan', 'flowdebate.service.runs')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert done.stdout == "[]\n"


def test_the_help_of_a_pattern_s_command_is_whole() -> None:
    """Its text, its argument and its own options, although they are loaded late."""
    shown = " ".join(CliRunner().invoke(app, ["consensus", "--help"]).stdout.split())
    assert PATTERNS["consensus"].help in shown
    assert "Usage: flowdebate consensus [OPTIONS] [TASK]" in shown.replace("Usage: root", "Usage: flowdebate")
    assert "--tie-break / --no-tie-break" in shown
