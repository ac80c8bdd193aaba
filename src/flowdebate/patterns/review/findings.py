"""Pure functions that locate and merge findings, decide their states, and check a gate."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from heapq import nsmallest
from itertools import accumulate, chain, islice
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from flowdebate._text import counted
from flowdebate.errors import ConfigurationError
from flowdebate.prompts import PAIRS, as_seen, unescaped
from flowdebate.sources.quotes import Passage, copied_forms, lines_of, look_up_quote
from flowdebate.sources.source import Line, Source, number_lines

from .schemas import (
    EARLIER,
    SEVERITIES,
    Defence,
    FileCoverage,
    Finding,
    FindingDraft,
    FindingState,
    GateResult,
    Place,
    Raised,
    Severity,
    Verdict,
)

MAX_PAIRS = 40
"""Maximum number of pairs of findings per prompt; limited because the merger is called only twice, regardless of the
number of findings.
"""
_NEAR = 5
"""Maximum distance in lines between two reports of the same fault: one reviewer may cite the cause, another
the effect.
"""


# Locations


def locate(
    sources: tuple[Source, ...], *, file: str | None, line: int | None, end_line: int | None, quote: str | None
) -> Place:
    """Look up a location cited by a reviewer; return where it was found, or the reason why it was not.

    >>> from flowdebate.sources.source import Source
    >>> material = (Source.of("app.py", "x = 0"), Source.of("b.py", "y = x / 0"))
    >>> locate(material, file=None, line=None, end_line=None, quote="x / 0").text
    'b.py:1'
    >>> locate(material, file="app.py", line=9, end_line=None, quote=None).problem
    'app.py has no line 9'
    """
    files = _files(sources)
    name, line, end_line = _resolve(file, line, end_line, sources)
    if line is not None and end_line is not None and end_line < line:
        line, end_line = end_line, line
    claimed = Place(file=name or file, line=line, end_line=end_line, quote=quote)
    has_quote = bool((quote or "").split())
    if not sources or not (file or line or has_quote):
        return claimed
    if has_quote:
        for names in [[name], [*files]] if name else [[*files]]:
            if spots := _spots(quote or "", names, sources):
                # prefer a line that still exists, then the one nearest to the claimed line
                spot = min(spots, key=lambda span: (not span[1], abs(span[1] - (line or 0))))
                place = Place(file=spot[0], line=spot[1] or None, end_line=spot[2] or None, quote=quote, found=True)
                moved = file is not None and names != [name]
                note = f"cited as {claimed.text}, but the quote is elsewhere in the material" if moved else None
                return place.model_copy(update={"note": note})
    problem = "the quote is not in the material" if has_quote else None
    if file is not None and name is None:
        is_change = all(any(row.sign for row in rows) for rows in files.values())
        problem = f"{file} is not in this change" if is_change else f"{file} is not in the material"
    elif line is not None:
        rows = files.get(name or "", ())
        numbers = {row.number for row in rows}
        wrong = next((number for number in (line, end_line or line) if number not in numbers), None)
        if wrong is None:
            note = f"the line exists, but {problem}" if problem else None
            return claimed.model_copy(update={"found": True, "note": note})
        problem = f"line {line} is cited without a file" if name is None else f"{name} has no line {wrong}"
        if any(row.sign for row in rows):  # the file has more lines than its diff shows
            problem = f"line {wrong} of {name} is not in this change"
    return claimed.model_copy(update={"found": problem is None, "problem": problem})


def carry_over(draft: FindingDraft, sources: tuple[Source, ...]) -> Raised:
    """Report a finding from an earlier review again, at its current location.

    If the finding has a quote, the location is found by the quote alone, because line numbers may have changed. If the
    file is not in the material, the location remains unknown.
    """
    fields = draft.model_dump(include={"title", "claim", "severity", "suggestion"})
    claimed = draft.model_dump(include={"file", "line", "end_line", "quote"})
    if draft.file is not None and _find_file(draft.file, _files(sources)) is None:
        return Raised(agent_name=EARLIER, place=Place(**claimed), **fields)
    if (draft.quote or "").strip():
        claimed |= {"line": None, "end_line": None}
    return Raised(agent_name=EARLIER, place=locate(sources, **claimed), **fields)


@lru_cache(maxsize=8)
def _files(sources: tuple[Source, ...]) -> dict[str, list[Line]]:
    files: dict[str, list[Line]] = {}
    for source in sources:
        for line in number_lines(source):
            files.setdefault(line.file, []).append(line)
            files.setdefault(source.name, []).extend([line] if line.file != source.name else [])
    return files


# Line numbers after a path, as humans and models write them, including words such as "lines" before the numbers.
_AT_LINES = re.compile(
    r"(?:(?::|#)\s*L?(?P<line>\d+)(?:\s*[-\u2013]\s*L?(?P<end>\d+)|:\d+)?"
    r"|[\s,(]+(?:lines?|ll?\.)\s*(?P<first>\d+)(?:\s*(?:[-\u2013]|to|and)\s*(?P<last>\d+))?\)?)\s*\Z",
    re.IGNORECASE,
)
_BEFORE_PATH = re.compile(r"(?:(?:file|source|path)\b:?\s+|file://|(?:\./)+|[ab]/)", re.IGNORECASE)


def _resolve(
    file: str | None, line: int | None, end_line: int | None, sources: tuple[Source, ...]
) -> tuple[str | None, int | None, int | None]:
    """Find `file` in the material; return its name and the first and last cited lines.

    Line numbers may be appended to the path. The path may come from another folder or operating system. It may be
    quoted, name a page, or be written as in the prompt.
    """
    files = _files(sources)
    if file is None:
        return (next(iter(files)) if len(files) == 1 else None), line, end_line
    pages = {f"{source.name}, {page.name}": source.name for source in sources for page in source.pages}
    written = file
    for _ in range(_MAX_LAYERS):
        if name := pages.get(written) or _find_file(written, files):
            return name, line, end_line
        before, written = written, written.strip()
        if lines := _AT_LINES.search(written, max(0, len(written) - _MAX_LINES)):
            written = written[: lines.start()]
            if line is None:
                first, last = lines["line"] or lines["first"], lines["end"] or lines["last"]
                line, end_line = int(first), end_line if last is None else int(last)
        elif (last := _AROUND_PATH.get(written[:1])) and len(written) > 1 and written.endswith(last):
            written = written[1:-1]
        elif match := _BEFORE_PATH.match(written):
            written = written[match.end() :]
        elif written == before:
            break
    return None, line, end_line


_MAX_LAYERS = 8
_MAX_LINES = 60
"""Maximum length of the line numbers following a path, in characters."""
_AROUND_PATH = {**PAIRS, **dict(zip("`\"'*_", "`\"'*_", strict=True))}


def _find_file(path: str, files: Mapping[str, object]) -> str | None:
    """Find the file with this path, or the only file whose path has the same ending; slashes and case may differ."""
    if path in files:
        return path
    plain = re.sub(r"^(?:\./|[ab]/)", "", path.strip().replace("\\", "/"))
    for fold in (str, str.casefold):
        target = fold(plain)
        exact = [name for name in files if fold(name.replace("\\", "/")) == target]
        close = [name for name in files if fold(name).endswith(f"/{target}") or target.endswith(f"/{fold(name)}")]
        if matches := exact or close:
            return matches[0] if len(matches) == 1 else None
    return None


def _spots(quote: str, names: Sequence[str], sources: tuple[Source, ...]) -> list[tuple[str, int, int]]:
    """Find a quote in the files `names`; return the file, first line and last line (0 if unnumbered) of each match.

    The quote must match word for word, ignoring whitespace, with or without the marks added by prompts and Markdown. If
    there is no such match, the quote is looked up in the same way as quotes in arguments.
    """
    # called only once, because hashing the sources takes time
    index = _index(sources)
    for form, numbers in copied_forms(quote):
        for text in dict.fromkeys((form, unescaped(form))):
            spots = [spot for name in names for view in _VIEWS for spot in _spots_in(text, *index(name, view))]
            if spots := [spot for spot in spots if not numbers or numbers & {*range(spot[1], spot[2] + 1)}]:
                return spots
    holders = tuple(source for source in sources if _names_of(source) & {*names})
    match = look_up_quote(quote, holders)
    lines = lines_of(match, holders)
    if match.status != "verified" or not lines or not {lines[0].file, match.source} & {*names}:
        return []
    return [(lines[0].file, *_ends(lines))]


@lru_cache(maxsize=512)
def _names_of(source: Source) -> frozenset[str]:
    """Return the names by which a finding may refer to a source: its own name, and the names of the files in a diff."""
    return frozenset({source.name, *(line.file for line in number_lines(source))})


_View: TypeAlias = Literal["lines", "signs", "after", "before"]
_VIEWS: tuple[_View, ...] = ("lines", "signs", "after", "before")
"""Views of a diff in which quotes are looked up: its lines with or without +/- signs, and the file before or after the
change.
"""
_LEFT_OUT: dict[_View, str] = {"after": "-", "before": "+"}


def _spots_in(quote: str, text: str, starts: list[int], lines: list[Line]) -> Iterator[tuple[str, int, int]]:
    for match in re.finditer(re.escape(" ".join(quote.split())), text):
        inside = lines[bisect_right(starts, match.start()) - 1 : bisect_right(starts, match.end() - 1)]
        yield inside[0].file, *_ends(inside)


def _ends(lines: Sequence[Line]) -> tuple[int, int]:
    numbers = [line.number for line in lines if line.number is not None]
    return (numbers[0], numbers[-1]) if numbers else (0, 0)


@lru_cache(maxsize=8)
def _index(sources: tuple[Source, ...]) -> Callable[[str, _View], tuple[str, list[int], list[Line]]]:
    """Return a cached function that renders a view of a file, for use with all quotes in a run."""
    files = _files(sources)
    return cache(lambda file, view: _join_lines(files[file], view))


def _join_lines(of_file: Sequence[Line], view: _View) -> tuple[str, list[int], list[Line]]:
    """Join the lines of a file with single spaces; return the text, the offset of each line, and the lines."""
    signed = view == "signs"
    all_lines = [line for line in of_file if line.sign != _LEFT_OUT.get(view)]
    if view != "lines" and not any(line.sign for line in all_lines):
        return "", [], []  # the file is not a diff
    words_by_line = [(line, f"{line.sign if signed else ''}{line.text}".split()) for line in all_lines]
    lines, words = (
        [line for line, parts in words_by_line if parts],
        [" ".join(parts) for _, parts in words_by_line if parts],
    )
    return " ".join(words), [0, *accumulate(len(text) + 1 for text in words[:-1])], lines


# Coverage


def cover(sources: tuple[Source, ...], read: Mapping[str, Mapping[str, int]]) -> list[FileCoverage]:
    """Compute each file's coverage; `read` contains the number of lines shown to each reviewer, by source."""
    coverage = []
    for source in sources:
        lines = () if source.left_out is not None else _lines_under_review(source)
        coverage.append(
            FileCoverage(
                file=source.name,
                lines=len(lines),
                read={name: counts[source.name] for name, counts in read.items() if source.name in counts},
                first_line=next((line.number for line in lines if line.number is not None), None),
                left_out=source.left_out,
                unread=source.unread,
                excluded=source.excluded,
            )
        )
    return coverage


def read_lines(sources: tuple[Source, ...], parts: Sequence[Sequence[Passage] | None]) -> dict[str, int]:
    """Count the lines under review that appear in prompts, by source.

    If any of the `parts` is None, all lines are counted.
    """
    counts: dict[str, int] = {}
    for source in sources:
        passages = [passage for part in parts for passage in part or () if passage.source == source.name]
        counts[source.name] = sum(
            None in parts or any(passage.start <= line.start < passage.end for passage in passages)
            for line in _lines_under_review(source)
        )
    return counts


@lru_cache(maxsize=512)
def _lines_under_review(source: Source) -> tuple[Line, ...]:
    lines = [line for line in number_lines(source) if line.text.strip()]
    if all(line.number is not None for line in lines):  # not a diff: all lines are under review
        return tuple(lines)
    # lines inside hunks are stored without their +/- signs
    changed = (line for line in lines if source.text[line.start] in "+-")
    return tuple(line for line in changed if source.text.startswith(line.text, line.start + 1))


# Merging


def _key(raised: Raised) -> tuple[object, ...]:
    place = raised.place
    grade = SEVERITIES.index(raised.severity)
    return grade, place.file or "", place.line or 0, raised.title, raised.claim, raised.agent_name


def group(reported: Iterable[Raised]) -> list[list[Raised]]:
    """Group findings by location and title, omitting empty findings; the order depends only on their content."""
    groups: dict[object, list[Raised]] = defaultdict(list)
    for raised in sorted((item for item in reported if not item.is_empty), key=_key):
        place = raised.place
        position = (place.file, place.line) if place.line else (place.file, as_seen(place.quote or raised.claim))
        groups[position, as_seen(raised.title)].append(raised)
    return list(groups.values())


def pairs_to_compare(groups: Sequence[Sequence[Raised]]) -> tuple[list[tuple[int, int]], int]:
    """Find pairs of possibly identical findings by different reviewers at the same location.

    Returns the nearest pairs, up to the merger's limit, and the total number of pairs.
    """
    files: dict[str | None, list[int]] = defaultdict(list)
    for index, findings in enumerate(groups):
        files[findings[0].place.file].append(index)
    pairs = chain.from_iterable(_near_pairs(groups, indexes) for indexes in files.values())
    total = 0

    def counted_pairs() -> Iterator[tuple[int, int, int]]:
        nonlocal total
        for pair in pairs:
            total += 1
            yield pair

    nearest = nsmallest(MAX_PAIRS, counted_pairs())
    return [(first, second) for _, first, second in nearest], total


def _near_pairs(groups: Sequence[Sequence[Raised]], indexes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """List the pairs of nearby groups among `indexes` (all in one file) as (distance in lines, first, second)."""
    names = {index: {raised.agent_name for raised in groups[index]} for index in indexes}
    places = {index: groups[index][0].place for index in indexes}
    anywhere = [index for index in indexes if not places[index].line]
    spans = sorted(
        (place.line, max(place.line, place.end_line or 0), index) for index, place in places.items() if place.line
    )

    def is_pair(one: int, other: int) -> bool:
        return names[one] != names[other] or len(names[one]) > 1

    for at, one in enumerate(anywhere):
        for other in chain(anywhere[at + 1 :], (index for _, _, index in spans)):
            if is_pair(one, other):
                yield 0, min(one, other), max(one, other)
    for at, (_, end, one) in enumerate(spans):
        for line, other_end, other in islice(spans, at + 1, None):
            if line > end + _NEAR:
                break
            if is_pair(one, other):
                yield max(line - min(end, other_end), 0), min(one, other), max(one, other)


def join(groups: Sequence[Sequence[Raised]], same: Iterable[tuple[int, int]]) -> list[Finding]:
    """Merge the findings in `same`, keeping everything the reviewers raised."""
    into = list(range(len(groups)))
    for first, second in same:
        one, other = sorted((into[first], into[second]))
        into = [one if target == other else target for target in into]
    joined: dict[int, list[Raised]] = defaultdict(list)
    for at, raised in zip(into, groups, strict=True):
        joined[at] += raised
    findings = []
    for number, raised in enumerate(sorted(joined.values(), key=lambda entries: min(map(_key, entries))), start=1):
        # prefer a location in the material: another reviewer's wrong location must not weaken the finding
        lead = min(raised, key=lambda entry: ([True, None, False].index(entry.place.found), *_key(entry)))
        gravest = min(raised, key=lambda entry: SEVERITIES.index(entry.severity)).severity
        texts = lead.model_dump(include={"title", "claim", "suggestion"})
        by_name = sorted(raised, key=lambda entry: (entry.agent_name, *_key(entry)))
        findings.append(Finding(id=f"F{number}", severity=gravest, place=lead.place, raised=by_name, **texts))
    return findings


# Deciding

Judgement = TypeVar("Judgement", Verdict, Defence)


def index_by_finding(judgements: Iterable[Judgement]) -> Mapping[str, list[Judgement]]:
    """Group verdicts or defenses by finding, keyed by the finding's ID."""
    index: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        index[judgement.finding].append(judgement)
    return index


class Tally(NamedTuple):
    """Counts of reviewers for and against a finding."""

    reviewers: int
    """Number of reviewers who answered in this review."""
    raised: int
    """Number of reviewers who raised the finding, even if they withdrew it later."""
    withdrawn: int
    confirmed: int
    refuted: int
    models: int
    """Number of distinct models used by the supporters."""
    has_place: bool
    """True if the location exists in the material, or if the finding names no location."""
    earlier: bool = False
    """True if an earlier review confirmed the finding."""

    @property
    def support(self) -> int:
        """Number of reviewers who confirmed the finding, or raised it and did not later withdraw it."""
        return self.raised - self.withdrawn + self.confirmed

    @property
    def has_majority(self) -> bool:
        """True if a majority of the reviewers, and at least two of them, support the finding."""
        return self.support > 1 and 2 * self.support > self.reviewers

    @property
    def text(self) -> str:
        """Description of the counts, with a note if all support comes from one model."""
        again = " again" if self.earlier else ""
        counts = [f"{self.raised} of {counted(self.reviewers, 'reviewer')} raised it{again}"]
        for count, verb in ((self.withdrawn, "withdrew"), (self.confirmed, "confirm"), (self.refuted, "refute")):
            counts += [f"{count} {verb}{'s' if count == 1 and verb != 'withdrew' else ''} it"] if count else []
        note = "; all supporters use the same model" if self.support > 1 and self.models == 1 else ""
        return f"{', '.join(counts)}{note}"


class StateRule(NamedTuple):
    """Row of the state table from which the documentation and `Finding.why` are generated."""

    state: FindingState
    condition: str
    """The rule's condition, worded for the documentation."""
    reason: str
    """The rule's condition, worded for a single finding in `Finding.why`."""
    applies: Callable[[Tally], bool]


STATE_RULES = (
    StateRule(
        "resolved",
        "an earlier review confirmed it, and a majority of the reviewers refute it now",
        "an earlier review confirmed it, and a majority refutes it now",
        lambda tally: tally.earlier and 2 * (tally.refuted + tally.withdrawn) > tally.reviewers,
    ),
    StateRule(
        "resolved",
        "an earlier review confirmed it, its location no longer exists, and no majority supports it now",
        "an earlier review confirmed it, its location no longer exists, and no majority supports it now",
        lambda tally: tally.earlier and not tally.has_place and not tally.has_majority,
    ),
    StateRule(
        "confirmed",
        "an earlier review confirmed it, and it is not resolved",
        "an earlier review confirmed it, and it is not resolved",
        lambda tally: tally.earlier,
    ),
    StateRule(
        "refuted",
        "all reviewers who raised it have withdrawn it, and nobody confirms it",
        "withdrawn by everyone who raised it",
        lambda tally: tally.support == 0,
    ),
    StateRule(
        "refuted",
        "a majority of the reviewers refute it or have withdrawn it",
        "a majority is against it",
        lambda tally: 2 * (tally.refuted + tally.withdrawn) > tally.reviewers,
    ),
    StateRule(
        "disputed",
        "a majority supports it, but its location is not in the material",
        "its place is not in the material",
        lambda tally: tally.has_majority and not tally.has_place,
    ),
    StateRule(
        "confirmed",
        "a majority of the reviewers, at least two, support it",
        "a majority supports it",
        lambda tally: tally.has_majority,
    ),
    StateRule("disputed", "in all other cases, and always with one reviewer", "no majority", lambda _: True),
)
"""Rules for a finding's state; the first matching rule wins."""


def decide(
    findings: Iterable[Finding],
    verdicts: Iterable[Verdict],
    defences: Iterable[Defence],
    voices: Mapping[str, str],
) -> list[Finding]:
    """Decide the state of each finding using `STATE_RULES`, and sort the findings by severity, then by support.

    `voices` maps each reviewer that answered to its model.
    """
    verdicts_by_finding = index_by_finding(sorted(verdicts, key=lambda verdict: verdict.agent_name))
    defences_by_finding = index_by_finding(sorted(defences, key=lambda defence: defence.agent_name))
    decided = []
    for finding in findings:
        raisers = set(finding.raisers)
        examinations = [verdict for verdict in verdicts_by_finding[finding.id] if verdict.agent_name not in raisers]
        answers = [defence for defence in defences_by_finding[finding.id] if defence.agent_name in raisers]
        tally = _tally(finding.model_copy(update={"verdicts": examinations, "defences": answers}), voices)
        rule = _rule_for(tally)
        update = {
            "verdicts": examinations,
            "defences": answers,
            "state": rule.state,
            "why": f"{rule.reason}: {tally.text}",
        }
        decided.append((tally.refuted - tally.support, finding.model_copy(update=update)))
    decided.sort(key=lambda entry: (SEVERITIES.index(entry[1].severity), entry[0], int(entry[1].id[1:])))
    return [finding for _, finding in decided]


def _tally(finding: Finding, voices: Mapping[str, str]) -> Tally:
    raisers = {*finding.raisers} - {EARLIER}
    withdrawn = {defence.agent_name for defence in finding.defences if not defence.stands}
    confirming = [verdict.agent_name for verdict in finding.verdicts if verdict.verdict == "confirm"]
    supporters = {*confirming, *raisers} - withdrawn
    return Tally(
        reviewers=len(voices),
        raised=len(raisers),
        withdrawn=len(withdrawn),
        confirmed=len(confirming),
        refuted=sum(verdict.verdict == "refute" for verdict in finding.verdicts),
        models=len({voices.get(name, name) for name in supporters}),
        has_place=finding.place.found is not False,
        earlier=finding.is_earlier,
    )


def _rule_for(tally: Tally) -> StateRule:
    return next(rule for rule in STATE_RULES if rule.applies(tally))


# The gate


class Rule(NamedTuple):
    """One clause in a gate."""

    maximum: int
    states: tuple[FindingState, ...]
    severities: tuple[Severity, ...]


_CLAUSE = re.compile(
    r"(?:no|at most (?P<most>\d{1,4})) (?:(?P<state>confirmed|disputed) )?"
    r"(?P<what>finding|blocker|major|minor|nit)s?(?P<worse> or worse)?",
    re.IGNORECASE,
)
GATE = (
    'must be clauses joined by "and", each "no" or "at most N", optionally "confirmed" or "disputed", a severity or '
    '"finding", and optionally "or worse", such as "no confirmed blocker and at most 2 confirmed majors"'
)
"""Description of the gate syntax, for error messages."""


def parse_gate(gate: object, *, location: str, reviewers: int) -> tuple[Rule, ...]:
    """Parse a gate's rules; return an empty tuple if the gate is None.

    Raises ConfigurationError if the gate is invalid or would always hold.

    >>> parse_gate("no confirmed major or worse", location="review 'x'", reviewers=2)
    (Rule(maximum=0, states=('confirmed',), severities=('blocker', 'major')),)
    """
    if gate is None:
        return ()
    rules = []
    words = " ".join(gate.split()) if isinstance(gate, str) else ""
    for clause in re.split(r" and ", words, flags=re.IGNORECASE):
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            raise ConfigurationError(location, "gate", gate, GATE)
        what, state = match["what"].lower(), (match["state"] or "").lower()
        if state == "confirmed" and reviewers == 1:
            problem = "cannot require `confirmed` with a single reviewer: a second one has to confirm a finding"
            raise ConfigurationError(location, "gate", gate, problem)
        at = None if what == "finding" else SEVERITIES.index(what)
        grades = SEVERITIES if at is None else SEVERITIES[: at + 1] if match["worse"] else SEVERITIES[at : at + 1]
        states: tuple[Any, ...] = (state,) if state else ("confirmed", "disputed")
        rules.append(Rule(int(match["most"] or 0), states, grades))
    return tuple(rules)


def hold_gate(
    gate: str, rules: Iterable[Rule], findings: Sequence[Finding], *, voices: Mapping[str, str], missing: str | None
) -> GateResult:
    """Check the findings against a gate's rules.

    If no rule is broken, but a reason is given in `missing`, the gate is undecided. A finding whose location is not in
    the material never breaks a rule; if it would have broken one, the gate is undecided as well. Findings confirmed by
    an earlier review are exempt from this, because their locations may no longer exist.
    """
    states = {
        finding.id: finding.state
        if finding.is_earlier
        else _rule_for(_tally(finding, voices)._replace(has_place=True)).state
        for finding in findings
    }
    against: dict[str, None] = {}
    doubtful: dict[str, None] = {}
    for rule in rules:
        relevant = [
            finding for finding in findings if states[finding.id] in rule.states and finding.severity in rule.severities
        ]
        located = [finding for finding in relevant if finding.place.found is not False or finding.is_earlier]
        against |= dict.fromkeys(finding.id for finding in located if len(located) > rule.maximum)
        doubtful |= dict.fromkeys(finding.id for finding in relevant if len(relevant) > rule.maximum)
    if against:
        return GateResult(rule=gate, holds=False, against=list(against), why=f"see {', '.join(against)}")
    if missing is None and doubtful:
        unlocated = [finding.id for finding in findings if finding.place.found is False and finding.id in doubtful]
        missing = f"the location of {', '.join(unlocated)} is not in the material"
    if missing is not None:
        return GateResult(rule=gate, holds=None, why=missing)
    return GateResult(rule=gate, holds=True, why="no finding breaks the rule")
