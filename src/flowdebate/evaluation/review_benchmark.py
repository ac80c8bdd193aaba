"""Review benchmark: how many of the faults planted in code changes are found by reviews."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import log, sqrt
from pathlib import Path
from statistics import fmean, variance
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias

from pydantic import Field, ValidationError

from flowdebate._text import counted, listed, problems_of, unknown_choice
from flowdebate._util.importing import InNotebooks
from flowdebate._util.wire import WireModel, new_list
from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.evaluation.audit_report import Figure
from flowdebate.evaluation.statistics import share_interval, two_sided_z

if TYPE_CHECKING:
    from os import PathLike

TOLERANCE = 3
"""Maximum distance in lines between a finding and the fault it identifies."""

FAULT_KINDS: dict[str, str] = {
    "deadlock": r"dead.?lock|locks? (twice|again)|already (locked|held)|re-?entran|while holding|self.?lock",
    "division-by-zero": (
        r"divi(sion|de[sd]?|ding|sor).{0,40}(zero|\b0\b)|zero.?division|\bNaN\b|\bis (empty|zero)"
        r"|no clicks"
    ),
    "infinite-loop": (
        r"infinite|endless|never (end|terminat|stop|finish|exit|advance)|forever|loops? (again|without)"
        r"|same (page|match|index|position)"
    ),
    "injection": (
        r"inject|\bxss\b|cross.?site|sanitiz|escap(e|ing)|parameteri[sz]|shell=|untrusted|concatenat"
        r"|interpolat"
    ),
    "inverted-condition": (
        r"invert|revers|opposite|negat|wrong way|backwards"
        r"|(condition|comparison|logic|operator|check).{0,40}(wrong|incorrect)"
        r"|(wrong|incorrect).{0,40}(condition|comparison|logic|operator|check)"
    ),
    "missing-authorization": (
        r"authori[sz]|permission|access control|owner|adminonly|privilege|anyone|any (user|caller)"
    ),
    "missing-await": r"await|promise|corouti|asynchron|\basync\b|unhandled rejection",
    "null-dereference": (
        r"\bnull|\bnil\b|\bnone\b|undefined|non-null|nullpointer|attributeerror|typeerror|uninitiali[sz]ed"
    ),
    "off-by-one": (
        r"off.by.one|out of (bounds|range)|bounds|boundary|inclusive|exclusive|index(error)?\b"
        r"|last (day|element|item)|one (too|more|less|fewer)|zero.based|1.based"
    ),
    "overflow": r"overflow|wrap(s|ped)? around|exceeds? .{0,20}(int|32)|too large for",
    "path-traversal": (
        r"travers|\.\./|outside (of )?the|arbitrary (file|path)|directory escape|zip.?slip|absolute path"
    ),
    "precision-loss": r"precision|integer division|truncat|round(s|ed|ing)? (down|to zero)|loses|fraction",
    "race": r"\brac(e|y)|thread.?safe|concurren|synchroni[sz]|atomic|simultaneous|read.?lock|rlock|mutex|lock",
    "resource-leak": (
        r"leak"
        r"|(not|never|without|isn't|aren't) .{0,30}(clos|releas|return|remov|unsubscrib|unregister|shut)"
        r"|fail.{0,20} to close|(un)?clos(e|ed|ing)\b|shut ?down|defer|try-with|context manager|finally"
    ),
    "secret-exposure": (
        r"(log|leak|expos|print|reveal|disclos|plain).{0,60}(password|secret|key|token|credential|header)"
        r"|(password|secret|key|token|credential|header).{0,60}(log|leak|expos|print|reveal|disclos|plain)"
    ),
    "shared-mutable-state": (
        r"mutabl|mutat|shared|alias|same (list|array|object|slice|reference)"
        r"|modif(y|ies).{0,40}(original|default|caller|input|argument)|overwrit|shallow"
    ),
    "stale-cache": r"cach.{0,80}(key|language|stale)|(key|language|stale).{0,80}cach|wrong language",
    "swallowed-error": (
        r"swallow|(ignor|discard|suppress|silent|hid(e|es|den|ing)\b|drop).{0,60}"
        r"|(error|exception|failure).{0,40}(lost|not (handled|checked|returned|reported|propagated))"
        r"|unchecked"
    ),
    "swapped-arguments": (
        r"swap|argument order|order of .{0,20}(argument|parameter)|wrong (order|argument)|mixed up"
        r"|transpos"
    ),
    "weak-cryptography": r"predict|guess|\bmd5\b|math/rand|weak|insecure|cryptograph|broken hash|brute",
    "wrong-unit": r"\bunits?\b|milli|\bms\b|nanosec|seconds?\b",
}
"""Regular expressions matching words in a finding that suggest a kind of fault, keyed by kind."""


class ReportedLocation(Protocol):
    """Location of a reported finding."""

    @property
    def file(self) -> str | None: ...
    @property
    def line(self) -> int | None: ...
    @property
    def end_line(self) -> int | None: ...
    @property
    def found(self) -> bool | None: ...


class ReportedText(Protocol):
    """Finding as worded by one reviewer."""

    @property
    def title(self) -> str: ...
    @property
    def claim(self) -> str: ...


class ReportedFinding(Protocol):
    """A review's finding, in the same format as the `findings` in its output."""

    @property
    def state(self) -> str: ...
    @property
    def place(self) -> ReportedLocation: ...
    @property
    def raised(self) -> Sequence[ReportedText]: ...


class PlantedFault(WireModel):
    """Location and kind of a planted fault."""

    file: str
    line: Annotated[int, Field(ge=1)]
    end_line: Annotated[int, Field(ge=1)]
    kind: str

    def is_named(self, finding: ReportedFinding) -> bool:
        """Return whether a finding identifies the fault.

        The finding must be in the same file, at most three lines away, and its wording must suggest the fault's kind.
        """
        place = finding.place
        if place.file is None or place.line is None or place.found is False:
            return False
        first, last = place.line, max(place.end_line or place.line, place.line)
        near = first - TOLERANCE <= self.end_line and self.line <= last + TOLERANCE
        texts = [part for raised in finding.raised for part in (raised.title, raised.claim)]
        return (
            place.file == self.file
            and near
            and any(re.search(FAULT_KINDS[self.kind], text, re.IGNORECASE) for text in texts)
        )


class ReviewCase(WireModel):
    """A change to one file and the faults planted in it; a clean change contains none."""

    id: str
    language: str
    diff: Annotated[str, Field(min_length=1)]
    faults: list[PlantedFault] = Field(default_factory=new_list)

    @property
    def sources(self) -> dict[str, str]:
        """Sources for a review of the change."""
        [path] = re.findall(r"^\+\+\+ b/(.+)$", self.diff, re.MULTILINE)
        return {path: self.diff}


Outcome: TypeAlias = tuple[ReviewCase, Sequence[ReportedFinding]]
"""A change paired with the findings from its review."""


class ReviewRates(InNotebooks, WireModel):
    """Share of planted faults found by reviews, and mean number of findings that match no planted fault."""

    recall: Figure | None
    """Share of planted faults found, with a Wilson interval; None if there are no faults."""
    false_findings: Figure
    """Mean number of false findings (those matching no planted fault) per change, with a confidence interval."""
    false_on_clean: Figure | None
    """Mean number of findings per clean change; None if there are no clean changes."""


class ReviewBenchmark(InNotebooks, WireModel):
    """Benchmark rates with and without cross-examination, computed from the same reviews."""

    changes: int
    """Number of changes with a complete review."""
    faults: int
    left_out: int = 0
    """Number of changes without a complete review; they are not counted."""
    raised: ReviewRates
    """Rates without cross-examination, counting every finding raised by a reviewer."""
    confirmed: ReviewRates
    """Rates with cross-examination, counting only confirmed findings."""
    recall_by_kind: dict[str, tuple[int, int, int]]
    """Counts of planted, raised and confirmed faults, keyed by kind."""


def read_review_cases(path: str | PathLike[str]) -> list[ReviewCase]:
    """Read changes with planted faults from JSON Lines; raise BadFile with the line number of an invalid line."""
    try:
        content = Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise BadFile(str(path), "is not valid UTF-8") from None
    except OSError as error:
        raise BadFile(str(path), f"cannot be read: {error.strerror}") from None
    cases: list[ReviewCase] = []
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            case = ReviewCase.model_validate_json(line)
        except ValidationError as error:
            raise BadFile(str(path), f"line {number}: {listed(problems_of(error)[:1])}") from None
        if len(re.findall(r"^\+\+\+ b/(.+)$", case.diff, re.MULTILINE)) != 1:
            raise BadFile(str(path), f"line {number}: `diff` must change exactly one file")
        unknown = [fault.kind for fault in case.faults if fault.kind not in FAULT_KINDS]
        if unknown:
            raise BadFile(str(path), f"line {number}: {unknown_choice('`faults.kind`', unknown[0], FAULT_KINDS)}")
        cases.append(case)
    if not cases:
        raise BadFile(str(path), "has no changes")
    return cases


def review_benchmark(outcomes: Iterable[Outcome], *, left_out: int = 0) -> ReviewBenchmark:
    """Compare the findings of complete reviews with the planted faults.

    A finding that matches no planted fault counts as false, even if it is right about something else. Raise
    ConfigurationError if there are no outcomes.
    """
    pairs = list(outcomes)
    if not pairs:
        raise ConfigurationError("review_benchmark()", "outcomes", None, "must not be empty")
    kinds: dict[str, tuple[int, int, int]] = {}
    for case, findings in pairs:
        for fault in case.faults:
            naming = [finding for finding in findings if fault.is_named(finding)]
            total, raised, confirmed = kinds.get(fault.kind, (0, 0, 0))
            is_confirmed = any(finding.state == "confirmed" for finding in naming)
            kinds[fault.kind] = (total + 1, raised + bool(naming), confirmed + is_confirmed)
    return ReviewBenchmark(
        changes=len(pairs),
        faults=sum(len(case.faults) for case, _ in pairs),
        left_out=left_out,
        raised=_rates(pairs, lambda _: True),
        confirmed=_rates(pairs, lambda finding: finding.state == "confirmed"),
        recall_by_kind=dict(sorted(kinds.items())),
    )


def _rates(pairs: Sequence[Outcome], counts: Callable[[ReportedFinding], bool]) -> ReviewRates:
    hits: list[bool] = []
    false: list[int] = []
    for case, findings in pairs:
        considered = [finding for finding in findings if counts(finding)]
        hits += [any(fault.is_named(finding) for finding in considered) for fault in case.faults]
        false.append(sum(not any(fault.is_named(finding) for fault in case.faults) for finding in considered))
    clean = [count for (case, _), count in zip(pairs, false, strict=True) if not case.faults]
    recall = None
    if hits:
        low, high = share_interval(fmean(hits), len(hits))
        recall = Figure(value=fmean(hits), n=len(hits), low=low, high=high)
    return ReviewRates(recall=recall, false_findings=_mean(false), false_on_clean=_mean(clean) if clean else None)


def _mean(counts: Sequence[int]) -> Figure:
    """Return the mean count with a normal interval, or with the exact Poisson interval if all counts are 0.

    The variance used is at least that of a Poisson count, because a few equal counts do not make the mean certain.
    """
    mean, n = fmean(counts), len(counts)
    if not any(counts):
        return Figure(value=0, n=n, low=0, high=-log(0.025) / n)
    spread = max(variance(counts) if n > 1 else 0.0, mean)
    half = two_sided_z(0.05) * sqrt(spread / n)
    return Figure(value=mean, n=n, low=max(mean - half, 0.0), high=mean + half)


def describe_benchmark(benchmark: ReviewBenchmark) -> str:
    """Describe the reviewed changes in one line."""
    counts = f"{counted(benchmark.changes, 'change')}, {counted(benchmark.faults, 'planted fault')}"
    return (
        f"{counts}; {counted(benchmark.left_out, 'change')} without a complete review" if benchmark.left_out else counts
    )
