"""The local model as a judge of written debates, in which one side is better by design or both are equally good.

Each line of `judge_cases.jsonl` is a debate. In tuning debates (`c…` and `d…`) and new debates (`n…`, which were
written before any measurement on them and not changed afterwards), the better side has facts that bear on the question.
The other side has slogans, anecdotes, irrelevant numbers, a refuted claim, or a dodge. Whether the better side speaks
first, supports the proposal and has the longer text is balanced over all combinations. In equal debates (`e…`), both
sides are equally good, and one has up to three times as much text. These debates determine the threshold, and each half
of them is checked with the fit of the other half.

`case_ballots.jsonl` has a line for each debate and judge. `python -m evidence.judge_cases` requests the missing lines
one after another.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evidence.estimates import table, wilson
from flowdebate import DebateContributionEntry, JudgeOptions, handler, sequencer
from flowdebate.evaluation import fit_letters
from flowdebate.models.local.model import LocalModel
from flowdebate.patterns.debate import JudgeBallot, JudgeTemplate, Judging, LetterFit
from flowdebate.patterns.debate.judging.ballots import MIN_LOG_ODDS, centered
from flowdebate.patterns.debate.judging.judge import Judge
from flowdebate.patterns.debate.judging.jurors import FITTED
from flowdebate.patterns.debate.schemas import DebateTranscriptState, JudgedVerdict
from flowdebate.patterns.debate.transcript import create_debate_transcript

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.runs.context import Context

__all__ = ("BALLOTS", "CASES", "JUDGES", "Case", "Found", "cases", "fitted", "found_in", "half_of", "judged", "tables")

CASES = Path(__file__).with_name("judge_cases.jsonl")
BALLOTS = Path(__file__).with_name("case_ballots.jsonl")
EARLIER = JudgeTemplate(
    letter=(
        "You compare the evidence of the sides in a debate. Fine words, personal stories and changes of subject "
        "are no evidence."
    ),
    letter_turn=(
        "Question: {question}\n\n{sides}\n\nWhich side gave concrete evidence on the question? Reply {letters}."
    ),
)
HELPS = JudgeTemplate(
    letter="You judge arguments by the facts in them, and only by facts that help to answer the question.",
    letter_turn=(
        "Question: {question}\n\n{sides}\n\n"
        "Which side named concrete facts that help to answer the question? Answer {letters}."
    ),
)
JUDGES = {
    "letter": JudgeOptions(answer_form="letter", quotes=False),
    "earlier": JudgeOptions(answer_form="letter", quotes=False, template=EARLIER),
    "helps": JudgeOptions(answer_form="letter", quotes=False, template=HELPS),
    "winner": JudgeOptions(answer_form="winner"),
    "first_round": JudgeOptions(answer_form="letter", quotes=False),  # reads only the first round
}
GROUPS = {"c": "tuning", "d": "tuning", "n": "new", "e": "equal"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A written debate."""

    id: str
    kind: str
    """Weakness of the worse side; in an equal debate, what both sides have."""
    question: str
    positions: dict[str, str]
    """Stances of the sides "for" and "against"."""
    better: str | None
    """Better side, "for" or "against"; None in an equal debate."""
    transcript: Sequence[DebateContributionEntry]

    @property
    def group(self) -> str:
        """Set of the debate: tuning, new or equal."""
        return GROUPS[self.id[0]]

    @property
    def stances(self) -> tuple[str, str]:
        """Better stance and the other one; in an equal debate, the first speaker's stance and the other one."""
        speaking = list(dict.fromkeys(entry.stance for entry in self.transcript))
        first, second = sorted(speaking, key=lambda stance: stance != self.positions.get(self.better or ""))
        return first, second

    @property
    def speaking(self) -> tuple[str, str]:
        """Stances in the order in which they first speak."""
        first, second = dict.fromkeys(entry.stance for entry in self.transcript)
        return first, second

    @property
    def lengths(self) -> dict[str, int]:
        """Number of characters of each stance."""
        entries = self.transcript
        return {side: sum(len(entry.text) for entry in entries if entry.stance == side) for side in self.stances}

    def read_by(self, judge: str) -> Case:
        """Return the debate as read by `judge`, which may see only the first round."""
        first = [entry for entry in self.transcript if entry.round == 1]
        return replace(self, transcript=first) if judge == "first_round" else self

    @cached_property
    def ratio(self) -> float:
        """Logarithm of the ratio of lengths, the first of `stances` to the second."""
        first, second = self.stances
        return math.log(self.lengths[first] / self.lengths[second])


@dataclass(frozen=True, kw_only=True)
class Found:
    """A judge's decision on a debate."""

    case: str
    judge: str
    winner: str | None = None
    leads: Sequence[float] = ()
    """Leads of the side that speaks first when shown first and when shown second, if the judge answers by letter."""
    mass: Sequence[float] = ()


def cases() -> list[Case]:
    """Read all debates."""
    return [read_case(json.loads(line)) for line in CASES.read_text("utf-8").splitlines()]


def read_case(row: dict[str, Any]) -> Case:
    """Build a debate from a line."""
    positions = {side: row[side] for side in ("for", "against")}
    entries = [
        DebateContributionEntry(
            round=1 + number // 2, agent_name=turn["side"], stance=positions[turn["side"]], text=turn["text"]
        )
        for number, turn in enumerate(row["turns"])
    ]
    fields = {name: row[name] for name in ("id", "kind", "question")}
    return Case(**fields, positions=positions, better=row.get("better"), transcript=entries)


def found_in(path: Path = BALLOTS) -> list[Found]:
    """Read the decisions in a file; return none if it does not exist."""
    return [Found(**json.loads(line)) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


async def judged(case: Case, judge: str, model: Any) -> Found:
    """Ask `judge` about `case`, showing the sides first in the order in which they speak."""
    transcript, entries = create_debate_transcript(), case.read_by(judge).transcript

    @handler(name="cases-transcript", resources={"transcript": transcript})
    def take(_: str, ctx: Context) -> None:
        ctx.resources.transcript.set(DebateTranscriptState(entries=list(entries)))

    block = Judge(JUDGES[judge], name="cases", transcript=transcript, stances=case.speaking, shuffle_for_judge=False)
    verdict: JudgedVerdict = (
        await sequencer(name="cases").tap(take).then(block).run(case.question, model=model)
    ).output
    if verdict.judging is None or verdict.judging.answer is None:
        return Found(case=case.id, judge=judge, winner=verdict.winner)
    first, second = case.speaking
    odds = [ballot.log_odds or {} for ballot in verdict.judging.ballots]
    return Found(
        case=case.id,
        judge=judge,
        leads=[odds_of_order[first] - odds_of_order[second] for odds_of_order in odds],
        mass=[ballot.mass or 0.0 for ballot in verdict.judging.ballots],
    )


def judging_of(case: Case, row: Found) -> Judging:
    """Return the ballots in the form that a verdict records."""
    first, second = case.speaking
    ballots = [
        JudgeBallot(
            view=view,
            order=list(order),
            log_odds=centered({first: lead, second: 0.0}),
            mass=mass,
            lengths=case.lengths,
        )
        for view, (order, lead, mass) in enumerate(
            zip(((first, second), (second, first)), row.leads, row.mass, strict=True)
        )
    ]
    return Judging(answer="letter", decided_by="log_odds", ballots=ballots, scores={first: 0.5, second: 0.5})


def half_of(case: Case) -> int:
    """Return the half, 0 or 1, to which an equal debate belongs."""
    return int(case.id[1:]) % 2


def fitted(rows: Sequence[Found], judge: str = "letter", *, half: int | None = None) -> LetterFit:
    """Fit a judge's correction to its tuning debates and its equal debates, or to one `half` of the equal ones."""
    by_id = {case.id: case for case in cases()}
    used = []
    for row in rows:
        case = by_id[row.case]
        equal = case.group == "equal" and half in (None, half_of(case))
        if row.judge == judge and (case.group == "tuning" or equal):
            used.append((judging_of(case, row), case.stances[0] if case.better else None))
    return fit_letters(used)


def _leads(rows: Sequence[Found], judge: str, group: str) -> list[tuple[Case, float]]:
    """Return each case with the lead of the first of its `stances`, averaged over both orders."""
    by_id = {case.id: case.read_by(judge) for case in cases()}
    some = [(by_id[row.case], row) for row in rows if row.judge == judge]
    return [
        (case, float(np.mean(row.leads)) * (1 if case.stances == case.speaking else -1))
        for case, row in some
        if case.group == group
    ]


def tables(table_rows: Sequence[Found]) -> tuple[str, str]:
    """Return two Markdown tables: a comparison of the question's wordings, and the judges' results."""
    slope, min_log_odds = next(iter(FITTED.values()))
    words = []
    for judge, name in (("earlier", "earlier words"), ("helps", "tried"), ("letter", "**in use**")):
        pairs = _leads(table_rows, judge, "tuning")
        if len(pairs) > 2:
            ratio, lead = np.array([(case.ratio, lead) for case, lead in pairs]).T
            per_length, at_equal = np.polyfit(ratio, lead, 1)
            residuals = lead - at_equal - per_length * ratio
            spread = float(np.sqrt(np.sum(residuals**2) / (len(lead) - 2)))
            error = spread * math.sqrt(1 / len(lead) + ratio.mean() ** 2 / np.sum((ratio - ratio.mean()) ** 2))
            words.append([name, str(len(lead)), f"{at_equal:+.3f} ± {error:.3f}", f"{per_length:+.3f}"])
    rows, in_use = [], LetterFit(per_log_length=slope, min_log_odds=min_log_odds)
    for judge, name, fit in (
        ("earlier", "earlier words, length not discounted", LetterFit(per_log_length=0.0, min_log_odds=MIN_LOG_ODDS)),
        ("earlier", "earlier words", fitted(table_rows, "earlier")),
        ("letter", "in use, length not discounted", LetterFit(per_log_length=0.0, min_log_odds=min_log_odds)),
        ("letter", "**in use**", in_use),
        ("first_round", "in use, of the first round", in_use),
    ):
        for group in ("tuning", "new", "equal"):
            pairs = [(case, lead - fit.per_log_length * case.ratio) for case, lead in _leads(table_rows, judge, group)]
            if not pairs:
                continue
            decided = [lead > 0 for _, lead in pairs if abs(lead) >= fit.min_log_odds]
            shorter = [lead > 0 for case, lead in pairs if case.ratio < 0]
            shares = [_share([lead > 0 for _, lead in pairs]), _share(decided), _share(shorter)]
            if group == "equal":
                halves = judge != "first_round" and fit.per_log_length
                winners = _winners_by_half(table_rows, judge) if halves else f"{len(decided)} of {len(pairs)}"
                shares = ["", f"{winners} get a winner", ""]
            r = np.corrcoef([case.ratio for case, _ in pairs], [lead for _, lead in pairs])[0, 1]
            rows.append([name, group, *shares, f"{r:+.2f}"])
    head = ["words", "debates", "right by sign", "right of the winners named", "right where the better side is shorter"]
    return (
        table(["words of the question", "tuning debates", "lead at equal length", "per unit of log length"], words),
        table([*head, "correlation of lead and log length"], rows),
    )


def _winners_by_half(rows: Sequence[Found], judge: str) -> str:
    """Count how many equal debates in each half get a winner by the fit of the other half."""
    cells = []
    for half in (0, 1):
        fit = fitted(rows, judge, half=1 - half)
        residuals = [
            lead - fit.per_log_length * case.ratio
            for case, lead in _leads(rows, judge, "equal")
            if half_of(case) == half
        ]
        cells.append(f"{sum(abs(value) >= fit.min_log_odds for value in residuals)} of {len(residuals)}")
    return " and ".join(cells)


def _share(right: Sequence[bool]) -> str:
    return f"{sum(right)} of {len(right)}, {wilson(sum(right), len(right)):2}" if right else "none"


async def _ask_all(out: Path, judges: Sequence[str]) -> None:
    done = {(row.case, row.judge) for row in found_in(out)}
    async with LocalModel() as model:
        for judge in judges:
            for case in cases():
                if (case.id, judge) not in done and (judge != "winner" or case.group != "equal"):
                    row = await judged(case, judge, model)
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({key: value for key, value in vars(row).items() if value}) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=BALLOTS)
    parser.add_argument("--judges", nargs="*", choices=list(JUDGES), default=["letter"])
    parser.add_argument("--show", action="store_true", help="only print the tables of what is there, and the fit")
    options = parser.parse_args()
    if not options.show:
        asyncio.run(_ask_all(options.out, options.judges))
    print("\n\n".join(tables(found_in(options.out))))
    print(repr(fitted(found_in(options.out))))
