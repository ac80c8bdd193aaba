"""Sides for a question that does not name any: derived from its wording if possible, otherwise proposed by a model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Unpack

from pydantic import AfterValidator, BaseModel, Field, field_validator

from flowdebate._text import clean_text, fold, is_blank
from flowdebate.blocks.generator import Generator, generator
from flowdebate.chassis.roles import NOT_KEPT, BlockOptions, generator_options
from flowdebate.chassis.roster import Debater
from flowdebate.chassis.state import question_of
from flowdebate.models.base import Model
from flowdebate.prompts import Template, as_seen, filled, part, quoted, uses
from flowdebate.runs.context import Context

# maximum length, in characters, of a position and of a question from which sides are derived; both appear in every
# prompt
_MAX_LENGTH = 200
_QUOTED = 300  # maximum length, in characters, of a question quoted in the positions "yes" and "no"
_NAME = 24  # maximum length, in characters, of a side's name; terminals show it before each argument

# Only a few forms of question name their sides unambiguously; for all others, a model proposes the sides. A larger
# grammar would still be incomplete, and each additional rule would be wrong for some questions.
_YES_OR_NO = re.compile(
    r"(?i:should|must|can|could|will|would|may|might|shall|is|are|was|were|do|does|did|has|have|had) \S+ .+"
)
# Matches anything not found in a plain clause, including negations, which would make "yes" ambiguous.
_UNCLEAR = re.compile(r"(?i)[^\w\s.'’&+#%-]|\.\s|n['’]t\b|\b(?:or|not?|never|nor|none|nothing|nobody|hardly|without)\b")
# Turns "should we ship" into "we should ship"; words like "ever" have no place in such a claim.
_WE_SHOULD = r"(?i:(?P<verb>should|could|would|will) (?P<subject>i|we|they|it|he|she|there))"
_CLAIM = re.compile(rf"{_WE_SHOULD} (?!.*\b(?i:any\w*|ever|yet|either|neither|you)\b)(?!(?:and|who|that) )(?P<rest>.+)")
_ALTERNATIVES = (
    re.compile(rf"{_WE_SHOULD} (?P<a>\S+) or (?P<b>\S+)"),
    # requiring capital letters excludes questions such as "should we raise rents or leave"
    re.compile(rf"{_WE_SHOULD} (?P<rest>\S+) (?P<a>[A-Z]\S*) or (?P<b>[A-Z]\S*)"),
    re.compile(r"(?i:(?:which|what) is better[,:]? )?(?P<a>\S+) or (?P<b>\S+)"),
)


def default_sides(question: str) -> list[Debater] | None:
    """Create two debaters for a simple yes-or-no or "A or B" question in English; otherwise, return None.

    Questions with "what", "which", "why" or "how", negated questions, and questions in other languages have no default
    sides; use `create_side_proposer` to have a model propose them.

    >>> [side.stance for side in default_sides("Should we adopt a four-day week?")]
    ['We should adopt a four-day week', 'We should not adopt a four-day week']
    >>> [side.stance for side in default_sides("Should our team adopt it?")]
    ['The answer to "Should our team adopt it?" is yes', 'The answer to "Should our team adopt it?" is no']
    >>> [side.stance for side in default_sides("Should we use Postgres or MySQL?")]
    ['We should use Postgres', 'We should use MySQL']
    >>> default_sides("Which database should we use?") is None
    True
    """
    text = " ".join(question.split())
    clause = re.sub("(?i) or not$", "", text.removesuffix("?").rstrip())
    if not text.endswith("?") or len(clause) > _MAX_LENGTH or not clause.isprintable():
        return None
    for pattern in _ALTERNATIVES:
        if match := pattern.fullmatch(clause):
            return _choose_between(match)
    if _YES_OR_NO.fullmatch(clause) is None or _UNCLEAR.search(clause):
        return None
    if claim := _CLAIM.fullmatch(clause):
        subject, verb = _start_claim(claim)
        return [
            Debater("pro", f"{subject} {verb} {claim['rest']}"),
            Debater("con", f"{subject} {verb} not {claim['rest']}"),
        ]
    return _answer_yes_and_no(text)


def yes_no_sides(question: str) -> list[Debater]:
    """Create two debaters for a yes-or-no question in any language.

    The wording of the question is not checked.

    >>> [side.stance for side in yes_no_sides("Ist die Erde rund?")]
    ['The answer to "Ist die Erde rund?" is yes', 'The answer to "Ist die Erde rund?" is no']
    """
    sides = default_sides(question)
    return sides if sides and sides[0].name == "pro" else _answer_yes_and_no(" ".join(question.split()))


def _answer_yes_and_no(question: str) -> list[Debater]:
    answer = f'The answer to "{question}"' if len(question) <= _QUOTED else "The answer to the question"
    return [Debater("pro", f"{answer} is yes"), Debater("con", f"{answer} is no")]


def _choose_between(match: re.Match[str]) -> list[Debater] | None:
    """Create one side for each of two alternatives; return None if they are identical or not plain words."""
    alternatives = (match["a"], match["b"])
    if len(set(map(as_seen, alternatives))) == 1 or any(map(_UNCLEAR.search, alternatives)):
        return None
    lead = "The better choice is"
    if "verb" in match.groupdict():
        lead = " ".join([*_start_claim(match), *filter(None, [match.groupdict().get("rest")])])
    if alternatives[1].islower():
        alternatives = (alternatives[0].lower(), alternatives[1])  # for example, in "Tea or coffee?"
    names = alternatives if max(map(len, alternatives)) <= _NAME else ("A", "B")
    return [Debater(name, f"{lead} {alternative}") for name, alternative in zip(names, alternatives, strict=True)]


def _start_claim(match: re.Match[str]) -> tuple[str, str]:
    """Return the subject and verb at the start of a claim, such as "We" and "should"."""
    return match["subject"].capitalize(), match["verb"].lower()


# Sides proposed by a model

# names of roles, and the letters given to sides that have no usable name
_TAKEN = ("judge", "moderator", "synthesizer", "a", "b", "c", "d")
_SENTENCE = re.compile(r"(?<=\w\w[.!]) (?=[^\W\d_a-z])")  # a single letter before a period is likely an initial


@dataclass(frozen=True, kw_only=True)
class SideProposerTemplate(Template):
    """Prompt templates for a side proposer."""

    system: str = part(
        "You prepare a debate. Name the positions that people would argue for on the question you are given: two if "
        "the question has two answers, and at most four. State each position in one sentence of at most fifteen words "
        "that answers the question and that somebody could defend. The positions must exclude each other and, "
        "together, cover the answers that matter. Be fair: word each position as its supporters would. Write in the "
        "language of the question, and give each position a name of one or two words."
    )
    """System message, the same for all questions."""
    question: str = part("Question: {question}", uses("question"))


SIDE_PROPOSER = SideProposerTemplate()


def _check_position(text: str) -> str:
    # keep only the first sentence, because small models append an explanation
    sentence = _SENTENCE.split(" ".join(clean_text(text).split()))[0]
    if is_blank(sentence):
        message = "must not be blank"
        raise ValueError(message)
    if not sentence.isprintable():
        message = "must be plain text, without control characters"
        raise ValueError(message)
    return sentence


class ProposedSide(BaseModel):
    """A position that a model proposes."""

    name: Annotated[str, Field(description="One or two words for the position", max_length=60)]
    position: Annotated[
        str,
        Field(description="The position as one short sentence", min_length=1, max_length=_MAX_LENGTH),
        AfterValidator(_check_position),
    ]


class ProposedSides(BaseModel):
    """The positions that a model proposes for a question."""

    # with more than four sides, even two rounds would be as long as a book
    sides: Annotated[list[ProposedSide], Field(min_length=2, max_length=4)]

    @field_validator("sides")
    @classmethod
    def _differ(cls, sides: list[ProposedSide]) -> list[ProposedSide]:
        if len({as_seen(side.position).rstrip(".!") for side in sides}) != len(sides):
            message = "all positions must be different"
            raise ValueError(message)
        return sides


def create_side_proposer(
    *, name: str = "sides", template: SideProposerTemplate = SIDE_PROPOSER, **options: Unpack[BlockOptions]
) -> Generator[list[Debater]]:
    """Create a block in which a model proposes two to four sides of a question.

    The block returns a list of `Debater`. An answer with too few or too many positions, with blank or duplicate
    positions, or with control characters raises `SchemaViolation`. Names not allowed in a roster are replaced by
    letters.
    """

    def system(_: object) -> str:
        return template.system

    def turn(value: object, ctx: Context) -> str:
        return filled(template.question, question=quoted(question_of(value, ctx)))

    def make_debaters(proposed: ProposedSides, *_: object) -> list[Debater]:
        debaters: list[Debater] = []
        for index, side in enumerate(proposed.sides):
            label = _cut_name(side.name)
            used_names = {"", *_TAKEN, *(fold(debater.name) for debater in debaters)}
            debaters.append(Debater("ABCD"[index] if fold(label) in used_names else label, side.position.rstrip(".")))
        return debaters

    proposer: Generator[list[Debater]] = generator(
        name=name,
        prompt=system,
        user=turn,
        output_schema=ProposedSides,
        transform=make_debaters,
        **generator_options(options, "intent/chat", NOT_KEPT, location=name),
    )
    proposer.role = "proposer"
    return proposer


async def propose_sides(question: str, *, model: Model | str | None = None) -> list[Debater]:
    """Propose sides for any question, using `default_sides` if the wording allows it, and a model otherwise.

    At most one model call is made, and its result is not stored. If the call fails, the function raises the same errors
    as a run.
    """
    return default_sides(question) or (await create_side_proposer(model=model).run(question)).output


def _cut_name(name: str) -> str:
    r"""Remove everything but words from `name`, and shorten the result at a word boundary.

    >>> _cut_name("[Postgres]\n and the rest of what it stands for")
    'Postgres and the rest of'
    """
    words = re.findall(r"[\w.+#&'-]+", clean_text(name))
    label = ""
    for word in words:
        if len(f"{label} {word}".strip()) > _NAME:
            break
        label = f"{label} {word}".strip()
    return label if label.isprintable() and re.search(r"\w", label) else ""
