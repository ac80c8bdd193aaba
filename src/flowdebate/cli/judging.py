"""How the judge of a debate works, as the command line and a file say it, and how its ballots are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias, get_args

import typer

from flowdebate.cli.keys import Key, choice, flag, text
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.judging.schemas import DecidedBy, OnFlip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.human.human import Ask
    from flowdebate.cli.keys import Given
    from flowdebate.cli.plan import Models
    from flowdebate.patterns.debate.judging.options import JudgeOptions
    from flowdebate.patterns.debate.judging.schemas import Judging
    from flowdebate.patterns.debate.schemas import DebateVerdict

__all__ = (
    "JUDGE_KEYS",
    "CurtailFlag",
    "DecidedByName",
    "LabelsFlag",
    "OnFlipName",
    "PanelModels",
    "ScheduleName",
    "ballots_of",
    "judge_options",
    "nobody_of",
)

ScheduleName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        metavar="NAME",
        help="Orders in which the judge is shown the sides: single, swap, cyclic, full, sampled(N). Default: single.",
    ),
]
PanelModels: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--panel", metavar="SPEC", help="A model of a panel of judges; once for each. Each has a ballot."),
]
DecidedByName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--decided-by", metavar="HOW", help="mean: scores are averaged; vote: each ballot counts for one side."
    ),
]
OnFlipName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--on-flip",
        metavar="WHAT",
        help="Where a judge finds otherwise in another order: average, abstain, tie, human. Default: average.",
    ),
]
LabelsFlag: TypeAlias = Annotated[
    bool | None,
    typer.Option("--labels/--no-labels", help="The judge knows sides as A, B, … and not by their stances."),
]
CurtailFlag: TypeAlias = Annotated[
    bool | None,
    typer.Option("--curtail/--no-curtail", help="Save the ballots that could not change who wins."),
]

JUDGE_KEYS: Mapping[str, Key] = {
    "schedule": text("--schedule"),
    "panel": Key(
        fits=lambda value: isinstance(value, list) and all(map(text().fits, value)),
        allowed="a list of names of models",
        option="--panel",
    ),
    "decided_by": choice("--decided-by", get_args(DecidedBy)),
    "on_flip": choice("--on-flip", get_args(OnFlip)),
    "labels": flag("--labels"),
    "curtail": flag("--curtail"),
}
"""What a debate can be told about its judge."""


def judge_options(given: Given, made: Models, *, ask: Ask | None) -> JudgeOptions | None:
    """What was said about the judge; None for nothing. `ask` is how a person is asked where ballots flip."""
    from flowdebate.patterns.debate.judging.options import JudgeOptions
    from flowdebate.patterns.debate.judging.schedules import as_schedule

    if all(given[key] is None for key in JUDGE_KEYS):
        return None
    where, field = given.place("schedule")
    schedule = as_schedule(given.get("schedule", "single"), where=where, field=field)
    where, field = given.place("panel")
    on_flip = given.get("on_flip", "average")
    if given["curtail"] and on_flip != "average":
        raise ConfigurationError(*given.place("curtail"), True, "left out with another --on-flip than average")  # noqa: FBT003
    return JudgeOptions(
        schedule=schedule,
        models=[made(spec, where, f"{field}[{index}]") for index, spec in enumerate(given["panel"] or ())],
        decided_by=given.get("decided_by", "mean"),
        on_flip=on_flip,
        labels=bool(given["labels"]),
        curtail=bool(given["curtail"]),
        ask=ask if on_flip == "human" else None,
    )


def nobody_of(verdict: DebateVerdict) -> str:
    """Why a verdict names no winner."""
    judging = verdict.judging
    if judging is None or len(judging.ballots) < 2:  # noqa: PLR2004 - a judge that was asked once
        return "none, the answer combines several positions"
    return {"abstain": "none, the judge abstains", "tie": "none, a tie"}.get(judging.on_flip or "tie", "none")


def ballots_of(judging: Judging) -> str | None:
    """What ballots there are, in a line; None for a judge that was asked once.

    >>> from flowdebate.patterns.debate.judging.schemas import JudgeBallot, Judging
    >>> both = [JudgeBallot(order=["a", "b"], winner="a"), JudgeBallot(order=["b", "a"], winner="b")]
    >>> ballots_of(Judging(schedule="swap", ballots=both, planned=2, scores={"a": 0.5, "b": 0.5}, flipped=True))
    '2 (swap), which disagree: a 0.50, b 0.50'
    """
    if judging.planned == 1:
        return None
    lost = sum(ballot.problem is not None for ballot in judging.ballots)
    notes = [judging.schedule]
    notes += [f"{lost} could not be used"] * bool(lost)
    notes += [f"{judging.saved} saved"] * bool(judging.saved)
    shares = ", ".join(f"{side} {share:.2f}" for side, share in judging.scores.items())
    flipped = ", which disagree" if judging.flipped else ""
    return f"{len(judging.ballots)} ({', '.join(notes)}){flipped}: {shares}"
