"""Commands for the registered patterns; their options are the fields of each pattern's option model."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.execute import Show, begin_named, execute
from flowdebate.cli.terminal.process import check_target, print_message, report_problems, report_warnings
from flowdebate.errors import ConfigurationError, StoreError
from flowdebate.ui.files import MEGABYTES, read_text
from flowdebate.ui.options import COMMAND, Option, OutputOptions, PlanOptions, misuse, option_of, parse_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flowdebate.blocks.human.human import Ask
    from flowdebate.chassis.roster import Debater
    from flowdebate.cli.pull_request import PullRequestReview
    from flowdebate.patterns import PatternInfo
    from flowdebate.service.runs import OpenStore
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunState
    from flowdebate.ui.plan import Plan


_HERE = {
    "file": opt.File,
    "store": opt.StoreName,
    "no_store": opt.NoStore,
    "run_id": opt.RunId,
    "label": opt.OwnLabels,
    "resume": opt.Resume,
    "as_json": opt.Json,
    "markdown": opt.Markdown,
    "quiet": opt.Quiet,
    "yes": opt.Yes,
}
"""Options available only on the command line."""
_BENCHMARK_FLAGS = {"form": "--format"}


def pattern_command(info: PatternInfo) -> Callable[..., None]:
    """Build the function for a pattern's command."""

    def run(**values: Any) -> None:  # noqa: ANN401 - the options of the command
        measured = {name: values.pop(name, False) for name in opt.MEASURED}
        if any(measured.values()):
            _measure(info, values, **measured)
            return
        local_values = {name: values.pop(name, False) for name in _HERE}
        more = {name: values.pop(name) for name in ("form", *opt.PULL_REQUEST) if name in values}
        _run(info, values, **more, **local_values)

    page = info.load_page()
    parameters = [*_local_parameters(*(() if page.proposes else ("yes",)))]
    if page.formats:
        parameters = [*parameters, opt.parameter("form", Literal[tuple(page.formats)], opt.FORM)]
    if page.measured:
        parameters += [opt.parameter(name, bool, option, default=False) for name, option in opt.MEASURED.items()]
    if page.reads_pull_requests:
        parameters += [opt.parameter(name, *description) for name, description in opt.PULL_REQUEST.items()]
    run.__doc__ = info.help
    return opt.with_parameters(run, [*parameters_of(page.options), *parameters])


def _run_command() -> Callable[..., None]:
    """Build the function for `flowdebate run`, with the options shared by all patterns."""

    def run(**values: Any) -> None:  # noqa: ANN401 - the options of the command
        local_values = {name: values.pop(name) for name in _HERE if name != "file"}
        path = values.pop("plan")
        with report_problems():
            from flowdebate.ui.plan import pattern_of_file

            if not Path(path).is_file():
                raise misuse(
                    "PLAN", path, f'The plan file {path} does not exist. To debate a question: flowdebate debate "…"'
                )
            info = pattern_of_file(path)
            values = select_options(info, values)
        _run(info, values, file=path, **local_values)

    run.__doc__ = (
        "Run a pattern from a plan file. The file, TOML or JSON, has the options of the pattern's command and "
        "pattern = NAME."
    )
    plan = opt.parameter("plan", str, Option(help="The plan file."), Parameter.empty, argument=True)
    return opt.with_parameters(run, [plan, *parameters_of(PlanOptions), *_local_parameters("file")])


def _local_parameters(*without: str) -> Iterator[Parameter]:
    for name, annotation in _HERE.items():
        if name not in without:
            kind, *_, option = get_args(annotation)
            yield opt.parameter(name, kind, option, False if kind is bool else None)


def select_options(info: PatternInfo, values: dict[str, Any]) -> dict[str, Any]:
    """Return the options set on the command line; raise ConfigurationError for any the pattern does not support."""
    options = info.load_page().options
    values = {key: value for key, value in values.items() if value is not None and value != []}
    if "max_rounds" in values:
        values[options.LENGTH] = values.pop("max_rounds")
    for key, value in values.items():
        if key not in options.names():
            option = f"--{key.replace('_', '-')}"
            raise misuse(option, value, f"{info.verb} has no {option} option.")
    return values


def parameters_of(options: type[PlanOptions]) -> Iterator[Parameter]:
    """Return the parameters for all options, with pattern-specific options first and shared options last."""
    shared = dict.fromkeys(OutputOptions.model_fields, 1) | dict.fromkeys(PlanOptions.model_fields, 2)
    for name in sorted(options.names(), key=lambda name: shared.get(name, 0)):
        option, kind = option_of(options, name), options.model_fields[name].annotation
        if name == options.SUBJECT or option.flag != "":
            yield opt.parameter(name, kind, option, argument=name == options.SUBJECT)


run_plan: Callable[..., None] = _run_command()
"""Function for `flowdebate run`."""


# Running a plan


def _measure(info: PatternInfo, values: dict[str, Any], *, demo: bool, page: bool, benchmark: bool) -> None:
    """Play the pattern's recorded demo run, or run its benchmark on changes with planted faults."""
    if demo:
        from flowdebate.cli.demo import play_review

        with report_problems():
            if benchmark:
                raise misuse("--demo", demo, "--demo cannot be combined with --benchmark.")
            play_review(page=page)
    from flowdebate.cli.benchmark import benchmark_reviews

    local_values = {name: values.pop(name, None) for name in (*_HERE, "form", *opt.PULL_REQUEST)}
    with report_problems(), report_warnings():
        if page:
            raise misuse("--page", page, "--page requires --demo.")
        for name in ("no_store", "run_id", "label", "resume", "markdown", "form", *opt.PULL_REQUEST):
            if local_values[name]:
                flag = _BENCHMARK_FLAGS.get(name, f"--{name.replace('_', '-')}")
                raise misuse(
                    flag, local_values[name], f"{flag} cannot be combined with --benchmark, which starts many runs."
                )
        store, as_json = local_values["store"], bool(local_values["as_json"])
        benchmark_reviews(info, values, file=local_values["file"], store=store, as_json=as_json)


def _run(  # noqa: PLR0913 - the options of this front end
    info: PatternInfo,
    values: dict[str, Any],
    *,
    file: str | None,
    store: str | None,
    no_store: bool,
    run_id: str | None,
    label: Sequence[str] | None,
    resume: bool,
    as_json: bool,
    markdown: Path | None,
    quiet: bool,
    yes: bool = False,
    form: str | None = None,
    pr: int | None = None,
    since: str | None = None,
    post: bool = False,
) -> None:
    with report_problems(), report_warnings(), _pull_request(values, pr, since, posts=post) as pull:
        from flowdebate.service.runs import opened
        from flowdebate.ui.models import models_line, sources_lines, with_policies
        from flowdebate.ui.plan import make_plan, with_sources

        if values.get(info.subject) == "-":
            if "-" in (values.get("sources") or ()):
                subject = info.subject.upper()
                raise misuse("--source", "-", f"Only one of {subject} and --source can be - (stdin).")
            values = {**values, info.subject: read_text("-", megabytes=MEGABYTES).strip()}
        values = _about_pull_request(info, values, pull, file=file)
        plan = make_plan(info, values, file=file, ask=terminal_asker(), begins=True)
        plan = plan if pull is None else with_sources(plan, pull.changes.sources)
        opt.check_named("--run-id", run_id, resume=resume)
        labels = opt.read_labels(label)
        for option, value in (("--store", store), ("--run-id", run_id), ("--label", label)):
            if no_store and value is not None:
                raise misuse(option, value, f"{option} cannot be combined with --no-store.")
        check_target(markdown)
        if form is not None and as_json:
            raise misuse("--format", form, "--format cannot be combined with --json.")
        head = [models_line(plan), *sources_lines(plan)]
        show = Show(as_json=as_json, quiet=quiet, head=head, form=info.load_page().formats.get(form))
        plan = with_policies(plan)
        with nullcontext() if no_store else opened(store, new=True) as place:
            if not plan.speakers:
                if place is not None and place.is_explicit:
                    with _store_needed():  # an unusable store raises an error here, before any model is called
                        asyncio.run(place.store.runs(limit=1))
                if not quiet:
                    for line in filter(None, show.head):
                        print_message(line)
                    show = replace(show, head=())  # these lines were printed above, before the model proposed the sides
                plan = _propose_sides(plan, yes=yes, place=place, run_id=run_id)

            is_named = place is not None and place.is_explicit
            begin = partial(_begin, plan=plan, run_id=run_id, labels=labels, resume=resume, is_named=is_named)
            finish = None if pull is None else pull.finish
            code = asyncio.run(execute(plan, place, begin, show, markdown, finish))
    raise typer.Exit(code)


@contextmanager
def _pull_request(
    values: dict[str, Any], number: int | None, since: str | None, *, posts: bool
) -> Iterator[PullRequestReview | None]:
    """Open a pull request, and comment on it if the `with` block fails; yield None if no number was specified."""
    if number is None:
        for option, value in (("--post", posts or None), ("--since", since)):
            if value is not None:
                raise misuse(option, value, f"{option} requires --pr N, the number of a pull request.")
        yield None
        return
    from flowdebate.cli.pull_request import PullRequestReview

    if clash := [option for name, option in (("diff", "--diff"), ("sources", "--source")) if values.get(name)]:
        raise misuse("--pr", number, f"--pr cannot be combined with {clash[0]}.")
    pull = PullRequestReview(number, posts=posts, since=since, exclude=values.get("exclude") or ())
    with pull.reporting():
        yield pull


def _about_pull_request(
    info: PatternInfo, values: dict[str, Any], pull: PullRequestReview | None, *, file: str | None
) -> dict[str, Any]:
    """Return the options, adapted to the pull request if there is one; raise Exit if nothing needs to be reviewed."""
    if pull is None:
        return values
    from flowdebate.ui.plan import check_plan_file

    page = info.load_page()
    values = {**values, "earlier": pull.earlier or None, "exclude": None}
    options = page.options.read(values, file=file)
    check_plan_file(options, pull.changes.sources)
    if all(source.left_out is not None for source in pull.changes.sources):
        raise typer.Exit(pull.finish_unread(getattr(options, "gate", None)))
    if getattr(options, info.subject) is None:
        values[info.subject] = page.question_about_sources
    return values


async def _begin(
    service: Service | None, *, plan: Plan, run_id: str | None, labels: dict[str, str], resume: bool, is_named: bool
) -> RunState | None:
    """Start the run, or return None if the run will not be stored.

    `is_named` is True if the user specified the store.
    """
    try:
        if service is None:
            return None
        begin = partial(service.begin, plan, run_id=run_id, labels=labels)
        return await (begin() if run_id is None else begin_named(service, run_id, begin, plan, resume=resume))
    except StoreError as error:
        if run_id is not None:
            raise
        if is_named:
            with _store_needed():
                raise
        # an unwritable data directory (a container, a full disk) must not prevent a debate
        print_message(f"Warning: the run is not stored: {error}")
        return None


def terminal_asker() -> Ask | None:
    """Return the function that asks humans in the terminal, or None if they have to answer later."""
    from flowdebate.blocks.human.terminal import ask_in_terminal

    if not sys.stdin.isatty():
        return None
    from flowdebate.cli.terminal.screen import AskOnScreen

    return AskOnScreen(ask_in_terminal)


@contextmanager
def _store_needed() -> Iterator[None]:
    """Add advice on running without a store to any StoreError raised in the `with` block."""
    try:
        yield
    except StoreError as error:
        raise StoreError(error.store, f"{error.problem}; to run without a store, add --no-store") from error


# Proposed sides


def _propose_sides(plan: Plan, *, yes: bool, place: OpenStore | None, run_id: str | None) -> Plan:
    """Show the sides proposed by the plan's model, and return `plan` with these sides.

    In a terminal, the user can accept, edit or decline the sides, unless `yes` is set; declining raises Abort. If the
    run has an ID, the proposal is stored under it, so that repeating the command does not request and pay for another
    one.
    """
    from flowdebate.ui.plan import with_sides

    # Rejects invalid options before any model is called.
    with_sides(plan, plan.info.load_page().any_speakers(plan.subject)).pattern()
    print_message("The question does not say what the sides are; the model proposes some …")
    proposer = plan.info.load_page().create_proposer(plan.options.instructions)
    run = partial(proposer.run, plan.subject, model=plan.models, seed=plan.seed, limits=plan.limits)
    if place is None or run_id is None:
        proposing = run(store=False)
    else:
        proposing = run(store=place.store, run_id=f"{run_id}-sides", if_exists="wait")
    proposal = asyncio.run(proposing)
    sides: Sequence[Debater] = proposal.output
    tokens = proposal.usage.total_tokens
    print_message("Sides" if tokens is None else f"Sides ({tokens:,} tokens)")
    while True:
        for side in sides:
            print_message(f"  {side.name} = {side.stance}")
        if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return with_sides(plan, sides)
        answer = typer.prompt("Debate these sides? [Y/n/edit]", default="y", show_default=False, err=True)
        match answer.strip().lower():
            case "y" | "yes":
                return with_sides(plan, sides)
            case "n" | "no":
                raise typer.Abort
            case "e" | "edit":
                sides = _type_sides(sides)
            case _:
                print_message("Type y to debate them, n to stop, or edit to change them.")


def _type_sides(sides: Sequence[Debater]) -> Sequence[Debater]:
    """Return the sides typed by the user.

    If they are not valid for a debate, explain why and return the current sides.
    """
    from flowdebate.chassis.roster import Debater, check_roster

    print_message("Type one side on each line, as NAME = POSITION; an empty line ends.")
    lines: list[str] = []
    while line := typer.prompt(">", default="", show_default=False, prompt_suffix=" ", err=True).strip():
        lines.append(line)
    try:
        entries = [parse_entry(line, "a side", key="stance", needed=True) for line in lines]
        return check_roster([Debater(entry["name"], entry["stance"]) for entry in entries], location=COMMAND)
    except ConfigurationError as error:
        print_message(f"Not changed: {error}")
        return sides
