"""`flowdebate eval audit` and `leaderboard`: tests for bias in stored ballots, and a ranking of models."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from signal import Signals
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from flowdebate._text import error_text
from flowdebate._util.option_types import Count, Text, number
from flowdebate.cli import options as opt
from flowdebate.cli.asking import Ending, ProgressLines, ask
from flowdebate.cli.options import check
from flowdebate.cli.terminal.process import ExitCode, open_page, print_message, write_json
from flowdebate.errors import ConfigurationError
from flowdebate.ui.options import COMMAND, FilePath, ModelName, Option, misuse

if TYPE_CHECKING:
    from flowdebate.evaluation import BallotFile, ContentAudit, JudgeAudit, JudgeQuality
    from flowdebate.evaluation.audit_report import AuditItem
    from flowdebate.evaluation.leaderboard import Leaderboard
    from flowdebate.evaluation.rejudging import ArguedDebate, JudgeChanges
    from flowdebate.evaluation.stored_audit import Items
    from flowdebate.patterns.debate.judging.ballots import Answer
    from flowdebate.patterns.debate.judging.options import JudgeOptions
    from flowdebate.runs.batch import BatchResult
    from flowdebate.store.base import Store, StoredRun


_Prior = Annotated[float, Field(gt=0), number(above=0)]
_Seed = Annotated[int, Field(ge=0), number(whole=True, minimum=0)]


@opt.command("base_url")
def audit(  # noqa: PLR0913 - the options of the command
    runs: Annotated[list[str] | None, Option(metavar="RUN", help=f"{opt.RUN} Default: all stored runs.")] = None,
    *,
    data: Annotated[
        FilePath | None,
        Option(metavar="FILE", help='Audit the ballots in this file: .csv, .jsonl or .parquet; "-" is stdin.'),
    ] = None,
    status: opt.Status = None,
    pattern: opt.Pattern = None,
    text: opt.Search = None,
    limit: Annotated[Count | None, Option(metavar="N", help="Only the newest N runs.")] = None,
    rejudge: Annotated[bool, Option(help="Judge the stored debates again, but keep their arguments.")] = False,
    schedule: Annotated[
        Text | None,
        Option(
            metavar="NAME",
            help="The judge views: single, swap, cyclic, full, sampled(N). Default: as judged, else cyclic.",
        ),
    ] = None,
    repeat: Annotated[Count | None, Option(metavar="N", help="Number of times to judge each view. Default: 1.")] = None,
    answer_form: Annotated[
        Literal["scores", "letter", "letter_after_reasons"] | None,
        Option(help="Form of the judge's answers; letters need log-probabilities. Default: as judged, else scores."),
    ] = None,
    labels: Annotated[bool, Option(help="Show the sides as A, B, … instead of by their stances.")] = False,
    model: Annotated[
        list[ModelName] | None, Option(metavar="SPEC", help="A model to judge again; repeat for several.")
    ] = None,
    max_concurrency: Annotated[
        Count | None, Option(metavar="N", help="Maximum number of debates at once. Default: 8.")
    ] = None,
    seed: Annotated[_Seed, Option(help="Seed for orders, p-values and intervals.")] = 0,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    base_url: str | None = None,
) -> None:
    """Audit judges for bias and consistency.

    The audit tests whether judges favor a slot or a label, and whether their verdicts change with the order of the
    sides. The findings list every preference found, and every test that had too few verdicts.
    """
    from flowdebate.evaluation.stored_audit import audit_of, audited_runs, has_intervals, read_items
    from flowdebate.service.runs import each_run, opened

    filters: dict[str, object] = {"status": status, "pattern": pattern, "text": text, "limit": limit}
    other = "RUN" if runs else "--data"
    for name, value in filters.items():
        check(value is None or not (runs or data is not None), f"--{name}", f"cannot be combined with {other}")
    check(data is None or not runs, "RUN", "cannot be combined with --data")
    check(not rejudge or data is None, "--rejudge", "cannot be combined with --data")
    judging: dict[str, object] = {
        "schedule": schedule, "repeat": repeat, "answer-form": answer_form, "labels": labels or None,
        "model": model or None, "base-url": base_url, "max-concurrency": max_concurrency,
    }  # fmt: skip
    again = None
    if rejudge:
        again = Rejudging(
            answer_form=answer_form,
            schedule=schedule,
            labels=labels,
            repeat=repeat or 1,
            specs=model or (),
            base_url=base_url,
            max_concurrency=max_concurrency or 8,
            seed=seed,
        )
    else:
        for name, value in judging.items():
            check(value is None, f"--{name}", "requires --rejudge")

    ending = Ending()
    ballots = None
    if data is not None:
        items, ballots = read_items(data)
    else:
        with opened(store) as place:
            matching = each_run(place.store, state=status, block=pattern, search=text, limit=limit)
            selected = _find_all(place.store, runs) if runs else matching
            if again is None:
                items = asyncio.run(audited_runs(place.store, selected))
            else:
                items, ending = again.judge(asyncio.run(_gather(selected)), place.store)
    if not has_intervals():
        print_message('Warning: p-values and intervals need scipy: pip install "flowdebate[audit]"')
    audited = audit_of(items, seed=seed)
    _write(audited, items, ballots, as_json=as_json)
    replace(ending, incomplete=not audited.ballots).leave()


async def _find_all(store: Store, names: Sequence[str]) -> AsyncIterator[StoredRun]:
    """Yield each of the specified runs only once."""
    from flowdebate.service.runs import find_run

    seen = set[str]()
    for name in names:
        run = await find_run(store, name)
        if run.header.run_id not in seen:
            seen.add(run.header.run_id)
            yield run


async def _gather(runs: AsyncIterator[StoredRun]) -> list[StoredRun]:
    return [run async for run in runs]


def _write(audited: JudgeAudit, items: Items, ballots: BallotFile | None, *, as_json: bool) -> None:
    from flowdebate.evaluation.documents import lay_out, lay_out_audit
    from flowdebate.evaluation.stored_audit import has_intervals

    reports = _measure(items, ballots) if has_intervals() else {}

    if as_json:
        figures: dict[str, Any] = {
            "audit": audited.model_dump(mode="json", by_alias=True),
            "findings": audited.findings,
            "leftOut": dict(sorted(items.left_out.items())),
        }
        if items.readers is not None:
            figures["readers"] = items.readers.model_dump(mode="json", by_alias=True)
        measured = {name: report.model_dump(mode="json", by_alias=True) for name, report in reports.items()}
        for name in ("quality", "content"):
            if name in measured:
                figures[name] = measured.pop(name)
        if measured:
            figures["qualities"] = measured
        write_json(figures)
    else:
        summary = lay_out_audit(audited, audited.findings, readers=items.readers, left_out=items.left_out)
        page = open_page()
        page.summary(summary)
        titles = {"quality": "All judges against the truth", "content": "What besides the content decides"}
        for name, report in reports.items():
            if (more := lay_out(report)) is not None:
                page.summary(replace(more, subtitle=titles.get(name, f"{name} against the truth")))


def _measure(items: Items, ballots: BallotFile | None) -> dict[str, JudgeQuality | ContentAudit]:
    """Measure judges against known correct answers, and audit a file's ballots for influences other than content.

    The reports have the keys "quality" and "content". If there are several judges, each of them also gets a quality
    report of its own, keyed by the judge's name.
    """
    from flowdebate.evaluation import content_audit, judge_quality
    from flowdebate.evaluation.judge_quality import judged_items

    reports: dict[str, JudgeQuality | ContentAudit] = {}
    judged = judged_items(items.items) if ballots is None else ballots.judged
    if judged:
        reports["quality"] = judge_quality(judged)
    if ballots is None:
        return reports
    if judged and len(ballots.judges) > 1:
        reports |= {
            judge: judge_quality(judge_ballots)
            for judge in ballots.judges
            if (judge_ballots := ballots.of_judge(judge).judged)
        }
    if len({len(choice.systems) for choice in ballots.choices}) == 1:
        reports["content"] = content_audit(ballots.choices)
    return reports


class Rejudging:
    """Configuration for rejudging stored debates, built from the options of `audit`.

    Raises ConfigurationError for an invalid option.
    """

    def __init__(
        self,
        *,
        answer_form: Answer | None,
        schedule: str | None,
        labels: bool,
        repeat: int,
        specs: Sequence[str],
        base_url: str | None,
        max_concurrency: int,
        seed: int,
    ) -> None:
        from flowdebate.evaluation.rejudging import reuse_judge_options
        from flowdebate.ui.models import Models

        make = Models(base_url)
        if base_url is not None and not specs:
            raise misuse("--model", None, make.missing("--model", "--base-url"))
        models = [make(spec, COMMAND, "--model") for spec in specs]
        self._model = models[0] if len(models) == 1 else None
        self._changes: JudgeChanges = {"panel": models if len(models) > 1 else ()}
        if answer_form is not None:
            self._changes["answer_form"] = answer_form
        if schedule is not None:
            self._changes["schedule"] = schedule
        if labels:
            self._changes["labels"] = labels
        try:
            judge = reuse_judge_options(None, **self._changes)
        except ConfigurationError as error:
            flag = "model" if error.field == "panel" else error.field.replace("_", "-")
            raise error.moved(COMMAND, f"--{flag}") from None
        self._options = str([str(judge.plan), answer_form, labels, repeat, list(specs), seed])
        """Options as text, used to recognize the batch to continue."""
        self._repeat = repeat
        self._max_concurrency = max_concurrency
        self._seed = seed

    def judge(self, runs: Iterable[StoredRun], store: Store) -> tuple[Items, Ending]:
        """Rejudge the debates in `runs`; recorded answers are reused at no cost."""
        from flowdebate.evaluation.audit_report import AuditItem
        from flowdebate.evaluation.rejudging import rejudge, reuse_judge_options
        from flowdebate.evaluation.stored_audit import Items, argued, judging_of
        from flowdebate.patterns.debate.mirror import speaking_order
        from flowdebate.runs.header import StoreOptions

        debates: dict[str, tuple[str, ArguedDebate, JudgeOptions]] = {}
        left_out = Counter[str]()
        for run in runs:
            debate = argued(run)
            if debate is None or len(debate.sides) < 2:  # noqa: PLR2004 - there is nothing to choose from one
                left_out["has no transcript of a debate between two sides"] += 1
                continue
            judge = reuse_judge_options(judging_of(run), **self._changes)
            options = [judge.form, str(judge.plan), judge.labels, judge.rule, judge.min_log_odds]
            debates.setdefault(f"{debate.model_dump_json()}{options}", (run.header.run_id, debate, judge))
        if not debates:
            return Items(items=[], left_out=left_out), Ending()
        task = "\n".join([self._options, *debates])

        async def work(progress: ProgressLines) -> BatchResult[AuditItem]:
            return await rejudge(
                [debate for _, debate, _ in debates.values()],
                judge=[judge for _, _, judge in debates.values()],
                repeat=self._repeat,
                model=self._model,
                seed=self._seed,
                max_concurrency=self._max_concurrency,
                store=StoreOptions(store=store),
                batch_id=f"rejudge-{hashlib.blake2b(task.encode(), digest_size=5).hexdigest()}",
                progress=progress.show,
            )

        result = asyncio.run(ask(work))
        if isinstance(result, Signals):
            Ending(signal=result).leave()
        names = [name for name, _, _ in debates.values()]
        for item in result.failed:
            print_message(
                f"Run {names[item.index]} could not be judged again: {error_text(item.error) if item.error else ''}"
            )
        turns = [speaking_order(debate.transcript) for _, debate, _ in debates.values()]
        items = [
            AuditItem(id=names[item.index], ballots=item.output.ballots, spoken=turns[item.index])
            for item in result
            if item.output is not None
        ]
        return Items(items=items, left_out=left_out), Ending(failed=len(result.failed))


@opt.command()
def leaderboard(
    *,
    data: Annotated[
        FilePath | None,
        Option(metavar="FILE", help='Rank by the ballots in this file: .csv, .jsonl or .parquet; "-" is stdin.'),
    ] = None,
    prior: Annotated[
        _Prior | None,
        Option(
            metavar="SD",
            help="Standard deviation of strengths; with it, systems without a win or a loss are ranked too.",
        ),
    ] = None,
    status: opt.Status = None,
    pattern: opt.Pattern = None,
    text: opt.Search = None,
    limit: Annotated[Count | None, Option(metavar="N", help="Only the newest N runs.")] = None,
    form: Annotated[
        Literal["text", "markdown", "json"], Option(panel="Output", flag="--format", help="Output format.")
    ] = "text",
    store: opt.StoreName = None,
) -> None:
    """Rank models by the stored debates they won, and judges by how consistent their verdicts are.

    The report also counts each model's repaired answers. No model is called. A game is a pair of sides argued by
    different models.
    """
    from flowdebate.evaluation.documents import lay_out_leaderboard
    from flowdebate.evaluation.leaderboard import Standings
    from flowdebate.service.runs import each_run, opened

    async def read(store: Store) -> Leaderboard:
        standings = Standings()
        async for run in each_run(store, state=status, block=pattern, search=text, limit=limit):
            standings.add(run)
            standings.count_answers(await store.steps(run.header.run_id))
        return standings.leaderboard(prior=prior)

    if data is not None:
        for flag, value in (("--status", status), ("--pattern", pattern), ("--text", text), ("--limit", limit)):
            check(value is None, flag, "cannot be combined with --data")
        _rank_file(data, prior=prior, form=form)
        return
    with opened(store) as place:
        board = asyncio.run(read(place.store))
    if form == "json":
        write_json(board.model_dump(mode="json", by_alias=True))
    elif form == "markdown":
        from flowdebate.web.notebook import summary_markdown

        write_json(summary_markdown(lay_out_leaderboard(board)).rstrip())
    else:
        open_page().summary(lay_out_leaderboard(board))
    if not board.models and not board.judges and not board.answers:
        raise typer.Exit(ExitCode.NO_RESULT)


def _rank_file(path: str, *, prior: float | None, form: Literal["text", "markdown", "json"]) -> None:
    """Rank the systems in a ballot file, and include the first-position advantage if it can be estimated."""
    from flowdebate.evaluation import rank_games, read_ballots
    from flowdebate.evaluation.documents import lay_out
    from flowdebate.web.notebook import summary_markdown

    games = read_ballots(path).games
    check(games, "--data", "must contain ballots on two different systems", path)
    ranking = rank_games(games, prior=prior)
    if ranking.problem is not None:
        ranking = rank_games(games, order=False, prior=prior)
    if form == "json":
        write_json(ranking.model_dump(mode="json", by_alias=True) | {"findings": ranking.findings})
    elif (summary := lay_out(ranking)) is not None:
        if form == "markdown":
            write_json(summary_markdown(summary).rstrip())
        else:
            open_page().summary(summary)
    if ranking.problem is not None:
        raise typer.Exit(ExitCode.NO_RESULT)
