"""The changes with planted faults: enough of them, with valid answer keys, and without hints about the faults."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from flowdebate.evaluation import ReviewCase, read_review_cases
from flowdebate.evaluation.review_benchmark import FAULT_KINDS
from flowdebate.sources.source import Source, number_lines

CASES = read_review_cases(Path(__file__).parents[2] / "evidence" / "review_faults.jsonl")
GIVEAWAYS = re.compile(
    r"\b(bugs?|buggy|faults?|faulty|fixme|todo|xxx|hack|wrong|broken|vulnerab\w*|insecure|unsafe|exploit\w*|leaks?|racy|"
    r"race|deadlocks?|inject\w*|travers\w*|overflow\w*|off.by.one|oops|mistake\w*|incorrect\w*)\b",
    re.IGNORECASE,
)


def side_lines(case: ReviewCase, sign: str) -> list[str]:
    """Return the lines of the file on one side of a change."""
    body = case.diff.split("\n@@", 1)[1].split("\n")[1:]
    return [line[1:] for line in body if line[:1] in (" ", sign)]


def test_every_language_has_enough_changes_to_estimate_rates() -> None:
    languages = Counter((case.language, len(case.faults)) for case in CASES)
    names = ("python", "typescript", "go", "java")
    assert languages == {(name, count): 20 if count else 10 for name in names for count in (0, 1)}
    assert len({case.id for case in CASES}) == len(CASES)
    kinds = Counter((case.language, fault.kind) for case in CASES for fault in case.faults)
    assert max(kinds.values()) <= 3
    assert len({kind for _, kind in kinds}) >= 10
    assert {kind for _, kind in kinds} == FAULT_KINDS.keys()


def test_answer_keys_are_lines_of_the_change() -> None:
    """A key is an added line in the changed file, or a line next to a removed one."""
    for case in CASES:
        [(path, diff)] = case.sources.items()
        lines = number_lines(Source.of(path, diff))
        touched: set[int] = set()
        number = 0
        for line in lines:
            number = line.number or number
            if line.sign == "+":
                touched.add(number)
            elif line.sign == "-":
                touched |= {number, number + 1}
        for fault in case.faults:
            assert fault.file == path, case.id
            assert fault.line <= fault.end_line <= len(side_lines(case, "+")), case.id
            assert touched.intersection(range(fault.line, fault.end_line + 1)), case.id


def test_no_two_changes_share_more_than_half_of_their_lines() -> None:
    """Shared lines are counted relative to the shorter of the two changes, ignoring blank lines."""
    sets = {case.id: {line.strip() for side in "+-" for line in side_lines(case, side)} - {""} for case in CASES}
    for one, second in combinations(sets, 2):
        shared = sets[one] & sets[second]
        assert len(shared) <= min(len(sets[one]), len(sets[second])) / 2, (one, second)


def test_no_change_gives_away_its_fault() -> None:
    """Comments and names avoid words that hint at faults, even in clean changes."""
    for case in CASES:
        assert not GIVEAWAYS.findall(case.diff), case.id


def test_changes_apply_cleanly(tmp_path: Path) -> None:
    for case in CASES:
        [path] = case.sources
        file = tmp_path / case.id / path
        file.parent.mkdir(parents=True)
        file.write_text("\n".join(side_lines(case, "-")) + "\n")
        command = ["git", "apply", "--unsafe-paths", "--directory", str(tmp_path / case.id), "-"]
        subprocess.run(command, input=case.diff, text=True, check=True, cwd=tmp_path, capture_output=True, timeout=30)  # noqa: S603 - ours
        assert file.read_text() == "\n".join(side_lines(case, "+")) + "\n", case.id


@pytest.mark.parametrize("side", ["-", "+"])
def test_changes_to_python_files_are_valid(side: str) -> None:
    for case in CASES:
        if case.language == "python":
            ast.parse("\n".join(side_lines(case, side)))
