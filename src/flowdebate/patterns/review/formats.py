"""Export formats for reviews: a pull request comment, SARIF for code scanning, and JSON Lines."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from textwrap import indent
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from flowdebate._text import counted
from flowdebate.ui.markdown import escaped
from flowdebate.ui.text import as_json, cost_text, escape_json, in_line, models_text, printable

from .schemas import STATES, Defence, Finding, ReviewRawOutput, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flowdebate.ui.document import Document

# Comments

_MAX_COMMENT_LENGTH = 65_000
"""Maximum length of a comment in characters; GitHub rejects comments longer than 65,536."""
_REFERENCE = re.compile(r"@(?=\w)|#(?=\d)|(?<![\w-])GH-(?=\d)", re.IGNORECASE)
"""Pattern matching the start of a GitHub mention or issue reference; escaping these with a backslash has no effect."""


def findings_markdown(document: Document, *, room: int = _MAX_COMMENT_LENGTH) -> str:
    """Render a pull request comment, with confirmed findings first and all others collapsed.

    `room` is the maximum number of characters. Returns "" if no reviewer answered.
    """
    raw: ReviewRawOutput = document.raw
    if not raw.reviewers:
        return ""
    head = [f"### {plain(raw.headline)}", ""]
    if raw.gate is not None:
        head += [f"**Gate** “{plain(raw.gate.rule)}” **{raw.gate.word}**: {plain(raw.gate.why)}", ""]
    notes = [note for note in raw.first_notes if not raw.headline.startswith(note)]
    head += [line for note in notes for line in (plain(note), "")]
    cost = "" if document.cost is None else f"; cost {plain(cost_text(document.cost, document.prices, complete=True))}"
    models = f"{plain(models_text(dict(raw.reviewers)))}{cost}"
    tail = [plain(raw.empty_note), ""] if raw.empty else []
    tail.append(f"<sub>{models}. Models can be wrong together: a confirmed finding is not proof.</sub>")
    room -= sum(len(line) + 1 for line in (*head, *tail)) + 1_000  # leave room for headings and a final note
    lines, cut = [*head], 0
    for state in STATES:
        findings = raw.in_state(state)
        texts: list[str] = []
        for finding in findings:
            text = "\n".join(_finding_lines(finding))
            room -= len(text) + 1
            if room < 0:
                break
            texts.append(text)
        cut += len(findings) - len(texts)
        title, folded = f"{state.capitalize()}: {len(findings)}", state != "confirmed"
        if texts:
            lines += [f"<details><summary>{title}</summary>" if folded else f"#### {title}", "", *texts]
            lines += ["", "</details>", ""] if folded else [""]
    if cut:
        lines += [f"Too long for one comment: {counted(cut, 'more finding')} not shown, the least grave ones.", ""]
    return "\n".join([*lines, *tail])


def _finding_lines(finding: Finding) -> Iterable[str]:
    place = finding.place
    location = f" {plain(place.text)}" if place.text else ""
    missing = f" ({plain(place.problem)})" if place.problem is not None else ""
    missing += f" ({plain(place.note)})" if place.note is not None else ""
    claim = f"**{plain(finding.title)}**. {plain(finding.claim)}"
    yield f"- **{finding.severity}** {finding.id}{location}{missing}: {claim}"
    # render a multi-line suggestion as code, where every space matters
    if (text := printable(finding.suggestion or "").strip()) and "\n" in text:
        fence = "`" * (max(map(len, ["``", *re.findall("`+", text)])) + 1)
        yield f"  - Suggestion:\n\n{indent(f'{fence}{chr(10)}{text}{chr(10)}{fence}', '    ')}"
    elif text:
        yield f"  - Suggestion: {plain(text)}"
    yield f"  - Raised by {plain(', '.join(finding.raisers))}. {plain(finding.why[:1].upper() + finding.why[1:])}"
    remarks: list[Verdict | Defence] = [*finding.verdicts, *finding.defences]
    for remark in remarks:
        yield f"  - {plain(remark.agent_name)} {plain(remark_text(remark))}"


def plain(text: str) -> str:
    """Escape text for a single line of Markdown, so that it does not trigger mentions on GitHub.

    GitHub looks for mentions after rendering the Markdown, when backslashes are gone, so a zero-width space breaks them
    up.
    """
    return escaped(_REFERENCE.sub(lambda match: f"{match[0]}\u200b", " ".join(text.split())))


def remark_text(remark: Verdict | Defence) -> str:
    """Describe a reviewer's verdict or defense in prose: "confirms it: …"."""
    if isinstance(remark, Defence):
        return f"{'stands by it' if remark.stands else 'withdraws it'}: {remark.reason}"
    word = {"confirm": "confirms it", "refute": "refutes it", "neither": "says neither"}[remark.verdict]
    word += " (the answer changed with the order of the words)" if remark.flipped else ""
    missing = " (not in the material)" if remark.quote_found is False else ""
    return f"{word}: {remark.reason}{f' “{remark.quote}”{missing}' if remark.quote else ''}"


# SARIF

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Mapping[Severity, str] = {"blocker": "error", "major": "warning", "minor": "note", "nit": "note"}
_MAX_RESULTS = 5_000
"""Maximum number of results in a file; GitHub shows at most this many, and rejects files with more than 25,000."""
_MAX_MESSAGE_LENGTH = 8_000
"""Maximum length of a result's message, in characters."""


def findings_sarif(document: Document) -> str:
    """Render the findings as SARIF 2.1.0, in the format accepted by GitHub code scanning.

    Every result has a location, because GitHub would otherwise reject the whole file. Disputed findings are marked for
    human review, and refuted findings are suppressed, with the reason stated.
    """
    from flowdebate import __version__

    raw: ReviewRawOutput = document.raw
    driver = {
        "name": "flowdebate",
        "version": __version__,
        "rules": [{"id": grade, "defaultConfiguration": {"level": level}} for grade, level in _LEVELS.items()],
    }
    # omit resolved findings, so that code scanning closes their alerts
    open_findings = [finding for finding in raw.findings if finding.state != "resolved"]
    findings = sorted(open_findings, key=lambda finding: STATES.index(finding.state))[:_MAX_RESULTS]
    results = [(finding, _location(finding, raw)) for finding in findings]
    notes = [*raw.first_notes, *([raw.empty_note] if raw.empty else [])]
    notes += [sentence(finding) for finding, location in results if location is None]
    if more := len(open_findings) - len(findings):
        notes.append(f"{counted(more, 'more finding')} left out, the least grave ones")
    invocation: dict[str, Any] = {"executionSuccessful": document.has_result}
    if notes:
        invocation["toolExecutionNotifications"] = [{"level": "note", "message": {"text": note}} for note in notes]
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": [_result(finding, location) for finding, location in results if location is not None],
    }
    if raw.gate is not None:
        run["properties"] = {"gate": raw.gate.model_dump(mode="json", by_alias=True)}
    return as_json({"$schema": _SARIF, "version": "2.1.0", "runs": [run]})


def _location(finding: Finding, raw: ReviewRawOutput) -> dict[str, Any] | None:
    """Return a result's location.

    The default is the first line under review in the finding's file or, failing that, in the first file.
    """
    place = finding.place
    files = {file.file: file for file in raw.coverage if file.left_out is None}
    first = next(iter(files.values()), None)
    near = files.get(place.file or "", first)
    if place.file and place.found:
        name, line, end = place.file, place.line, place.end_line
        line = line or (near.first_line if near is not None and near.file == name else None)
    elif near is not None:
        name, line, end = near.file, near.first_line, None
    else:
        return None
    line = max(line or 1, 1)
    region = {"startLine": line, "endLine": max(end or line, line)}
    return {"artifactLocation": {"uri": _uri(name)}, "region": region}


def _uri(name: str) -> str:
    """Return the URI of a file, relative to the reviewed folder."""
    parts = [part for part in in_line(name).replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return quote("/".join(parts) or "material", errors="replace")


def sentence(finding: Finding) -> str:
    """Render a finding as one paragraph."""
    text = f"{finding.title}. {finding.claim}"
    text += f" Suggestion: {finding.suggestion}" if finding.suggestion else ""
    text = text if len(text) <= _MAX_MESSAGE_LENGTH else f"{text[:_MAX_MESSAGE_LENGTH]}…"
    if finding.place.problem is not None:
        text += f" (Shown at the nearest line: {finding.place.problem}.)"
    elif not finding.place.file:
        text += " (Shown at the first line under review: the finding names no place.)"
    return f"{text} [{finding.state}: {finding.why}]"


def _result(finding: Finding, location: Mapping[str, Any]) -> dict[str, Any]:
    fingerprint = sha256(f"{finding.place.file}\0{finding.title}".encode(errors="replace")).hexdigest()
    result: dict[str, Any] = {
        "ruleId": finding.severity,
        "message": {"text": sentence(finding)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"finding/v1": fingerprint},
        "properties": {"state": finding.state, "raisedBy": finding.raisers, "id": finding.id},
    }
    if finding.state == "disputed":  # SARIF does not allow a level on results marked for review
        result |= {"kind": "review", "level": "none"}
    else:
        result |= {"kind": "fail", "level": _LEVELS[finding.severity]}
    if finding.state == "refuted":
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": finding.why}]
    return result


# JSON Lines


def findings_lines(document: Document) -> str:
    """Render the findings as JSON Lines.

    Each finding takes one line, as in the raw output. The last line contains the gate, the coverage and the counts of
    empty findings; it is omitted if there are none of these.
    """
    raw: ReviewRawOutput = document.raw
    summary = raw.model_dump(mode="json", by_alias=True, include={"coverage", "gate", "empty"}, exclude_defaults=True)
    rows = [
        *(finding.model_dump(mode="json", by_alias=True) for finding in raw.findings),
        *([summary] if summary else []),
    ]
    return "\n".join(escape_json(json.dumps(row, ensure_ascii=False)) for row in rows)
