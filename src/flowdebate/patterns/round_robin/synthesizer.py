"""Synthesizer of a round robin: writes the answer from all that was said, and from the referee's audits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate.blocks.generator import Generator, generator
from flowdebate.patterns.roles import HOW_TO_READ_SAID, SHOWN, RolePrompt, generator_options
from flowdebate.patterns.roster import bindable
from flowdebate.patterns.round_robin.schemas import RoundRobinOutput
from flowdebate.patterns.round_robin.transcript import HOW_TO_READ_AUDITS, render_contributions
from flowdebate.patterns.state import as_model
from flowdebate.prompts.escaping import quoted
from flowdebate.prompts.template import Profiles, Template, filled, uses

if TYPE_CHECKING:
    from flowdebate.patterns.roles import BlockOptions
    from flowdebate.runs.context import Context


@dataclass(frozen=True, kw_only=True)
class RoundRobinSynthesizerTemplate(Template):
    """The texts of the prompt of the synthesizer."""

    system: str = field(
        default=(
            "You write the panel's answer for those who asked and did not follow its work. Begin with the answer "
            "itself. Then give the reasons that carry it, with the figures and the evidence that the panel gave, the "
            "conditions under which it holds, and what is still open. Rely on each member for what it knows best; "
            "where they disagree, decide by their reasons. Add nothing that was not said, and do not say who said "
            "what.\n\n"
            f"{HOW_TO_READ_SAID}"
        ),
        metadata=uses(),
    )
    referee: str = field(default=f"{HOW_TO_READ_AUDITS} Rely less on what it found badly argued.", metadata=uses())
    """Stands before the task where a referee audited rounds."""
    transcript: str = field(
        default="Question: {question}\n\nAll that the panel said (rounds: {rounds}):\n{transcript}",
        metadata=uses("question", "rounds", "transcript"),
    )
    """First part of the message."""
    task: str = field(
        default="Write the panel's answer to the question: {question}", metadata=uses("question", "rounds")
    )
    """What to do."""


SYNTHESIZER = RoundRobinSynthesizerTemplate()
"""The full texts."""
CONCISE_SYNTHESIZER = RoundRobinSynthesizerTemplate(
    system=(
        "You write the panel's answer for those who asked and did not follow its work. Use the strongest points of "
        "every member, each for what it knows best. Where they disagree, decide by their reasons. Add nothing that was "
        "not said, and do not say who said what.\n\n"
        f"{HOW_TO_READ_SAID}"
    ),
)
"""The texts for small models."""
SYNTHESIZERS = Profiles(full=SYNTHESIZER, concise=CONCISE_SYNTHESIZER)


def render_synthesizer_system(*, template: RoundRobinSynthesizerTemplate = SYNTHESIZER) -> str:
    """The role's task."""
    return template.system


def render_synthesizer_turn(raw: RoundRobinOutput, *, template: RoundRobinSynthesizerTemplate = SYNTHESIZER) -> str:
    """The transcript, and the task."""
    about = {"question": quoted(raw.question), "rounds": raw.rounds}
    transcript = render_contributions(raw.transcript, raw.audits, scores=True)
    parts = [filled(template.transcript, transcript=transcript, **about)]
    if raw.audits:
        parts.append(template.referee)
    return "\n\n".join([*parts, filled(template.task, **about)])


@bindable("name", pattern="round_robin", role="synthesizer", template=RoundRobinSynthesizerTemplate)
def create_round_robin_synthesizer(
    *,
    name: str,
    output_schema: Any = None,  # noqa: ANN401 - a pydantic model, any type, or a JSON Schema
    template: RoundRobinSynthesizerTemplate | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """The block `{name}-synthesizer`: takes a `RoundRobinOutput`, gives `output_schema`, or text without one.

    `output_schema` is a pydantic model, a dataclass or TypedDict, or a JSON Schema as a dict (validated with
    `jsonschema`); an answer that does not fit is a `SchemaViolation`.
    """
    block_name = f"{name}-synthesizer"

    prompt = RolePrompt(SYNTHESIZERS, options, template=template, intent="intent/synthesize", where=block_name)

    def system(_: object, ctx: Context) -> str:
        return render_synthesizer_system(template=prompt.template(ctx))

    def turn(value: object, ctx: Context) -> str:
        raw = as_model(value, RoundRobinOutput, block=ctx.block)
        return render_synthesizer_turn(raw, template=prompt.template(ctx))

    return generator(
        name=block_name,
        prompt=system,
        user=turn,
        output_schema=output_schema,
        **generator_options(options, "intent/synthesize", SHOWN, where=block_name),
    )
