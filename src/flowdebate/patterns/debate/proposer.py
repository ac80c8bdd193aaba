"""Proposer of sides: a model that names the positions which a question can be debated with."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from pydantic import AfterValidator, BaseModel, Field

from flowdebate._util.text import clean_text, fold, is_blank
from flowdebate.blocks.generator import Generator, generator
from flowdebate.patterns.debate.sides import default_sides
from flowdebate.patterns.roles import NOT_KEPT, generator_options
from flowdebate.patterns.roster import Debater
from flowdebate.patterns.state import question_of
from flowdebate.prompts.escaping import as_seen, quoted
from flowdebate.prompts.template import Template, filled, uses

if TYPE_CHECKING:
    from flowdebate.models.base import Model
    from flowdebate.patterns.roles import BlockOptions
    from flowdebate.runs.context import Context


_LONGEST = 200
"""Characters of a proposed position."""
_NAME = 24
"""Characters of a proposed side's name."""
_FEWEST, _MOST = 2, 4
_SENTENCE = re.compile(r"(?<=\w\w[.!]) (?=[^\W\d_a-z])")
"""The end of a sentence: a short word or an initial before the stop is an abbreviation."""


@dataclass(frozen=True, kw_only=True)
class SideProposerTemplate(Template):
    """The texts of a proposer's prompt."""

    system: str = field(
        default=(
            "You prepare a debate. For the question that you are given, name the positions that people would argue "
            "for: two if the question has two answers, and at most four. Each position is one sentence of at most "
            "fifteen words that answers the question, so that somebody can defend it. The positions exclude each "
            "other, and together they are the answers that matter. Be fair: give each the wording that its supporters "
            "would choose. Write in the language of the question. Give each position a name of one or two words."
        ),
        metadata=uses(),
    )
    """The same for all questions."""
    question: str = field(default="Question: {question}", metadata=uses("question"))


SIDE_PROPOSER = SideProposerTemplate()


def _position(text: str) -> str:
    said = _SENTENCE.split(" ".join(clean_text(text).split()))[0]  # small models explain themselves
    if is_blank(said):
        message = "must not be blank"
        raise ValueError(message)
    if not said.isprintable():
        message = "must be plain text, without control characters"
        raise ValueError(message)
    return said


class ProposedSide(BaseModel):
    """A position that a model proposes."""

    name: Annotated[str, Field(description="One or two words for the position", max_length=60)]
    position: Annotated[
        str,
        Field(description="The position as one short sentence", min_length=1, max_length=_LONGEST),
        AfterValidator(_position),
    ]


def _different(sides: list[ProposedSide]) -> list[ProposedSide]:
    seen = {as_seen(side.position).rstrip(".!") for side in sides}
    if len(seen) != len(sides):
        message = "the positions must differ from each other"
        raise ValueError(message)
    return sides


class ProposedSides(BaseModel):
    """The positions that a model proposes for a question."""

    sides: Annotated[list[ProposedSide], Field(min_length=_FEWEST, max_length=_MOST), AfterValidator(_different)]


def create_side_proposer(
    *, name: str = "sides", template: SideProposerTemplate = SIDE_PROPOSER, **options: Unpack[BlockOptions]
) -> Generator[list[Debater]]:
    """The block that asks a model for two to four sides of a question; its output is a list of `Debater`.

    An answer with fewer or more positions, with blank or equal ones, or with control characters is a
    `SchemaViolation`. Names are made fit for a roster: a letter stands for one that is not.
    """

    def system(_: object) -> str:
        return template.system

    def turn(value: object, ctx: Context) -> str:
        return filled(template.question, question=quoted(question_of(value, ctx)))

    return generator(
        name=name,
        prompt=system,
        user=turn,
        output_schema=ProposedSides,
        transform=_debaters,
        **generator_options(options, "intent/chat", NOT_KEPT, where=name),
    )


async def propose_sides(question: str, *, model: Model | str | None = None) -> list[Debater]:
    """The sides of any question: `default_sides` where its words say them, else those that a model proposes.

    At most one call, which is not stored; with the errors of a run for a model that fails.
    """
    return default_sides(question) or (await create_side_proposer(model=model).run(question)).output


def _debaters(proposed: ProposedSides, *_: Any) -> list[Debater]:  # noqa: ANN401 - response and context
    debaters: list[Debater] = []
    for index, side in enumerate(proposed.sides):
        label = _label(side.name)
        taken = {"", *_ROLES, *(fold(each.name) for each in debaters)}
        debaters.append(Debater("ABCD"[index] if fold(label) in taken else label, side.position.rstrip(".")))
    return debaters


_ROLES = ("judge", "moderator", "synthesizer", "a", "b", "c", "d")
"""Names that mean somebody else."""


def _label(name: str) -> str:
    r"""`name` without anything but words, cut between them.

    >>> _label("[Postgres]\n and the rest of what it stands for")
    'Postgres and the rest of'
    """
    words = re.findall(r"[\w.+#&'-]+", clean_text(name))
    label = ""
    for word in words:
        if len(f"{label} {word}".strip()) > _NAME:
            break
        label = f"{label} {word}".strip()
    return label if label.isprintable() and re.search(r"\w", label) else ""
