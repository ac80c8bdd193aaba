"""The commands of `flowdebate`: thin, what they do stands beside them."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from flowdebate.cli.streams import WriteFailed, leave_stdout, tell, warnings_told, writing
from flowdebate.errors import BadFile, ConfigurationError, FlowDebateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.cli.document import DebateDocument
    from flowdebate.cli.hold import Held
    from flowdebate.cli.live import LiveView
    from flowdebate.cli.plan import Plan

__all__ = ("app",)

_FAILED, _MISUSED, _NO_VERDICT, _KILLED, _SIGPIPE = 1, 2, 3, 128, 13

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help starts fast, and reads no markup in what the user typed
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if asked:
        from flowdebate import __version__

        typer.echo(f"flowdebate {__version__}")
        raise typer.Exit


@app.callback()
def flowdebate(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Hold debates between language models: sides argue round by round, a judge finds."""


@app.command()
def run(  # noqa: PLR0913 - the options of the command
    *,
    question: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Argument(help="What is debated; may stand in --file instead.", show_default=False),
    ] = None,
    debater: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="NAME=STANCE",
            help="A side, and what it defends; once for each. Default: two sides, for yes and for no.",
        ),
    ] = None,
    rounds: Annotated[Optional[int], typer.Option(help="Rounds at most. Default: 2.")] = None,  # noqa: UP045
    moderator: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--moderator/--no-moderator", help="A moderator opens each round, picks speakers, may end the debate."
        ),
    ] = None,
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="SPEC",
            help='"local", or "provider/model" such as "openai/gpt-5-mini". '
            "Default: FLOWDEBATE_MODEL, OpenAI where a key is set, the local model where it is installed.",
        ),
    ] = None,
    judge_model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="SPEC", help="For moderator, judge and synthesizer. Default: that of --model."),
    ] = None,
    base_url: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="URL",
            help="An OpenAI-compatible server, up to and with /v1. --model is then the model's name as the server "
            "has it; the key is OPENAI_API_KEY.",
        ),
    ] = None,
    schema: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="A JSON Schema: the synthesizer makes the output that it describes."),
    ] = None,
    synthesize: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--synthesize/--no-synthesize", help="Whether a synthesizer writes an answer. Default: only with a schema."
        ),
    ] = None,
    file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="A debate as TOML (or .json); options given here win over it."),
    ] = None,
    seed: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Makes the judge's shuffle repeat."),
    ] = None,
    max_calls: Annotated[Optional[int], typer.Option(metavar="N", help="Requests at most.")] = None,  # noqa: UP045
    max_tokens: Annotated[Optional[int], typer.Option(metavar="N", help="Tokens at most.")] = None,  # noqa: UP045
    max_seconds: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(metavar="S", help="Time at most. A debate that reaches a limit ends with what it has."),
    ] = None,
    attempts: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(metavar="N", help="How often a call is made at most before it has failed. Default: 3."),
    ] = None,
    fallback: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="SPEC", help="A model that is asked where the first one has failed; once for each."),
    ] = None,
    on_failure: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="fail|skip", help="Whether the debate goes on without what a provider lost."),
    ] = None,
    record: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write all answers to a new file, to hold the debate again from it."),
    ] = None,
    replay: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="Take all answers from what --record wrote; with the same options and seed."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, and nothing else, on stdout.")
    ] = False,
    markdown: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write a report as well."),
    ] = None,
) -> None:
    """Hold a debate, and show it while it goes on.

    Ctrl-C ends it and keeps what was argued. Exit codes: 0 done, 1 failed, 2 misused, 3 no verdict (a limit was
    reached, or the judge was lost), 130 interrupted, 143 terminated.
    """
    options: dict[str, Any] = {
        "question": question,
        "rounds": rounds,
        "moderator": moderator,
        "model": model,
        "judge_model": judge_model,
        "base_url": base_url,
        "schema": schema,
        "synthesize": synthesize,
        "seed": seed,
        "max_calls": max_calls,
        "max_tokens": max_tokens,
        "max_seconds": max_seconds,
        "attempts": attempts,
        "fallback": fallback or None,
        "on_failure": on_failure,
        "record": record,
        "replay": replay,
    }
    with _problems_told(), warnings_told():
        from flowdebate.cli.plan import make_plan, parse_side

        if debater:
            options["debaters"] = [parse_side(text) for text in debater]
        plan = make_plan(options, file=file)
        _check_report(markdown)
        code = _run(plan, as_json=as_json, markdown=markdown)
    raise typer.Exit(code)


@app.command()
def render(
    file: Annotated[str, typer.Argument(help='What `run --json` printed, or a bare raw output; "-" is stdin.')],
    *,
    markdown: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write a report as well."),
    ] = None,
) -> None:
    """Show a saved debate again."""
    with _problems_told():
        from flowdebate.cli.document import read_document
        from flowdebate.cli.page import Page
        from flowdebate.cli.page import render as render_on

        document = read_document(file)
        _check_report(markdown)
        try:
            with writing():
                render_on(document, Page(sys.stdout, document.sides))
            _write_report(document, markdown)
        except RecursionError:
            raise BadFile(file, "is nested too deeply") from None


def _run(plan: Plan, *, as_json: bool, markdown: Path | None) -> int:
    """Hold the debate and write what there is to write; the exit code."""
    from flowdebate.cli.hold import hold

    view = _view(plan, as_json=as_json)
    held = hold(plan, view)
    unwritten = held.unwritten
    try:
        if unwritten is None:
            with writing():
                _finish(held, view, as_json=as_json)
    except WriteFailed as error:
        unwritten = error
    if held.failure is not None:
        tell(f"Error: {held.failure}")
    _write_report(held.document, markdown)
    if unwritten is not None:
        raise unwritten
    if held.failure is not None:
        return _exit_code(held.failure)
    if held.signal is not None:
        return _KILLED + held.signal
    return _NO_VERDICT if held.document.raw.verdict is None else 0


def _view(plan: Plan, *, as_json: bool) -> LiveView | None:
    """Where the debate can be followed: with --json on stderr, if a terminal shows it."""
    from flowdebate.cli.hold import NAME, sides_of

    stream = sys.stderr if as_json else sys.stdout
    if as_json and not stream.isatty():
        return None
    from flowdebate.cli.live import LiveView
    from flowdebate.cli.page import Page

    page = Page(stream, sides_of(plan))
    with writing():
        page.question(plan.question)
    return LiveView(page, synthesizer=f"{NAME}-synthesizer" if plan.synthesize else None, moderated=plan.moderator)


def _finish(held: Held, view: LiveView | None, *, as_json: bool) -> None:
    document = held.document
    if view is not None:
        view.page.ending(document)
        view.page.totals(document.usage, document.seconds, document.seed)
    if as_json:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{document.to_json()}\n".encode())
        sys.stdout.flush()


def _check_report(path: Path | None) -> None:
    if path is not None:
        from flowdebate.cli.files import check_target

        check_target(path)


def _write_report(document: DebateDocument, path: Path | None) -> None:
    if path is not None:
        from flowdebate.cli.files import write_whole
        from flowdebate.cli.report import report

        write_whole(path, report(document))


@contextmanager
def _problems_told() -> Iterator[None]:
    """Inside, an error of the library is one message on stderr; a reader who leaves is none."""
    try:
        yield
    except FlowDebateError as error:
        tell(f"Error: {error}")
        raise typer.Exit(_exit_code(error)) from None
    except WriteFailed as error:
        leave_stdout()
        if error.reader_left:
            raise typer.Exit(_KILLED + _SIGPIPE) from None
        tell(f"Error: {error}")
        raise typer.Exit(_FAILED) from None


def _exit_code(error: FlowDebateError) -> int:
    return _MISUSED if isinstance(error, (BadFile, ConfigurationError)) else _FAILED
