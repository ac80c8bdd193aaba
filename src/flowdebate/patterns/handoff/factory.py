"""`handoff()`: its options, checked before anything is built, and its steps, from the first to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from flowdebate._util.validation import suggesting
from flowdebate.blocks.router import router
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.handoff.answers import (
    draw_instead,
    hand_over,
    handoff_schema,
    needs_another_word,
    record_said,
)
from flowdebate.patterns.handoff.schemas import (
    HandoffInput,
    HandoffOutput,
    HandoffState,
    HandoffTranscript,
    OnInvalid,
    TransitionForm,
    create_handoff_transcript,
)
from flowdebate.patterns.handoff.speaker import Speaker, SpeakerTemplate, create_speaker
from flowdebate.patterns.output import build_output, ending_of
from flowdebate.patterns.roles import NOT_KEPT
from flowdebate.patterns.roster import Persona, Role
from flowdebate.patterns.spec import Loop, PatternSpec, check_options
from flowdebate.patterns.state import entries_of, state_of
from flowdebate.patterns.turn import FailurePolicy, guarded

if TYPE_CHECKING:
    from flowdebate.blocks.functions import Capability, ToolLike
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.history import History
    from flowdebate.patterns.material import Material
    from flowdebate.prompts import Length, Profile
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.sources.source import SourcesLike
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
    sources: SourcesLike | Material | None = None,
    source_tokens: int | None = None,
    history: History = "all",
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
    - `failures`: a `FailurePolicy`. With "skip" the turn counts, and the next speaker is drawn at random; asking once
      more may take `turn_timeout` again. A handoff has no rounds: `round_timeout` must be None, and `quorum` has no
      effect.
    - All other options, such as `model`, `profile`, `length`, `sources`, `history` and `instructions`, are those of
      `debate()`.

    The input is a proposition: a str, `{"proposition": str}` or a `HandoffInput`. Invalid options raise
    `ConfigurationError` before anything is built.

    >>> from flowdebate.testing import ScriptedModel
    >>> sides = [{"name": "Pro"}, {"name": "Con"}, {"name": "Neutral"}]
    >>> pattern = handoff(name="morals", debaters=sides, transition="text", max_turns=2)
    >>> model = ScriptedModel("Machines are fair.\nTransition to con", "Fair to whom? Transition to Neutral.")
    >>> [(turn.agent_name, turn.text) for turn in pattern.run_sync("AI may decide.", model=model).output.transcript]
    [('Pro', 'Machines are fair.'), ('Con', 'Fair to whom?')]
    """
    loop = check_options(HANDOFF, locals())
    if loop.failures.round_timeout is not None:
        raise ConfigurationError(
            loop.where, "round_timeout", loop.failures.round_timeout, "None: a handoff has no rounds"
        )
    return loop.until_stopped(loop.opening().tap(_turn_of_speaker(loop))).then(build_output(loop))


def _turn_of_speaker(loop: Loop) -> Sequencer[Any, Any]:
    """Whoever has the floor speaks, is asked once more if it named nobody, and hands over."""
    names, given = loop.names, loop.given
    turns = {
        persona.name: loop.turn(
            persona,
            partial(record_said, names=names),
            answer=partial(handoff_schema, [name for name in names if name != persona.name]),
            speakers=loop.members,
            system_prompt=persona.system_prompt,
            transition=given["transition"],
            max_turns=loop.max_rounds,
        )
        for persona in loop.roster
    }
    floor = router(name=f"{loop.name}-floor", choose=lambda _, ctx: state_of(ctx, HandoffState).speaker, routes=turns)
    pipeline = sequencer(name=f"{loop.name}-take-turn").then(floor)
    speakers = [each for turn in turns.values() for each in turn.speakers if isinstance(each, Speaker)]
    if given["on_invalid"] == "retry" and speakers:
        again = router(name=f"{loop.name}-ask-again", choose=lambda said: said.speaker, routes=speakers)
        pipeline = pipeline.then_if(needs_another_word, guarded(again, loop.failures, draw_instead))
    hand = hand_over(name=loop.name, names=names, on_invalid=given["on_invalid"], transcript=loop.transcript)
    return pipeline.then(hand)


def raw_output(_: Loop, ctx: Context, status: RunStatus) -> HandoffOutput:
    """The raw output of the handoff around a step, so far."""
    state = state_of(ctx, HandoffState)
    return HandoffOutput(
        proposition=state.question, turns=state.round, transcript=list(entries_of(ctx)), **ending_of(ctx, status)
    )


def _first_state(loop: Loop) -> HandoffState:
    """The state in which the first speaker has the floor."""
    first, names = loop.given["first"], loop.names
    plain = first.value if isinstance(first, Enum) else names[0] if first is None else first
    if not isinstance(plain, str) or plain not in names:
        raise ConfigurationError(loop.where, "first", first, f"None, or one of {', '.join(map(repr, names))}")
    return HandoffState(speaker=plain)


HANDOFF = PatternSpec(
    name="handoff",
    speaker=Role(name="debater", word="speaker", create=[create_speaker], visibility=NOT_KEPT),
    choices={"transition": TransitionForm, "on_invalid": OnInvalid},
    input_type=HandoffInput,
    new_state=_first_state,
    make_output=raw_output,
    create_transcript=create_handoff_transcript,
    cap="max_turns",
    round="turn",
)
"""It has no quorum: a turn has one voice, and if its provider fails, somebody else is next."""
