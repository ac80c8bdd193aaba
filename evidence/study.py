"""The study of facts: `python -m evidence.study questions`, and `python -m evidence.study page` for docs/study.md.

Asking is `flowdebate study evidence/studies/facts.toml`, by `make study`. The questions are in another package, and are
not in this repository; answers and the report, as numbers, are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from evidence.estimates import table
from evidence.facts import fact_pairs
from flowdebate.evaluation import AnswersFile, Registration, StudyReport

__all__ = ("ANSWERS", "REPORT", "page", "write_questions")

FOLDER = Path(__file__).parent / "studies"
ANSWERS, REPORT = FOLDER / "facts.answers.jsonl", FOLDER / "facts.report.json"
REGISTRATION = FOLDER / "facts.registration.json"
QUESTIONS, PAGE = Path("build/facts.jsonl"), Path("docs/study.md")
_MINUTE = 60


def write_questions(path: Path = QUESTIONS) -> None:
    """Write all pairs of the package as the questions of the study."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for pair in fact_pairs():
            # in the order of the alphabet, which knows nothing of the truth
            row = {"id": pair.id, "question": "Which of the two statements is true?"}
            file.write(f"{json.dumps({**row, 'choices': sorted([pair.true, pair.false]), 'answer': pair.true})}\n")


def page() -> str:
    """docs/study.md, from the stored report, answers and registration."""
    found = StudyReport.model_validate_json(REPORT.read_bytes())
    fixed = Registration.read(REGISTRATION)
    answers = AnswersFile(ANSWERS).answers.values()
    hours = sum(answer.seconds for answer in answers) / _MINUTE / _MINUTE
    methods = table(
        ["method", "answers", "right", f"{found.confidence:.0%} interval", "undecided", "calls", "tokens"],
        [
            [
                f"`{each.method}`",
                str(each.n),
                f"{each.accuracy:.3f}",
                f"{each.low:.3f} to {each.high:.3f}",
                str(each.undecided),
                *("-" if mean is None else f"{mean:,.0f}" for mean in (each.calls, each.tokens)),
            ]
            for each in found.methods
        ],
    )
    comparisons = table(
        ["comparison", "better", "worse", "difference", f"{found.confidence:.0%} interval", "p", "e-value"],
        [
            [
                f"`{each.one}` against `{each.other}`{', primary' if each.primary else ''}",
                str(each.better),
                str(each.worse),
                f"{each.difference:+.3f}",
                f"{each.low:+.3f} to {each.high:+.3f}",
                f"{each.p_adjusted:.2g}",
                f"{each.e_value:.3g}",
            ]
            for each in found.comparisons
        ],
    )
    state = "All is answered." if found.asked == found.planned else "It goes on whenever a machine is idle."
    return f"""# A study: does debating help a small model?

Written by `python -m evidence.study page` from numbers in `evidence/studies`; [how a study is made](studies.md).

**Question.** 260 pairs of a true and a false statement, from the package textarena (MIT). Which of the two is true?
All roles are the [local model](models.md#the-local-model), of 1.5 billion parameters: debaters, judge and baselines.
Two designs, two rounds each: turns taken at once (`together`), and one after the other (`in_turn`); a judge by letter,
in both orders.

**Prediction**, registered before the first answer as `{fixed.hash[:12]}`: {fixed.fixed["prediction"].strip()}

**Found so far.** {found.asked} of {found.planned} answers, {hours:.1f} hours. {state} {found.summary}

{methods}

{comparisons}

`self_consistency` and `revision` have as many tokens as the debate of `together`. `noise` is the judge of `together`
with the arguments of another pair. P-values are adjusted by Holm's method, but for the primary comparison. What was
registered: `evidence/studies/facts.registration.json`; every answer: `facts.answers.jsonl`, without texts.
"""


if __name__ == "__main__":
    if sys.argv[1:] == ["questions"]:
        write_questions()
    else:
        PAGE.write_text(page(), "utf-8")
