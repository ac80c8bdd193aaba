"""Debate synthesizer: it writes up the outcome based on the question, framing, transcript and verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

from flowdebate.blocks.generator import Generator, generator
from flowdebate.chassis.roles import SHOWN, BlockOptions, RolePrompt, generator_options
from flowdebate.chassis.roster import bindable
from flowdebate.chassis.state import as_model
from flowdebate.prompts import Profiles, Template, filled, listed, part, quoted, tag_text, uses
from flowdebate.runs.context import Context

from .schemas import DebateRawOutput
from .transcript import HOW_TO_READ, render_entries


@dataclass(frozen=True, kw_only=True)
class SynthesizerTemplate(Template):
    """Prompt templates for a synthesizer."""

    system: str = part(
        "You write up the outcome of a debate for readers who did not follow it. State the judge's verdict first, and "
        "do not depart from it. Then give the arguments and the evidence that decided it, the strongest argument "
        "against it and why that argument did not prevail, and what remains open. Keep figures and names exactly as "
        "they were given, and do not add anything that was not said.\n\n"
        f"{HOW_TO_READ}"
    )
    transcript: str = part(
        "Question: {question}\n\nThe full debate (rounds: {rounds}):\n{transcript}",
        uses("question", "rounds", "transcript"),
    )
    """First part of the message, containing the transcript."""
    framing: str = part("How the moderator framed the rounds:\n{framing}", uses("framing"))
    """Part of the message containing the briefings and angles from all rounds, used if a moderator provided any."""
    verdict: str = part(
        "The judge's reasoning: {reasoning}\n"
        "Winner: {winner}\n"
        "The judge's verdict: {verdict}\n\n"
        "Write up the outcome of the debate.",
        uses("reasoning", "winner", "verdict"),
    )
    """Last part of the message, containing the verdict and the task."""


SYNTHESIZER = SynthesizerTemplate()
"""Prompt templates for the full profile."""
CONCISE_SYNTHESIZER = SynthesizerTemplate(
    system=(
        "You write up the outcome of a debate for readers who did not follow it. State the judge's verdict, the "
        "arguments that decided it, and the strongest argument against it. Do not add anything that was not said.\n\n"
        f"{HOW_TO_READ}"
    ),
)
"""Prompt templates for small models."""
SYNTHESIZERS = Profiles(full=SYNTHESIZER, concise=CONCISE_SYNTHESIZER)


def render_synthesizer_system(*, template: SynthesizerTemplate = SYNTHESIZER) -> str:
    """Render the synthesizer's task."""
    return template.system


def render_synthesizer_turn(raw: DebateRawOutput, *, template: SynthesizerTemplate = SYNTHESIZER) -> str:
    """Render the transcript, framing and verdict; the winner is given as "none" if nobody won.

    Raises LookupError if there is no verdict.
    """
    transcript = render_entries(raw.transcript)
    parts = [filled(template.transcript, question=quoted(raw.question), rounds=raw.rounds, transcript=transcript)]
    framing = [
        f"round {decision.round}, {what}: {quoted(text)}"
        for decision in raw.moderator_decisions
        for what, text in (("briefing", decision.briefing), ("new angle", decision.new_angle))
        if text
    ]
    if framing:
        parts.append(filled(template.framing, framing=listed(*framing)))
    outcome = raw.found
    winner = "none (no single position won)" if outcome.winner is None else tag_text(outcome.winner)
    parts.append(
        filled(template.verdict, reasoning=quoted(outcome.reasoning), winner=winner, verdict=quoted(outcome.verdict))
    )
    return "\n\n".join(parts)


@bindable("name", pattern="debate", role="synthesizer", template=SynthesizerTemplate)
def create_synthesizer(
    *,
    name: str,
    output_schema: object = None,
    template: SynthesizerTemplate | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """Create the block `{name}-synthesizer`.

    The block takes a `DebateRawOutput` and returns data matching `output_schema`, or plain text if there is no schema.
    `output_schema` can be a pydantic model, a dataclass or TypedDict, or a JSON Schema as a dict (validated with
    `jsonschema`). An answer that does not match the schema raises `SchemaViolation`.
    """
    block_name = f"{name}-synthesizer"

    prompt = RolePrompt(SYNTHESIZERS, options, template=template, intent="intent/synthesize", location=block_name)

    def system(_: object, ctx: Context) -> str:
        return render_synthesizer_system(template=prompt.template(ctx))

    def turn(value: object, ctx: Context) -> str:
        raw = as_model(value, DebateRawOutput, block=ctx.block)
        return render_synthesizer_turn(raw, template=prompt.template(ctx))

    return generator(
        name=block_name,
        prompt=system,
        user=turn,
        output_schema=output_schema,
        **generator_options(options, "intent/synthesize", SHOWN, location=block_name),
    )
