"""The arms of the study: `python -m evidence.study questions` writes their questions, and `… page` writes the record.

`… ask letters 3600` continues an arm for an hour, as `make study` does. The facts come from another package and are not
in this repository; the answers are, as numbers.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from evidence.estimates import table
from evidence.facts import fact_pairs, stored_pairs
from evidence.puzzles import puzzles
from flowdebate import Debater, debate
from flowdebate.evaluation import AnswersFile, Registration, Study, StudyAnswer, study_report
from flowdebate.patterns.debate.judging.ballots import decide

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block

__all__ = ("ARMS", "FACTS", "PAGE", "PUZZLES", "Arm", "differences", "page", "write_questions")

PAGE = Path("evidence/records/study.md")
_FOLDER, _QUESTIONS = Path(__file__).parent / "studies", Path("build")
_MINUTE = 60


@dataclass(frozen=True)
class Arm:
    """A registered study."""

    name: str
    heading: str
    description: str
    """The questions, and the models or roles that answer them."""
    methods: str
    """Explanation of the compared methods."""
    ids: Callable[[], Iterable[str]]
    commit: str = ""
    """Registered version, the only one that may request answers; empty for an arm that was stopped."""
    steps: Callable[[str], int] | None = None
    """Function that returns the number of steps to a question's answer; None if it is unknown."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Former names of options in the arm's file that have been renamed since the registration."""

    @property
    def answers(self) -> Path:
        """File with the answers so far, as numbers."""
        return _FOLDER / f"{self.name}.answers.jsonl"

    @property
    def registration(self) -> Path:
        """File with everything that was fixed before the first answer."""
        return _FOLDER / f"{self.name}.registration.json"

    @property
    def questions(self) -> Path:
        """File in which the study file looks for its questions."""
        return _QUESTIONS / f"{self.name}.jsonl"

    def read(self, first: int | None = None) -> list[StudyAnswer]:
        """Read the first lines of the answers (None: all of them), and keep the last answer to each question."""
        lines = self.answers.read_bytes().splitlines()[:first]
        return list({answer.key: answer for answer in map(StudyAnswer.model_validate_json, lines)}.values())

    def study(self, answers: Sequence[StudyAnswer]) -> Study:
        """Build the study from its file, but without its texts: positions are "0" and "1", as in the answers."""
        study_file = tomllib.loads((_FOLDER / f"{self.name}.toml").read_text("utf-8"))
        truths = {answer.item: answer.truth for answer in answers}
        rows = [
            {"id": question_id, "question": question_id, "choices": ["0", "1"], "truth": truths.get(question_id, "0")}
            for question_id in self.ids()
        ]

        def design(options: Mapping[str, Any]) -> Any:
            def build(_: object, positions: Sequence[str]) -> Block[Any, Any]:
                sides = [Debater(name, stance) for name, stance in zip("ab", positions, strict=True)]
                return debate(name=self.name, debaters=sides, max_rounds=1, **options)

            return build

        shared = study_file["debate"]["baselines"]
        designs = {
            name: design({"baselines": design_options.get("baselines", shared)})
            for name, design_options in study_file["designs"].items()
        }
        plain = {
            name: study_file[name] for name in ("name", "id", "seed", "min_gain", "noise", "primary", "prediction")
        }
        fixed = {
            f"options of {name}": self._as_registered(study_file["debate"] | design_options)
            for name, design_options in study_file["designs"].items()
        }
        return Study(rows=rows, designs=designs, fixed=fixed, **plain)

    def _as_registered(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return `options` under their names in the registered version, because its hashes include the names."""
        return {self.renamed.get(name, name): value for name, value in options.items()}


_STEPS = {row["id"]: row["steps"] for row in puzzles()}
_PAIRS = """260 pairs of a true and a false statement, from the package textarena (MIT). Which of the two is true?
There are two designs with {} each: simultaneous turns (`together`), and turns one after the other (`in_turn`).
The judge reads both orders"""
_EQUAL = """`self_consistency` and `revision` use as many tokens as the debate in `together`. `noise` is the judge of
`together` with the arguments about another pair."""
LETTERS = Arm(
    "letters",
    "Nobody knows more than the judge",
    f"""{_PAIRS.format("one round")}, and names a letter, the form in which this model
[judges best](evidence.md). Any lead decides, however small. Two rounds and the usual lead had been planned; both were
changed before the first answer, since the puzzles below were mostly undecided, and two rounds were estimated to take
38 hours.""",
    _EQUAL,
    lambda: (pair.id for pair in stored_pairs()),
    "b6dc2543",
    renamed={"answer_form": "judge_answer", "quotes": "judge_quotes"},
)
FACTS = Arm(
    "facts",
    "The same with scores from the judge: stopped",
    f"""{_PAIRS.format("two rounds")}, and scores each side from 0 to 100. This was a mistake, noticed after
89 answers: in the registered version, `schedule = "swap"` made a small model give scores where letters were intended.
The arm was stopped; its answers are published, but conclude nothing.""",
    _EQUAL,
    LETTERS.ids,
)
PUZZLES = Arm(
    "puzzles",
    "Debaters have read notes that the judge has not",
    """250 puzzles by `evidence/puzzles.py`: who of two people finished a race earlier? Notes give the answer, in one
to five steps ("Ada finished 3 minutes before Ben."), among irrelevant notes. Debaters have the notes; the judge and
`single` do not. There is one round of simultaneous turns; the judge reads both orders, and names a letter.""",
    """`single` is one call without the notes. `noise` is the judge with the arguments about another puzzle.""",
    lambda: _STEPS,
    "8f3c5725",
    lambda item: _STEPS[item],
    renamed={"answer_form": "judge_answer"},
)
ARMS = {arm.name: arm for arm in (LETTERS, PUZZLES, FACTS)}


def write_questions() -> None:
    """Write the questions about facts and the puzzles."""
    _QUESTIONS.mkdir(exist_ok=True)
    # alphabetical order does not reveal the truth
    facts = [
        {
            "id": pair.id,
            "question": "Which of the two statements is true?",
            "choices": sorted([pair.true, pair.false]),
            "answer": pair.true,
        }
        for pair in fact_pairs()
    ]
    for arm, rows in ((FACTS, facts), (PUZZLES, puzzles())):  # the letters arm uses the same facts
        arm.questions.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def ask(arm: Arm, seconds: str) -> int:
    """Continue an arm for this many seconds with the registered version, and return the exit code.

    The registered version has its own working tree and environment below build/.
    """
    if not arm.commit:
        raise SystemExit(f"{arm.name}: was stopped, and is not asked")
    tree = _QUESTIONS.resolve() / f"study-{arm.commit}"
    run = partial(subprocess.run, check=True)
    if not (tree / ".venv/bin/flowdebate").exists():
        run(["git", "worktree", "add", "--force", "--detach", tree, arm.commit])
        run([sys.executable, "-m", "venv", tree / ".venv"])
        run([tree / ".venv/bin/pip", "install", "-q", "-e", f"{tree}[local,local-model,audit]"])
    write_questions()
    (tree / _QUESTIONS).mkdir(exist_ok=True)
    for name in ("facts", "puzzles"):
        shutil.copy(_QUESTIONS / f"{name}.jsonl", tree / _QUESTIONS)
    files = ["--answers", arm.answers, "--registration", arm.registration, "--store", tree / f"build/{arm.name}.db"]
    command = [tree / ".venv/bin/flowdebate", "study", tree / "evidence/studies" / f"{arm.name}.toml", *files]
    return run([*command, "--max-concurrency", "1", "--seconds", seconds], check=False).returncode


def under_numbers(answers: Path) -> None:
    """Key lengths by the numbers of positions, like all other data; the first versions used the positions."""
    with AnswersFile(answers):  # raises BadFile while a study appends to it
        lines = [json.loads(line) for line in answers.read_text("utf-8").splitlines()]
        for ballot in (ballot for line in lines for ballot in line.get("ballots", ())):
            if ballot.get("lengths", {}).keys() - {*ballot["order"]}:
                ballot["lengths"] = dict(zip(ballot["order"], ballot["lengths"].values(), strict=True))
        written = answers.with_suffix(".tmp")
        written.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines), "utf-8")
        written.replace(answers)


def differences(study: Study, answers: Sequence[StudyAnswer], fixed: Registration) -> list[str]:
    """List differences from the registration, as far as they can be detected in another version without the texts."""
    unseen = ["rows:", "designs:", "library:", "models:", "sources:"]
    unseen += [] if "fixed" in fixed.fixed else ["fixed:"]  # the first versions did not hash options
    changes = [
        difference for difference in fixed.differences(study.registration()) if not difference.startswith(tuple(unseen))
    ]
    early = sum(answer.at < fixed.at for answer in answers)
    return [*changes, *([f"{early} answers are older than the registration"] if early else [])]


def page(first: Mapping[str, int] | None = None) -> str:
    """Return the record: each arm's registration, and its results from the `first` lines (None: all of them)."""
    parts = [part(arm, (first or {}).get(arm.name)) for arm in ARMS.values() if arm.answers.exists()]
    return f"""# A study: does debating help a small model?

Written by `python -m evidence.study page`; see [how to run a study](../../docs/evaluate.md#a-study). All roles
(debaters, judge and baselines) use the [local model](../../docs/models.md#the-local-model), with 1.5 billion
parameters.

{in_short()}
{chr(10).join(parts)}
## How to read it

P-values are adjusted by Holm's method, except for the primary comparison. *Right to wrong* counts the answers that were
right at first but not at the end; a missing answer is not right. The *oracle gap* is the gain from a perfect choice
among all answers. Where the questions are available, `flowdebate eval study report` checks the hashes of rows, prompts
and models. All answers are in the repository, without texts; without this library, `python evidence/derive.py` derives
the first four tables of each arm from them, and the results if any lead had decided. A judge that ignores the order of
two sides chooses the side it read first half of the time. If it always chooses that side, its ballots in both orders
cancel out, and only the strength of each preference can decide.
"""


def in_short() -> str:
    """Return what readers need to know before the tables."""
    ballots = [
        ballot
        for arm in (LETTERS, PUZZLES)
        for answer in arm.read()
        for ballot in answer.ballots
        if ballot.problem is None
    ]
    first = sum(ballot.winner == ballot.order[0] for ballot in ballots)
    return f"""## In short

- **No gain was found, and this judge could hardly have shown one.** Of {len(ballots):,} ballots of the two finished
  arms, {first:,} went to the side read first. The verdicts only depend on the strength of each preference, which
  correlates with length. So the study says something about this judge, but nothing about debates with other judges.
- **Alone, without a debate, the same judge is right in 60.4% of the same 260 pairs**, by letter in both orders
  ([the local model](evidence.md#local-by-letter)). Reading a debate about them made it, if anything, worse.
- **Indecision counts as chance.** A tied vote or a debate without a winner counts as a random choice between the two
  sides. By this rule, the puzzles are at {puzzle_shares()}. If counting them as wrong
  changes a finding, the sentence under *Found* gives both.
- **What changed between registrations, and what was known by then.** `facts` was registered first, and stopped after
  89 answers because its judge gave scores by mistake; its primary comparison was then 27 points against the debates,
  or 12 if undecided debates count as chance. `letters` asks the same questions with the same comparison and
  prediction, but with one round instead of two, without quotes, and with any lead deciding. These changes were made
  before its first answer, when most of the puzzles were known to be undecided.
- **There was no positive control**: no arm shows that this judge can use a note. A study can now
  [include one](../../docs/evaluate.md#a-positive-control), and stops if the control fails.
"""


def puzzle_shares() -> str:
    """Format the primary comparison of the puzzles, in percent."""
    answers = PUZZLES.read()
    primary = study_report(PUZZLES.study(answers), answers).primary
    assert primary is not None
    return f"{primary.one_accuracy:.1%} with notes against {primary.other_accuracy:.1%} for one call"


def part(arm: Arm, first: int | None = None) -> str:
    """Return the section with the results of one arm."""
    lines = len(arm.answers.read_bytes().splitlines()[:first])
    answers, fixed = arm.read(first), Registration.read(arm.registration)
    study = arm.study(answers)
    report = study_report(study, answers)
    changed = differences(study, answers, fixed)
    hours = sum(answer.seconds for answer in answers) / _MINUTE / _MINUTE
    methods = table(
        ["method", "answers", "right", f"{report.confidence:.0%} interval", "undecided", "calls", "tokens"],
        [
            [
                f"`{method.method}`",
                str(method.n),
                f"{method.accuracy:.3f}",
                f"{method.low:.3f} to {method.high:.3f}",
                str(method.undecided),
                *("-" if mean is None else f"{mean:,.0f}" for mean in (method.calls, method.tokens)),
            ]
            for method in report.methods
        ],
    )
    comparisons = table(
        ["comparison", "better", "worse", "difference", f"{report.confidence:.0%} interval", "p", "e-value"],
        [
            [
                f"`{comparison.one}` against `{comparison.other}`{', primary' if comparison.primary else ''}",
                str(comparison.better),
                str(comparison.worse),
                f"{comparison.difference:+.3f}",
                f"{comparison.low:+.3f} to {comparison.high:+.3f}",
                f"{comparison.p_adjusted:.2g}",
                f"{comparison.e_value:.3g}",
            ]
            for comparison in report.comparisons
        ],
    )
    dynamics = table(
        ["answers", "right first", "right last", "right to wrong", "wrong to right", "oracle gap"],
        [
            [
                name,
                *(
                    "-" if change is None else f"{change.value:.3f} of {change.n}"
                    for change in (found_.first_right, found_.last_right, found_.right_to_wrong, found_.wrong_to_right)
                ),
                f"{found_.oracle_gap or 0:.3f}",
            ]
            for name, found_ in report.dynamics.items()
        ],
    )
    version = f" for the commit `{arm.commit}`, which produced all answers" if arm.commit else ""
    state = "" if report.unfinished else "All questions are answered. "
    places = table(
        ["judge of", "answers", "for the side read first", f"{report.confidence:.0%} interval"],
        [
            [f"`{design}`", str(share.n), f"{share.value:.3f}", f"{share.low:.3f} to {share.high:.3f}"]
            for design, share in report.first_read.items()
        ],
    )
    parts = [methods, comparisons, dynamics, places, *any_lead(answers)]
    parts += shared_arguments(answers)
    parts += [] if arm.steps is None else [by_steps(arm.steps, study, answers)]
    registration = (
        " ".join(f"Differences from the registration: {difference}." for difference in changed)
        or "No differences were found."
    )
    return f"""## {arm.heading}

{arm.description}

**Prediction**, registered before the first answer as `{fixed.hash[:12]}`{version}: {fixed.fixed["prediction"].strip()}

**{"So far" if report.unfinished else "Found"}.** {state}{report.summary} It took {hours:.1f} hours.

**Registration.** {registration}{renamed_options(arm, fixed)}

{(chr(10) * 2).join(parts)}

{arm.methods} The figures come from the first {lines} lines of `evidence/studies/{arm.answers.name}`, and the
registration is `{arm.registration.name}`.
"""


def renamed_options(arm: Arm, registered: Registration) -> str:
    """Return a sentence on options in an arm's file that were renamed since its registration."""
    if not arm.renamed:
        return ""
    names = " and ".join(f"`{before}` is now `{now}`" for now, before in arm.renamed.items())
    hashed = " The registered hashes use the old names." if "fixed" in registered.fixed else ""
    return f"""
Since `{arm.commit}`, options in the study's file have only been renamed: {names}.{hashed}"""


def any_lead(answers: Iterable[StudyAnswer]) -> list[str]:
    """Report how often judges by letter would have been right if any lead, however small, had decided.

    Returns nothing unless this changes a decision.
    """
    right: dict[str, list[bool]] = {}
    asked_for_more = False
    for answer in answers:
        if answer.ballots and all(ballot.log_odds for ballot in answer.ballots):
            decision = decide(answer.ballots, sides=answer.order, by="log_odds", min_log_odds=0)
            right.setdefault(answer.design, []).append(decision.winner == answer.truth)
            asked_for_more |= not answer.answers[answer.design].answer and decision.winner is not None
    if not asked_for_more:
        return []
    shares = [f"`{design}` {fmean(values):.3f} of {len(values)}" for design, values in right.items()]
    return [f"If any lead had decided, these shares would be right: {', '.join(shares)}. This was not registered."]


def shared_arguments(answers: Iterable[StudyAnswer]) -> list[str]:
    """Warn if several answers of `noise` are about the arguments of the same debate."""
    read = Counter(answer.partner for answer in answers if answer.partner is not None)
    if read.total() == len(read):
        return []
    count = read.most_common(1)[0][1]
    warning = f"""The {read.total()} answers of `noise` are about the arguments of {len(read)} debates, {count} of them
about the same debate: the registered version takes available debates, which are few after a lost store. The answers are
not independent, so intervals for `noise`, and for comparisons with it, are too narrow."""
    return [warning]


def by_steps(steps: Callable[[str], int], study: Study, answers: Sequence[StudyAnswer]) -> str:
    """Tabulate how often the first design is right, by the number of steps from the source to the answer."""
    right: dict[int, list[float]] = {}
    for answer in answers:
        if answer.design == study.first and (method_answer := answer.answers.get(study.first)) is not None:
            right.setdefault(steps(answer.item), []).append(method_answer.credit(answer.truth, sides=len(answer.order)))
    rows = [[str(number), str(len(values)), f"{fmean(values):.3f}"] for number, values in sorted(right.items())]
    return table(["steps", f"answers of {study.first}", "right"], rows)


if __name__ == "__main__":
    if sys.argv[1:] == ["questions"]:
        write_questions()
    elif sys.argv[1:2] == ["ask"]:
        sys.exit(ask(ARMS[sys.argv[2]], sys.argv[3]))
    else:
        for study_arm in ARMS.values():
            under_numbers(study_arm.answers)
        PAGE.write_text(page(), "utf-8")
