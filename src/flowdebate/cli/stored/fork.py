"""`flowdebate fork`: run a stored run again with changes, and pay only for what they change."""

from __future__ import annotations

import asyncio
import tomllib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.command import check_report
from flowdebate.cli.execute import confirmed, fork_run
from flowdebate.errors import ConfigurationError
from flowdebate.service.plans.options import COMMAND, Count, FilePath, ModelName, Option, misuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.service.plans.plan import Plan
    from flowdebate.store.base import StepRow, StoredRun


_MEGABYTES = 4
"""Of a file with an answer: more than the limit of any answer."""


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
            help="Ask anew from this answer on, also where the request is the same. With --say: the answer to replace.",
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
    model: Annotated[ModelName | None, Option(panel="Model", metavar="SPEC", help="Another model for the run.")] = None,
    judge_model: Annotated[
        ModelName | None,
        Option(panel="Judge", metavar="SPEC", help="Another model for moderator, referee, judge and synthesizer."),
    ] = None,
    rounds: Annotated[
        Count | None, Option(panel="Rounds", metavar="N", help="Another maximum number of rounds, or of turns.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        Option(
            panel="Options",
            flag="--set",
            metavar="KEY=VALUE",
            help="Any other option by its key in a plan file, such as schedule=swap; KEY= takes it back. Repeatable.",
        ),
    ] = None,
    trust_plan: opt.TrustPlan = False,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
    quiet: opt.Quiet = False,
    **given: object,
) -> None:
    """Run a stored run again as a new run, with changes: models are asked only for what differs.

    PLACE is the place of an answer as `flowdebate show RUN` prints it, or the ends of its parts, if they name one
    answer: judge, round[2]/ann. The run that is forked stays as it is.
    """
    from flowdebate.service.runs import chosen_run, opened

    check_report(markdown)
    if say is not None and at is None:
        raise misuse("--say", say, "--say replaces the answer at --at PLACE: say which one.")
    given |= {"model": model, "judge_model": judge_model, "rounds": rounds}
    with opened(store) as place:
        stored = asyncio.run(chosen_run(place.store, run, last=last, verb="fork"))
        steps = asyncio.run(place.store.steps(stored.header.run_id))
        plan = _plan(stored, given, dict(map(_setting, setting or ())), trusted=trust_plan)
        at, edits = _changes(steps, at, say, edit or ())
        code = fork_run(
            stored,
            plan,
            place,
            promise=_promise(stored, steps, at, edits),
            as_json=as_json,
            quiet=quiet,
            markdown=markdown,
            at=at,
            edits=edits,
        )
    raise typer.Exit(code)


def _plan(stored: StoredRun, given: Mapping[str, Any], settings: Mapping[str, Any], *, trusted: bool) -> Plan:
    """The plan of the fork, with what was given over that of the run."""
    from flowdebate.cli.patterns import ask_here, known_options
    from flowdebate.service.plans.plan import pattern_of_run, plan_of_fork

    info = pattern_of_run(stored)
    known = dict(given) if info is None else known_options(info, dict(given))
    return plan_of_fork(
        stored,
        known,
        changes=settings,
        where="--set",
        trusted=trusted or confirmed(stored, known),
        ask=ask_here(),
    )


def _setting(given: str) -> tuple[str, Any]:
    """An option as `--set` names it, with its value as in a TOML file, or as text; None for an empty one.

    >>> _setting("rounds=3"), _setting("schedule=swap"), _setting('panel=["a", "b"]'), _setting("stop=")
    (('rounds', 3), ('schedule', 'swap'), ('panel', ['a', 'b']), ('stop', None))
    """
    key, sign, value = (part.strip() for part in given.partition("="))
    if not key or not sign:
        raise ConfigurationError(COMMAND, "--set", given, "KEY=VALUE, with a key of a plan file")
    if not value:
        return key, None
    try:
        read = tomllib.loads(f"value = {value}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return key, value
    return key, read["value"] if len(read) == 1 else value


# Places and answers


def _changes(
    steps: Sequence[StepRow], at: str | None, say: str | None, edit: Sequence[str]
) -> tuple[str | None, dict[str, str]]:
    """The place to ask anew from, and the edited answers by their places."""
    from flowdebate.service.plans.files import read_text

    places = [step.key for step in steps if step.body is not None and step.kind in ("call", "human")]
    found = None if at is None else _place(at, places, option="--at")
    edits: dict[str, str] = {}
    for each in edit:
        name, sign, text = each.partition("=")
        if not sign:
            raise ConfigurationError(COMMAND, "--edit", each, "PLACE=TEXT")
        edits[_place(name, places, option="--edit")] = text
    if say is None or found is None:
        return found, edits
    return None, {**edits, found: read_text(say, megabytes=_MEGABYTES).removesuffix("\n")}


def _place(given: str, places: Sequence[str], *, option: str) -> str:
    """The place that `given` names, in full or shortened; ConfigurationError for none, or for several."""
    if given in places:
        return given
    found = [place for place in places if _is_short_for(given, place)]
    if len(found) == 1:
        return found[0]
    if found:
        sentence = f"{option}: {len(found)} answers have a place like {given!r}: {_listed(found)}. Type more of it."
    else:
        sentence = f"{option}: no answer of the run has the place {given!r}. Its places: {_listed(places) or 'none'}."
    raise misuse(option, given, sentence)


def _is_short_for(given: str, place: str) -> bool:
    """Whether the parts of `given` are ends of parts of `place`, in order, and the last one of its last part.

    >>> place = "rent/round[2]/rent-turn-ann/rent-debater-ann"
    >>> [_is_short_for(given, place) for given in ("ann", "round[2]/ann", "debater-ann", "round[1]/ann", "round[2]")]
    [True, True, True, False, False]
    """
    wanted, parts = given.split("/"), place.split("/")
    if not _ends(parts.pop(), wanted.pop()):
        return False
    rest = iter(parts)
    return all(any(_ends(part, each) for part in rest) for each in wanted)


def _ends(part: str, end: str) -> bool:
    return part == end or (bool(end) and part.endswith(f"-{end}"))


_NAMED = 8
"""Places that a message lists."""


def _listed(places: Sequence[str]) -> str:
    return ", ".join(places[:_NAMED]) + (", …" if len(places) > _NAMED else "")


def _promise(stored: StoredRun, steps: Sequence[StepRow], at: str | None, edits: Mapping[str, str]) -> str:
    """The line that says what is reused."""
    from flowdebate.service.runs import short_id

    answers = [step for step in steps if step.body is not None and step.kind in ("call", "human")]
    if at is not None:
        end = next(step.seq or 0 for step in answers if step.key == at)
        answers = [step for step in answers if (step.seq or 0) < end]
    count = sum(step.key not in edits for step in answers)
    which = f"{count:,} {'answer' if count == 1 else 'answers'}{'' if at is None else f' before {at}'}"
    edited = f"; {len(edits):,} edited" if edits else ""
    run = short_id(stored.header.run_id)
    return f"Fork of {run}: reuses its {which} wherever the same model is asked the same{edited}"
