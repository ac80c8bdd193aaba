"""Reports on a run (including its journal) or on a study, each as a single HTML file without scripts."""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html.parser import HTMLParser
from itertools import zip_longest
from typing import Any

from flowdebate._text import counted
from flowdebate.errors import BadFile, FlowDebateError
from flowdebate.evaluation.documents import lay_out_study
from flowdebate.evaluation.stored_audit import FigureRow
from flowdebate.evaluation.study_report import StudyReport
from flowdebate.models.resolve import ModelChoice
from flowdebate.runs.execute import Runnable
from flowdebate.service.evidence import UNCHECKED, Evidence, Finding, evidence_of, excerpts
from flowdebate.service.state import RunState
from flowdebate.store.export import read_runs
from flowdebate.ui.document import Document
from flowdebate.ui.files import read_text
from flowdebate.ui.sections import Section, Table
from flowdebate.ui.steps import StepState
from flowdebate.web.plots import Point, plot_of, scatter_of_costs, scatter_of_shares
from flowdebate.web.run.sheet import Sheet
from flowdebate.web.templates import render, style_of

_MEGABYTES = 64
"""Maximum size, in megabytes, of a file to verify and of the journal it contains."""
STYLES = ("style.css", "report.css")
_JOURNAL = re.compile(r'<a id="journal" download="[^"<>]*" href="data:application/gzip;base64,([^"]*)">')
_HASH = re.compile(r'<td class="mono" id="sha256">([^<]*)</td>')
_VERSION = re.compile(r'<meta name="generator" content="flowdebate ([^"<>]*)">')


async def report_html(lines: Sequence[str], evidence: Evidence) -> str:
    """Render the report on a run from the lines of its export and from its evidence.

    Raises BadFile if the run has nothing to show or is too large. The evidence comes from `evidence_in` or
    `Service.evidence`.
    """
    journal = "".join(f"{line}\n" for line in lines).encode()
    if len(journal) > _MEGABYTES * 1_000_000:
        raise BadFile(f"run {evidence.run.header.run_id}", f"its journal is larger than {_MEGABYTES} MB")
    # with mtime=0, the same journal always produces the same file
    packed = base64.b64encode(gzip.compress(journal, mtime=0)).decode()
    return await _page(evidence, journal, packed)


def report_policy(*, base: str = "'none'") -> str:
    """Return the content security policy for reports.

    It blocks scripts and external resources, and allows only the report's own style.
    """
    digest = base64.b64encode(sha256(style_of(*STYLES).encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri {base}; form-action 'none'"


async def _page(evidence: Evidence, journal: bytes, packed: str) -> str:
    """Render the report from the journal alone; `packed` is the journal as embedded in the report."""
    replay = evidence.replay
    sheet = Sheet.of(
        await evidence.document(),
        details=RunState.of(evidence.run, pattern=None, is_here=False),
        steps=[StepState.of(step) for step in evidence.steps],
        events=() if replay is None else replay.events,
        votes=evidence.votes,
    )
    return _rendered(
        sheet,
        models=sorted({call.model for call in sheet.trace.calls if call.model}),
        # Default file name when a browser saves the journal.
        name=re.sub(r"[^A-Za-z0-9._-]", "_", evidence.run.header.run_id)[:80],
        packed=packed,
        journal_hash=sha256(journal).hexdigest(),
        replayed=replay is not None,
        unchecked=UNCHECKED,
    )


def document_html(
    document: Document, events: Sequence[object] = (), *, sections: Iterable[Section] | None = None
) -> str:
    """Render a document and the run's events as a report without a journal, for display in a frame.

    If given, `sections` replace the document's own sections.
    """
    return _rendered(Sheet.of(document, events=events, sections=sections), framed=True)


def _rendered(sheet: Sheet, **journal: object) -> str:
    from flowdebate import __version__

    policy = report_policy(base="about:") if "framed" in journal else report_policy()
    return render("report", sheet=sheet, style=style_of(*STYLES), policy=policy, version=__version__, **journal)


# Verification


async def verify_file(path: str) -> list[Finding]:
    """Verify the report at `path`, or each run in an export ("-" for stdin); raise BadFile for other files."""
    # Mail programs and editors change line endings, which do not affect the text.
    text = read_text(path, megabytes=_MEGABYTES).replace("\r\n", "\n")
    if text.lstrip()[:1] == "<":
        return [await verify_report(text, source=path)]
    runs = list(read_runs(text.split("\n"), path))
    if not runs:
        raise BadFile(path, "is neither a report nor a run")
    return [await (await evidence_of(*run)).check(same_version=False) for run in runs]


async def verify_report(
    html: str, *, source: str = "report", block: Runnable[Any] | None = None, model: ModelChoice = None
) -> Finding:
    """Verify a report by replaying its journal, without calling a model or storing anything.

    Whatever the report contains, no file is read and no connection is made. If the run has no plan, pass the pattern as
    `block` and the model as `model`. Raises BadFile, with `source` as the file's name, if `html` is not a report.
    """
    from flowdebate import __version__

    made_by = _only(_VERSION, html, source, "the version that created it")
    hash_claimed = _only(_HASH, html, source, "the hash of its journal")
    packed = _only(_JOURNAL, html, source, "its journal")
    journal = _unpacked(packed, source)
    runs = list(read_runs(journal.split(b"\n"), f"{source}: its journal"))
    if len(runs) != 1:
        raise BadFile(source, f"its journal contains {counted(len(runs), 'run')} instead of one")
    evidence = await evidence_of(*runs[0], block=block, model=model)
    finding = await evidence.check(same_version=made_by == __version__)
    problems: list[str] = []
    if (digest := sha256(journal).hexdigest()) != hash_claimed:
        problems.append(f"The report was created from a different journal: the SHA-256 of this one is {digest}.")
    try:
        rendered = await _page(evidence, journal, packed)
    except FlowDebateError as error:
        # There is no rendered page to compare the file with.
        rendered = html
        problem = f"The page cannot be rendered: {error}"
        finding = finding.model_copy(update={"outcome": "unknown", "problems": (problem,)})
    if rendered != html:
        problems.extend(_differences(html, rendered))
    if not problems:
        return finding
    # Another version may render the same run differently; that alone does not indicate tampering.
    if finding.outcome == "verified" and made_by != __version__ and digest == hash_claimed:
        problems.append(
            f"The report was created by flowdebate {made_by}, but this is {__version__}. Verify it with that version."
        )
        return finding.model_copy(update={"outcome": "unknown", "problems": tuple(problems)})
    return finding.model_copy(update={"outcome": "differs", "problems": (*problems, *finding.problems)})


def _only(pattern: re.Pattern[str], html: str, source: str, what: str) -> str:
    matches = pattern.findall(html)
    # Text from models is escaped and cannot match, so a second match means that someone inserted it.
    if len(matches) != 1:
        raise BadFile(source, f"is not a flowdebate report: it contains {what} {len(matches)} times instead of once")
    return str(matches[0])


def _unpacked(packed: str, source: str) -> bytes:
    """Unpack a report's untrusted journal; raise BadFile if it is invalid or too large."""
    try:
        data = base64.b64decode(packed, validate=True)
    except binascii.Error as error:
        raise BadFile(source, f"its journal is not valid base64: {error}") from None
    # `gzip.decompress` has no size limit, and a few kilobytes may decompress to gigabytes.
    reader = zlib.decompressobj(wbits=31)
    try:
        journal = reader.decompress(data, _MEGABYTES * 1_000_000)
    except zlib.error as error:
        raise BadFile(source, f"its journal cannot be decompressed: {error}") from None
    if reader.unconsumed_tail:
        raise BadFile(source, f"its journal is larger than {_MEGABYTES} MB")
    if not reader.eof or reader.unused_data:
        raise BadFile(source, "its journal is truncated" if not reader.eof else "its journal is followed by other data")
    return journal


def _differences(page: str, rendered: str) -> Iterator[str]:
    """Describe the visible differences, or state that the file differs only in invisible parts."""
    for shown_piece, rendered_piece in zip_longest(_pieces(page), _pieces(rendered)):
        if shown_piece != rendered_piece:
            location = "" if shown_piece is None or not shown_piece.place else f" at {shown_piece.place}"
            one, other = excerpts(
                "" if shown_piece is None else shown_piece.text, "" if rendered_piece is None else rendered_piece.text
            )
            yield f"The page{location} shows {one}, but its journal gives {other}."
            return
    yield "The file differs from the page that its journal gives, but not in its text."


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of text from a page."""

    text: str
    place: str
    """Last element id on the page before this text; "" if there is none."""


def _pieces(html: str) -> Sequence[_Piece]:
    reader = _Texts()
    reader.feed(html)
    reader.close()
    return reader.pieces


class _Texts(HTMLParser):
    """Parser that collects a page's text but ignores its style sheet."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[_Piece] = []
        self._place = ""
        self._styled = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._styled = tag == "style"
        self._place = dict(attrs).get("id") or self._place

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - of the parser
        self._styled = False

    def handle_data(self, data: str) -> None:
        if not self._styled and data.strip():
            self.pieces.append(_Piece(" ".join(data.split()), self._place))


def study_html(report: StudyReport) -> str:
    """Render a report on a study, finished or not, as a page without scripts or external resources."""
    from flowdebate import __version__

    accuracies = [
        FigureRow(
            judge="",
            name=method.method,
            value=method.accuracy,
            low=method.low,
            high=method.high,
            form=".1%",
            n=method.n,
            of=f"{method.n:,} answers",
        )
        for method in report.methods
    ]
    costs = [
        Point(
            name=method.method,
            description=f"{method.method}, {method.accuracy:.1%} at {method.tokens:,.0f} tokens",
            x=method.tokens,
            y=method.accuracy,
            low=method.low,
            high=method.high,
        )
        for method in report.methods
        if method.tokens
    ]
    sure = [
        Point(
            name="",
            description=f"{bin_.accuracy:.0%} right where it is {bin_.confidence:.0%} sure, of {bin_.n:,}",
            x=bin_.confidence,
            y=bin_.accuracy,
            low=bin_.accuracy_low,
            high=bin_.accuracy_high,
        )
        for bin_ in report.reliability
    ]
    frontier = [method.method for method in report.frontier]
    tables = [section for section in lay_out_study(report).sections if isinstance(section, Table)]
    return render(
        "study",
        report=report,
        tables={table.title: table for table in tables},
        accuracies=plot_of(accuracies),
        costs=scatter_of_costs(costs, line=frontier, name="tokens for each question, on a scale of equal factors"),
        frontier=frontier,
        sure=scatter_of_shares(sure, name="how sure the judge is"),
        style=style_of(*STYLES),
        policy=report_policy(),
        version=__version__,
    )
