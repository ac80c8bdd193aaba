"""Sides that a model proposes for a debate: shown, and confirmed or edited in the terminal, before they are debated."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import typer

from flowdebate.cli.terminal.process import tell
from flowdebate.errors import ConfigurationError
from flowdebate.service.plans.options import COMMAND, parse_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.roster import Debater
    from flowdebate.service.plans.plan import Plan


def with_proposed_sides(plan: Plan, *, yes: bool) -> Plan:
    """`plan` with sides that its model proposes, after they were shown; ends in Abort if the user declines them.

    In a terminal the user is asked, unless `yes`, and may edit them.
    """
    from flowdebate.patterns.debate.proposer import create_side_proposer
    from flowdebate.service.plans.plan import with_sides

    with_sides(plan, ())  # refuses invalid options before a model is called
    tell("The question does not say what the sides are; the model proposes some …")
    asked = create_side_proposer(instructions=plan.options.instructions).run(
        plan.subject, model=plan.models, seed=plan.seed, limits=plan.limits, store=False
    )
    found = asyncio.run(asked)
    sides: Sequence[Debater] = found.output
    tokens = found.usage.total_tokens
    tell("Sides" if tokens is None else f"Sides ({tokens:,} tokens)")
    while True:
        _show(sides)
        if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return with_sides(plan, sides)
        answer = typer.prompt("Debate these sides? [Y/n/edit]", default="y", show_default=False, err=True)
        match answer.strip().lower():
            case "y" | "yes":
                return with_sides(plan, sides)
            case "n" | "no":
                raise typer.Abort
            case "e" | "edit":
                sides = _typed(sides)
            case _:
                tell("Type y to debate them, n to stop, or edit to change them.")


def _show(sides: Sequence[Debater]) -> None:
    for side in sides:
        tell(f"  {side.name} = {side.stance}")


def _typed(sides: Sequence[Debater]) -> Sequence[Debater]:
    """The sides that the user types; those that there are where they do not make a debate, with the reason."""
    from flowdebate.patterns.roster import Debater, checked_roster

    tell("Type one side on each line, as NAME = POSITION; an empty line ends.")
    lines: list[str] = []
    while line := typer.prompt(">", default="", show_default=False, prompt_suffix=" ", err=True).strip():
        lines.append(line)
    try:
        entries = [parse_entry(line, "a side", key="stance", needed=True) for line in lines]
        return checked_roster([Debater(entry["name"], entry["stance"]) for entry in entries], where=COMMAND)
    except ConfigurationError as error:
        tell(f"Not changed: {error}")
        return sides
