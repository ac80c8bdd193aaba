"""`handoff()`: its options, checked before anything is built, and its steps, from the first to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from flowdebate._util.validation import check_count, suggesting
from flowdebate.blocks.base import Block
from flowdebate.blocks.router import router
from flowdebate.blocks.sequencer import sequencer
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.handoff.decision import (
    HandoffDecision,
    HandoffTranscript,
    create_handoff_transcript,
    draw_instead,
    hand_over,
    handoff_schema,
    needs_another_word,
    record_said,
)
from flowdebate.patterns.handoff.prompts import SpeakerTemplate
from flowdebate.patterns.handoff.schemas import HandoffInput, HandoffOutput, HandoffState, OnInvalid, TransitionForm
from flowdebate.patterns.handoff.speaker import Speaker, create_speaker
from flowdebate.patterns.output import build_output
from flowdebate.patterns.roles import NOT_KEPT, RoleOptions
from flowdebate.patterns.roster import Persona, check_name, checked_roster, is_own, speaker_options, with_answer_schema
from flowdebate.patterns.rounds import Loop, PatternSpec, checked_loop
from flowdebate.patterns.state import entries_of, state_of
from flowdebate.patterns.turn import FailurePolicy
from flowdebate.prompts.template import check_profile

if TYPE_CHECKING:
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.blocks.tools import Capability, ToolLike
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.turn import Turn
    from flowdebate.prompts.template import Length, Profile
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.stop import StopWhen


@suggesting
def handoff(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[Persona | Mapping[str, Any]],
    first: str | None = None,
    transition: TransitionForm = "structured",
    max_turns: int = 10,
    on_invalid: OnInvalid = "retry",
    terminate_when: StopWhen | None = None,
    transcript: HandoffTranscript | None = None,
    instructions: TextSlot | None = None,
    model: ModelChoice = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    profile: Profile | None = None,
    length: Length | None = None,
    template: SpeakerTemplate | None = None,
    debater_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, HandoffOutput]:
    r"""Build a handoff, a block that debates a proposition: `await pattern.run("AI may decide")`.

    One debater speaks at a time and names the next speaker. The handoff ends after `max_turns` turns, or if
    `terminate_when(ctx)` returns true after one. The output is a `HandoffOutput`: the turns, each with the next speaker
    and who chose it.

    - `debaters`: at least two `Persona`s, or dicts with `name`, `role`, `system_prompt` (and `block`, `model`). A name
      may be an enum member; its value is used. `{proposition}` in a system prompt is replaced.
    - `first`: the first speaker; None takes the first debater declared.
    - `transition`: how the default speakers hand over: "structured" in JSON, `{response, next_agent_name}`; "tool" by
      calling `handoff(response, next_agent_name)`; "text" by ending the answer in "Transition to NAME".
    - `on_invalid`: what happens if a speaker names nobody who can speak next: "retry" asks the model once more with the
      reason, then draws at random; "random" draws right away; "error" raises `RosterError`. The first contribution is
      recorded in any case.
    - a debater's `block`: a block or a function of `(input, ctx)` or `(input)`; None is the default block. It returns
      `{"response": …, "next_agent_name": …}`, or a str that ends in "Transition to NAME". It is not asked again.
    - `transcript`: one from `create_handoff_transcript()`, to share with your own blocks; None creates one.
    - `model` reaches all blocks inside that name none; it is one model, or one by intent. A role's own options
      (`Persona(…, options=DebaterOptions(…))`) take the place of these.
    - `profile`: default prompts for small models ("concise") or for others ("full"); None: as each model asks for.
      `length` of a turn: "short", "medium", "long" or a number of words; None: short with concise prompts, medium with
      full ones. `template`: the texts of the debaters' prompts, in place of the profile's.
    - `instructions`, `tools`, `uses`, `context`, `settings` and `debater_visibility` apply to the default blocks only.
      By default the client sees their items, and none are added to the history.
    - `collection_id`: the id of the audit trail (default: `name`).
    - `failures`: a `FailurePolicy`. `on_failure` is "fail" (default: the run raises the error), "skip" (the turn
      counts, and the next speaker is drawn at random) or `StandIn(model)`. `turn_timeout` bounds a turn in seconds,
      tools and retries included; asking once more may take as long again. A handoff has no rounds: `round_timeout` must
      be None, and `quorum` has no effect. Exceptions from your own code are always raised.

    The input is a proposition: a str, `{"proposition": str}` or a `HandoffInput`. Invalid options raise
    `ConfigurationError` before anything is built.

    >>> from flowdebate.testing import ScriptedModel
    >>> sides = [{"name": "Pro"}, {"name": "Con"}, {"name": "Neutral"}]
    >>> pattern = handoff(name="morals", debaters=sides, transition="text", max_turns=2)
    >>> model = ScriptedModel("Machines are fair.\nTransition to con", "Fair to whom? Transition to Neutral.")
    >>> [(turn.agent_name, turn.text) for turn in pattern.run_sync("AI may decide.", model=model).output.transcript]
    [('Pro', 'Machines are fair.'), ('Con', 'Fair to whom?')]
    """
    check_name(name, where="handoff", field="name")
    where = f"handoff {name!r}"
    roster = checked_roster(_with_plain_names(debaters), where=where, kind=Persona)
    opens = _checked_first(first, roster, where=where)
    _check_choice(where, transition=(transition, TransitionForm), on_invalid=(on_invalid, OnInvalid))
    check_count(where, max_turns=max_turns)
    if isinstance(failures, FailurePolicy) and failures.round_timeout is not None:
        raise ConfigurationError(where, "round_timeout", failures.round_timeout, "None: a handoff has no rounds")
    loop = checked_loop(
        name=name,
        where=where,
        max_rounds=max_turns,
        terminate_when=terminate_when,
        transcript=transcript,
        create_transcript=create_handoff_transcript,
        model=model,
        collection_id=collection_id,
        failures=failures,
        spec=handoff_spec(first=opens, max_turns=max_turns),
    )
    check_profile(where, profile)
    defaults = RoleOptions(
        tools=tools, uses=uses, context=context, instructions=instructions, settings=settings, profile=profile
    )
    speakers = speaker_options(where, defaults, length=length, template=template, kind=SpeakerTemplate)
    of_debaters = speakers.shown(debater_visibility, NOT_KEPT, where=where, field="debater_visibility")
    turn = _turn_of_speaker(loop, roster, transition=transition, on_invalid=on_invalid, options=of_debaters)
    return loop.until_stopped(loop.opening().tap(turn)).then(build_output(loop.name, loop.spec.make_output))


def _turn_of_speaker(
    loop: Loop, roster: Sequence[Persona], *, transition: TransitionForm, on_invalid: OnInvalid, options: RoleOptions
) -> Sequencer[Any, Any]:
    """Whoever has the floor speaks, is asked once more if it named nobody, and hands over."""
    names = [persona.name for persona in roster]
    turns: dict[str, Turn] = {}
    speakers: list[Speaker] = []
    for persona in roster:
        block, stand_in = loop.speakers(
            persona,
            create_speaker,
            options=options,
            speakers={each.name: each.role for each in roster},
            system_prompt=persona.system_prompt,
            transition=transition,
            max_turns=loop.max_rounds,
        )
        if isinstance(persona.block, Block) and not isinstance(block, Speaker):
            others = [name for name in names if name != persona.name]
            block = with_answer_schema(block, partial(handoff_schema, others))
        record = record_said(
            name=loop.name,
            agent_name=persona.name,
            names=names,
            transcript=loop.transcript,
            collection_id=loop.collection_id,
            own=is_own(persona.block),
        )
        turns[persona.name] = loop.turn(persona, debater=block, stand_in=stand_in, record=record)
        speakers += [each for each in (block, stand_in) if isinstance(each, Speaker)]

    floor = router(name=f"{loop.name}-floor", choose=_speaker, routes=turns)
    pipeline = sequencer(name=f"{loop.name}-take-turn").then(floor)
    if on_invalid == "retry" and speakers:
        again = router(name=f"{loop.name}-ask-again", choose=_asked, routes=speakers)
        pipeline = pipeline.then_if(needs_another_word, loop.guarded(again, draw_instead))
    return pipeline.then(hand_over(name=loop.name, names=names, on_invalid=on_invalid, transcript=loop.transcript))


def handoff_spec(*, first: str, max_turns: int) -> PatternSpec:
    """The loop's parts for a handoff: `first` has the floor, it stops by its cap, and it needs no quorum.

    A turn has one voice: if its provider fails, somebody else is next.
    """

    def stops(state: HandoffState) -> str | None:
        return "max_turns" if state.round >= max_turns else None

    return PatternSpec(
        input_type=HandoffInput,
        new_state=partial(HandoffState, speaker=first),
        make_output=raw_output,
        stop_reason=stops,
        voice_of=None,
        speaker="speaker",
        round="turn",
    )


def raw_output(ctx: Context, status: RunStatus) -> HandoffOutput:
    """The raw output of the handoff around a step, so far."""
    state = state_of(ctx, HandoffState)
    return HandoffOutput(
        proposition=state.question,
        turns=state.round,
        transcript=list(entries_of(ctx)),
        stop_reason=state.stop_reason,
        status=status,
        losses=list(state.losses),
        seed=ctx.seed,
    )


def _speaker(_: object, ctx: Context) -> str:
    return state_of(ctx, HandoffState).speaker


def _asked(value: HandoffDecision) -> Block[Any, Any] | None:
    return value.speaker


def _with_plain_names(debaters: Any) -> Any:  # noqa: ANN401 - it is checked behind this
    """`debaters` with the values of names that are an enum's members: such a member shows another name than it has."""
    if not isinstance(debaters, (list, tuple)):
        return debaters
    plain: list[Any] = []
    for entry in debaters:
        if isinstance(entry, Persona) and isinstance(entry.name, Enum):
            plain.append(replace(entry, name=entry.name.value))
        elif isinstance(entry, Mapping) and isinstance(entry.get("name"), Enum):
            plain.append({**entry, "name": entry["name"].value})
        else:
            plain.append(entry)
    return plain


def _checked_first(first: object, roster: Sequence[Persona], *, where: str) -> str:
    names = [persona.name for persona in roster]
    plain = first.value if isinstance(first, Enum) else names[0] if first is None else first
    if not isinstance(plain, str) or plain not in names:
        raise ConfigurationError(where, "first", first, f"None, or one of {', '.join(map(repr, names))}")
    return plain


def _check_choice(where: str, **options: tuple[object, Any]) -> None:
    """Each option is one of the values of its type."""
    for field, (value, kind) in options.items():
        if not isinstance(value, str) or value not in get_args(kind):
            raise ConfigurationError(where, field, value, f"one of {', '.join(map(repr, get_args(kind)))}")
