"""The study of facts: `python -m evidence.study questions`, and `python -m evidence.study page` for docs/study.md.

Asking is `flowdebate study evidence/studies/facts.toml`, by `make study`. The questions are in another package, and are
not in this repository; answers, as numbers, are.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence.estimates import table
from evidence.facts import fact_pairs, stored_pairs
from flowdebate import Debater, debate
from flowdebate.evaluation import Registration, Study, StudyAnswer, study_report

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block

__all__ = ("ANSWERS", "PAGE", "REGISTRATION", "in_readme", "page", "read_answers", "study_of", "write_questions")

FOLDER = Path(__file__).parent / "studies"
FILE, ANSWERS = FOLDER / "facts.toml", FOLDER / "facts.answers.jsonl"
REGISTRATION = FOLDER / "facts.registration.json"
QUESTIONS, PAGE, README = Path("build/facts.jsonl"), Path("docs/study.md"), Path("README.md")
_MINUTE = 60


def write_questions(path: Path = QUESTIONS) -> None:
    """Write all pairs of the package as the questions of the study."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for pair in fact_pairs():
            # in the order of the alphabet, which knows nothing of the truth
            row = {"id": pair.id, "question": "Which of the two statements is true?"}
            file.write(f"{json.dumps({**row, 'choices': sorted([pair.true, pair.false]), 'answer': pair.true})}\n")


def read_answers(first: int | None = None) -> list[StudyAnswer]:
    """What the first lines of the file say (None: all of them); of two answers to one question the later one."""
    lines = ANSWERS.read_bytes().splitlines()[:first]
    return list({each.key: each for each in map(StudyAnswer.model_validate_json, lines)}.values())


def study_of(answers: Sequence[StudyAnswer]) -> Study:
    """The study as its file has it, without its texts: positions are "0" and "1", as in the answers."""
    said = tomllib.loads(FILE.read_text("utf-8"))
    truths = {answer.item: answer.truth for answer in answers}
    rows = [
        {"id": pair.id, "question": pair.id, "choices": ["0", "1"], "truth": truths.get(pair.id, "0")}
        for pair in stored_pairs()
    ]

    def design(options: Mapping[str, Any]) -> Any:
        def made(_: object, positions: Sequence[str]) -> Block[Any, Any]:
            sides = [Debater(name, stance) for name, stance in zip("ab", positions, strict=True)]
            return debate(name="facts", debaters=sides, max_rounds=1, **options)

        return made

    shared = said["debate"]["baselines"]
    designs = {name: design({"baselines": own.get("baselines", shared)}) for name, own in said["designs"].items()}
    plain = {name: said[name] for name in ("name", "id", "seed", "min_gain", "noise", "primary", "prediction")}
    return Study(rows=rows, designs=designs, **plain)


def differences(study: Study, answers: Sequence[StudyAnswer], fixed: Registration) -> list[str]:
    """What is not as it was registered, of what can be seen without the texts and in another version."""
    unseen = ("rows:", "designs:", "library:", "models:")
    found = [each for each in fixed.differences(study.registration()) if not each.startswith(unseen)]
    early = sum(answer.at < fixed.at for answer in answers)
    return [*found, *([f"{early} answers are older than the registration"] if early else [])]


def page(first: int | None = None) -> str:
    """docs/study.md, from the registration and the first lines of the answers' file (None: all of them)."""
    lines = len(ANSWERS.read_bytes().splitlines()[:first])
    answers, fixed = read_answers(first), Registration.read(REGISTRATION)
    study = study_of(answers)
    found = study_report(study, answers)
    changed = differences(study, answers, fixed)
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
    dynamics = table(
        ["answers", "right first", "right last", "right to wrong", "wrong to right", "oracle gap"],
        [
            [
                name,
                *(
                    "-" if each is None else f"{each.value:.3f} of {each.n}"
                    for each in (found_.first_right, found_.last_right, found_.right_to_wrong, found_.wrong_to_right)
                ),
                f"{found_.oracle_gap or 0:.3f}",
            ]
            for name, found_ in found.dynamics.items()
        ],
    )
    state = "" if found.unfinished else "All is answered. "
    return f"""# A study: does debating help a small model?

Written by `python -m evidence.study page` from the first {lines} lines of `evidence/studies/facts.answers.jsonl`;
[how a study is made](studies.md).

**Question.** 260 pairs of a true and a false statement, from the package textarena (MIT). Which of the two is true?
All roles are the [local model](models.md#the-local-model), of 1.5 billion parameters: debaters, judge and baselines.
Two designs, two rounds each: turns taken at once (`together`), and one after the other (`in_turn`); a judge by letter,
in both orders.

**Prediction**, registered before the first answer as `{fixed.hash[:12]}`: {fixed.fixed["prediction"].strip()}

**{"So far" if found.unfinished else "Found"}.** {state}{found.summary} It took {hours:.1f} hours.

**Registration.** {" ".join(f"Not as registered: {each}." for each in changed) or "Nothing is seen to differ from it."}
Rows, prompts and models, by hash, are checked where the questions are, by `flowdebate study report`.

{methods}

{comparisons}

{dynamics}

`self_consistency` and `revision` have as many tokens as the debate of `together`. `noise` is the judge of `together`
with the arguments of another pair. P-values are adjusted by Holm's method, but for the primary comparison. *Right to
wrong* are the answers that were right at first and not at last; no answer is not right. The *oracle gap* is what a
perfect choice among all that was answered would add. What was registered: `evidence/studies/facts.registration.json`;
every answer: `facts.answers.jsonl`, no texts. `python evidence/derive.py` derives all figures without this library.
"""


_IN_README = re.compile(r"(?<=A real model of 1.5 billion parameters: )[^(|]+(?= \(\[a registered study)")


def in_readme(written: str) -> str:
    """What the README says of the study: the primary comparison, and how far it has come, as the page has them."""
    compared = re.search(r"([\d.]+)% against ([\d.]+)% of (\d+)", written)
    assert compared is not None  # the page says so from the first answer on
    by_debate, by_vote, asked = compared.groups()
    state = re.search(r"\d+ of \d+ answered; [^.]+", written)
    told = f"debates right in {by_debate} %, votes in {by_vote} % of {asked} questions"
    return f"{told}; {state[0]}" if state else told


if __name__ == "__main__":
    if sys.argv[1:] == ["questions"]:
        write_questions()
    else:
        written = page()
        PAGE.write_text(written, "utf-8")
        README.write_text(_IN_README.sub(in_readme(written), README.read_text("utf-8")), "utf-8")
