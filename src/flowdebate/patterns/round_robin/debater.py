"""Debater of a round robin: a model that speaks in its role.

Its prompt begins with what is the same for all turns (the rules, who takes part, who it is, then the transcript, which
only grows) and ends with what differs: whose turn it is, what the referee found of its last one, what to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Unpack

from flowdebate.patterns.roles import (
    CONCRETE,
    HOW_TO_READ_SAID,
    LENGTH,
    RolePrompt,
    debater_block,
    render_members,
    speaker_tag,
)
from flowdebate.patterns.roster import bindable
from flowdebate.patterns.round_robin.schemas import RoundRobinState
from flowdebate.patterns.round_robin.transcript import HOW_TO_READ_AUDITS, issues_of, render_contributions
from flowdebate.patterns.state import entries_of, question_of, state_of
from flowdebate.prompts.escaping import quoted, tag_name, tag_text
from flowdebate.prompts.template import Profiles, Template, filled, uses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.blocks.generator import Generator
    from flowdebate.patterns.roles import BlockOptions, Members
    from flowdebate.patterns.round_robin.schemas import RefereeAudit, RoundRobinEntry
    from flowdebate.patterns.round_robin.transcript import RoundRobinTranscript
    from flowdebate.prompts.template import Length
    from flowdebate.runs.context import Context


_TURN = ("name", "speaker", "who", "round", "max_rounds")


@dataclass(frozen=True, kw_only=True)
class RoundRobinDebaterTemplate(Template):
    """The texts of a debater's prompt."""

    system: str = field(
        default=(
            "You sit on a panel. Its members work on one question together, each as who they are. In each round all "
            "of them speak once, one after the other; in the end one answer is made of what they said.\n\n"
            "Question: {question}\n"
            "The panel:\n{roster}\n"
            "Rounds: {max_rounds} at most\n\n"
            f"{HOW_TO_READ_SAID}"
        ),
        metadata=uses("question", "roster", "max_rounds"),
    )
    """The same for all debaters and all turns."""
    referee: str = field(
        default=f"{HOW_TO_READ_AUDITS} Take what it says about you to heart; it does not decide anything.",
        metadata=uses(),
    )
    """Added where a referee audits the rounds."""
    rules: str = field(
        default=(
            "How to contribute:\n"
            "- Speak in the first person, as who you are, about what you know best. Never speak for somebody else.\n"
            "- Build on the others: take up their strongest points, say what these overlook, and disagree openly where "
            "you do, with your reasons.\n"
            f"{CONCRETE}\n"
            "- Let each turn add something: do not repeat what the panel has said.\n"
            "- Write plain text: {length}. Do not begin with a tag or a name."
        ),
        metadata=uses("length"),
    )
    """The same for all debaters and all turns."""
    debater: str = field(default="You are {speaker}.", metadata=uses("name", "speaker"))
    """Who the debater is, above its own system prompt. `{speaker}` is its name with its role."""
    transcript: str = field(default="What the panel has said so far:\n{transcript}", metadata=uses("transcript"))
    """First part of a turn's message."""
    turn: str = field(
        default=(
            "The question is still: {question}\n"
            "It is your turn in round {round} of {max_rounds}. You are {speaker}, and speak for yourself."
        ),
        metadata=uses(*_TURN, "question"),
    )
    """Whose turn it is; `{who}` is its role, or its name where it has none."""
    found: str = field(default="The referee found of your last turn: {issues}. Do better now.", metadata=uses("issues"))
    """The issues of the debater's own turn in the latest audit; left out if there are none."""
    opening: str = field(
        default=(
            "Nobody has spoken yet. Answer the question from your point of view as {who}: what you would do, why, and "
            "what it depends on."
        ),
        metadata=uses(*_TURN),
    )
    """What to do when nobody has spoken yet."""
    reply: str = field(
        default=(
            "From your point of view as {who}, say what the best proposal so far gets right and what it overlooks. "
            "Then add what the answer still lacks."
        ),
        metadata=uses(*_TURN, "other"),
    )
    """What to do when somebody else has spoken; `{other}` is who did last."""
    alone: str = field(
        default="Nobody else has spoken yet. Add what your answer still lacks.",
        metadata=uses(*_TURN),
    )
    """What to do when only the debater itself was heard."""


DEBATER = RoundRobinDebaterTemplate()
"""The full texts."""
CONCISE_DEBATER = RoundRobinDebaterTemplate(
    rules=(
        "Rules for each of your turns:\n"
        "- Write plain text, in the first person: {length}.\n"
        "- Speak as who you are, about what you know best. Never speak for somebody else.\n"
        "- Say something new: never repeat a sentence of the transcript.\n"
        "- Do not begin with a tag or a name."
    ),
    opening=(
        'Nobody has spoken yet. In one sentence that begins with "As {who}, I would", answer the question. Then, in '
        "one "
        "more sentence, give your best reason."
    ),
    reply=(
        'In one sentence that begins with "{other}", say whether what {other} proposed is enough. Then, in one more '
        'sentence that begins with "As {who}, I", propose something that nobody has proposed yet.'
    ),
    alone="Nobody else has spoken yet. In one or two sentences, add one new point to your answer.",
)
"""The texts for small models, where a first word that differs for each debater stops one from copying the other."""
DEBATERS = Profiles(full=DEBATER, concise=CONCISE_DEBATER, tasks=("opening", "reply", "alone"))


def render_debater_system(
    *,
    question: str,
    members: Members,
    max_rounds: int,
    name: str,
    system_prompt: str | None = None,
    refereed: bool = False,
    length: str = LENGTH,
    template: RoundRobinDebaterTemplate = DEBATER,
) -> str:
    """The question, who takes part and the rules, which are the same for all; then who the debater `name` is.

    `system_prompt` is the application's own text, and ends the message unchanged.
    """
    common = _common(question, tuple(members.items()), max_rounds, refereed, length, template)
    about = filled(template.debater, name=tag_name(name), speaker=speaker_tag(name, members.get(name)))
    return "\n".join([f"{common}\n\n{about}", *([system_prompt] if system_prompt else [])])


def render_debater_turn(
    *,
    question: str,
    entries: Sequence[RoundRobinEntry],
    audits: Sequence[RefereeAudit] = (),
    name: str,
    role: str | None,
    round: int,  # noqa: A002 - the field's word for it
    max_rounds: int,
    template: RoundRobinDebaterTemplate = DEBATER,
) -> str:
    """The transcript with the audits of the rounds before, then whose turn it is and what to do.

    The messages of two turns begin alike, up to the end of the shorter transcript.
    """
    about = {
        "name": tag_name(name),
        "speaker": speaker_tag(name, role),
        "who": tag_text(role) if role and role.strip() else tag_name(name),
        "round": round,
        "max_rounds": max_rounds,
    }
    last = [filled(template.turn, question=quoted(question), **about)]
    if issues := _issues(audits, name):
        last.append(filled(template.found, issues=issues))
    last.append(_task(entries, name, about, template))
    transcript = filled(template.transcript, transcript=render_contributions(entries, audits))
    return "\n\n".join([transcript, "\n".join(last)])


def _task(
    entries: Sequence[RoundRobinEntry], name: str, about: dict[str, object], template: RoundRobinDebaterTemplate
) -> str:
    """What to do now."""
    if not entries:
        return filled(template.opening, **about)
    other = next((entry.agent_name for entry in reversed(entries) if entry.agent_name != name), None)
    if other is None:
        return filled(template.alone, **about)
    return filled(template.reply, other=tag_name(other), **about)


def _issues(audits: Sequence[RefereeAudit], name: str) -> str:
    """The issues of `name` in the latest audit."""
    found = audits[-1].assessments if audits else ()
    return next((issues_of(assessment) for assessment in found if assessment.agent_name == name), "")


@lru_cache(maxsize=64)  # every turn asks for the same
def _common(
    question: str,
    members: tuple[tuple[str, str | None], ...],
    max_rounds: int,
    refereed: bool,  # noqa: FBT001 - a part of the cache's key
    length: str,
    template: RoundRobinDebaterTemplate,
) -> str:
    roster = render_members(dict(members))
    system = filled(template.system, question=quoted(question), roster=roster, max_rounds=max_rounds)
    rules = filled(template.rules, length=length)
    return "\n\n".join([system, *([template.referee] if refereed else []), rules])


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
    """The block `{name}-panelist-{agent_name}`: speaks in its `role`, as its `system_prompt` describes it.

    `members` are the roles of all debaters, by name, in declared order (default: itself alone). It sees
    the question, all that was said, also in the same round, and what the referee found of the rounds before;
    `refereed` says that there is one. An answer that ran out of room is cut at its last full sentence.
    """
    block_name = f"{name}-panelist-{agent_name}"
    prompt = RolePrompt(DEBATERS, options, template=template, length=length, where=block_name)
    everyone = {agent_name: role} if members is None else dict(members)

    def system(value: object, ctx: Context) -> str:
        return render_debater_system(
            question=question_of(value, ctx),
            members=everyone,
            max_rounds=max_rounds,
            name=agent_name,
            system_prompt=system_prompt,
            refereed=refereed,
            length=prompt.length(ctx),
            template=prompt.template(ctx),
        )

    def turn(value: object, ctx: Context) -> str:
        state = state_of(ctx, RoundRobinState)
        return render_debater_turn(
            question=question_of(value, ctx),
            entries=entries_of(ctx),
            audits=state.audits,
            name=agent_name,
            role=role,
            round=max(state.round, 1),
            max_rounds=max_rounds,
            template=prompt.template(ctx),
        )

    return debater_block(block_name, prompt=prompt, system=system, turn=turn, transcript=transcript, options=options)
