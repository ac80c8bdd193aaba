"""Help pages in plain text: common usage, option panels, more examples, and exit codes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from flowdebate._text import did_you_mean
from flowdebate._util.documentation import cite
from flowdebate.patterns import PATTERNS, find_pattern

if TYPE_CHECKING:  # typer's copy of click is private, and only type checkers need its names
    from typer._click import Command as ClickCommand
    from typer._click import Context, HelpFormatter
    from typer._click import Parameter as ClickParameter

    from flowdebate.ui.page import PatternPage

_WHOLE = 200
"""Maximum length, in characters, of a command's first sentence in the list of commands."""
_TOKEN = re.compile(r"""(?:--?[\w-]+ (?!-))?(?:[^\s"']*"[^"]*"|[^\s"']*'[^']*'|\S+)""")
"""Pattern for one word of a command line, or an option and its value; quoted text counts as one word."""
PROGRAM = "flowdebate"
GROUPS = ("runs", "eval")
_LISTED = ("compare", "run", "resume", "serve", "mcp", "models", "eval", "runs")
"""Commands listed by `flowdebate --help` after the patterns; the whole list has at most twelve entries."""
_DEFAULT_OF_RUNS = "list"
_FORMS = 2
"""Number of usage examples shown at the top of a command's help."""

_RUN_CODES = (
    "Ctrl-C ends the run; `flowdebate resume` continues it. Exit codes: 0 done, 1 failed, 2 usage "
    "error, 3 no result (a limit was reached, or there is no verdict), 130 interrupted, 143 terminated."
)
EXIT_CODES = {
    "batch": "After Ctrl-C, a crash or a failure, the same command continues: no recorded answer is paid for "
    "twice. Exit codes: 0 done, 1 some failed, 2 usage error, 3 some have no result, 130 interrupted, "
    "143 terminated.",
    "benefit": "Repeat the command to continue where it stopped. Exit codes: 0 done, 1 some failed, 2 usage "
    "error, 3 nothing to compare or not all done, 130 interrupted, 143 terminated.",
    "audit": "Exit codes: 0 done, 1 some debates could not be judged again, 2 usage error, 3 there is no ballot "
    "to audit, 130 interrupted, 143 terminated.",
    "compare": "Repeat the command to continue where it stopped. Exit codes: 0 done, 1 some rows failed, "
    "2 usage error, 130 interrupted, 143 terminated.",
    "critic": "Repeat the command to continue where it stopped. Exit codes: 0 done, 2 usage error, "
    "3 some answers have no decision, 130 interrupted, 143 terminated.",
    "study": "Repeat the command to continue where it stopped. Exit codes: 0 done, 2 usage error, "
    "3 answers are missing, 130 interrupted, 143 terminated.",
    "verify": "Exit codes: 0 done, 1 a report does not match its journal, 2 usage error, 3 unknown.",
    "leaderboard": "Exit codes: 0 done, 2 usage error, 3 there is nothing to rank.",
    "serve": "Ctrl-C stops it. Exit codes: 0 done, 2 usage error, 130 interrupted, 143 terminated.",
    "mcp": "Exit codes: 0 done (the host disconnected), 1 failed, 2 usage error, 130 interrupted, 143 terminated.",
    "demo": "Exit codes: 0 done, 2 usage error, 130 interrupted, 143 terminated.",
    "models": "Exit codes: 0 done, 1 a model does not answer, or fails in a role, 2 usage error, 3 no model is "
    "set up, 130 interrupted, 143 terminated.",
    "watch": "Exit codes: 0 done, 1 failed, 2 usage error, 3 the run has no result, or waits for an answer, 130 "
    "interrupted, 143 terminated.",
    **dict.fromkeys(
        ("list", "show", "report", "share", "delete", "export", "import", "render", "archive", "queue"),
        "Exit codes: 0 done, 1 failed, 2 usage error.",
    ),
}
"""Exit codes, keyed by command; all commands that run a pattern share an entry."""

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
        'flowdebate runs answer 3f2a91c0 "Rents rise because too little is built."',
        'flowdebate runs answer 3f2a91c0 --json \'{"winner": "pro"}\' --later',
    ),
    "fork": (
        "flowdebate runs fork 3f2a91c0 --model judge=openai/gpt-5",
        "flowdebate runs fork 3f2a91c0 --at round[2]/con --say reply.txt",
        "flowdebate runs fork --last --set schedule=swap",
    ),
    "watch": ("flowdebate runs watch 3f2a91c0", "flowdebate runs watch --last --json"),
    "flowdebate": (
        'flowdebate debate "Should private cars be banned from city centers?"',
        "flowdebate review --diff main..HEAD",
    ),
    "runs": ("flowdebate runs", "flowdebate runs show 3f2a91c0"),
    "eval": ("flowdebate eval benefit quiz.csv --truth answer", "flowdebate eval leaderboard"),
    "list": (
        "flowdebate runs",
        "flowdebate runs --status interrupted --text rents",
        "flowdebate runs --before 3f2a91c0",
    ),
    "show": ("flowdebate show 3f2a91c0 --page", "flowdebate show --last --json"),
    "report": (
        "flowdebate runs report 3f2a91c0 --html report.html",
        "flowdebate runs report --last --markdown report.md",
    ),
    "verify": ("flowdebate runs verify report.html", "flowdebate runs verify runs.jsonl --json"),
    "share": ("flowdebate runs share --last", "flowdebate runs share 3f2a91c0 --vote --url https://debates.example"),
    "delete": ("flowdebate runs delete 3f2a91c0", "flowdebate runs delete --older-than 30 --status complete"),
    "export": ("flowdebate export --all --out runs.jsonl", "flowdebate export 3f2a91c0 > run.jsonl"),
    "import": ("flowdebate import runs.jsonl", "flowdebate import runs.jsonl --store other.sqlite3"),
    "compare": (
        'flowdebate compare --question "Why is the sky blue?" one.txt two.txt',
        "flowdebate compare answers.csv --truth better --format markdown",
    ),
    "study": ("flowdebate eval study study.toml", "flowdebate eval study register study.toml"),
    "render": ("flowdebate runs render debate.json", "flowdebate runs render debate.json --markdown report.md"),
    "benefit": (
        "flowdebate eval benefit quiz.csv --truth answer --choices a --choices b",
        "flowdebate eval benefit quiz.jsonl --limit 20 --out debates.jsonl --json",
    ),
    "archive": ("flowdebate runs archive", "flowdebate runs archive outcome 3f2a91c0 --right Maker"),
    "serve": (
        "flowdebate serve --model openai/gpt-5-mini --max-calls 60 --open",
        "flowdebate serve --app my_debates:service --token-file token",
    ),
    "mcp": (
        "flowdebate mcp --model openai/gpt-5-mini --max-calls 60",
        "flowdebate mcp --app my_debates:service",
        "flowdebate mcp --http --port 8378",
    ),
    "queue": ("flowdebate runs queue fleet:workers", "flowdebate runs queue fleet:workers resume --status failed"),
    "models": (
        "flowdebate models",
        "flowdebate models check openai/gpt-5-mini --record check.jsonl",
        "flowdebate models check openai/gpt-5-mini local --quick",
    ),
    "demo": ("flowdebate demo", "flowdebate demo --speed 3", "flowdebate demo --page"),
    "critic": (
        "flowdebate eval critic answers.jsonl",
        "flowdebate eval critic answers.csv --truth correct --model critic=openai/gpt-5 --model judge=local",
    ),
    "audit": ("flowdebate eval audit", "flowdebate eval audit --rejudge --schedule full --repeat 3"),
    "leaderboard": ("flowdebate eval leaderboard", "flowdebate eval leaderboard --format markdown > leaderboard.md"),
}
"""Examples, keyed by command; each pattern's help page shows the examples for its command."""
_DOCUMENTATION = {
    "batch": "batch", "benefit": "evaluate", "study": "evaluate#a-study", "critic": "critique", "audit": "judges",
    "leaderboard": "judges",
    "answer": "humans", "resume": "durable", "models": "models", "mcp": "mcp",
    "serve": "http", "fork": "durable", "share": "page",
    "archive": "consensus#the-archive", "queue": "workers",
}  # fmt: skip


class Group(TyperGroup):
    """Command group whose help starts with the two most common usages and describes each command in one sentence."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        with explain_error(ctx, args, self.get_params(ctx)):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, ClickCommand | None, list[str]]:
        if args and args[0] not in self.commands:
            ctx.fail(self.unknown_command(args[0]))
        return super().resolve_command(ctx, args)

    def unknown_command(self, name: str) -> str:
        """Return the error message for an unknown command."""
        return f"unknown command {name}. {did_you_mean(name, self.commands)}".rstrip()

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        _write_forms(EXAMPLES[self.name or PROGRAM], formatter)
        self.format_help_text(ctx, formatter)
        self.format_commands(ctx, formatter)
        self.format_options(ctx, formatter)
        self.format_epilog(ctx, formatter)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        listed = {name: command for name in self.listed(ctx) if not (command := self.commands[name]).hidden}
        longest = max(map(len, listed))
        rows = [(name.ljust(longest), command.get_short_help_str(_WHOLE)) for name, command in listed.items()]
        _write({"Commands": rows}, formatter)

    def listed(self, ctx: Context) -> Iterable[str]:
        """Return the names of the commands in the order they appear on the help page."""
        return self.list_commands(ctx)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        _write_options(self.get_params(ctx), ctx, formatter)

    def format_epilog(self, _: Context, formatter: HelpFormatter) -> None:
        formatter.write_paragraph()
        group = f" {self.name}" if self.name in GROUPS else ""
        formatter.write_text(f"Help for one command: flowdebate{group} COMMAND --help. See {cite('cli')}")


class Commands(Group):
    """Top-level group; its help lists the common commands, and names the other patterns on one line."""

    def unknown_command(self, name: str) -> str:
        if " " in name.strip():  # command names contain no spaces, so this is a question
            return f'unknown command "{name}". To debate a question: flowdebate debate "…"'
        for group in GROUPS:
            if name in getattr(self.commands[group], "commands", ()):
                return f"unknown command {name}. Did you mean flowdebate {group} {name}?"
        return super().unknown_command(name)

    def listed(self, _: Context) -> Iterable[str]:
        return [*(info.verb for info in PATTERNS.values() if info.listed), *_LISTED]

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        super().format_commands(ctx, formatter)
        listed = {*self.listed(ctx)}
        patterns = ", ".join(info.verb for info in PATTERNS.values() if info.verb not in listed)
        formatter.write_paragraph()
        formatter.write_text(f"Other patterns: {patterns}")
        formatter.write_text("Also: batch (many questions from a file), demo (a recorded debate)")


class RunCommands(Group):
    """The `runs` group; without a command, it lists the runs and accepts the options of `runs list`."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        asks_for_help = {*args[:1]} & {*ctx.help_option_names}
        if not asks_for_help and (not args or args[0].startswith("-")):
            args = [_DEFAULT_OF_RUNS, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        _write_options([*self.commands[_DEFAULT_OF_RUNS].params, *self.get_params(ctx)], ctx, formatter)


BARE = {"--diff": "HEAD"}
"""Options whose value may be omitted, each mapped to the value used in that case."""


class Command(TyperCommand):
    """Command whose help groups its options in panels and ends with examples and exit codes."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        flags = {flag for parameter in self.get_params(ctx) for flag in parameter.opts}
        for at in reversed(range(len(args))):
            behind = args[at + 1 : at + 2]
            # Commit names contain no spaces, so text with a space is a question.
            if args[at] in flags & BARE.keys() and not (behind and behind[0][:1] != "-" and " " not in behind[0]):
                args.insert(at + 1, BARE[args[at]])
        with explain_error(ctx, args, self.get_params(ctx)):
            return super().parse_args(ctx, args)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        _write_forms(self._examples()[:_FORMS], formatter)
        self.format_help_text(ctx, formatter)
        self.format_options(ctx, formatter)
        self.format_epilog(ctx, formatter)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        _write_options(self.get_params(ctx), ctx, formatter)

    def format_epilog(self, _: Context, formatter: HelpFormatter) -> None:
        name = self.name or ""
        docs, note = _DOCUMENTATION.get(name, "cli"), ""
        if (page := _page_of(name)) is not None:
            docs, note = page.docs, page.exit_note
        if more := self._examples()[_FORMS:]:
            with formatter.section("More examples"):
                for line in more:
                    formatter.write("".join(f"{part}\n" for part in _pasted(line, formatter)))
        formatter.write_paragraph()
        codes = EXIT_CODES.get(name, _RUN_CODES)
        formatter.write_text(codes.replace("130 ", f"{note}, 130 ") if note else codes)
        formatter.write_paragraph()
        formatter.write_text(f"See {cite(docs)}")

    def _examples(self) -> Sequence[str]:
        name = self.name or ""
        return EXAMPLES.get(name, ()) if (page := _page_of(name)) is None else page.examples


def deferred(name: str, load: Callable[[], Callable[..., object]]) -> type[Command]:
    """Return a command class whose function is loaded only when the command is run or its help is shown."""

    class Deferred(Command):
        @cached_property
        def loaded(self) -> ClickCommand:
            alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
            alone.command(name)(load())
            return typer.main.get_command(alone)

        @property
        def params(self) -> list[ClickParameter]:
            return self.loaded.params

        @params.setter
        def params(self, _: object) -> None: ...  # ignores the placeholder's parameters

        def format_help_text(self, ctx: Context, formatter: HelpFormatter) -> None:
            self.loaded.format_help_text(ctx, formatter)

        def invoke(self, ctx: Context) -> object:
            return self.loaded.invoke(ctx)

    return Deferred


_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""Base class of usage errors, obtained from the only subclass that typer exports."""
_KINDS = {"int": "a whole number", "number": "a number", "float": "a number"}


@contextmanager
def explain_error(ctx: Context, args: Sequence[str], parameters: Sequence[ClickParameter]) -> Iterator[None]:
    """Rewrite a parser error in plain language, stating the problem and what the user probably meant to type."""
    typed = list(args)  # copied because the parser consumes the list
    try:
        yield
    except _USAGE_ERROR as error:
        message = _plain_message(error, typed, parameters)
        if message is None:
            raise
        ctx.fail(message)


def _plain_message(error: Any, args: Sequence[str], parameters: Sequence[ClickParameter]) -> str | None:  # noqa: ANN401 - one of a private module
    """Return a parser error in plain language, or None if its own message is plain enough."""
    flag, parameter = getattr(error, "option_name", None), getattr(error, "param", None)
    if hasattr(error, "possibilities"):
        flags = [
            name for declared in parameters for name in (*declared.opts, *declared.secondary_opts) if name[:2] == "--"
        ]
        return f"unknown option {flag}. {did_you_mean(str(flag), flags)}".rstrip()
    if flag is not None:
        return f"{flag} needs a value." if "requires" in error.message else None
    if parameter is None:
        return None
    is_option = parameter.param_type_name == "option"
    name = next((flag for flag in parameter.opts if flag[:2] == "--"), "") if is_option else parameter.metavar
    if "issing" in type(error).__name__:
        return f"{name} is required."
    bound = re.search(r"greater than or equal to (\d+)", error.message)
    kind = next((words for word, words in _KINDS.items() if f"valid {word}" in error.message), None)
    kind = kind if bound is None else f"at least {bound[1]}"
    if kind is None:
        return f"{name}: {error.message[:1].lower()}{error.message[1:]}"
    value = next((_value_of(option, args) for option in parameter.opts if _value_of(option, args) is not None), None)
    return f"{name} must be {kind}{'' if value is None else f' (got {value})'}."


def _value_of(option: str, args: Sequence[str]) -> str | None:
    """Return the text typed by the user for an option, or None if the option was not set."""
    for index, word in enumerate(args):
        if word == option:
            return args[index + 1] if index + 1 < len(args) else None
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def _page_of(name: str) -> PatternPage | None:
    """Return the page for the pattern that has this command name, or None if there is no such pattern."""
    info = find_pattern(name)
    page: PatternPage | None = info.load_page() if info is not None and name == info.verb else None
    return page


def _write_forms(forms: Sequence[str], formatter: HelpFormatter) -> None:
    """Write the common usages as command lines, ready to be pasted."""
    with formatter.section("Usage"):
        for line in forms:
            formatter.write("".join(f"{part}\n" for part in _pasted(line, formatter)))


def _write_options(parameters: Iterable[ClickParameter], ctx: Context, formatter: HelpFormatter) -> None:
    """Write the parameters, grouped in panels."""
    from flowdebate.ui.options import Panel

    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in parameters:
        record = parameter.get_help_record(ctx)
        if record is not None:
            name, text = record
            if not name.startswith("-"):
                name = name.partition(" <")[0]  # typer appends the argument's type
            first, slash, second = name.partition(" / --no-")
            # click shows both forms of a switch, which would take up half the width
            if slash and first == f"--{second}":
                name = f"--[no-]{second}"
            panel = getattr(parameter, "rich_help_panel", None)
            default = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panels.setdefault(_title(panel, default), []).append((name, _render_default(text)))
    order = ("Arguments", *get_args(Panel), "Options")
    _write(dict(sorted(panels.items(), key=lambda item: order.index(item[0]))), formatter)


def _render_default(text: str) -> str:
    """Render an option's default and bounds as a sentence, unless its help text already mentions them.

    >>> _render_default("Maximum number of rows.  [default: 20]"), _render_default("Width of pages.  [x>=20]")
    ('Maximum number of rows. Default: 20.', 'Width of pages. At least 20.')
    """
    return re.sub(r" *\[x>=(\S+)\]$", r" At least \1.", re.sub(r" *\[default: ([^\];]+)\]$", r" Default: \1.", text))


def _title(panel: object, default: str) -> str:
    """Return the panel's title, or `default` if it has none; typer uses a placeholder for missing titles."""
    return panel if isinstance(panel, str) else default


def _pasted(line: str, formatter: HelpFormatter) -> list[str]:
    """Wrap an example to the width of the page so that it can still be pasted as a single shell command."""
    indent = " " * formatter.current_indent
    words, sign = _TOKEN.findall(line), "\0"
    joined = " ".join(word.replace(" ", sign) for word in words)
    room = max(formatter.width - formatter.current_indent - 2, 20)
    lines = textwrap.wrap(joined, room, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    ended = [f"{row_text} \\" for row_text in lines[:-1]] + lines[-1:]
    return [indent + text_line.replace(sign, " ") for text_line in ended]


def _write(panels: dict[str, list[tuple[str, str]]], formatter: HelpFormatter) -> None:
    for panel, rows in panels.items():
        with formatter.section(panel):
            formatter.write_dl(rows)
