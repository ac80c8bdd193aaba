"""`flowdebate resume`, `answer` and `fork`: continue a run from its journal, or rerun it with changes."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypedDict, Unpack

import typer

from flowdebate._text import counted
from flowdebate._util.option_types import Count, Text
from flowdebate.cli import options as opt
from flowdebate.cli.execute import Show, begin_named, execute
from flowdebate.cli.patterns import select_options, terminal_asker
from flowdebate.cli.terminal.process import check_target, print_message
from flowdebate.errors import ConfigurationError, NotAwaited, RunExists
from flowdebate.ui.options import COMMAND, FilePath, Option, misuse

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.runs.journal import OnUncertain
    from flowdebate.runs.suspend import HumanRequest
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunState
    from flowdebate.store.base import StepRow, Store, StoredRun


@opt.command("base_url", "replay", "max_calls", "max_tokens", "max_seconds", "price")
def resume(  # noqa: PLR0913 - the options of the command
    run: opt.RunName = None,
    *,
    last: Annotated[bool, Option(help="The most recent unfinished run.")] = False,
    on_uncertain: Annotated[
        Literal["retry", "raise"],
        Option(help="What to do about a call that was in progress when the run stopped, and may have been paid for."),
    ] = "retry",
    allow_changes: Annotated[bool, Option(help="Resume with another model, or another version of flowdebate.")] = False,
    retry_dead_letter: Annotated[bool, Option(help="Resume a run that was given up after repeated crashes.")] = False,
    model: Annotated[
        list[Text] | None,
        Option(metavar="[NAME=]SPEC", help="Another model for the rest of the run; needs --allow-changes."),
    ] = None,
    trust_plan: opt.TrustPlan = False,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
    quiet: opt.Quiet = False,
    **values: object,
) -> None:
    """Resume a run that was interrupted, crashed, failed or reached a limit.

    No recorded call is paid for twice. The run is shown from its beginning, and its limits apply to the whole run.
    """
    if last == (run is not None):
        which = (
            "A run ID cannot be combined with --last." if last else "Say which run: flowdebate resume RUN, or --last."
        )
        raise misuse("RUN", run, f"{which} To list stored runs: flowdebate runs")
    if model and not allow_changes:
        raise misuse("--model", model, "A different --model changes the run: add --allow-changes.")
    _resume(
        run,
        {**values, "model": model},
        store=store,
        trust_plan=trust_plan,
        as_json=as_json,
        markdown=markdown,
        quiet=quiet,
        on_uncertain=on_uncertain,
        allow_changes=allow_changes,
        retry_dead_letter=retry_dead_letter,
    )


class _Recovery(TypedDict, total=False):
    """Options passed to `Service.resume()` for an abandoned run."""

    on_uncertain: OnUncertain
    allow_changes: bool
    retry_dead_letter: bool


def _resume(
    run: str | None,
    values: Mapping[str, Any],
    *,
    store: str | None,
    trust_plan: bool,
    as_json: bool,
    markdown: Path | None,
    quiet: bool = False,
    **options: Unpack[_Recovery],
) -> NoReturn:
    """Resume `run` (the most recent one if None), overriding options of its plan with `values`, then exit."""
    from flowdebate.service.runs import find_run, last_resumable, opened
    from flowdebate.ui.models import models_line
    from flowdebate.ui.plan import plan_of

    check_target(markdown)
    with opened(store) as place:
        stored = asyncio.run(last_resumable(place.store) if run is None else find_run(place.store, run))
        plan = plan_of(stored, values, trusted=trust_plan or _confirm(stored, values), ask=terminal_asker())
        if plan.policies.record is not None:
            print_message(
                f"Warning: {plan.policies.record} ends where the run was interrupted; the rest is not recorded"
            )
        show = Show(as_json=as_json, quiet=quiet, head=[models_line(plan, environment=_environment(stored))])

        def resumed(service: Service) -> Awaitable[RunState]:
            return service.resume(stored.header.run_id, plan=plan, **options)

        code = asyncio.run(execute(plan, place, resumed, show, markdown))
    raise typer.Exit(code)


def _environment(stored: StoredRun) -> str | None:
    """Return the model taken from the environment when a stored run was started."""
    return stored.header.model if isinstance(stored.header.model, str) else None


def _confirm(run: StoredRun, values: Mapping[str, Any]) -> bool:
    """Ask in the terminal whether the user trusts the addresses and paths in an imported plan."""
    from flowdebate.ui.plan import reached_by

    reached = reached_by(run, values)
    if not reached or not sys.stdin.isatty():
        return False
    print_message(f"Run {run.header.run_id} was imported. Its plan names:")
    for flag, texts in reached.items():
        for text in texts:
            print_message(f"  {flag} {text}")
    print_message(
        "A server receives the key and everything sent to its models; models may be shown the content of files."
    )
    print_message("A model named cli/… is a program on this machine, which runs with your permissions.")
    return typer.confirm("Use them?", err=True)


# answer

_MAX_LENGTH = 4_000_000
"""Maximum number of characters read from stdin; no valid answer is longer."""


@opt.command()
def answer(
    run: Annotated[str, Option(help=opt.RUN)],
    text: Annotated[str | None, Option(help="The answer. Default: typed in the terminal, or read from stdin.")] = None,
    *,
    data: Annotated[
        str | None, Option(flag="--json", metavar="DATA", help="The answer as JSON, if it has fields.")
    ] = None,
    place: Annotated[
        str | None, Option(metavar="PLACE", help="Which request to answer, if the run is waiting for several answers.")
    ] = None,
    later: Annotated[bool, Option(help="Only record the answer; resume the run later.")] = False,
    trust_plan: opt.TrustPlan = False,
    store: opt.StoreName = None,
    markdown: opt.Markdown = None,
) -> None:
    """Answer the questions that a run has asked a human, and resume it.

    Only the first answer to a request counts.
    """
    from flowdebate.service.runs import find_run, opened, short_id

    if text is not None and data is not None:
        raise misuse("--json", data, "TEXT cannot be combined with --json DATA.")
    with opened(store) as opened_store:
        stored = asyncio.run(find_run(opened_store.store, run))
        pending = asyncio.run(_answer(opened_store.store, stored, data if text is None else text, place))
        short, option = short_id(stored.header.run_id), opened_store.option
    for request in pending:  # resuming now would just suspend the run again
        print_message(
            f"It still waits for {request.block}: flowdebate runs answer {short} --place '{request.place}'{option}"
        )
    if pending:
        return
    if stored.header.plan is None:
        print_message(f"To resume: await block.resume({stored.header.run_id!r}) in Python, where its block is built")
    elif later:
        print_message(f"To resume: flowdebate resume {short}{option}")
    else:
        _resume(stored.header.run_id, {}, store=store, trust_plan=trust_plan, as_json=False, markdown=markdown)


async def _answer(store: Store, stored: StoredRun, text: str | None, place: str | None) -> Sequence[HumanRequest]:
    """Record the answer from the command line, or prompt for each missing one; return the requests still open."""
    from flowdebate.blocks.human.answers import check_submission, open_requests, submit_answer
    from flowdebate.blocks.human.terminal import ask_in_terminal
    from flowdebate.service.runs import requests_in

    run_id = stored.header.run_id
    open_ones = requests_in(stored, await store.steps(run_id), store=store.name)
    waiting = [request for request in open_ones if place in (None, request.place)]
    if text is None and not sys.stdin.isatty():
        if not waiting:
            raise NotAwaited(store.name, run_id, "is not waiting for an answer")
        for request in waiting:
            print_message(f"{request.place}\n{request.to_read}\n\n[{request.block}] {request.expects}")
        text = sys.stdin.read(_MAX_LENGTH).removesuffix("\n")
    if text is not None or not waiting:  # raises an error if there is no open request
        await submit_answer(store, run_id, text, place=place)
    else:
        for request in waiting:
            typed = await ask_in_terminal(replace(request, check=partial(check_submission, request)))
            await submit_answer(store, run_id, typed, place=request.place)
    return await open_requests(store, run_id)


# fork

_MEGABYTES = 4
"""Maximum size of an answer file in megabytes; no valid answer is larger."""


@opt.command("base_url", "seed", "max_calls", "max_tokens", "max_seconds", "price")
def fork(  # noqa: PLR0913 - the options of the command
    run: opt.RunName = None,
    *,
    last: Annotated[bool, Option(help="Fork the newest run.")] = False,
    at: Annotated[
        str | None,
        Option(
            panel="Answers",
            metavar="PLACE",
            help="Call models again from this answer on, even for equal requests. With --say: the answer to replace.",
        ),
    ] = None,
    say: Annotated[
        FilePath | None,
        Option(panel="Answers", metavar="FILE", help='Text in place of the answer at --at; "-" is stdin.'),
    ] = None,
    edit: Annotated[
        list[str] | None,
        Option(panel="Answers", metavar="PLACE=TEXT", help="Text in place of an answer; repeat for more than one."),
    ] = None,
    model: opt.Models = None,
    max_rounds: Annotated[
        Count | None, Option(panel="Rounds", metavar="N", help="New maximum number of rounds or turns.")
    ] = None,
    more_rounds: Annotated[
        Count | None,
        Option(panel="Rounds", metavar="N", help="Continue a finished debate for N more rounds."),
    ] = None,
    ask: Annotated[
        Text | None,
        Option(
            panel="Rounds",
            metavar="QUESTION",
            help="Continue a finished debate; its debaters then answer this question.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        Option(
            panel="Options",
            flag="--set",
            metavar="KEY=VALUE",
            help="Set any other option by its key in a plan file, such as schedule=swap; KEY= unsets it; "
            "repeat for each.",
        ),
    ] = None,
    fork_id: Annotated[
        Text | None, Option(panel="Storage", metavar="ID", help="ID of the new run. Default: a random one.")
    ] = None,
    resume: opt.Resume = False,
    trust_plan: opt.TrustPlan = False,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
    quiet: opt.Quiet = False,
    **values: object,
) -> None:
    """Rerun a stored run as a new run with changes; models are called only where answers may differ.

    PLACE is the path of an answer as printed by `flowdebate show RUN`. You may shorten it to the ends of its components
    (judge, round[2]/ann), as long as only one answer matches. The original run is not changed.
    """
    from flowdebate.service.runs import chosen_run, opened, short_id
    from flowdebate.ui.models import models_line
    from flowdebate.ui.plan import continuation_option, pattern_of_run, plan_of_fork

    check_target(markdown)
    if say is not None and at is None:
        raise misuse("--say", say, "--say requires --at PLACE to select the answer to replace.")
    opt.check_named("--fork-id", fork_id, resume=resume)
    values |= {"model": model, "max_rounds": max_rounds}
    with opened(store) as place:
        stored = asyncio.run(chosen_run(place.store, run, last=last, verb="runs fork"))
        steps = asyncio.run(place.store.steps(stored.header.run_id))
        info = pattern_of_run(stored)
        known_values = values if info is None else select_options(info, values)
        plan = plan_of_fork(
            stored,
            known_values,
            changes=dict(map(_read_setting, setting or ())) | continuation_option(more_rounds, ask),
            location="--set",
            trusted=trust_plan or _confirm(stored, known_values),
            ask=terminal_asker(),
        )
        answers = [step for step in steps if step.body is not None and step.kind in ("call", "human")]
        at, edits = _find_changes([step.key for step in answers], at, say, edit or ())
        promise = f"Fork of {short_id(stored.header.run_id)}: reuses its {_count_reused(answers, at, edits)}"
        head = [promise, models_line(plan, environment=_environment(stored))]

        async def begin(service: Service) -> RunState:
            parent = stored.header.run_id
            try:
                return await service.fork(parent, pattern=plan, at=at, edits=edits, fork_id=fork_id)
            except RunExists as error:
                existing = await service.store.run(error.run_id)
                then = existing.header.parent or {}
                if not resume or (then.get("run"), then.get("at"), then.get("edits")) != (parent, at, edits):
                    raise
                return await service.run(error.run_id)

        async def forked(service: Service) -> RunState:
            if fork_id is None:
                return await begin(service)
            return await begin_named(service, fork_id, lambda: begin(service), plan, resume=resume)

        show = Show(as_json=as_json, quiet=quiet, head=head)
        code = asyncio.run(execute(plan, place, forked, show, markdown))
    raise typer.Exit(code)


def _read_setting(text: str) -> tuple[str, Any]:
    """Parse a `--set` option; its value is read as TOML or, failing that, as text, and an empty value means None.

    >>> _read_setting("max_rounds=3"), _read_setting("schedule=swap"), _read_setting("terminate_when=")
    (('max_rounds', 3), ('schedule', 'swap'), ('terminate_when', None))
    >>> _read_setting('panel=["a", "b"]')
    ('panel', ['a', 'b'])
    """
    key, sign, value = (part.strip() for part in text.partition("="))
    if not key or not sign:
        raise ConfigurationError(COMMAND, "--set", text, "must be KEY=VALUE, where KEY is a plan file key")
    if not value:
        return key, None
    try:
        read = tomllib.loads(f"value = {value}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return key, value
    return key, read["value"] if len(read) == 1 else value  # a newline in the value could add a second key


def _find_changes(
    places: Sequence[str], at: str | None, say: str | None, edit: Sequence[str]
) -> tuple[str | None, dict[str, str]]:
    """Return the path from which the fork starts calling models again, and the edited answers keyed by path."""
    from flowdebate.ui.files import read_text

    place_found = None if at is None else _find_path(at, places, option="--at")
    edits: dict[str, str] = {}
    for edit_text in edit:
        name, sign, text = edit_text.partition("=")
        if not sign:
            raise ConfigurationError(COMMAND, "--edit", edit_text, "must be PLACE=TEXT")
        edits[_find_path(name, places, option="--edit")] = text
    if say is None or place_found is None:
        return place_found, edits
    return None, {**edits, place_found: read_text(say, megabytes=_MEGABYTES).removesuffix("\n")}


def _find_path(abbreviation: str, places: Sequence[str], *, option: str) -> str:
    """Find the path that `abbreviation` refers to; raise ConfigurationError unless exactly one matches."""
    if abbreviation in places:
        return abbreviation
    matches = [place for place in places if _is_short_for(abbreviation, place)]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join((matches or places)[:_NAMED]) + (", …" if len(matches or places) > _NAMED else "")
    if matches:
        sentence = f"{option}: {abbreviation} matches {len(matches)} answers: {listed}. Type more of the place."
    else:
        sentence = f"{option}: the run has no answer at {abbreviation}. Places with an answer: {listed or 'none'}."
    raise misuse(option, abbreviation, sentence)


_NAMED = 8
"""Maximum number of paths listed in a message; enough for one round of a typical debate."""


def _is_short_for(abbreviation: str, place: str) -> bool:
    """Return whether `abbreviation` is short for the path `place`.

    Each part must be the end of a component of `place`, in the same order, and the last part must be the end of the
    last component.

    >>> place = "rent/round[2]/rent-turn-ann/rent-debater-ann"
    >>> [_is_short_for(given, place) for given in ("ann", "round[2]/ann", "debater-ann", "round[1]/ann", "round[2]")]
    [True, True, True, False, False]
    """

    def is_end(part: str, end: str) -> bool:
        return part == end or (bool(end) and part.endswith(f"-{end}"))

    wanted_parts, parts = abbreviation.split("/"), place.split("/")
    if not is_end(parts.pop(), wanted_parts.pop()):
        return False
    rest = iter(parts)
    return all(any(is_end(part, wanted_part) for part in rest) for wanted_part in wanted_parts)


def _count_reused(answers: Sequence[StepRow], at: str | None, edits: Mapping[str, str]) -> str:
    """Describe how many recorded answers a fork has reused."""
    if at is not None:
        end = next(step.seq or 0 for step in answers if step.key == at)
        answers = [step for step in answers if (step.seq or 0) < end]
    count = sum(step.key not in edits for step in answers)
    edited = f"; {len(edits):,} edited" if edits else ""
    before = "" if at is None else f" before {at}"
    return f"{counted(count, 'answer')}{before} if the same model gets the same request{edited}"
