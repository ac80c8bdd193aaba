"""Speaker of a handoff: a model that says something and names who speaks next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate._util.text import is_blank, one_line
from flowdebate.blocks.base import Block
from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.errors import ConfigurationError, SchemaViolation
from flowdebate.patterns.handoff.answer_forms import handoff_form, read_text, salvaged
from flowdebate.patterns.handoff.decision import HandoffDecision, check_decision, merged
from flowdebate.patterns.handoff.prompts import (
    SPEAKERS,
    SpeakerTemplate,
    render_again,
    render_speaker_system,
    render_speaker_turn,
    who_is,
)
from flowdebate.patterns.handoff.schemas import HandoffAnswer, HandoffState
from flowdebate.patterns.roles import NOT_KEPT, RolePrompt, generator_options, trim_to_sentence
from flowdebate.patterns.roster import bindable
from flowdebate.patterns.state import entries_of, question_of, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.blocks.outline import Outline
    from flowdebate.models.base import ModelResponse
    from flowdebate.patterns.handoff.decision import HandoffTranscript
    from flowdebate.patterns.handoff.schemas import ChosenBy, TransitionForm
    from flowdebate.patterns.roles import BlockOptions
    from flowdebate.prompts.template import Length
    from flowdebate.runs.context import Context


class Speaker(Block[Any, HandoffDecision]):
    """Asks a model for what it says and whom it hands over to; given that `HandoffDecision`, asks it once more.

    Every answer is used: one that names nobody who can
    speak next is a `HandoffDecision` with a `problem`.
    """

    def __init__(
        self,
        inner: Generator[HandoffAnswer],
        *,
        agent_name: str,
        roster_names: tuple[str, ...],
        transition: TransitionForm,
        history: bool,
    ) -> None:
        super().__init__(inner.name, resources=inner.resources, hidden=inner.hidden)
        self._inner = inner
        self._agent_name = agent_name
        self.roster_names = roster_names
        self._transition = transition
        self._history = history

    async def act(self, value: Any, ctx: Context, /) -> HandoffDecision:  # noqa: ANN401 - the input, or what it answered to it
        if isinstance(value, HandoffDecision):
            said = merged(value, await self._asked(value, ctx, "retry"))
            fresh = not value.text
        else:
            said = await self._asked(value, ctx, "speaker")
            fresh = True
        if self._history and fresh and said.text:
            ctx.session.history.append({"role": "assistant", "name": self.name, "content": said.text})
        return said

    async def _asked(self, value: object, ctx: Context, by: ChosenBy) -> HandoffDecision:
        unread: SchemaViolation | None = None
        try:
            answer = await self._inner(value, ctx)
        except SchemaViolation as violation:
            answer = salvaged(violation.answer or "", self.roster_names)
            # in JSON it was asked for again already, with the reason
            if violation.block != self.name or (self._transition == "structured" and is_blank(answer.response)):
                raise
            unread = violation
        said = check_decision(answer, agent_name=self._agent_name, names=self.roster_names, chosen_by=by, speaker=self)
        if unread is None or said.problem is None:
            return said
        return replace(said, problem=f"{one_line(unread.message)}; {said.problem}")

    def outline(self) -> Outline:
        return self._inner.outline()


@bindable("name", "agent_name", "speakers", "transcript", pattern="Persona", role="debater", template=SpeakerTemplate)
def create_speaker(  # noqa: PLR0913 - what a speaker is made of, each with its default
    *,
    name: str,
    agent_name: str,
    speakers: Mapping[str, str | None],
    transcript: HandoffTranscript,
    system_prompt: str | None = None,
    transition: TransitionForm = "structured",
    max_turns: int = 10,
    template: SpeakerTemplate | None = None,
    length: Length | None = None,
    **options: Unpack[BlockOptions],
) -> Speaker:
    """The block `{name}-speaker-{agent_name}`: says something, and hands over to another one of `speakers`.

    `speakers` are the roles of all who take part, by name, in declared order. It sees the proposition and all that was
    said. With "tool" its model is offered a function `handoff(response, next_agent_name)`, beside `tools`; with
    "structured" it answers in JSON with these fields; the schema has the others as an enum. With "text" it ends its
    answer with "Transition to NAME". Text that ran out of room is cut at its last full sentence.
    """
    block_name = f"{name}-speaker-{agent_name}"
    others = [other for other in speakers if other != agent_name]
    if agent_name not in speakers or not others:
        raise ConfigurationError(f"speaker {block_name!r}", "speakers", list(speakers), "this one, and another")
    everyone = dict(speakers)
    form = handoff_form(transition, others, where=f"speaker {block_name!r}")
    prompt = RolePrompt(SPEAKERS, options, template=template, length=length, where=f"speaker {block_name!r}")

    def system(value: object, ctx: Context) -> str:
        return render_speaker_system(
            proposition=question_of(value, ctx),
            speakers=everyone,
            max_turns=max_turns,
            name=agent_name,
            system_prompt=system_prompt,
            length=prompt.length(ctx),
            template=prompt.template(ctx),
        )

    def turn(value: object, ctx: Context) -> str:
        about: dict[str, Any] = {"entries": entries_of(ctx), "speakers": everyone, "name": agent_name}
        about |= {"transition": transition, "template": prompt.template(ctx)}
        problem = value.problem if isinstance(value, HandoffDecision) else None
        if isinstance(value, HandoffDecision) and value.text:
            return render_again(**about, problem=problem or "")
        return render_speaker_turn(
            **about,
            round=max(state_of(ctx, HandoffState).round, 1),
            max_turns=max_turns,
            system_prompt=None if system_prompt is None else who_is(system_prompt, question_of(value, ctx)),
            problem=problem,
        )

    filled_in = generator_options(options, "intent/chat", NOT_KEPT, where=block_name)
    visibility: Visibility = filled_in["visibility"]
    inner: Generator[HandoffAnswer] = generator(
        name=block_name,
        prompt=system,
        user=turn,
        transform=_reader(tuple(everyone)),
        resources={"transcript": transcript},
        **form,
        **{**filled_in, "visibility": Visibility(client=visibility.client, history=False)},
    ).with_form(prompt.room)
    return Speaker(
        inner,
        agent_name=agent_name,
        roster_names=tuple(everyone),
        transition=transition,
        history=visibility.history,
    )


def _reader(names: tuple[str, ...]) -> Callable[[Any, ModelResponse, Context], HandoffAnswer]:
    """A function that reads a model's answer: text, JSON or a call of `handoff`."""

    def read(output: Any, response: ModelResponse, _: Context) -> HandoffAnswer:  # noqa: ANN401 - by the form
        if isinstance(output, str):
            if response.finish != "length":
                return read_text(output, names)
            return read_text(trim_to_sentence(output), names).model_copy(update={"cut_off": True})
        answer: HandoffAnswer = output if isinstance(output, HandoffAnswer) else output.answer()
        if is_blank(answer.response) and response.tool_calls and not is_blank(response.text):
            return answer.model_copy(update={"response": response.text})  # it spoke beside its call
        return answer

    return read
