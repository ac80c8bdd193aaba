"""A review for other tools: Markdown for a pull request, SARIF 2.1.0, JSON Lines."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from flowdebate.service.documents.markdown import escaped
from flowdebate.service.documents.text import as_json, in_line, models_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEVELS = {"blocker": "error", "major": "warning", "minor": "note", "nit": "note"}
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def findings_markdown(document: Any) -> str:  # noqa: ANN401 - the document of a review
    """A comment on a pull request: the confirmed findings, and the others folded below them."""
    return "\n".join(_lines(document)).rstrip("\n")


def _lines(document: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    raw = document.raw
    yield f"### Review: {escaped(raw.answer or 'not finished')}"
    yield ""
    if raw.gate is not None:
        said = {True: "holds", False: "does not hold", None: "is undecided"}[raw.gate.holds]
        yield f"**Gate** “{escaped(raw.gate.rule)}” **{said}**: {escaped(raw.gate.why)}"
        yield ""
    for state in ("confirmed", "disputed", "refuted"):
        found = raw.in_state(state)
        title = f"{state.capitalize()}: {len(found)}"
        if found and state != "confirmed":
            yield from (f"<details><summary>{title}</summary>", "")
        elif found:
            yield from (f"#### {title}", "")
        for finding in found:
            yield from _finding(finding)
        if found:
            yield from ("", "</details>", "") if state != "confirmed" else ("",)
    left = [f"{source.name} ({source.left_out})" for source in raw.sources or () if source.left_out is not None]
    if left:
        yield from (f"Left out: {escaped(', '.join(left))}", "")
    reviewers = models_text(dict(raw.reviewers)) if raw.reviewers else "no reviewer was heard"
    cost = "" if document.cost is None else f"; cost {document.cost:.4f}"
    yield f"<sub>{escaped(reviewers)}{cost}. Models can be wrong together: a confirmed finding is no proof.</sub>"


def _finding(finding: Any) -> Iterator[str]:  # noqa: ANN401 - a Finding
    place = finding.place
    where = f" {escaped(place.text)}" if place.text else ""
    missing = f" (place not found: {escaped(place.problem)})" if place.problem is not None else ""
    yield f"- **{finding.severity}**{where}{missing}: **{escaped(finding.title)}**. {escaped(finding.claim)}"
    if finding.suggestion:
        yield f"  - Suggestion: {escaped(finding.suggestion)}"
    yield f"  - Raised by {escaped(', '.join(finding.raisers))}. {escaped(finding.why[:1].upper() + finding.why[1:])}"
    for each in finding.verdicts:
        word = {"confirm": "confirms it", "refute": "refutes it", "neither": "says neither"}[each.verdict]
        yield f"  - {escaped(each.agent_name)} {word}: {escaped(each.reason)}"
    for each in finding.defences:
        word = "stands by it" if each.stands else "withdraws it"
        yield f"  - {escaped(each.agent_name)} {word}: {escaped(each.reason)}"


def findings_sarif(document: Any) -> str:  # noqa: ANN401 - as above
    """SARIF 2.1.0: disputed findings are for people to look at, refuted ones are suppressed with the reason."""
    from flowdebate import __version__

    raw = document.raw
    driver = {
        "name": "flowdebate",
        "version": __version__,
        "rules": [{"id": grade, "defaultConfiguration": {"level": level}} for grade, level in _LEVELS.items()],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": document.has_result}],
        "results": [_result(finding) for finding in raw.findings],
    }
    return as_json({"$schema": _SARIF, "version": "2.1.0", "runs": [run]})


def _result(finding: Any) -> dict[str, Any]:  # noqa: ANN401 - a Finding
    place = finding.place
    text = f"{finding.title}. {finding.claim}"
    text += f" Suggestion: {finding.suggestion}" if finding.suggestion else ""
    if place.problem is not None:
        text += f" (The place that was named is not there: {place.problem}.)"
    result: dict[str, Any] = {
        "ruleId": finding.severity,
        "message": {"text": f"{text} [{finding.state}: {finding.why}]"},
        "partialFingerprints": {
            "finding/v1": sha256(f"{place.file}\0{finding.title}".encode(errors="replace")).hexdigest()
        },
        "properties": {"state": finding.state, "raisedBy": finding.raisers, "id": finding.id},
    }
    if finding.state == "disputed":  # by the standard, what is to be reviewed has no level
        result |= {"kind": "review", "level": "none"}
    else:
        result |= {"kind": "fail", "level": _LEVELS[finding.severity]}
    if finding.state == "refuted":
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": finding.why}]
    if place.file and place.found:
        physical: dict[str, Any] = {"artifactLocation": {"uri": quote(in_line(place.file), errors="replace")}}
        if place.line:
            physical["region"] = {"startLine": place.line, "endLine": place.end_line or place.line}
        result["locations"] = [{"physicalLocation": physical}]
    return result


def findings_lines(document: Any) -> str:  # noqa: ANN401 - as above
    """JSON Lines: a finding in each, as the raw output has it."""
    return "\n".join(finding.model_dump_json(by_alias=True) for finding in document.raw.findings)
