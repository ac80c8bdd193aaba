"""`flowdebate archive`: what earlier debates found, and what turned out since."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

from flowdebate.cli import options as opt
from flowdebate.cli.terminal.process import open_page, write_json
from flowdebate.service.plans.options import Option, Text, misuse

if TYPE_CHECKING:
    from flowdebate.store.archive import ArchivedDebate


@opt.command()
def archive(
    action: Annotated[
        Literal["list", "show", "outcome", "correct", "delete"],
        Option(metavar="ACTION", help="list (the default), show, outcome, correct or delete."),
    ] = "list",
    debate: Annotated[Text | None, Option(metavar="DEBATE", help="The run of a debate, as the list has it.")] = None,
    *,
    right: Annotated[
        Text | None, Option(metavar="AGENT", help="outcome: the agent whose proposal turned out right.")
    ] = None,
    wrong: Annotated[Text | None, Option(metavar="AGENT", help="outcome: the one that was wrong, if not more.")] = None,
    answer: Annotated[
        Text | None, Option(metavar="TEXT", help="correct: the answer that later debates are shown.")
    ] = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """Show what consensus debates remember, record what turned out, correct an answer, or delete a debate from it."""
    from flowdebate.service.archive import archive_of
    from flowdebate.service.runs import moment, opened, short_id

    if [bool(right) + bool(wrong), bool(answer)] != [action == "outcome", action == "correct"]:
        sentence = "outcome takes --right AGENT or --wrong AGENT, correct takes --answer TEXT, the others neither."
        raise misuse("ACTION", action, sentence)
    with opened(store) as place:
        kept = archive_of(place.store, {})
        found = asyncio.run(kept.debates())
        if action != "list":
            found = [each for each in found if debate is not None and each.id.startswith(debate)]
            if len(found) != 1:
                sentence = f"{len(found)} debates begin with {debate!r}. To list them: flowdebate archive{place.option}"
                raise misuse("DEBATE", debate, sentence)
        if action in ("outcome", "correct"):
            asyncio.run(kept.correct(found[0].id, right=right, wrong=wrong, answer=answer))
            found = [each for each in asyncio.run(kept.debates()) if each.id == found[0].id]
        elif action == "delete":
            asyncio.run(kept.forget(found[0].id))
    if as_json:
        write_json([each.model_dump(mode="json", by_alias=True) for each in found])
    elif action == "list":
        rows = [
            (short_id(each.id.partition(":")[0]), f"{moment(each.at):%Y-%m-%d}", each.turned_out or "", each.task)
            for each in found
        ]
        open_page().columns(("DEBATE", "DATE", "TURNED OUT", "TASK"), rows)
    else:
        _show(found[0], "Deleted" if action == "delete" else "Task")


def _show(debate: ArchivedDebate, label: str) -> None:
    page = open_page()
    page.labelled(label, debate.task, "bold", indent="")
    page.labelled("Answer", debate.answer or "no agreement", "green")
    for ballot in debate.dissent:
        page.labelled("Dissent", f"{ballot.voter}: {ballot.reasoning}", "dim")
    for what, name in dict(debate.recorded or {}).items():
        if name is not None:
            page.labelled("Turned out", f"{name} was {what}", "bold")
