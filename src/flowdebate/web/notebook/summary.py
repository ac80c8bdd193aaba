"""Reports of evaluations and batches as notebooks show them: a sentence, a table, and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import counted
from flowdebate.errors import error_text
from flowdebate.evaluation.benefit.comparison import BenefitReport
from flowdebate.evaluation.benefit.evaluate import Evaluation
from flowdebate.evaluation.benefit.report import METHODS
from flowdebate.evaluation.decision_rules.recount import Recount
from flowdebate.evaluation.judges.report import JudgeAudit, ReaderAgreement, RunAudit
from flowdebate.runs.batch.result import BatchResult
from flowdebate.service.audit import rows_of
from flowdebate.service.documents.live import cost_text, tokens_text
from flowdebate.service.documents.markdown import escaped
from flowdebate.service.runs import WORDS
from flowdebate.web.notebook.excerpt import shortened
from flowdebate.web.templates import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_ROWS = 100
"""Rows of a table; the others are counted."""
_CELL, _SENTENCE = 300, 2_000
"""Characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A report in short: the same in HTML and in Markdown."""

    title: str
    about: str = ""
    head: tuple[str, ...] = ()
    rows: Sequence[Sequence[str]] = ()
    findings: Sequence[str] = ()

    @property
    def shown(self) -> list[list[str]]:
        """The first rows, with long cells cut."""
        return [[shortened(cell, _CELL) for cell in row] for row in self.rows[:_ROWS]]

    @property
    def more(self) -> str:
        """How many rows are not shown; "" for none."""
        return f"{counted(len(self.rows) - _ROWS, 'more row')}" if len(self.rows) > _ROWS else ""

    @property
    def sentences(self) -> list[str]:
        """The findings as sentences, with long ones cut."""
        return [shortened(_sentence(each), _SENTENCE) for each in self.findings[:_ROWS]]

    def html(self) -> str:
        """A part of a page, in the notebook's own look."""
        return render("notebook/summary", summary=self, about=shortened(self.about, _SENTENCE))

    def markdown(self) -> str:
        """The same as Markdown."""
        about = f": {escaped(shortened(self.about, _SENTENCE))}" if self.about else ""
        lines = [f"**{escaped(self.title)}**{about}", ""]
        if self.shown:
            lines += [_row(self.head), _row(["---"] * len(self.head), plain=True), *map(_row, self.shown), ""]
        lines += [self.more, ""] if self.more else []
        lines += [f"- {escaped(each)}" for each in self.sentences]
        return "\n".join(lines).rstrip() + "\n"


def _row(cells: Sequence[str], *, plain: bool = False) -> str:
    return f"| {' | '.join(cell if plain else escaped(cell) for cell in cells)} |"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"


def summary_of(value: object) -> Summary | None:  # noqa: PLR0911 - one case for each kind
    """The summary of a report; None for what is none."""
    match value:
        case RunAudit():
            return _audited(value.judge, value.findings)
        case JudgeAudit():
            return _audited(value, value.findings)
        case ReaderAgreement():
            return Summary(title="Agreement with readers", findings=value.findings)
        case BenefitReport():
            return _benefit(value)
        case Evaluation():
            return _benefit(value.report)
        case Recount():
            return _recounted(value)
        case BatchResult():
            return _batch(value)
        case _:
            return None


def _audited(audit: JudgeAudit, findings: Sequence[str]) -> Summary:
    models = f", {counted(len(audit.models), 'model')}" if audit.models else ""
    rows = [([row.judge] if models else []) + [row.name, row.shown, row.interval, row.of] for row in rows_of(audit)]
    head = ("Figure", "Value", "95% interval", "Of")
    return Summary(
        title="Judge audit",
        about=f"{counted(audit.ballots, 'ballot')} on {counted(audit.items, 'item')}{models}",
        head=("Judge", *head) if models else head,
        rows=rows,
        findings=findings,
    )


def _benefit(report: BenefitReport) -> Summary:
    rows = [
        [
            _sentence(METHODS[each.method]).rstrip("."),
            f"{each.right:,.4g} of {each.n:,}",
            f"{each.accuracy:.0%}",
            f"{each.low:.0%} to {each.high:.0%}",
            f"{each.calls:,.3g}",
            "" if each.tokens is None else f"{each.tokens:,.0f}",
        ]
        for each in report.methods
    ]
    head = ("Method", "Right", "Accuracy", f"{report.confidence:.0%} interval", "Calls", "Tokens")
    compared = [f"against {METHODS[each.baseline]}: {each.summary}" for each in report.comparisons]
    return Summary(title="Benefit", about=report.summary, head=head, rows=rows, findings=compared)


def _recounted(recount: Recount) -> Summary:
    rows = [[row.rule.replace("_", " "), row.winner or "none", row.why] for row in recount.rows]
    about = f"{recount.usable:,} of {counted(recount.cast, 'ballot')}, {counted(len(recount.sides), 'side')}"
    return Summary(title="Recount", about=about, head=("Rule", "Winner", "Why"), rows=rows, findings=recount.findings)


def _batch(batch: BatchResult[Any]) -> Summary:
    counts = batch.summary
    statuses = ", ".join(f"{number:,} {WORDS.get(status, status)}" for status, number in counts.statuses.items())
    facts = (statuses, counted(counts.usage.calls, "call"), tokens_text(counts.usage), cost_text(counts.cost))
    rows = [
        [str(item.index), str(item.question), WORDS.get(item.status, item.status), "; ".join(_came_to(item))]
        for item in batch[: _ROWS + 1]
    ]
    rows += [[""] * len(_ITEM)] * max(len(batch) - len(rows), 0)  # only counted
    return Summary(
        title=f"Batch of {counted(len(batch), 'run')}", about="; ".join(filter(None, facts)), head=_ITEM, rows=rows
    )


_ITEM = ("Index", "Question", "Status", "Result")


def _came_to(item: Any) -> Iterator[str]:  # noqa: ANN401 - a BatchItem
    if item.error is not None:
        yield error_text(item.error)
        return
    verdict = getattr(item.raw, "verdict", None)
    if (winner := getattr(verdict, "winner", None)) is not None:
        yield f"Winner: {winner}"
    answer = getattr(item.raw, "answer", None)
    if answer or isinstance(item.output, str):
        yield str(answer or item.output)
