"""Help pages in plain text: panels of options, examples that can be pasted, and the exit codes."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, get_args

from typer.core import TyperCommand, TyperGroup

from flowdebate._util.documentation import cite
from flowdebate.patterns import find_pattern
from flowdebate.ui.options import Panel

if TYPE_CHECKING:  # typer's copy of click is private; type checkers need its names alone
    from typer._click import Command as ClickCommand
    from typer._click import Context, HelpFormatter

_WHOLE = 200
"""Characters of a first sentence that the list of commands shows."""
_TOKEN = re.compile(r"""(?:--?[\w-]+ (?!-))?(?:[^\s"']*"[^"]*"|[^\s"']*'[^']*'|\S+)""")
"""A word of a command line, behind its option; text in quotes is one."""
_ORDER = ("Arguments", *get_args(Panel), "Options")

_RUN_CODES = (
    "Ctrl-C ends the run; `flowdebate resume` continues it. Exit codes: 0 done, 1 failed, 2 misused, 3 no result "
    "(a limit was reached, or there is no verdict), 130 interrupted, 143 terminated."
)
EXIT_CODES = {
    "batch": "After Ctrl-C, a crash or a failure, the same command continues: no recorded answer is paid for twice. "
    "Exit codes: 0 done, 1 some failed, 2 misused, 3 some have no result, 130 interrupted, 143 terminated.",
    "evaluate": "The same command again continues where it stopped. Exit codes: 0 done, 1 some failed, 2 misused, "
    "3 nothing to compare or not all done, 130 interrupted, 143 terminated.",
    "audit": "Exit codes: 0 done, 1 some debates could not be judged again, 2 misused, 3 there is no ballot to audit, "
    "130 interrupted, 143 terminated.",
    "leaderboard": "Exit codes: 0 done, 2 misused, 3 there is nothing to rank.",
    "serve": "Ctrl-C ends it. Exit codes: 0 done, 2 misused, 130 interrupted, 143 terminated.",
    "mcp": "Exit codes: 0 done (the host has left), 1 failed, 2 misused, 130 interrupted, 143 terminated.",
    "demo": "Exit codes: 0 done, 2 misused, 130 interrupted, 143 terminated.",
    "models": "Exit codes: 0 done, 1 a model does not answer, or fails in a role, 2 misused, 3 no model is set up, "
    "130 interrupted, 143 terminated.",
    "watch": "Exit codes: 0 done, 1 failed, 2 misused, 3 the run has no result, or waits for an answer, "
    "130 interrupted, 143 terminated.",
    **dict.fromkeys(
        ("runs", "show", "share", "delete", "export", "import", "render", "archive", "queue"),
        "Exit codes: 0 done, 1 failed, 2 misused.",
    ),
}
"""Exit codes of commands; those that run a pattern have the same."""

EXAMPLES = {
    "run": (
        "flowdebate run debate.toml",
        "flowdebate run debate.toml --model openai/gpt-5-mini --markdown report.md",
    ),
    "batch": (
        "flowdebate batch questions.csv --out results.csv",
        "flowdebate batch questions.jsonl --pattern council --max-concurrency 4 --max-total-tokens 200000",
    ),
    "resume": ("flowdebate resume --last", "flowdebate resume 3f2a91c0 --max-calls 40"),
    "answer": (
        'flowdebate answer 3f2a91c0 "Rents rise because too little is built."',
        'flowdebate answer 3f2a91c0 --json \'{"winner": "pro"}\' --later',
    ),
    "fork": (
        "flowdebate fork 3f2a91c0 --model judge=openai/gpt-5",
        "flowdebate fork 3f2a91c0 --at round[2]/con --say reply.txt",
        "flowdebate fork --last --set schedule=swap",
    ),
    "watch": ("flowdebate watch 3f2a91c0", "flowdebate watch --last --json"),
    "runs": (
        "flowdebate runs",
        "flowdebate runs --status interrupted --text rents",
        "flowdebate runs --before 3f2a91c0",
    ),
    "show": ("flowdebate show 3f2a91c0 --page", "flowdebate show --last --json"),
    "report": ("flowdebate report 3f2a91c0 --html report.html", "flowdebate report --last --markdown report.md"),
    "verify": ("flowdebate verify report.html", "flowdebate verify runs.jsonl --json"),
    "share": ("flowdebate share --last", "flowdebate share 3f2a91c0 --vote --url https://debates.example"),
    "delete": ("flowdebate delete 3f2a91c0", "flowdebate delete --older-than 30 --status complete"),
    "export": ("flowdebate export --all --out runs.jsonl", "flowdebate export 3f2a91c0 > run.jsonl"),
    "import": ("flowdebate import runs.jsonl --store other.sqlite3",),
    "render": ("flowdebate render debate.json", "flowdebate render debate.json --markdown report.md"),
    "evaluate": (
        "flowdebate evaluate quiz.csv --truth answer --choices a --choices b",
        "flowdebate evaluate quiz.jsonl --limit 20 --out debates.jsonl --json",
    ),
    "archive": ("flowdebate archive", "flowdebate archive outcome 3f2a91c0 --right Maker"),
    "serve": (
        "flowdebate serve --model openai/gpt-5-mini --max-calls 60 --open",
        "flowdebate serve --app my_debates:service --token-file token",
    ),
    "mcp": (
        "flowdebate mcp --model openai/gpt-5-mini --max-calls 60",
        "flowdebate mcp --app my_debates:service",
        "flowdebate mcp --http --port 8378",
    ),
    "queue": ("flowdebate queue fleet:workers", "flowdebate queue fleet:workers resume --status failed"),
    "models": (
        "flowdebate models",
        "flowdebate models check openai/gpt-5-mini --record check.jsonl",
        "flowdebate models check openai/gpt-5-mini local --quick",
    ),
    "demo": ("flowdebate demo", "flowdebate demo --speed 3", "flowdebate demo --page"),
    "audit": ("flowdebate audit", "flowdebate audit --rejudge --schedule full --repeat 3"),
    "leaderboard": ("flowdebate leaderboard", "flowdebate leaderboard --format markdown > leaderboard.md"),
}
"""Examples by command; those of a pattern's command are on its page."""
_DOCUMENTATION = {
    "batch": "batch", "evaluate": "evaluate", "study": "evaluate#a-study", "audit": "judges",
    "leaderboard": "judges",
    "answer": "humans", "resume": "durable", "models": "models", "mcp": "mcp",
    "serve": "http", "fork": "durable", "share": "page",
    "archive": "consensus#the-archive", "queue": "workers",
}  # fmt: skip


class Commands(TyperGroup):
    """Group of commands, each listed in its panel with the first sentence of its help."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, ClickCommand | None, list[str]]:
        if args and " " in args[0].strip():  # no command has a space: it is a question
            ctx.fail(f'No such command {args[0]!r}. To debate a question: flowdebate debate "…"')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None:
                panel = getattr(command, "rich_help_panel", None)
                panels.setdefault(_title(panel, "Commands"), []).append((name, command.get_short_help_str(_WHOLE)))
        longest = max(len(name) for rows in panels.values() for name, _ in rows)
        _write(
            {panel: [(name.ljust(longest), text) for name, text in rows] for panel, rows in panels.items()}, formatter
        )

    def format_epilog(self, _: Context, formatter: HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text(f"The options of a command: flowdebate COMMAND --help. Documentation: {cite('cli')}")


BARE = {"--diff": "HEAD"}
"""Options that may stand without a value, and what they mean then."""


class Command(TyperCommand):
    """Command whose options are listed in panels, with examples and exit codes at the end."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        known = {flag for parameter in self.get_params(ctx) for flag in parameter.opts}
        for at in reversed(range(len(args))):
            behind = args[at + 1 : at + 2]
            # no commit has a space in its name: that is a question
            if args[at] in known & BARE.keys() and not (behind and behind[0][:1] != "-" and " " not in behind[0]):
                args.insert(at + 1, BARE[args[at]])
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                name, text = record
                if not name.startswith("-"):
                    name = name.partition(" <")[0]  # typer puts the type of an argument behind it
                first, slash, second = name.partition(" / --no-")
                if slash and first == f"--{second}":  # click writes a switch twice, which takes half of the width
                    name = f"--[no-]{second}"
                panel = getattr(parameter, "rich_help_panel", None)
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panels.setdefault(_title(panel, default), []).append((name, text))
        _write(dict(sorted(panels.items(), key=lambda item: _ORDER.index(item[0]))), formatter)

    def format_epilog(self, _: Context, formatter: HelpFormatter) -> None:
        name = self.name or ""
        examples, docs = EXAMPLES.get(name), _DOCUMENTATION.get(name, "cli")
        note = ""
        if (info := find_pattern(name)) is not None and name == info.verb:
            page = info.load_page()
            examples, docs, note = page.examples, page.docs, page.exit_note
        if examples:
            with formatter.section("Examples"):
                for line in examples:
                    formatter.write("".join(f"{each}\n" for each in _pasted(line, formatter)))
        formatter.write_paragraph()
        codes = EXIT_CODES.get(name, _RUN_CODES)
        formatter.write_text(codes.replace("130 ", f"{note}, 130 ") if note else codes)
        formatter.write_paragraph()
        formatter.write_text(f"Documentation: {cite(docs)}")


def _title(panel: object, default: str) -> str:
    """The panel's title; typer has a placeholder in place of None."""
    return panel if isinstance(panel, str) else default


def _pasted(line: str, formatter: HelpFormatter) -> list[str]:
    """An example in the width of the page, which a shell reads as one line."""
    indent = " " * formatter.current_indent
    words, sign = _TOKEN.findall(line), "\0"
    joined = " ".join(word.replace(" ", sign) for word in words)
    room = max(formatter.width - formatter.current_indent - 2, 20)
    lines = textwrap.wrap(joined, room, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    ended = [f"{each} \\" for each in lines[:-1]] + lines[-1:]
    return [indent + each.replace(sign, " ") for each in ended]


def _write(panels: dict[str, list[tuple[str, str]]], formatter: HelpFormatter) -> None:
    for panel, rows in panels.items():
        with formatter.section(panel):
            formatter.write_dl(rows)
