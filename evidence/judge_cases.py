"""Judges of a local model on written debates whose better side is known by design.

Each debate of `judge_cases.jsonl` has two rounds. The better side has facts that bear on the question; the other has
slogans, anecdotes, irrelevant numbers, a claim that was refuted, or a dodge. Whether the better side speaks first,
is for the proposal, and has more to say is balanced in all combinations. Prompts and threshold were chosen on other
debates.

One line of JSON a verdict is added to `--out`; a verdict that is there already is not made again.

    python -m evidence.judge_cases
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence.estimates import table, wilson
from flowdebate import DebateContributionEntry, JudgeOptions, handler, sequencer
from flowdebate.errors import FlowDebateError
from flowdebate.models.local.model import LocalModel
from flowdebate.patterns.debate.judging.ballots import MIN_LOG_ODDS, Judging
from flowdebate.patterns.debate.judging.judge import Judge
from flowdebate.patterns.debate.schemas import DebateTranscriptState, JudgedVerdict
from flowdebate.patterns.debate.transcript import create_debate_transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.runs.context import Context

__all__ = ("CASES", "JUDGES", "VERDICTS", "Case", "CaseVerdict", "cases", "verdicts")

CASES = Path(__file__).with_name("judge_cases.jsonl")
VERDICTS = Path(__file__).with_name("case_verdicts.jsonl")
"""The verdicts in the repository."""
JUDGES = {
    "letter": JudgeOptions(answer="letter"),
    "winner": JudgeOptions(answer="winner"),
}
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A written debate."""

    id: str
    kind: str
    """The weakness of the worse side."""
    question: str
    positions: dict[str, str]
    """The stance that is "for", and the one that is "against"."""
    better: str
    """"for" or "against"."""
    transcript: Sequence[DebateContributionEntry]

    @property
    def stances(self) -> tuple[str, str]:
        """The stances in the order in which they first speak."""
        first, second = dict.fromkeys(entry.stance for entry in self.transcript)
        return first, second

    @property
    def truth(self) -> str:
        """The better stance."""
        return self.positions[self.better]

    @property
    def better_speaks_first(self) -> bool:
        return self.stances[0] == self.truth

    @property
    def better_is_longer(self) -> bool:
        return self._count(len, self.truth) * 2 > self._count(len, *self.stances)

    @property
    def is_decoy(self) -> bool:
        """Whether the worse side has at least as many numbers as the better one."""
        return self._count(_numbers, self.truth) * 2 <= self._count(_numbers, *self.stances)

    def _count(self, of: Any, *stances: str) -> int:
        return sum(of(entry.text) for entry in self.transcript if entry.stance in stances)


def _numbers(text: str) -> int:
    return len(_NUMBER.findall(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseVerdict:
    """The verdict of one judge on one debate."""

    case: str
    judge: str
    seconds: float
    winner: str | None
    words: str
    """Verdict and reasoning; the error of a failed call."""
    judging: Judging | None
    """None for a failed call."""

    def line(self) -> str:
        """The line of the file."""
        judging = None if self.judging is None else self.judging.model_dump(by_alias=True, exclude_defaults=True)
        fields = {name: getattr(self, name) for name in ("case", "judge", "seconds", "winner", "words")}
        return json.dumps({**fields, "judging": judging}, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, line: str) -> CaseVerdict:
        """What `line()` wrote."""
        found = json.loads(line)
        judging = None if found["judging"] is None else Judging.model_validate(found["judging"])
        return cls(**{**found, "judging": judging})


def cases() -> list[Case]:
    """All debates."""
    return [_case(json.loads(line)) for line in CASES.read_text("utf-8").splitlines()]


def _case(row: dict[str, Any]) -> Case:
    positions = {side: row[side] for side in ("for", "against")}
    entries = [
        DebateContributionEntry(
            round=1 + number // 2, agent_name=turn["side"], stance=positions[turn["side"]], text=turn["text"]
        )
        for number, turn in enumerate(row["turns"])
    ]
    return Case(
        id=row["id"],
        kind=row["kind"],
        question=row["question"],
        positions=positions,
        better=row["better"],
        transcript=entries,
    )


def verdicts(path: Path = VERDICTS) -> list[CaseVerdict]:
    """The verdicts of a file; none if it does not exist."""
    return [CaseVerdict.read(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


async def judged(case: Case, judge: str, model: Any) -> CaseVerdict:
    """Ask `judge` about `case`, first in the order in which the sides speak."""
    transcript = create_debate_transcript()

    @handler(name="cases-transcript", resources={"transcript": transcript})
    def take(_: str, ctx: Context) -> None:
        ctx.resources.transcript.set(DebateTranscriptState(entries=list(case.transcript)))

    block = Judge(JUDGES[judge], name="cases", transcript=transcript, stances=case.stances, shuffle_for_judge=False)
    began = time.monotonic()
    try:
        verdict: JudgedVerdict = (
            await sequencer(name="cases").tap(take).then(block).run(case.question, model=model)
        ).output
    except FlowDebateError as error:
        words = f"{type(error).__name__}: {error}"
        return CaseVerdict(case=case.id, judge=judge, seconds=0.0, winner=None, words=words, judging=None)
    return CaseVerdict(
        case=case.id,
        judge=judge,
        seconds=round(time.monotonic() - began, 1),
        winner=verdict.winner,
        words=f"{verdict.verdict}\n\n{verdict.reasoning}",
        judging=verdict.judging,
    )


def table_of_judges(found: Sequence[CaseVerdict]) -> str:
    """How often each judge found the better side, in Markdown; and where the letters' log-odds stand, by design."""
    known = {case.id: case for case in cases()}
    letters = [(known[each.case], each.judging) for each in found if each.judge == "letter" and each.judging]
    leads = [(case, *_leads(case, judging)) for case, judging in letters]
    rows = [
        ("letter, one order", [first > 0 for _, first, _ in leads]),
        ("letter, both orders, hard votes (a tie is wrong)", [first > 0 and second > 0 for _, first, second in leads]),
        ("**letter, both orders, log-odds**", [first + second > 0 for _, first, second in leads]),
        ("of these, at .10 or more", _right(leads, lambda _, lead: abs(lead) >= MIN_LOG_ODDS)),
        ("of these, below .10: no clear winner", _right(leads, lambda _, lead: abs(lead) < MIN_LOG_ODDS)),
        ("better side for the proposal", _right(leads, lambda case, _: case.better == "for")),
        ("better side against it", _right(leads, lambda case, _: case.better == "against")),
        ("better side speaks first", _right(leads, lambda case, _: case.better_speaks_first)),
        ("better side speaks second", _right(leads, lambda case, _: not case.better_speaks_first)),
        ("better side has more to say", _right(leads, lambda case, _: case.better_is_longer)),
        ("better side has less to say", _right(leads, lambda case, _: not case.better_is_longer)),
        ("decoys: as many numbers on the worse side", _right(leads, lambda case, _: case.is_decoy)),
    ]
    winners = [each for each in found if each.judge == "winner"]
    rows.append(("winner after reasons, one order", [each.winner == known[each.case].truth for each in winners]))
    lines = [
        [name, f"{sum(right)} of {len(right)}", f"{wilson(sum(right), len(right)):2}"] for name, right in rows if right
    ]
    return table(["judge", "right", "share, 95 %"], lines)


def _leads(case: Case, judging: Judging) -> tuple[float, float]:
    """The log-odds of the better side over the other one, in either order."""
    other = next(stance for stance in case.stances if stance != case.truth)
    first, second = ((ballot.log_odds or {})[case.truth] - (ballot.log_odds or {})[other] for ballot in judging.ballots)
    return first, second


def _right(leads: Sequence[tuple[Case, float, float]], chosen: Callable[[Case, float], bool]) -> list[bool]:
    return [first + second > 0 for case, first, second in leads if chosen(case, (first + second) / 2)]


async def _ask_all(out: Path, judges: Sequence[str]) -> None:
    done = {(each.case, each.judge) for each in verdicts(out)}
    async with LocalModel() as model:
        for judge in judges:
            for case in cases():
                if (case.id, judge) not in done:
                    found = await judged(case, judge, model)
                    with out.open("a", encoding="utf-8") as file:
                        file.write(found.line())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=VERDICTS)
    parser.add_argument("--judges", nargs="*", choices=list(JUDGES), default=list(JUDGES))
    parser.add_argument("--show", action="store_true", help="only print the table of the verdicts that are there")
    given = parser.parse_args()
    if not given.show:
        asyncio.run(_ask_all(given.out, given.judges))
    print(table_of_judges(verdicts(given.out)))
