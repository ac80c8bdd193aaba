"""`flowdebate eval critic`: use labeled answers to check whether a critic finds errors that the judge misses."""

from __future__ import annotations

import asyncio
from signal import Signals
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from flowdebate._util.option_types import Text, number
from flowdebate.cli import options as opt
from flowdebate.cli.asking import Ending, ProgressLines, ask, store_for_asking
from flowdebate.cli.batch import hash_name
from flowdebate.cli.batch_files import read_rows
from flowdebate.cli.terminal.process import open_page, write_json
from flowdebate.patterns import PATTERNS
from flowdebate.runs.header import StoreOptions
from flowdebate.ui.options import Option, misuse
from flowdebate.ui.plan import make_plan

if TYPE_CHECKING:
    from flowdebate.evaluation import CritiqueCheck

_Gain = Annotated[float, Field(gt=0, lt=1), number(above=0, below=1)]


@opt.command("model", "base_url", "effort", "profile", "seed", "max_calls", "price", "attempts", "fallback")
def critic(  # noqa: PLR0913 - the options of the command
    answers: Annotated[
        str,
        Option(metavar="FILE", help='CSV or JSON Lines: "question", "answer", and whether it is right; "-" is stdin.'),
    ],
    *,
    truth: Annotated[
        Text,
        Option(
            metavar="COLUMN",
            help="Column that says whether the answer is right: true or false, right or wrong, or a list of faults.",
        ),
    ] = "right",
    critics: Annotated[
        list[str] | None,
        Option(flag="--critic", metavar="NAME[=MODEL]", help="A critic and its model; repeat for each. Default: Ada."),
    ] = None,
    cluster: Annotated[
        Text | None,
        Option(
            metavar="COLUMN", help="Column with a property that answers share, such as a topic. Default: the question."
        ),
    ] = None,
    min_gain: Annotated[
        _Gain, Option(metavar="SHARE", help="The smallest gain in accuracy that is worth the calls.")
    ] = 0.05,
    max_concurrency: opt.Concurrency = 8,
    limit: opt.FirstOnly = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    **values: object,
) -> None:
    """Check whether a critic finds more errors than the judge does on its own.

    Run this check before you use critiques. The judge sees each answer both with and without a critique, so each answer
    takes up to 3 calls. Repeating the command continues an interrupted check. --max-calls applies to each answer.
    """
    from flowdebate.evaluation import critique_check
    from flowdebate.evaluation.documents import lay_out_critique_check
    from flowdebate.evaluation.statistics import check_scipy
    from flowdebate.ui.models import with_policies

    check_scipy("eval critic")
    rows = [{**row.columns, "question": row.question} for row in read_rows(answers)[:limit]]
    for name in (truth, "answer", *([] if cluster is None else [cluster])):
        if any(name not in row for row in rows):
            raise misuse(answers, None, f"{answers}: every row needs a `{name}` column.")
    options = {name: value for name, value in values.items() if value is not None and value != []}
    plan = make_plan(
        PATTERNS["critique"],
        {**options, "critics": critics or None},
        file={"question": rows[0]["question"], "answer": "-", "revise": False},
        begins=True,
    )
    plan = with_policies(plan, recording=False)

    with store_for_asking(store) as place:

        async def work(progress: ProgressLines) -> CritiqueCheck:
            models: Any = {**(plan.models or {}), **plan.seats}
            return await critique_check(
                rows,
                critics=plan.speakers,
                model=models or None,
                truth=truth,
                cluster=cluster,
                min_gain=min_gain,
                seed=plan.seed,
                limits=plan.limits,
                max_concurrency=max_concurrency,
                store=StoreOptions(store=place.store),
                batch_id=hash_name("critique-check", [rows, plan.options.stored()]),
                progress=progress.show,
            )

        check = asyncio.run(ask(work, usual_calls=3))
    if isinstance(check, Signals):
        Ending(signal=check).leave()
    if as_json:
        write_json({"check": check.to_data()})
    else:
        open_page().summary(lay_out_critique_check(check))
    Ending(incomplete=check.left_out > 0).leave()
