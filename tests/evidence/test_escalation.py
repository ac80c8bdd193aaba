"""The evidence on escalation, recounted without the library from a small folder in LLMBar's format."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from evidence import escalation
from tests.evidence.published_clones import write_llmbar

pytest.importorskip("scipy")

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.escalation import Judged


def panel_choice(pair: Judged, judges: list[str]) -> str:
    """Return the text with more ballots or, if there is a tie, the text that GPT-4 chose in its first ballot."""
    counts = Counter(choice for judge in judges for choice in pair.choices[judge] if choice != "none")
    return pair.choices["GPT-4"][0] if counts["1"] == counts["2"] else max("12", key=lambda text: counts[text])


@pytest.mark.parametrize("name", [*escalation.REPLAYS])
def test_replay_matches_a_manual_count(name: str, tmp_path: Path) -> None:
    pairs = escalation.read_pairs(write_llmbar(tmp_path))
    first, second, judges = escalation.REPLAYS[name]
    report = asyncio.run(escalation.replay(pairs, first, second, judges))
    agreed = [pair.choices[first][0] == pair.choices[second][0] != "none" for pair in pairs]
    answers = [
        pair.choices[second][0] if agree else panel_choice(pair, judges)
        for pair, agree in zip(pairs, agreed, strict=True)
    ]
    right = sum(answer == pair.truth for answer, pair in zip(answers, pairs, strict=True))
    assert report.escalation.accuracy.value == pytest.approx(right / len(pairs))
    assert report.always.accuracy.value == pytest.approx(
        sum(panel_choice(pair, judges) == pair.truth for pair in pairs) / len(pairs)
    )
    assert report.steps[1].decided.value == pytest.approx(sum(agreed) / len(pairs))
    ballots = 2 * len(judges)
    assert report.calls_ratio.value == pytest.approx(
        (2 * len(pairs) + ballots * agreed.count(False)) / (ballots * len(pairs))
    )


def test_page_lists_every_prediction_with_its_outcome(tmp_path: Path) -> None:
    page = tmp_path / "escalation.md"
    escalation.main(["--llmbar", str(write_llmbar(tmp_path / "LLMBar")), "--out", str(page), "--questions", "12"])
    rows = [line for line in page.read_text("utf-8").splitlines() if "predicted" in line and line.startswith("| ")]
    assert [row[2:4] for row in rows] == [*escalation.PREDICTED]
    assert all(row.count("predicted") == 4 for row in rows)
