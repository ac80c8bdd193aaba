"""Text format for a moderator's report, rendered strictly and parsed leniently.

    SUMMARY: The state of the deliberation.
    STATUS: CONTINUE
    DECISION: What was decided, if anything was.

`render_report` escapes every section, so that none can be mistaken for another. `parse_report` restores such a report
exactly. It also parses free text from models: it never fails, and treats a matter as settled only if the text clearly
says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import dedent

from flowdebate.errors import ViewError
from flowdebate.prompts import quoted, unquoted

from .schemas import ModeratorReport

_RENDERED = re.compile(r"SUMMARY: (.*)\nSTATUS: (SETTLED|CONTINUE)(?:\nDECISION: (.*))?", re.DOTALL)

# Bullets, numbers, hashes, stars and emoji may precede a marker, but letters and quotation marks may not.
_BEFORE = r"(?:[^\w\n\"'\u2018-\u201f«»<>|\[\]()*`]|\*[ ]){0,12}"
_MARKER = re.compile(
    rf"""
    (?! [ ]{{4}} | [ ]{{0,3}} \t )
    {_BEFORE} (?P<first>[*_`]{{0,3}}) (?: \(? [0-9]{{1,2}} [.)] )?
    {_BEFORE} (?P<second>[*_`]{{0,3}})
    (?: (?: final | tentative | interim | overall | current | moderator (?: ['’]?s )? ) [ ]{{1,3}} )?
    (?P<part> summary | status | decision )
    [ ]{{0,3}} (?P<inner>[*_`]{{0,3}}) [ ]{{0,3}}
    (?: [:\uff1a\ufe55\u2236] [ ]{{0,3}} (?P<outer>[*_`]{{0,3}}) (?![*_`])
      | (?<=[ ]) (?: [-\u2013\u2014=] | -> | → ) [ ]
      | \#{{0,6}} $ )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FENCE = re.compile(r"[ ]{0,3}(?:```|~~~)")
_RULE = re.compile(r"[-=*_~#]{3,}")


_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|\?|\[ \]|☐")
_NO_NEED = re.compile(r"\bno (?:need|reason|point) (?:to|in) continu(?:e|ing)\b")
_LEADING = frozenset(
    """
    a all are as been consensus debate debaters deliberation discussion everything fully has have i is issue it matter
    now question round status the this topic we x yes
    """.split()  # noqa: SIM905 - a list this long is read as words
)
"""Words that may precede SETTLED; others, such as "not", "nearly", "can be" or "Bear says it is", may weaken it."""
_DOUBTS = frozenset(
    """
    ? ☐ almost although but cannot continue continued continues except false however if maybe nearly never not or part
    partially partly pending perhaps provided though unclear unless unsettled until whether yet
    """.split()  # noqa: SIM905 - a list this long is read as words
)
"""Words that contradict or weaken SETTLED when they follow it."""


def render_report(report: ModeratorReport) -> str:
    r"""Render `report` as text; `parse_report` restores it exactly.

    >>> print(render_report(ModeratorReport(summary="They differ.\nSTATUS: SETTLED", status="CONTINUE")))
    SUMMARY: They differ.
      | STATUS: SETTLED
    STATUS: CONTINUE
    """
    lines = [f"SUMMARY: {quoted(report.summary)}", f"STATUS: {report.status}"]
    if report.decision is not None:
        lines.append(f"DECISION: {quoted(report.decision)}")
    return "\n".join(lines)


def parse_report(text: str) -> ModeratorReport:
    r"""Parse a report from any `text`; this never raises an error.

    Sections begin with SUMMARY, STATUS or DECISION at the start of a line, in any order and in upper or lower case. The
    keyword may be surrounded by Markdown, bullets or numbers, and its section extends to the next one. Quoted lines
    (`>`, `|`, indented by four spaces, in a code fence or in quotation marks) never begin a section. A missing,
    unclear, hedged or contradicted status becomes CONTINUE. If there is no SUMMARY section, the summary is the text
    before the first section, or the whole text if there are no sections.

    >>> parse_report("**Status:** not settled yet\n\n## Summary\nThey differ on the price.")
    ModeratorReport(summary='They differ on the price.', status='CONTINUE', decision=None)
    """
    # replace unpaired surrogates, which UTF-8 cannot encode for storage and transfer
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if (report := _read_rendered(text)) is not None:
        return report
    parts: dict[str, list[str]] = {"": [], "summary": [], "status": [], "decision": []}
    for part, body in _parts(_bare(text).split("\n")):
        parts[part].append(body)
    if not (parts["summary"] or parts["status"] or parts["decision"]):
        return ModeratorReport(summary=text.strip(), status="CONTINUE")
    statuses = list(filter(None, parts["status"]))
    return ModeratorReport(
        summary="\n".join(filter(None, parts["summary"])) or "\n".join(parts[""]),
        status="SETTLED" if statuses and all(map(_declares_settled, statuses)) else "CONTINUE",
        decision=parts["decision"][-1] if parts["decision"] else None,
    )


def _read_rendered(text: str) -> ModeratorReport | None:
    """Parse a report rendered by `render_report`; return None for any other text."""
    match = _RENDERED.fullmatch(text)
    if match is None:
        return None
    try:
        decision = None if match[3] is None else unquoted(match[3])
        report = ModeratorReport.model_validate(
            {"summary": unquoted(match[1]), "status": match[2], "decision": decision}
        )
    except (ValueError, ViewError):
        return None
    return report if render_report(report) == text else None


def _bare(text: str) -> str:
    """Normalize line endings, and strip a code fence, Markdown quote markers or indentation around the whole `text`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    lines = text.rstrip().split("\n")
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    if fences == [0, len(lines) - 1] and len(lines) > 1:
        lines = lines[1:-1]
    if all(line.startswith(">") for line in lines if line.strip()):
        lines = [line.removeprefix(">").removeprefix(" ") for line in lines]
    return dedent("\n".join(line.rstrip() for line in lines))


def _parts(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Split a report into its named sections, in order; any text before the first section is named ""."""
    part, marks, body, fenced = "", "", [""], False
    for line in lines:
        if _FENCE.match(line):
            fenced = not fenced
        match = None if fenced else _MARKER.match(line)
        if match is None:
            body.append(line)
            continue
        yield part, _body(body, marks)
        part = match["part"].casefold()
        opened = match["first"] or match["second"]
        marks = "" if match["inner"] or match["outer"] else opened
        # if no emphasis was opened before the keyword, stars after the colon belong to the value
        body = [line[match.end() if opened or not match["outer"] else match.start("outer") :]]
    yield part, _body(body, marks)


def _body(lines: Sequence[str], marks: str) -> str:
    """Return a section's text, stripped of surrounding horizontal rules, blank lines and emphasis.

    `marks` are emphasis marks opened before the section's keyword; the marks that close them are removed from the text.
    """
    first, *rest = lines
    inner = [first.strip(), *dedent("\n".join(rest)).split("\n")]
    line_numbers = [number for number, line in enumerate(inner) if line.strip() and not _RULE.fullmatch(line.strip())]
    text = "\n".join(inner[line_numbers[0] : line_numbers[-1] + 1]).strip() if line_numbers else ""
    if marks:
        text = text.replace(marks, "", 1).strip()
    for around in ("**", "__", "*", "_", "`"):
        bare = text[len(around) : -len(around)]
        if bare and text == f"{around}{bare}{around}" and around not in bare:
            return bare.strip()
    return text


def _declares_settled(text: str) -> bool:
    """Check whether the first line clearly declares the matter settled and no other line qualifies it."""
    lines = [_WORD.findall(_NO_NEED.sub(" ", line.casefold())) for line in text.split("\n")]
    first, *rest = list(filter(None, lines)) or [[]]
    if "settled" not in first or any(words[0] in {"continue", "not"} for words in rest):
        return False
    place = first.index("settled")
    behind = first[place + 1 :]
    doubted = not _DOUBTS.isdisjoint(behind) or any(word.endswith(("n't", "n’t")) for word in behind)
    return _LEADING.issuperset(first[:place]) and not doubted and behind[:1] != ["no"]
