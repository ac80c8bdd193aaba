"""Round robin prompts: the transcript as text, the debaters, and the synthesizer.

    Round 1:
    [Ada, economist] What was said, first line,
      | and each further line behind a bar.
    [Ben] …
    Referee: Nobody gave figures.
    Referee on [Ada]: names no source

Only the renderer can begin a line with a tag, a round heading or "Referee"; see `flowdebate.prompts`. A debater's
prompt begins with the part shared by all turns (the rules, the participants, the debater's role, and then the growing
transcript) and ends with the part that varies: the current speaker, the referee's notes on its last turn, and the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from flowdebate.blocks.generator import Generator
from flowdebate.chassis.roles import (
    CONCRETE,
    HOW_TO_READ_SAID,
    LENGTH,
    BlockOptions,
    Identity,
    Members,
    Wording,
    deciding_block,
    persona_block,
    render_rounds,
    speaker_tag,
)
from flowdebate.chassis.roster import bindable
from flowdebate.chassis.state import as_model, question_of, recent_entries, round_of, state_of
from flowdebate.prompts import Length, Profiles, Template, filled, part, quoted, tag_name, tag_text, uses
from flowdebate.runs.context import Context

from .schemas import Assessment, RefereeAudit, RoundRobinEntry, RoundRobinOutput, RoundRobinState, RoundRobinTranscript

HOW_TO_READ_AUDITS = 'A line that starts with "Referee" is the referee\'s assessment of the round above it.'
"""Text added to prompts if there is a referee."""


def render_contributions(
    entries: Iterable[RoundRobinEntry], audits: Iterable[RefereeAudit] = (), *, scores: bool = False
) -> str:
    """Render the transcript as text: `[name, role] …` under a heading for each round, followed by the round's audit.

    If `scores` is set, audits rate each debater's arguments; otherwise they only list the issues.

    >>> from flowdebate.patterns.round_robin.schemas import RoundRobinEntry, RefereeAudit
    >>> said = RoundRobinEntry(round=1, agent_name="Ada", role="economist", text="It pays back.")
    >>> print(render_contributions([said], [RefereeAudit(round=1, notes="Give figures.")]))
    Round 1:
    [Ada, economist] It pays back.
    Referee: Give figures.
    """
    # keyed by round, since a round has no audit if the referee failed
    by_round = {audit.round: audit for audit in audits}
    return render_rounds(
        entries,
        lambda entry: f"[{speaker_tag(entry.agent_name, entry.role)}] {quoted(entry.text)}",
        lambda number: [] if number not in by_round else _render_audit(by_round[number], scores=scores),
    )


def _render_audit(audit: RefereeAudit, *, scores: bool) -> list[str]:
    lines = [f"Referee: {quoted(audit.notes)}"] if audit.notes.strip() else []
    for assessment in audit.assessments:
        parts = [f"{assessment.score} of 100"] if scores else []
        parts += filter(None, [issues_of(assessment)])
        if parts:
            lines.append(f"Referee on [{tag_name(assessment.agent_name)}]: {'; '.join(parts)}")
    return lines


def issues_of(assessment: Assessment) -> str:
    """Join the issues found in an argument with semicolons, or return "" if there are none."""
    return "; ".join(quoted(issue) for issue in assessment.issues if issue.strip())


# The debater


_TURN = ("name", "speaker", "who", "round", "max_rounds")


@dataclass(frozen=True, kw_only=True)
class RoundRobinDebaterTemplate(Template):
    """Prompt text for a debater."""

    system: str = part(
        "You are a member of a panel that works on one question together. Each member speaks from the point of view of "
        "their own role. Every member speaks once in each round; at the end, one answer is written from the "
        "discussion.\n\n"
        "Question: {question}\n"
        "The panel:\n{roster}\n\n"
        f"{HOW_TO_READ_SAID}",
        uses("question", "roster", "max_rounds"),
    )
    """System message shared by all debaters and turns."""
    referee: str = part(
        f"{HOW_TO_READ_AUDITS} Take what it says about you seriously; the referee does not decide anything."
    )
    """Text added to the prompts if there is a referee."""
    rules: str = part(
        "Rules for every turn:\n"
        "- Speak in the first person and only for yourself, about what you know best.\n"
        f"{CONCRETE}\n"
        "- Write in plain text: {length}. Do not start with a tag or a name.",
        uses("length"),
    )
    """Rules shared by all debaters and turns."""
    debater: str = part("You are {speaker}.", uses("name", "speaker"))
    """Description of the debater, placed before its custom system prompt; `{speaker}` stands for its name and role."""
    transcript: str = part("The discussion so far:\n{transcript}", uses("transcript"))
    """First part of the message for a turn, containing the transcript."""
    turn: str = part(
        "It is your turn in round {round} of {max_rounds}. You are {speaker}.",
        uses(*_TURN, "question"),
    )
    """Line that gives a debater the floor; `{who}` stands for the debater's role or, if it has none, its name."""
    issues: str = part(
        "The referee raised these issues about your last turn: {issues}. Avoid them now.", uses("issues")
    )
    """Issues raised about the debater's own turn in the latest audit; omitted if there are none."""
    opening: str = part(
        "Nobody has spoken yet. Answer the question from your own point of view: say what you would do, why, and what "
        "it depends on.",
        uses(*_TURN),
    )
    """Task for the first debater, before anyone has spoken."""
    reply: str = part(
        "Build on the strongest points of the others: say what they get right and what they overlook. Where you "
        "disagree, say so openly and give your reasons. Then add something new that the answer still lacks.",
        uses(*_TURN, "other"),
    )
    """Task for a debater once another debater has spoken; `{other}` stands for the latest speaker."""
    alone: str = part("Nobody else has spoken yet. Add something new that your answer still lacks.", uses(*_TURN))
    """Task for a debater that has already spoken, if nobody else has."""


DEBATER = RoundRobinDebaterTemplate()
"""Prompt text for the full profile."""
CONCISE_DEBATER = RoundRobinDebaterTemplate(
    turn=(
        "The question is still: {question}\n"
        "It is your turn in round {round} of {max_rounds}. You are {speaker}. Speak for yourself."
    ),
    rules=(
        "Rules for every turn:\n"
        "- Write plain text, in the first person: {length}.\n"
        "- Speak about what you know best. Never speak for anybody else.\n"
        "- Say something new: never repeat a sentence from the transcript.\n"
        "- Do not start with a tag or a name."
    ),
    opening=(
        'Nobody has spoken yet. In one sentence that begins with "As {who}, I would", answer the question. Then give '
        "your best reason in one more sentence."
    ),
    reply=(
        'In one sentence that begins with "{other}", say whether what {other} proposed is enough. Then, in one more '
        'sentence that begins with "As {who}, I", make a proposal that nobody has made yet.'
    ),
    alone="Nobody else has spoken yet. In one or two sentences, add one new point to your answer.",
)
"""Prompt text for small models; each debater gets a different opening, to keep debaters from copying each other."""
DEBATERS = Profiles(full=DEBATER, concise=CONCISE_DEBATER, tasks=("opening", "reply", "alone"))


_DETERMINERS = frozenset({"a", "an", "the", "my", "our", "your", "his", "her", "its", "their"})


def _with_article(role: str) -> str:
    """Add an article to a role for use in a sentence.

    >>> _with_article("economist"), _with_article("a mayor")
    ('the economist', 'a mayor')
    """
    return role if role.split(maxsplit=1)[0].casefold() in _DETERMINERS else f"the {role}"


def render_debater_system(
    me: Identity,
    *,
    question: str,
    refereed: bool = False,
    length: str = LENGTH,
    template: RoundRobinDebaterTemplate = DEBATER,
) -> str:
    """Render the question, the participants and the rules (shared by all debaters), then the debater's description."""
    text = "\n\n".join([template.system, *([template.referee] if refereed else []), template.rules])
    return me.render_system(text, template.debater, length, question=question)


def render_debater_turn(
    me: Identity,
    *,
    question: str,
    entries: Sequence[RoundRobinEntry],
    audits: Sequence[RefereeAudit] = (),
    round: int,  # noqa: A002 - the field's word for it
    template: RoundRobinDebaterTemplate = DEBATER,
) -> str:
    """Render the transcript with the audits of earlier rounds, then the debater's turn line and task.

    The messages for any two turns share a prefix up to the end of the shorter transcript.
    """
    # {who} appears in sentences beginning with "As ...", which would sound odd with both a name and a role
    who = _with_article(tag_text(me.role)) if me.role and me.role.strip() else tag_name(me.name)
    fields: dict[str, object] = {**me.about, "who": who, "round": round}
    last = [filled(template.turn, question=quoted(question), **fields)]
    latest = audits[-1].assessments if audits else ()
    if issues := next((issues_of(assessment) for assessment in latest if assessment.agent_name == me.name), ""):
        last.append(filled(template.issues, issues=issues))
    other = next((entry.agent_name for entry in reversed(entries) if entry.agent_name != me.name), None)
    if other is not None:
        last.append(filled(template.reply, other=tag_name(other), **fields))
    else:
        last.append(filled(template.alone if entries else template.opening, **fields))
    transcript = filled(template.transcript, transcript=render_contributions(entries, audits))
    return "\n\n".join([transcript, "\n".join(last)])


@bindable("name", "agent_name", "transcript", pattern="Persona", role="debater", template=RoundRobinDebaterTemplate)
def create_round_robin_debater(  # noqa: PLR0913 - what a debater is made of, each with its default
    *,
    name: str,
    agent_name: str,
    transcript: RoundRobinTranscript,
    role: str | None = None,
    system_prompt: str | None = None,
    members: Members | None = None,
    max_rounds: int = 2,
    refereed: bool = False,
    template: RoundRobinDebaterTemplate | None = None,
    length: Length | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[str]:
    """Create the block `{name}-debater-{agent_name}`.

    The block speaks in the given `role` and follows the given `system_prompt`.

    `members` maps all debaters' names to their roles, in declared order (default: only this debater). The debater sees
    the question, all contributions so far, including those of the same round, and the referee's notes on earlier
    rounds. Set `refereed` if there is a referee. A truncated answer is cut back to its last complete sentence.
    """
    everyone = {agent_name: role} if members is None else dict(members)
    me = Identity(name=agent_name, role=role, members=everyone, max_rounds=max_rounds, system_prompt=system_prompt)

    def system(wording: Wording[RoundRobinDebaterTemplate], value: object, ctx: Context) -> str:
        question, length, texts = question_of(value, ctx), wording.length, wording.template
        return render_debater_system(me, question=question, refereed=refereed, length=length, template=texts)

    def turn(wording: Wording[RoundRobinDebaterTemplate], value: object, ctx: Context) -> str:
        return render_debater_turn(
            me,
            question=question_of(value, ctx),
            entries=recent_entries(ctx),
            audits=state_of(ctx, RoundRobinState).audits,
            round=round_of(ctx),
            template=wording.template,
        )

    return persona_block(
        f"{name}-debater-{agent_name}",
        DEBATERS,
        options,
        system=system,
        turn=turn,
        transcript=transcript,
        template=template,
        length=length,
    )


# The synthesizer


@dataclass(frozen=True, kw_only=True)
class RoundRobinSynthesizerTemplate(Template):
    """Prompt text for a synthesizer."""

    system: str = part(
        "You write the panel's answer for readers who did not follow its discussion. Begin with the answer itself. "
        "Then give the reasons for it, with the figures and the evidence that the panel gave, the conditions under "
        "which it holds, and what is still open. Rely on each member for what they know best; where members disagree, "
        "decide by their reasons. Do not add anything that was not said, and do not mention who said what.\n\n"
        f"{HOW_TO_READ_SAID}"
    )
    referee: str = part(f"{HOW_TO_READ_AUDITS} Give less weight to contributions that it criticizes.")
    """Text placed before the task if there is a referee."""
    transcript: str = part(
        "Question: {question}\n\nThe full discussion (rounds: {rounds}):\n{transcript}",
        uses("question", "rounds", "transcript"),
    )
    """First part of the message, containing the transcript."""
    task: str = part("Write the panel's answer to the question: {question}", uses("question", "rounds"))
    """Task for the synthesizer."""


SYNTHESIZER = RoundRobinSynthesizerTemplate()
"""Prompt text for the full profile."""
CONCISE_SYNTHESIZER = RoundRobinSynthesizerTemplate(
    system=(
        "You write the panel's answer for readers who did not follow its discussion. Use the strongest points of every "
        "member, and rely on each for what they know best. Where members disagree, decide by their reasons. Do not add "
        "anything that was not said, and do not mention who said what.\n\n"
        f"{HOW_TO_READ_SAID}"
    ),
)
"""Prompt text for small models."""
SYNTHESIZERS = Profiles(full=SYNTHESIZER, concise=CONCISE_SYNTHESIZER)


def render_synthesizer_turn(raw: RoundRobinOutput, *, template: RoundRobinSynthesizerTemplate = SYNTHESIZER) -> str:
    """Render the transcript and the task."""
    fields = {"question": quoted(raw.question), "rounds": raw.rounds}
    transcript = render_contributions(raw.transcript, raw.audits, scores=True)
    parts = [filled(template.transcript, transcript=transcript, **fields)]
    if raw.audits:
        parts.append(template.referee)
    return "\n\n".join([*parts, filled(template.task, **fields)])


@bindable("name", pattern="round_robin", role="synthesizer", template=RoundRobinSynthesizerTemplate)
def create_round_robin_synthesizer(
    *,
    name: str,
    output_schema: object = None,
    template: RoundRobinSynthesizerTemplate | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """Create the block `{name}-synthesizer`.

    The block takes a `RoundRobinOutput` and returns data matching `output_schema`, or plain text if there is no schema.
    `output_schema` is a pydantic model, a dataclass or TypedDict, or a JSON Schema as a dict (validated with
    `jsonschema`). An answer that does not match the schema raises `SchemaViolation`.
    """
    return deciding_block(
        f"{name}-synthesizer",
        SYNTHESIZERS,
        options,
        system=lambda texts, _, __: texts.system,
        turn=lambda texts, value, ctx: render_synthesizer_turn(
            as_model(value, RoundRobinOutput, block=ctx.block), template=texts
        ),
        template=template,
        output_schema=output_schema,
    )
