"""The README: its first lines run, and its figures match the pages to which it links."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from flowdebate.testing import ScriptedModel, forbid_real_models

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import wheel_check  # noqa: E402 - scripts are no package

README = (ROOT / "README.md").read_text("utf-8")

FIGURES = {
    "GPT-4 is right on 84.5% of the pairs, and on 87.1% of the 92.8% where both orders agree.": (
        "evidence.md",
        "| GPT-4 | 419 | 84.5% | 92.8% | 87.1% [",
    ),
    "ChatGPT is right on 40.0%, but on only 34.8% where both orders agree": (
        "evidence.md",
        "| ChatGPT | 419 | 40.0% | 65.9% | 34.8% [",
    ),
    "of 260 questions, debates got 53.1% right, votes 55.0%": (
        "evidence.md",
        "53.1% of the pairs, and self-consistency at equal tokens on 55.0%",
    ),
    "the judge alone 60.4%": ("evidence.md", "60.4%"),
    "We killed a server 30 times during 25 debates: of 266 calls, only the 16 in flight were repeated": (
        "durable.md",
        "In a test that killed `flowdebate serve` 30 times",
        "received all events from all 25 debates, without a reset",
        "Of 266 calls, only the 16 in flight were repeated",
    ),
}
"""Measured figures in the README, each with the wording of the page that explains the method."""


def test_first_lines_run_a_debate(capsys: pytest.CaptureFixture[str]) -> None:
    """The README's first lines use the local model.

    `make first-lines` runs them with that model in an empty environment.
    """
    extras, program = wheel_check.first_steps()
    assert extras == "local,local-model"
    assert len([line for line in program.splitlines() if line.strip()]) <= 10
    scores = {"Working from home is better": 70, "Working in an office is better": 30}
    verdict = {"reasoning": "-", "verdict": "-", "scores": scores}
    model = ScriptedModel("I have a garden.", "We have a canteen.", verdict, verdict)
    with forbid_real_models():
        exec(compile(program.replace('"local"', "model"), "README.md", "exec"), {"model": model})  # noqa: S102
    model.assert_complete()
    assert capsys.readouterr().out.endswith("The judge finds for: Working from home is better\n")


@pytest.mark.parametrize("claim", FIGURES)
def test_figures_match_their_pages(claim: str) -> None:
    page, *sources = FIGURES[claim]
    text = " ".join((ROOT / "docs" / page).read_text("utf-8").split())
    points = [" ".join(point.split()) for point in README.split("\n- ")]
    (point,) = [point for point in points if claim in point]
    assert f"docs/{page}" in point
    assert [source for source in sources if source not in text] == []


def test_counts_of_faults_and_attacks_are_correct() -> None:
    faults = (ROOT / "evidence" / "records" / "faults.md").read_text("utf-8").split("<!-- faults -->")[1]
    rows = [line for line in faults.splitlines() if line.startswith("| ") and not line.startswith("| Fault |")]
    assert f"{len(rows)} server faults" in README
    assert f"A table of {len(rows)} faults" in (ROOT / "docs" / "resilience.md").read_text("utf-8")
    security = (ROOT / "docs" / "security.md").read_text("utf-8")
    forged = re.search(r"^# => \[(\d+), 0\]$", security, re.MULTILINE)
    assert forged is not None
    assert f"{forged[1]} attacks make one argument look like several" in README


def test_parts_of_the_package_page_exist_in_the_readme() -> None:
    """Parts of the README are located by their beginning and end.

    If one were missing, the package could not be built.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    fragments = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]
    for fragment in fragments:
        _, begin, rest = README.partition(fragment.get("start-at", "")) if "start-at" in fragment else ("", "x", README)
        assert begin, fragment
        assert fragment.get("end-before", "") in rest, fragment


def test_first_sentence_describes_the_library() -> None:
    first = " ".join(README.split("\n\n")[1].split())
    assert first.startswith("flowdebate is a Python library for debates between language models:")
    assert len(README.partition("\n## Where to go next")[0].split()) <= 900
