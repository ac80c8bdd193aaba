"""Published judgments: tables rebuilt with the library, and with a script that does not use it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from evidence.leaderboard import audit_leaderboard, read_matchups
from evidence.page import PUBLISHED_BEGIN, PUBLISHED_END, stored_published
from evidence.published import commit_of, main, matches_of
from tests.evidence.published_clones import MODELS, READERS, write_clones, write_debate, write_llmbar

_CHECK = Path(__file__).parents[2] / "evidence" / "published_check.py"


@pytest.fixture
def write_pages(tmp_path: Path) -> tuple[Path, Path]:
    """Write two pages with markers."""
    pages = tmp_path / "evidence.md", tmp_path / "audit.md"
    for page in pages:
        page.write_text(f"# Page\n\n{PUBLISHED_BEGIN}\nold\n{PUBLISHED_END}\n\nRest.\n")
    return pages


@pytest.mark.slow
def test_two_independent_derivations_of_the_tables_agree(
    tmp_path: Path, write_pages: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clones = write_clones(tmp_path)
    options = [
        word
        for name, path in zip(("llmbar", "judgebench", "debate"), clones, strict=True)
        for word in (f"--{name}", str(path))
    ]
    evidence, audit = write_pages
    main([*options, "--out", str(evidence), "--audit", str(audit)])
    text = evidence.read_text()
    monkeypatch.setattr(sys, "argv", [str(_CHECK), *options])
    runpy.run_path(str(_CHECK))
    tables = capsys.readouterr().out.strip().split("\n\n")
    assert len(tables) == 3
    assert all(table in text for table in tables)
    script = _CHECK.read_text()
    assert len(script.splitlines()) <= 80
    assert "import flowdebate" not in script
    assert "from flowdebate" not in script
    assert text.startswith("# Page\n")
    assert text.endswith("\n\nRest.\n")
    assert "old" not in text
    assert "(no commit)" in text
    assert stored_published(evidence).strip() in text
    assert "### New" in audit.read_text()


@pytest.mark.slow
def test_replay_reproduces_published_figures(tmp_path: Path) -> None:
    clone = write_llmbar(tmp_path)
    assert matches_of(clone) == (100, 100, 200)
    statistics = clone / "Dataset/LLMBar/Natural/evaluators/GPT-4/Vanilla/statistics.json"
    statistics.write_text(statistics.read_text().replace('"correct_average": "', '"correct_average": "1'))
    assert matches_of(clone)[0] == 99


def test_leaderboard_is_audited(tmp_path: Path) -> None:
    clone = write_debate(tmp_path)
    matchups, ballots = read_matchups(clone)
    assert (len(matchups), len(ballots)) == (120, 720)
    assert all(ballot.lengths and min(ballot.lengths) >= 400 for ballot in ballots)
    audit = audit_leaderboard(clone)
    assert (audit.spearman, audit.listed, audit.judges) == (1.0, len(MODELS), 3)
    first = audit.preferences[0]
    assert (first.one, first.other, first.debates) == (READERS[0], READERS[1], 240)
    assert first.difference > 0.05
    assert first.p < 0.05
    assert audit.preferences[2].p > 0.05
    length, order = audit.content.effects["length"], audit.content.effects["order"]
    assert (length.low or 0) < 0 < (length.high or 0)
    assert (order.low or 0) > 0
    assert abs(audit.correlation) < 0.2
    assert audit.motion_p > 0.01
    assert "| Judge One | Judge Two | 240 |" in audit.markdown("abc")


def test_commit_of_a_clone_is_read(tmp_path: Path) -> None:
    """HEAD may be detached or on a branch, and the reference for the branch may be packed."""
    folder = tmp_path / ".git"
    (folder / "refs/heads").mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "packed-refs").write_text("# pack-refs\n" + "a" * 40 + " refs/heads/main\n")
    assert commit_of(tmp_path) == "a" * 12
    (folder / "refs/heads/main").write_text("b" * 40 + "\n")
    assert commit_of(tmp_path) == "b" * 12
    (folder / "HEAD").write_text("c" * 40 + "\n")
    assert commit_of(tmp_path) == "c" * 12
    assert commit_of(tmp_path / "none") == "(no commit)"
