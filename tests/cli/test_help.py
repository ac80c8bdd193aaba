"""Help output of the command: panels, one-sentence summaries, and a hint for a question without a command."""

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
GROUPS = ("flowdebate", "runs", "eval")
DOCS = Path(__file__).parents[2] / "docs"
TITLES = {page.read_text("utf-8").partition("\n")[0].removeprefix("# ") for page in DOCS.glob("*.md")}
"""Titles of the documentation pages."""
MAX_TITLE_LENGTH = 65
"""Maximum length of a summary that fits beside the name on an 80-column line."""


def test_help_lists_at_most_twelve_commands_and_the_other_patterns() -> None:
    listed = CliRunner().invoke(app, ["--help"], terminal_width=80).stdout
    commands = listed[listed.index("Commands:\n") + 10 : listed.index("\n\n", listed.index("Commands:"))].splitlines()
    assert len(commands) <= 12
    assert all(re.fullmatch(r"  [a-z]+ +[A-Z].*\.", line) for line in commands)
    names = {line.split()[0] for line in commands}
    patterns = set(re.search(r"^Other patterns: (.+)$", listed, re.MULTILINE)[1].split(", "))  # type: ignore[index]
    assert {info.verb for info in PATTERNS.values()} <= names | patterns
    assert not names & patterns
    assert names | patterns | {"batch", "demo", "show", "export", "import"} == set(get_command(app).commands)  # type: ignore[attr-defined]  # a group


@pytest.mark.parametrize("group", ["runs", "eval"])
def test_group_help_summarizes_each_command(group: str) -> None:
    """Commands that are loaded lazily are summarized as well."""
    listed = CliRunner().invoke(app, [group, "--help"], terminal_width=80).stdout
    for name in get_command(app).commands[group].commands:  # type: ignore[attr-defined]  # a group
        assert re.search(rf"^  {name} +[A-Z]", listed, re.MULTILINE)
    assert "..." not in listed


@pytest.mark.parametrize("command", ["show", "export", "import"])
def test_three_run_commands_also_work_without_their_group(command: str) -> None:
    short, full = (CliRunner().invoke(app, [*words, command, "--help"]).stdout for words in ([], ["runs"]))
    assert short == full


def test_moved_or_misspelled_command_gets_a_suggestion() -> None:
    for typed, suggestion in {
        "fork": "flowdebate runs fork",
        "audit": "flowdebate eval audit",
        "debte": "debate",
        "runs shwo": "show",
    }.items():
        result = CliRunner().invoke(app, typed.split())
        assert (result.exit_code, f"Did you mean {suggestion}?" in result.stderr) == (2, True)


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern_help_begins_with_a_one_line_summary(name: str) -> None:
    """The list of commands shows the same one-line summary."""
    sentence, dot, _ = PATTERNS[name].help.partition(". ")
    assert dot
    assert len(sentence) <= MAX_TITLE_LENGTH


def split_words(command: str) -> list[str]:
    """Return the words of a command line after the program name."""
    top: Any = get_command(app)
    if command == "flowdebate":
        return []
    group = next((name for name in ("runs", "eval") if command in top.commands[name].commands), None)
    return [command] if group is None else [group, command]


def list_panels(page: str) -> list[str]:
    """Return the panel titles of a help page."""
    return [line for line in page.splitlines() if line.endswith(":") and line[0] != " "]


def test_options_are_listed_in_panels() -> None:
    listed = CliRunner().invoke(app, ["debate", "--help"]).stdout
    panels = ["Sides:", "Rounds:", "Judge:", "Model:", "Prompts:", "Limits:", "Storage:", "Output:", "Options:"]
    assert list_panels(listed) == ["Usage:", "Arguments:", *panels, "More examples:"]


@pytest.mark.parametrize("name", PATTERNS)
def test_every_option_of_a_pattern_has_a_panel(name: str) -> None:
    """An option without a panel would be listed among unrelated options at the end of the help."""
    options = PATTERNS[name].load_page().options
    offered = [key for key in options.names() if key not in (options.SUBJECT, "seed", "weights")]
    assert [key for key in offered if option_of(options, key).panel is None] == []


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("command", list(EXAMPLES))
def test_no_line_of_help_is_wider_than_the_terminal(command: str, columns: int) -> None:
    arguments = [*split_words(command), "--help"]
    page = CliRunner().invoke(app, arguments, terminal_width=columns).stdout
    assert max(map(len, page.splitlines())) <= columns
    assert "..." not in page


def list_usage_forms(page: str, heading: str) -> list[list[str]]:
    """Return the command lines below a heading, split as a shell splits them."""
    if f"{heading}:\n" not in page:
        return []
    start = page.index(f"{heading}:\n") + len(heading) + 2
    return [shlex.split(line) for line in page[start : page.index("\n\n", start)].replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("command", list(EXAMPLES))
def test_every_help_page_begins_with_two_usage_forms(command: str) -> None:
    for columns in (60, 100):
        page = CliRunner().invoke(app, [*split_words(command), "--help"], terminal_width=columns).stdout
        forms, more = list_usage_forms(page, "Usage"), list_usage_forms(page, "More examples")
        assert page.startswith("Usage:\n")
        assert len(forms) == 2
        assert forms + more == [shlex.split(example) for example in EXAMPLES[command]]


@pytest.mark.parametrize("command", [name for name in EXAMPLES if name not in GROUPS])
def test_every_help_page_ends_with_exit_codes_and_a_documentation_page(command: str) -> None:
    page = CliRunner().invoke(app, [*split_words(command), "--help"]).stdout
    assert "Exit codes: 0 done" in page
    title = re.search(r"See .*?page “(.+?)” of the documentation\Z", " ".join(page.split()))
    assert title is not None
    assert title[1] in TITLES


def test_every_command_has_usage_forms() -> None:
    top: Any = get_command(app)
    names = {*top.commands, *(name for group in ("runs", "eval") for name in top.commands[group].commands)}
    assert names | {"flowdebate"} == set(EXAMPLES)


@pytest.mark.parametrize("example", [example for examples in EXAMPLES.values() for example in examples])
def test_examples_are_accepted_by_the_parser(example: str) -> None:
    command: Any = get_command(app)
    arguments = shlex.split(example.partition(" > ")[0], comments=True)[1:]
    while arguments and hasattr(command, "commands"):
        name, *arguments = arguments if arguments[0] in command.commands else ["list", *arguments]
        command = command.commands[name]
    if hasattr(command, "commands"):
        command = command.commands["list"]
    assert command.make_context(command.name, list(arguments), resilient_parsing=False).args == []


def test_width_and_colors_are_global_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Global options precede the subcommand and apply to a single invocation."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "77")
    settings: dict[str, str | None] = {}
    monkeypatch.setattr(
        "flowdebate.cli.models._show",
        lambda *_: settings.update({name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR")}),
    )
    CliRunner().invoke(app, ["--no-color", "--width", "44", "models"], catch_exceptions=False)
    assert settings == {"COLUMNS": "44", "NO_COLOR": "1"}
    assert (os.environ["COLUMNS"], os.environ.get("NO_COLOR")) == ("77", None)
    assert CliRunner().invoke(app, ["--width", "3", "runs"]).exit_code == 2


def test_question_without_a_command_suggests_the_command() -> None:
    result = CliRunner().invoke(app, ["Should we cap rents?"])
    assert result.exit_code == 2
    assert 'flowdebate debate "…"' in result.stderr


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["runs", "--help"], ["runs", "show", "--help"]], ids=" ".join
)
def test_help_and_version_load_no_pattern(arguments: list[str]) -> None:
    """Patterns are listed from the registry. Their options, pages and plans are loaded only on demand."""
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from flowdebate.cli.app import app\n"
        f"assert CliRunner().invoke(app, {arguments}).exit_code == 0\n"
        "heavy = ('flowdebate.patterns.debate.page', 'flowdebate.ui.plan', 'flowdebate.service.runs')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True, check=True)  # noqa: S603 - our own code
    assert process.stdout == "[]\n"


def test_help_for_a_pattern_command_is_complete() -> None:
    """The text, the argument and the options are shown although they are loaded lazily."""
    help_page = " ".join(CliRunner().invoke(app, ["consensus", "--help"]).stdout.split())
    assert PATTERNS["consensus"].help in help_page
    assert "Arguments: TASK" in help_page
    assert "--[no-]tie-break" in help_page
