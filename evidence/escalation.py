"""Escalation compared with always running its last step, on replayed judgments from LLMBar and on simulated questions.

`python -m evidence.escalation --llmbar PATH` writes evidence/records/escalation.md. The data stays in the clone.
"""

# ruff: noqa: E501 - part of what follows is a page

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from evidence.published import JUDGES, SETS, commit_of
from flowdebate import Agreement, Debater, JudgeOptions, debate, escalate, generator, handler, sequencer
from flowdebate.evaluation import EscalationReport, compare_escalation
from flowdebate.models.base import ModelResponse, Usage, estimate_tokens
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.evaluation.audit_report import Figure
    from flowdebate.testing import ModelRequest

PAGE = Path("evidence/records/escalation.md")
AGREE = Agreement(agree=lambda pair: pair.first == pair.second != "none")
PROMPT = 700
"""Number of characters in the prompt besides the pair of texts."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair from LLMBar: its label, its length, and the text that each judge chose in each order."""

    truth: str
    characters: int
    choices: Mapping[str, tuple[str, str]]


def read_pairs(clone: Path) -> list[Judged]:
    """Read all judges' judgments with the prompt Vanilla."""
    pairs = []
    for part in SETS:
        folders = [clone / f"Dataset/LLMBar/{part}/evaluators/{judge}/Vanilla" for judge in JUDGES]
        columns = [json.loads((folder / "result.json").read_text("utf-8")) for folder in folders]
        for judgements in zip(*columns, strict=True):
            first = judgements[0]
            choices = {}
            for judge, pair in zip(JUDGES, judgements, strict=True):
                assert (pair["input"], pair["label"]) == (first["input"], first["label"])
                one, two = (str(pair["results"][-1][f"swap = {swap}"]["winner"]) for swap in ("False", "True"))
                choices[judge] = (one if one in ("1", "2") else "none", two if two in ("1", "2") else "none")
            characters = sum(len(first[key]) for key in ("input", "output_1", "output_2"))
            pairs.append(Judged(str(first["label"]), characters, choices))
    return pairs


def judge_of(pairs: Sequence[Judged], judge: str, *, order: int, name: str) -> Block[Any, Any]:
    """Create a step that answers as the published judge did."""

    def reply(request: ModelRequest) -> ModelResponse:
        pair = pairs[int(str(request.messages[-1]["content"]))]
        tokens = (pair.characters + PROMPT) // 4
        usage = Usage(calls=1, prompt_tokens=tokens, cached_tokens=0, completion_tokens=2)
        return ModelResponse(text=pair.choices[judge][order], usage=usage)

    return generator(name=name, prompt="Which text is better?", model=FunctionModel(reply, name=judge))


def panel_of(pairs: Sequence[Judged], judges: Sequence[str]) -> Block[Any, Any]:
    """Create a step that counts the ballots of several judges in both orders; GPT-4's first ballot breaks ties."""
    ballots = {
        f"{judge}-{order}": judge_of(pairs, judge, order=order, name=f"{judge}-{order}")
        for judge in judges
        for order in (0, 1)
    }

    @handler(name="count")
    def count(votes: Mapping[str, str]) -> str:
        counts = Counter(vote for vote in votes.values() if vote != "none")
        if counts["1"] == counts["2"]:
            return votes["GPT-4-0"]
        return max(counts, key=lambda text: counts[text])

    return sequencer(name="panel").parallel(ballots).then(count)


async def replay(pairs: Sequence[Judged], first: str, second: str, panel: Sequence[str]) -> EscalationReport:
    """Compare an escalation between published judges with the panel that is its last step."""
    last = panel_of(pairs, panel)
    steps = [judge_of(pairs, first, order=0, name="first"), judge_of(pairs, second, order=0, name="second"), last]
    rows = [{"question": str(number), "truth": pair.truth} for number, pair in enumerate(pairs)]
    escalation = escalate(name="escalation", steps=steps, until=AGREE)
    return await compare_escalation(escalation, last, rows, truth="truth", seed=0, store=False)


REPLAYS = {
    "R1": ("PaLM2", "GPT-4", [*JUDGES]),
    "R2": ("ChatGPT", "LLaMA2", [*JUDGES]),
    "R3": ("PaLM2", "GPT-4", ["GPT-4", "PaLM2"]),
}
POPULATIONS = {"S1": 0.0, "S2": 0.1, "S3": 0.3}
QUESTIONS = 1_000
RIGHT = {"first": (0.80, 0.10), "second": (0.85, 0.10), "debate": (0.90, 0.50)}
"""Probabilities of a right answer to an ordinary question and to a misleading one."""
ARGUMENT = "A reason with an example, which is some hundred words long. " * 10


async def simulate(misleading: float, questions: int = QUESTIONS) -> EscalationReport:
    """Compare an escalation from two answers to a debate with the debate alone.

    `misleading` is the share of misleading questions.
    """
    source = Random(f"escalation {misleading}")
    truths = [source.choice(["yes", "no"]) for _ in range(questions)]
    misleads = [source.random() < misleading for _ in range(questions)]
    rights = [
        {name: source.random() < (hard if mislead else easy) for name, (easy, hard) in RIGHT.items()}
        for mislead in misleads
    ]

    def answer_at(number: int, step: str) -> str:
        truth = truths[number]
        return truth if rights[number][step] else {"yes": "no", "no": "yes"}[truth]

    def reply(request: ModelRequest) -> ModelResponse:
        prompt = "\n".join(str(message["content"]) for message in request.messages)
        number = int(prompt.rsplit("Question number ", 1)[1].split(".")[0])
        data: dict[str, Any] | None = None
        if request.role == "debater":
            text = ARGUMENT
        elif request.output_schema is None:
            text = answer_at(number, request.block)
        else:
            choice = answer_at(number, "debate")
            scores = {side: 70 if side == choice else 30 for side in ("yes", "no")}
            text, data = "", {"reasoning": "A sentence or two.", "scores": scores, "verdict": "A sentence."}
        usage = Usage(
            calls=1,
            prompt_tokens=estimate_tokens(request.characters),
            cached_tokens=0,
            completion_tokens=estimate_tokens(len(text or json.dumps(data))),
        )
        return ModelResponse(text=text, data=data, usage=usage)

    model = FunctionModel(reply)
    sides = [Debater("ann", "yes"), Debater("ben", "no")]
    duel = debate(
        name="debate",
        debaters=sides,
        judge=JudgeOptions(schedule="swap", answer_form="scores"),
        synthesizer=False,
        model=model,
    )
    answers = [generator(name=name, prompt="Answer yes or no.", model=model) for name in ("first", "second")]
    rows = [{"question": f"Question number {number}.", "truth": truth} for number, truth in enumerate(truths)]
    escalation = escalate(name="escalation", steps=[*answers, duel], until=AGREE)
    return await compare_escalation(escalation, duel, rows, truth="truth", seed=0, store=False)


PREDICTED = {
    "R1": ((65, 75), (88, 93), (8, 16), (45, 55)),
    "R2": ((60, 75), (25, 40), (-30, -15), (45, 60)),
    "R3": ((65, 75), (88, 93), (-3, 1), (75, 85)),
    "S1": ((71, 71), (95.8, 95.8), (4.1, 4.1), (30, 40)),
    "S2": ((72, 72), (85, 85), (-0.3, -0.3), (30, 40)),
    "S3": ((74, 74), (64, 64), (-9, -9), (25, 40)),
}
"""Predicted ranges of the share decided early, the share of these that are right, the difference and the cost.

The difference is in percentage points, and the others are in percent. If both ends are equal, a single value was
predicted.
"""


def checked(name: str, report: EscalationReport) -> str:
    """Format the outcome of one row's predictions: each figure, and whether it matches.

    A range has to contain the figure; for a single value, the figure's interval has to contain the value.
    """
    early = report.steps[1]
    assert early.right is not None
    assert report.tokens_ratio is not None
    cells = []
    figures = (early.decided, early.right, report.difference, report.tokens_ratio)
    for figure, (low, high) in zip(figures, PREDICTED[name], strict=True):
        value, bottom, top = (100 * (end or 0.0) for end in (figure.value, figure.low, figure.high))
        fits = bottom <= low <= top if low == high else low <= value <= high
        predicted = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        cells.append(f"{value:.1f}, predicted {predicted}: {'fits' if fits else '**does not fit**'}")
    return f"| {name} | {' | '.join(cells)} |"


HEAD = """\
| first, second, then | right | always the last step | difference, points | tokens | decided by the second | right among these |
| --- | --- | --- | --- | --- | --- | --- |"""
NAMES = {
    "R1": "PaLM 2, GPT-4, a panel of five",
    "R2": "ChatGPT, LLaMA 2, a panel of five",
    "R3": "PaLM 2, GPT-4, both in both orders",
    "S1": "none mislead",
    "S2": "10% mislead",
    "S3": "30% mislead",
}


def row_of(name: str, report: EscalationReport) -> str:
    """Format one comparison as a table row."""
    early = report.steps[1]
    assert early.right is not None
    assert report.tokens_ratio is not None
    difference, low, high = (
        100 * (end or 0.0) for end in (report.difference.value, report.difference.low, report.difference.high)
    )
    cells = [
        f"{name}: {NAMES[name]}",
        share(report.escalation.accuracy),
        share(report.always.accuracy),
        f"{difference:+.1f} [{low:+.1f}, {high:+.1f}]",
        share(report.tokens_ratio),
        f"{early.decided.value:.1%}",
        share(early.right),
    ]
    return f"| {' | '.join(cells)} |"


def share(figure: Figure) -> str:
    """Format a share with its interval."""
    return f"{figure.value:.1%} [{figure.low or 0:.1%}, {figure.high or 0:.1%}]"


PAGE_TEXT = """\
# Escalation: the record

`python -m evidence.escalation --llmbar PATH` writes this page. The [predictions](../escalation_predictions.md) were committed before any of
it was computed, and say what each row is. Brackets contain 95% intervals.

## Replayed: LLMBar at `{commit}`

{pairs} pairs, five judging models.

{replayed}

## Simulated

{questions:,} questions each; 0, 10 and 30% of them mislead everybody.

{simulated}

## The predictions

| | decided early, % | right among these, % | difference, points | cost, % |
| --- | --- | --- | --- | --- |
{checks}
"""


def tabulate(reports: Mapping[str, EscalationReport]) -> str:
    """Format comparisons as a table."""
    return "\n".join([HEAD, *(row_of(name, report) for name, report in reports.items())])


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute all comparisons and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m evidence.escalation", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--llmbar", type=Path, required=True, metavar="PATH", help="a clone of the repository")
    parser.add_argument("--questions", type=int, default=QUESTIONS, metavar="N", help="size of a simulated population")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    options = parser.parse_args(arguments)
    pairs = read_pairs(options.llmbar)
    replayed = {name: asyncio.run(replay(pairs, *steps)) for name, steps in REPLAYS.items()}
    simulated = {name: asyncio.run(simulate(misleading, options.questions)) for name, misleading in POPULATIONS.items()}
    text = PAGE_TEXT.format(
        commit=commit_of(options.llmbar),
        pairs=len(pairs),
        questions=options.questions,
        replayed=tabulate(replayed),
        simulated=tabulate(simulated),
        checks="\n".join(checked(name, report) for name, report in (replayed | simulated).items()),
    )
    options.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
