"""Help of the command: panels, first sentences, and a hint for a question without a command."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.cli.help import EXAMPLES as OF_COMMANDS
from flowdebate.patterns import PATTERNS
from flowdebate.ui.options import option_of

EXAMPLES = {**{info.verb: info.load_page().examples for info in PATTERNS.values()}, **OF_COMMANDS}
COMMANDS = ["", *EXAMPLES]
DOCS = Path(__file__).parents[2] / "docs"
TITLES = {page.read_text("utf-8").partition("\n")[0].removeprefix("# ") for page in DOCS.glob("*.md")}
"""Of the pages of the documentation."""
LONGEST = 65
"""Characters of a first sentence that stand on one line of a terminal with 80 columns, beside the name."""


def test_commands_are_listed_in_panels_with_whole_sentences() -> None:
    """No sentence is cut off, and every pattern is in the panel of the patterns."""
    listed = CliRunner().invoke(app, ["--help"]).stdout
    patterns = listed[listed.index("Patterns:") : listed.index("Runs:")]
    assert "..." not in listed[listed.index("Patterns:") :]
    assert listed.index("Runs:") < listed.index("Batch and evaluation:")
    assert all(f"\n  {info.verb} " in patterns for info in PATTERNS.values())


@pytest.mark.parametrize("name", PATTERNS)
def test_the_help_of_a_pattern_begins_with_a_sentence_for_one_line(name: str) -> None:
    """The list of commands shows it."""
    sentence, dot, _ = PATTERNS[name].help.partition(". ")
    assert dot
    assert len(sentence) <= LONGEST


def headings(page: str) -> list[str]:
    """The titles of a help page's panels."""
    return [line for line in page.splitlines() if line.endswith(":") and line[0] != " "]


def test_options_are_listed_in_panels() -> None:
    """By what they are for, those of the pattern before the shared ones, the plain ones last; then examples."""
    listed = CliRunner().invoke(app, ["debate", "--help"]).stdout
    panels = ["Sides:", "Rounds:", "Judge:", "Model:", "Prompts:", "Limits:", "Storage:", "Output:", "Options:"]
    assert headings(listed) == ["Arguments:", *panels, "Examples:"]


@pytest.mark.parametrize("name", PATTERNS)
def test_every_option_of_a_pattern_has_a_panel(name: str) -> None:
    """One that is declared without would be listed between file and seed."""
    options = PATTERNS[name].load_page().options
    offered = [key for key in options.names() if key not in (options.SUBJECT, "seed", "weights")]
    assert [key for key in offered if option_of(options, key).panel is None] == []


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_of_help_is_wider_than_the_terminal(command: str, columns: int) -> None:
    """Nothing is cut off either; descriptions are broken between words."""
    arguments = [command, "--help"] if command else ["--help"]
    page = CliRunner().invoke(app, arguments, terminal_width=columns).stdout
    assert max(map(len, page.splitlines())) <= columns
    assert "..." not in page.split("\n", 1)[1]


@pytest.mark.parametrize("command", list(EXAMPLES))
def test_every_help_page_ends_with_examples_exit_codes_and_a_pointer(command: str) -> None:
    """The examples are commands that the parser accepts, in whatever width they are shown."""
    for columns in (60, 100):
        page = CliRunner().invoke(app, [command, "--help"], terminal_width=columns).stdout
        about = page[page.index("Examples:\n") + 10 : page.index("\n\n", page.index("Examples:"))]
        lines = [shlex.split(line) for line in about.replace("\\\n", " ").splitlines()]
        assert lines == [shlex.split(each) for each in EXAMPLES[command]]
    assert "Exit codes: 0 done" in page
    title = re.search(r"Documentation: .*?page “(.+?)” of the documentation\Z", " ".join(page.split()))
    assert title is not None
    assert title[1] in TITLES


@pytest.mark.parametrize("example", [each for examples in EXAMPLES.values() for each in examples])
def test_examples_are_accepted_by_the_parser(example: str) -> None:
    """No option of an example is unknown, and none lacks its value."""
    command: Any = get_command(app)
    name, *arguments = shlex.split(example.partition(" > ")[0], comments=True)[1:]
    parsed = command.commands[name].make_context(name, list(arguments), resilient_parsing=False)
    assert parsed.args == []


def test_width_and_colours_are_options_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the name of the subcommand; they hold for this one call."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "77")
    seen: dict[str, str | None] = {}
    monkeypatch.setattr(
        "flowdebate.cli.models._show",
        lambda *_: seen.update({name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR")}),
    )
    CliRunner().invoke(app, ["--no-color", "--width", "44", "models"], catch_exceptions=False)
    assert seen == {"COLUMNS": "44", "NO_COLOR": "1"}
    assert (os.environ["COLUMNS"], os.environ.get("NO_COLOR")) == ("77", None)
    assert CliRunner().invoke(app, ["--width", "3", "runs"]).exit_code == 2


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
        "heavy = ('flowdebate.patterns.debate.page', 'flowdebate.ui.plan', 'flowdebate.service.runs')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True, check=True)  # noqa: S603 - our own code
    assert done.stdout == "[]\n"


def test_the_help_of_a_pattern_s_command_is_whole() -> None:
    """Its text, its argument and its own options, although they are loaded late."""
    shown = " ".join(CliRunner().invoke(app, ["consensus", "--help"]).stdout.split())
    assert PATTERNS["consensus"].help in shown
    assert "Usage: flowdebate consensus [OPTIONS] [TASK]" in shown.replace("Usage: root", "Usage: flowdebate")
    assert "--[no-]tie-break" in shown
