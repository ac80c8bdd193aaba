"""Reviews of changes too large for a single prompt, and report formats that GitHub accepts for any text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import Sources, review
from flowdebate.patterns.review.findings import cover, read_lines
from flowdebate.patterns.review.formats import findings_lines, findings_markdown, findings_sarif
from flowdebate.patterns.review.page import ReviewDocument
from flowdebate.patterns.review.schemas import (
    FileCoverage,
    Finding,
    GateResult,
    Place,
    Raised,
    ReviewRawOutput,
    unread_files,
)
from flowdebate.sources.quotes import divide
from flowdebate.sources.source import Source, number_lines
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

PEOPLE = [{"name": "ann"}, {"name": "bea"}, {"name": "cid"}]


def diff_of(name: str, lines: int, *, bad: str | None = None) -> str:
    """Create a diff that adds lines to a file, one of them faulty."""
    added = [f"+value_{number} = {number}  # what is wrong with this change" for number in range(1, lines + 1)]
    if bad is not None:
        added[lines // 2] = f"+{bad}"
    head = f"diff --git a/{name} b/{name}\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{lines} @@\n"
    return head + "\n".join(added) + "\n"


# Splitting


def test_large_changes_are_reviewed_in_several_calls() -> None:
    bad = "os.system(name)"
    sources = {"padding.py": diff_of("padding.py", 600), "evil.py": diff_of("evil.py", 40, bad=bad)}
    prompts_by_block: dict[str, list[str]] = {}

    def reply(request: ModelRequest) -> Any:
        prompt = "\n".join(str(message["content"]) for message in request.messages)
        prompts_by_block.setdefault(request.block, []).append(prompt)
        if "-examiner-" in request.block:
            assert bad in prompt
            return {"verdicts": [{"finding": "F1", "verdict": "confirm", "reason": "It does."}]}
        finding = {"title": "Runs a command", "claim": "Anybody can.", "severity": "blocker", "file": "evil.py"}
        is_shown = bad in prompt and request.block.endswith("-ann")
        return {"findings": [{**finding, "quote": bad}] if is_shown else []}

    pattern = review(
        name="x", reviewers=PEOPLE, sources=Sources(sources, tokens=4_000), merger=False, gate="no confirmed blocker"
    )
    raw = pattern.run_sync("What is wrong?", model=FunctionModel(reply)).output
    assert raw.gate is not None
    assert raw.gate.holds is False
    assert [finding.place.text for finding in raw.findings] == ["evil.py:21"]
    for name in ("ann", "bea", "cid"):
        prompts = prompts_by_block[f"x-reviewer-{name}"]
        assert len(prompts) > 2
        assert all(len(prompt) < 25_000 for prompt in prompts)
        together = "\n".join(prompts)
        assert all(f"value_{number} = {number} " in together for number in range(1, 601))
        assert re.search(r"Part 1 of \d+ of the sources:", prompts[0])
    assert [(file.file, file.lines, file.read["bea"]) for file in raw.coverage] == [
        ("padding.py", 600, 600),
        ("evil.py", 40, 40),
    ]
    assert raw.coverage_note == "Read 2 of 2 files in full"


texts = st.text(st.sampled_from("abc \n+-"), max_size=3_000)


@given(st.lists(texts, min_size=1, max_size=6), st.integers(200, 4_000))
@settings(max_examples=60)
def test_parts_respect_the_size_limit_and_contain_each_line_once(contents: list[str], room: int) -> None:
    """Lines keep their order, and a file that fits into one part is not split."""
    sources = tuple(Source.of(f"f{number}", text) for number, text in enumerate(contents))
    parts = divide(sources, room)
    for part in parts:
        assert sum(passage.end - passage.start for passage in part) <= max(room, 1_200)
    by_name = {source.name: source for source in sources}
    for source in sources:
        passages = [passage for part in parts for passage in part if passage.source == source.name]
        covered = {at for passage in passages for at in range(passage.start, passage.end)}
        assert all(at in covered for at, sign in enumerate(source.text) if sign.strip())
        assert sum(passage.end - passage.start for passage in passages) == len(covered)
    assert read_lines(sources, parts) == {
        name: sum(bool(line.text.strip()) for line in number_lines(source)) for name, source in by_name.items()
    }


def test_unreviewed_lines_leave_a_gate_undecided() -> None:
    """A file that was excluded on purpose does not count as unreviewed."""
    sources = (
        Source.of("a.py", diff_of("a.py", 4)),
        Source(name="b.png", left_out="is binary"),
        Source(name="c.lock", left_out="is excluded", excluded=True),
    )
    coverage = cover(sources, {"ann": {"a.py": 3}})
    assert [(file.file, file.lines, file.first_line, file.is_read) for file in coverage] == [
        ("a.py", 4, 1, False),
        ("b.png", 0, None, False),
        ("c.lock", 0, None, False),
    ]
    raw = ReviewRawOutput(question="Q?", coverage=coverage)
    assert unread_files(raw.coverage) == ["a.py (3 of 4 lines)", "b.png (is binary)"]
    assert raw.coverage_note == (
        "Read 0 of 3 files in full; not read: a.py (3 of 4 lines), b.png (is binary); excluded: c.lock"
    )


# Report formats


def document_of(*findings: Finding, **fields: Any) -> ReviewDocument:
    """Create a finished review with these findings."""
    raw = ReviewRawOutput(question="Q?", findings=[*findings], reviewers={"Ada": "m"}, stop_reason="examined", **fields)
    return ReviewDocument(status="complete", raw=raw)


def finding_of(number: int, *, text: str = "It fails.", place: Place | None = None, **changes: Any) -> Finding:
    """Create a finding raised by Ada."""
    fields: Any = {"title": text[:300], "claim": text[:4_000], "severity": "major", "place": place or Place()} | changes
    raised = Raised(agent_name="Ada", **fields)
    return Finding(id=f"F{number}", raised=[raised], state="confirmed", why="a majority supports it", **fields)


def test_long_comments_keep_the_most_severe_findings() -> None:
    """GitHub rejects longer comments.

    The less severe findings are left out, and the comment states how many were omitted.
    """
    findings = [finding_of(number, text="word " * 700) for number in range(1, 61)]
    gate = GateResult(rule="no finding", holds=False, against=["F1"], why="see F1")
    comment = findings_markdown(document_of(*findings, gate=gate))
    assert len(comment) <= 65_000
    shown_count = len(re.findall(r"^- \*\*major\*\*", comment, re.MULTILINE))
    assert 5 < shown_count < 60
    assert f"Too long for one comment: {60 - shown_count} more findings not shown" in comment
    assert "**does not hold**" in comment
    assert comment.count("<details>") == comment.count("</details>")


@given(st.text(st.sampled_from("@#gG-hH1a/\\ `\n<&;64"), max_size=40))
def test_comments_contain_no_mentions_or_references(text: str) -> None:
    """GitHub would turn names and numbers into links, even inside Markdown code."""
    place = Place(file=f"x{text}.py", line=3, found=True)
    comment = findings_markdown(document_of(finding_of(1, text=f"x {text}", place=place)))
    rendered = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", comment)
    assert not re.search(r"@\w|#\d|\bGH-\d", rendered.replace("&#", ""), re.IGNORECASE)


@pytest.mark.parametrize(
    ("place", "uri", "start", "end"),
    [
        (Place(file="a b/ü.py", line=3, end_line=4, found=True), "a b/ü.py", 3, 4),
        (Place(file="/etc/../x.py", line=3, found=True), "etc/x.py", 3, 3),
        (Place(file="app.py", quote="gone", found=True), "app.py", 7, 7),
        (Place(file="app.py", line=99, found=False, problem="app.py has no line 99"), "app.py", 7, 7),
        (Place(file="none.py", line=9, found=False, problem="none.py is not in the material"), "app.py", 7, 7),
        (Place(), "app.py", 7, 7),
    ],
)
def test_every_result_has_a_location_that_github_accepts(place: Place, uri: str, start: int, end: int) -> None:
    """The path must be relative and URL-encoded, and line numbers must start at 1."""
    coverage = [FileCoverage(file="b.png", left_out="is binary"), FileCoverage(file="app.py", lines=2, first_line=7)]
    [run] = json.loads(findings_sarif(document_of(finding_of(1, place=place), coverage=coverage)))["runs"]
    [result] = run["results"]
    [location] = result["locations"]
    address = location["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"[A-Za-z0-9%/._~-]+", address)
    assert unquote(address) == uri
    assert location["physicalLocation"]["region"] == {"startLine": start, "endLine": end}


def test_findings_without_a_file_become_notifications() -> None:
    [run] = json.loads(findings_sarif(document_of(finding_of(1))))["runs"]
    assert run["results"] == []
    assert "It fails." in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_sarif_contains_no_more_results_than_github_displays() -> None:
    coverage = [FileCoverage(file="app.py", lines=2, first_line=7)]
    findings = [finding_of(number) for number in range(1, 5_003)]
    [run] = json.loads(findings_sarif(document_of(*findings, coverage=coverage)))["runs"]
    assert len(run["results"]) == 5_000
    assert run["invocations"][0]["toolExecutionNotifications"][-1]["message"]["text"].startswith("2 more findings")


def test_json_lines_contain_no_terminal_escapes() -> None:
    printed = findings_lines(document_of(finding_of(1, text="\x1b[31m \u202e \x9b \x7f")))
    assert printed.isprintable()
    assert json.loads(printed)["title"] == "\x1b[31m \u202e \x9b \x7f"
