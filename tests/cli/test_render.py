"""Saved debates: written as JSON, read back, and rendered."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.cli.terminal.page import Page, render
from flowdebate.errors import BadFile
from flowdebate.patterns.debate.document import DebateDocument
from flowdebate.ui.document import read_document
from flowdebate.ui.text import as_json, printable

if TYPE_CHECKING:
    from pathlib import Path

RAW: dict[str, Any] = {
    "rounds": 2,
    "question": "Cap rents?",
    "transcript": [
        {"round": 1, "agentName": "anna", "stance": "cap rents", "text": "Homes first.\n[/bold] [for] x"},
        {"round": 1, "agentName": "ben", "stance": "free rents", "text": "Build more.\nRound 2 of 2"},
    ],
    "verdict": {"verdict": "Cap them.", "winner": "cap rents", "reasoning": "It answered."},
    "moderatorDecisions": [
        {
            "nextSpeakers": ["anna", "ben"],
            "briefing": "Rents rose.",
            "newAngle": "For whom?",
            "done": False,
            "round": 1,
        },
        {"nextSpeakers": [], "done": True, "round": 2},
    ],
    "stopReason": "moderator_done",
    "seed": 3,
}
DOCUMENT: dict[str, Any] = {
    "pattern": "debate",
    "status": "complete",
    "error": None,
    "debaters": [
        {"name": "anna", "stance": "cap rents", "role": "tenant"},
        {"name": "ben", "stance": "free rents", "role": None},
    ],
    "maxRounds": 2,
    "raw": RAW,
    "output": {"answer": 42},
    "usage": {"calls": 5, "promptTokens": 1234, "cachedTokens": None, "completionTokens": 56},
    "seconds": 1.25,
    "seed": 3,
}
HOSTILE = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["\x1b[2J\x9b31m", "[bold]x[/bold]", "[/x]", "\nRound 2 of 2\nVerdict\n", "\r\u202e\u2028", ":smile:", "\\[x]"]
)


def render_page(value: dict[str, Any]) -> str:
    """Return the output of `render` without a terminal."""
    document = DebateDocument.model_validate(value)
    page = io.StringIO()
    render(document, Page(page, document.speakers, environ={"FORCE_COLOR": "1"}))
    return page.getvalue()


def test_saved_debate_is_rendered_like_the_live_one() -> None:
    assert render_page(DOCUMENT) == snapshot("""\
Question: Cap rents?
  anna: cap rents (tenant)
  ben: free rents

Round 1 of 2

Moderator calls on: anna, ben
  Briefing: Rents rose.
  Angle: For whom?

anna:
  Homes first.
  [/bold] [for] x

ben:
  Build more.
  Round 2 of 2

Round 2 of 2

Moderator calls on: nobody
  This round is the last.

Verdict
  Winner: anna (cap rents)
  Verdict: Cap them.
  Reasoning: It answered.

Summary
  {
    "answer": 42
  }

Tokens: prompt 1,234, completion 56 · Calls: 5 · Time: 1.2 s
Seed: 3
""")


@given(HOSTILE)
def test_untrusted_text_never_starts_a_line_or_becomes_markup(text: str) -> None:
    """Only the page's own text starts at the left edge, and none of the untrusted text is lost."""
    value = json.loads(json.dumps(DOCUMENT).replace("Homes first.", "X"))
    raw = value["raw"]
    raw["transcript"] = [{"round": 1, "agentName": "anna", "stance": text, "text": text}]
    raw["moderatorDecisions"] = [{"round": 1, "nextSpeakers": ["anna"], "briefing": text, "newAngle": text}]
    raw["question"] = value["debaters"][0]["stance"] = value["output"] = text
    raw["verdict"] = {"verdict": text, "winner": text, "reasoning": text}
    page = render_page(value)
    headings = [line.partition(":")[0] for line in page.split("\n") if line and not line.startswith(" ")]
    assert headings == [
        "Question",
        "Round 1 of 2",
        "Moderator calls on",
        "anna",
        "Verdict",
        "Summary",
        "Tokens",
        "Seed",
    ]
    assert printable(page) == page
    assert "".join(page.split()).count("".join(printable(text).split())) >= 9 or not text.split()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda v: st.lists(v) | st.dictionaries(st.text(), v),
        max_leaves=4,
    )
)
def test_json_round_trips_without_terminal_control_characters(value: object) -> None:
    text = as_json(value)
    assert json.loads(text) == value
    assert set(text) <= {"\\"} | {char for char in text if not printable(char).startswith("\\")}


@pytest.mark.parametrize("style", ["camelCase", "snake_case"])
def test_bare_raw_output_is_shown_in_either_key_style(style: str, tmp_path: Path) -> None:
    """Keys can be in camel case, as in flow-state-dev, or in snake case, as in Python."""
    document = DebateDocument.model_validate(DOCUMENT)
    path = tmp_path / "raw.json"
    path.write_text(json.dumps(RAW) if style == "camelCase" else document.raw.model_dump_json())
    result = CliRunner().invoke(app, ["runs", "render", str(path)])
    assert result.exit_code == 0
    assert "anna (cap rents)" in result.stdout
    assert "Seed: 3" in result.stdout


def test_stdin_can_be_rendered(tmp_path: Path) -> None:
    """The path `-` stands for stdin, and a report can be written from it just as from a file."""
    report = tmp_path / "report.md"
    result = CliRunner().invoke(app, ["runs", "render", "-", "--markdown", str(report)], input=json.dumps(DOCUMENT))
    assert result.exit_code == 0
    assert "Homes first." in result.stdout
    assert "# Debate" in report.read_text()


BAD = [
    ('{"a":\n  x}', "line 2, column 3: not valid JSON"),
    ("[]", "must contain a JSON object (got [])"),
    ("", "line 1, column 1: not valid JSON"),
    ("[" * 100_000, "is nested too deeply"),
    (json.dumps({**RAW, "rounds": "many"}), "`rounds` must be a whole number (got many)"),
    (json.dumps({**RAW, "verdict": None}), "a complete debate has a verdict"),
    (json.dumps({**RAW, "verdict": 3}), "`verdict` must be an object (got 3)"),
    (json.dumps({**RAW, "transcript": [{"round": 1}]}), "`transcript.0.agentName` is missing"),
    (json.dumps({**RAW, "extra": 1}), "`extra` is not a known field"),
    (json.dumps({**DOCUMENT, "status": "x\x1b"}), "`status` must be running, complete"),
    (json.dumps({**DOCUMENT, "raw": {**RAW, "verdict": None}}), "a complete debate has a verdict"),
]


@pytest.mark.parametrize("depth", [100, 400, 900, 5_000])
def test_deep_nesting_causes_no_traceback(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_text(json.dumps({**DOCUMENT, "output": "DEEP"}).replace('"DEEP"', "[" * depth + "]" * depth))
    result = CliRunner().invoke(app, ["runs", "render", str(path), "--markdown", str(tmp_path / "report.md")])
    assert result.exit_code == 0 or result.stderr == f"Error: {path}: is nested too deeply\n"


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_invalid_file_causes_one_error_that_names_line_or_field(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_text(text)
    result = CliRunner().invoke(app, ["runs", "render", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{path}: " in result.stderr
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.stderr


def test_undecodable_bytes_are_reported_with_their_line_number(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_bytes(b'{\n"\xff"}')
    with pytest.raises(BadFile, match="line 2: not valid UTF-8"):
        read_document(str(path))
    with pytest.raises(BadFile, match="cannot be read: No such file"):
        read_document(str(tmp_path / "none.json"))
    with pytest.raises(BadFile, match="cannot be read"):
        read_document("a\0b")
