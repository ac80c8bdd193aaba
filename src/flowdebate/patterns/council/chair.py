"""Chair of a council: its prompt and its default block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate.blocks.generator import Generator, generator
from flowdebate.patterns.council.member import HOW_TO_READ_ANSWERS, render_answers
from flowdebate.patterns.council.schemas import ChairAnswer
from flowdebate.patterns.roles import SHOWN, BlockOptions, RolePrompt, generator_options
from flowdebate.patterns.roster import bindable
from flowdebate.prompts.escaping import quoted
from flowdebate.prompts.template import Profiles, Template, filled, uses

if TYPE_CHECKING:
    from flowdebate.patterns.council.schemas import ChairAsked
    from flowdebate.runs.context import Context


@dataclass(frozen=True, kw_only=True)
class ChairTemplate(Template):
    """The texts of a chair's prompt."""

    system: str = field(
        default=(
            "You chair a council. Its members answered a question independently and then reviewed each other's answers "
            "without knowing whose they were. Write the council's answer for those who asked. Begin with the answer "
            "itself. Use the soundest points with their evidence, whoever made them; settle disagreements by the "
            "reasons, not by the number of members on each side; say what is uncertain. Add nothing that no member "
            "said."
        ),
        metadata=uses(),
    )
    answers: str = field(
        default=f"Question: {{question}}\n\n{HOW_TO_READ_ANSWERS}\n\nThe answers:\n{{answers}}",
        metadata=uses("question", lines=["answers"]),
    )
    """Begins the message."""
    reviews: str = field(
        default=(
            "The reviews, each a ranking from the best to the worst by the author of one answer:\n{reviews}\n\n"
            "All reviews together:\n{ranking}"
        ),
        metadata=uses(lines=["reviews", "ranking"]),
    )
    """Left out without reviews."""
    task: str = field(
        default=(
            "Write the council's answer. Do not tell which member said what. Then name the main disagreement that is "
            "left, if there is one."
        ),
        metadata=uses(),
    )
    """What to do."""
    task_for_schema: str = field(
        default="Fill in the council's answer from the soundest points of the answers.", metadata=uses()
    )
    """What to do with an output schema."""


CHAIR = ChairTemplate()
"""The full texts."""
CONCISE_CHAIR = ChairTemplate(
    system=(
        "You chair a council. Its members answered a question independently and then reviewed each other's answers "
        "without knowing whose they were. Write the council's answer for those who asked: use the soundest points, "
        "whoever made them; settle disagreements by the reasons; add nothing that no member said."
    ),
)
"""The texts for small models."""
CHAIRS = Profiles(full=CHAIR, concise=CONCISE_CHAIR)


def render_work(asked: ChairAsked, *, template: ChairTemplate = CHAIR) -> str:
    """The question, the answers, the reviews and the ranking; members appear by letter only."""
    parts = [filled(template.answers, question=quoted(asked.question), answers=render_answers(asked.answers))]
    if asked.reviews:
        reviews = "\n".join(
            f"[Review by the author of Answer {author}] "
            + quoted("\n".join(f"{rank}. Answer {letter}: {reason}" for rank, letter, reason in ranking))
            for author, ranking in asked.reviews
        )
        ranking = "\n".join(
            f"{rank}. Answer {letter} (mean rank {mean:.2f} in {count} reviews)"
            for rank, letter, mean, count in asked.ranking
        )
        parts.append(filled(template.reviews, reviews=reviews, ranking=ranking))
    return "\n\n".join(parts)


@bindable("name", pattern="council", role="chair", template=ChairTemplate)
def create_chair(
    *,
    name: str,
    output_schema: Any = None,  # noqa: ANN401 - a pydantic model, any type, or a JSON Schema
    template: ChairTemplate | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """The block `{name}-chair`: takes a `ChairAsked`, returns `output_schema`, or a `ChairAnswer` without one."""
    block_name = f"{name}-chair"

    prompt = RolePrompt(CHAIRS, options, template=template, intent="intent/synthesize", where=block_name)

    def system(_: object, ctx: Context) -> str:
        return prompt.template(ctx).system

    def turn(value: ChairAsked, ctx: Context) -> str:
        template = prompt.template(ctx)
        task = template.task if output_schema is None else template.task_for_schema
        return f"{render_work(value, template=template)}\n\n{task}"

    return generator(
        name=block_name,
        prompt=system,
        user=turn,
        output_schema=ChairAnswer if output_schema is None else output_schema,
        **generator_options(options, "intent/synthesize", SHOWN, where=block_name),
    )
