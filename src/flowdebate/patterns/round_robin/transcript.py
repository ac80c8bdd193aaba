"""Transcript of a round robin: the shared resource, and its form as text, with the referee's audits.

    Round 1:
    [Ada, economist] What was said, first line,
      | and each further line behind a bar.
    [Ben] …
    Referee: Nobody gave figures.
    Referee on [Ada]: names no source

Only the renderer begins a line with a tag, a round's heading or the referee: see `flowdebate.prompts.escaping`. More
entries, and the audit of a round that is over, only add to the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.patterns.roles import EMPTY, render_flag, speaker_tag
from flowdebate.patterns.round_robin.schemas import RoundRobinEntry, RoundRobinTranscriptState
from flowdebate.prompts.escaping import quoted, tag_name
from flowdebate.resources.resource import StateResource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flowdebate.patterns.round_robin.schemas import Assessment, RefereeAudit


RoundRobinTranscript = StateResource[RoundRobinTranscriptState]
"""The resource that `create_round_robin_transcript` makes."""


def create_round_robin_transcript() -> RoundRobinTranscript:
    """A transcript to share between a round robin and the blocks that read it, under the key `"transcript"`.

    `ctx.resources.transcript.state.entries` is what was said so far. Every block that reads it, and the pattern, must
    be given the same object.

    >>> create_round_robin_transcript().key
    'transcript'
    """
    return StateResource(key="transcript", initial=RoundRobinTranscriptState)


HOW_TO_READ_AUDITS = 'A line that begins with "Referee" is what the referee found of the round above it.'
"""Added to prompts if there is a referee."""


def render_contributions(
    entries: Iterable[RoundRobinEntry], audits: Iterable[RefereeAudit] = (), *, scores: bool = False
) -> str:
    """The transcript as text: `[name, role] …` under a heading for each round, each followed by its audit.

    With `scores`, an audit says how well each debater argued; else only what was wrong with it.

    >>> from flowdebate.patterns.round_robin.schemas import RoundRobinEntry, RefereeAudit
    >>> said = RoundRobinEntry(round=1, agent_name="Ada", role="economist", text="It pays back.")
    >>> print(render_contributions([said], [RefereeAudit(round=1, notes="Give figures.")]))
    Round 1:
    [Ada, economist] It pays back.
    Referee: Give figures.
    """
    return "\n".join(_lines(entries, {audit.round: audit for audit in audits}, scores=scores)) or EMPTY


def issues_of(assessment: Assessment) -> str:
    """The issues of an argument, joined; empty without any."""
    return "; ".join(quoted(issue) for issue in assessment.issues if issue.strip())


def _lines(entries: Iterable[RoundRobinEntry], audits: dict[int, RefereeAudit], *, scores: bool) -> Iterator[str]:
    heading: int | None = None
    for entry in entries:
        if entry.round != heading:
            if heading is not None:
                yield from _found(audits.get(heading), scores=scores)
            heading = entry.round
            yield f"Round {heading}:"
        yield f"[{speaker_tag(entry.agent_name, entry.role)}] {quoted(entry.text)}"
        if entry.flag:
            yield render_flag(entry.flag)
    if heading is not None:
        yield from _found(audits.get(heading), scores=scores)


def _found(audit: RefereeAudit | None, *, scores: bool) -> Iterator[str]:
    """A referee's audit, line by line."""
    if audit is None:
        return
    if audit.notes.strip():
        yield f"Referee: {quoted(audit.notes)}"
    for found in audit.assessments:
        issues = issues_of(found)
        about = f"Referee on [{tag_name(found.agent_name)}]"
        if scores:
            yield f"{about}: {found.score} of 100" + (f"; {issues}" if issues else "")
        elif issues:
            yield f"{about}: {issues}"
