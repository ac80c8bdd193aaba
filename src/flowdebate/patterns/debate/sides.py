"""Sides of a question that comes without any: by its own words where they are certain, else proposed by a model."""

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

_LONGEST = 200  # characters of a question whose words make the sides, and of a proposed position: every prompt has them
_QUOTED = 300  # characters up to which the answers yes and no repeat their question
_NAME = 24  # characters of a side's name, which stands before each of its arguments in a terminal

# Sides by the words of the question. A lexicon of verbs and adjectives split more of them: "Should the city build a
# tram line?" into a claim and its negation. Without it, 21 of the 50 questions of the tests that it split still become
# claims of their own words, and 9 of 11 "A or B" their alternatives. The rest are answered with yes and no, which fits
# each of them; so do 13 for which the lexicon knew no claim, and a model was asked.

# Signs of more than one plain clause, and contracted negations.
_SIGNS = re.compile(r"[,;:!?\"()\[\]{}<>“”„«»…/]|\.(?!\w)|\s['’]|['’]\s|n['’]t\b", re.IGNORECASE)
# With one of these, "yes" can mean either: "Should we not ship?".
_NEGATION = re.compile(r"\b(?:not|never|nor?|none|nothing|nobody|hardly|without)\b", re.IGNORECASE)
_ASKS_YES_OR_NO = re.compile(
    r"(should|must|can|could|will|would|may|might|shall|is|are|was|were|do|does|did|has|have|had) (\S+ .+)",
    re.IGNORECASE,
)
# Words that no claim keeps as the question has them: "Should we ever lie?", "Can you trust it?".
_RESHAPED = re.compile(r"\b(?:any\w*|ever|yet|either|neither|you)\b", re.IGNORECASE)
_PRONOUN = "(?i:i|we|they|it|he|she)"
_OF_A_NOUN = "(?i:the|an?|our|my|your|their|his|her|its|every|each|some)"
_INSIDE = rf"(?!(?:{_PRONOUN}|(?i:you|who|which|that|to|and)) )"
# A subject whose end is certain whatever the words behind it mean.
_SUBJECT = re.compile(
    rf"((?i:there)|{_PRONOUN}(?! (?:and|who|that)\b)"
    rf"|{_INSIDE}\S+(?: {_INSIDE}\S+){{0,4}}(?= (?:be|have) )"  # "private cars be banned": these two are never nouns
    rf"|(?!(?:{_OF_A_NOUN}|(?i:wh\w+)) )\S+(?= \S+$)"  # "machines think"
    rf"|{_OF_A_NOUN} \S+(?= \S+$)) (.+)"  # "the king abdicate"
)
# Questions of "A or B", with what each alternative is said of.
_ALTERNATIVES = (
    (re.compile(r"(?i)is it (\w+er|better|best|more \w+|worse) to (?P<a>.+) or (?:to )?(?P<b>.+)"), r"It is \1 to"),
    (re.compile(rf"((?i:should|will)) ({_PRONOUN}) (?P<a>\S+) or (?P<b>\S+)"), r"\2 \1"),
    # two names behind one verb: of "raise rents or leave", only a reader knows which words belong together
    (re.compile(rf"((?i:should|will)) ({_PRONOUN}) (\S+) (?P<a>[A-Z]\S*) or (?P<b>[A-Z]\S*)"), r"\2 \1 \3"),
    (
        re.compile(rf"((?i:is|are)) (?!{_OF_A_NOUN} )(\S+) (?P<a>(an? )?\S+) or (?P<b>(?(4)an? |(?!an? ))\S+)"),
        r"\2 \1",
    ),
)
_PLACE = re.compile("(?:in|at|on|from) ")
# The alternatives alone, of one or two words each: longer ones are hardly names of things.
_BARE = re.compile(
    r"(?i)(?:(?:which|what) is (?:better|best)[,:]? |(?!wh|how |to |in |on |at |for |by |with |if |either ))"
    r"(?P<a>[^\s,;:!?\"]+(?: [^\s,;:!?\"]+)?) or (?P<b>[^\s,;:!?\"]+(?: [^\s,;:!?\"]+)?)"
)


def default_sides(question: str) -> list[Debater] | None:
    """Two debaters for a plain English question of yes or no, or of "A or B"; None for all others.

    A question of yes or no gives a claim and its negation where its grammar is certain, else the answers yes and no.
    None is the answer for questions that ask what, which, why or how, that are negated, for other languages, and where
    it is not certain what an "or" joins: `create_side_proposer` lets a model propose the sides of those.

    >>> [side.stance for side in default_sides("Should we adopt a four-day week?")]
    ['We should adopt a four-day week', 'We should not adopt a four-day week']
    >>> [side.stance for side in default_sides("Should our team adopt it?")]
    ['The answer to "Should our team adopt it?" is yes', 'The answer to "Should our team adopt it?" is no']
    >>> [side.stance for side in default_sides("Should we use Postgres or MySQL?")]
    ['We should use Postgres', 'We should use MySQL']
    >>> default_sides("Which database should we use?") is None
    True
    """
    asked = " ".join(question.split())
    clause = asked.removesuffix("?").rstrip()
    if clause == asked or not clause or len(clause) > _LONGEST or not clause.isprintable():
        return None
    clause = re.sub(" or not$", "", clause, flags=re.IGNORECASE)
    if (bare := _BARE.fullmatch(clause)) and not _ASKS_YES_OR_NO.match(clause):
        return _either("The better choice is", bare)
    asks = _ASKS_YES_OR_NO.fullmatch(clause)
    if asks is None or _SIGNS.search(clause) or _NEGATION.search(clause):
        return None
    if " or " in clause.lower():
        asked = clause[0].lower() + clause[1:]
        found = ((pattern.fullmatch(asked), lead) for pattern, lead in _ALTERNATIVES)
        return next((_either(match.expand(lead), match) for match, lead in found if match), None)
    plain = None if _RESHAPED.search(clause) else _SUBJECT.fullmatch(asks[2])
    if plain is None:
        return _answer_yes_and_no(asked)
    verb, subject, rest = asks[1].lower(), plain[1], plain[2]
    denied = {"can": "cannot", "must": "need not"}.get(verb, f"{verb} not")  # "must not" would forbid it
    claim = f"{subject} {'' if verb == 'do' else f'{verb} '}{rest}"
    if subject.lower() == "there" and verb in ("is", "are", "was", "were"):
        denied, rest = f"{verb} no", re.sub("^(an?|the|some) ", "", rest, flags=re.IGNORECASE)
    return [Debater("pro", _begin(claim)), Debater("con", _begin(f"{subject} {denied} {rest}"))]


def yes_no_sides(question: str) -> list[Debater]:
    """Two debaters for a question that is known to ask for yes or no, in any language.

    >>> [side.stance for side in yes_no_sides("Ist die Erde rund?")]
    ['The answer to "Ist die Erde rund?" is yes', 'The answer to "Ist die Erde rund?" is no']
    """
    sides = default_sides(question)
    return sides if sides and sides[0].name == "pro" else _answer_yes_and_no(" ".join(question.split()))


def _answer_yes_and_no(asked: str) -> list[Debater]:
    about = f'The answer to "{asked}"' if len(asked) <= _QUOTED else "The answer to the question"
    return [Debater("pro", f"{about} is yes"), Debater("con", f"{about} is no")]


def _either(lead: str, found: re.Match[str]) -> list[Debater] | None:
    first, second = found["a"], found["b"]
    if as_seen(first) == as_seen(second) or " or " in f" {first} {second} ".lower():
        return None
    if second[0].islower() and first[1:].islower():
        first = first[0].lower() + first[1:]
    claims = [first, second]
    if _PLACE.match(second):  # "work from home or in an office": the verb of the first is that of the second
        verb = re.match(rf"(.+?) {_PLACE.pattern}", first)
        if verb is None:
            return None
        claims[1] = f"{verb[1]} {second}"
    names = (first, second) if max(len(first), len(second)) <= _NAME else ("A", "B")
    return [Debater(name, _begin(f"{lead} {each}")) for name, each in zip(names, claims, strict=True)]


def _begin(claim: str) -> str:
    return claim[0].upper() + claim[1:]


# Sides that a model proposes

_TAKEN = ("judge", "moderator", "synthesizer", "a", "b", "c", "d")  # a role, or a side without a usable name
_SENTENCE = re.compile(r"(?<=\w\w[.!]) (?=[^\W\d_a-z])")  # one letter before the stop is an initial


@dataclass(frozen=True, kw_only=True)
class SideProposerTemplate(Template):
    """The texts of a proposer's prompt."""

    system: str = part(
        "You prepare a debate. For the question that you are given, name the positions that people would argue "
        "for: two if the question has two answers, and at most four. Each position is one sentence of at most "
        "fifteen words that answers the question, so that somebody can defend it. The positions exclude each "
        "other, and together they are the answers that matter. Be fair: give each the wording that its supporters "
        "would choose. Write in the language of the question. Give each position a name of one or two words."
    )
    """The same for all questions."""
    question: str = part("Question: {question}", uses("question"))


SIDE_PROPOSER = SideProposerTemplate()


def _check_position(text: str) -> str:
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
        AfterValidator(_check_position),
    ]


class ProposedSides(BaseModel):
    """The positions that a model proposes for a question."""

    # more than four sides make a debate of two rounds as long as a book, and each has less to answer
    sides: Annotated[list[ProposedSide], Field(min_length=2, max_length=4)]

    @field_validator("sides")
    @classmethod
    def _differ(cls, sides: list[ProposedSide]) -> list[ProposedSide]:
        if len({as_seen(side.position).rstrip(".!") for side in sides}) != len(sides):
            message = "the positions must differ from each other"
            raise ValueError(message)
        return sides


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

    def make_debaters(proposed: ProposedSides, *_: object) -> list[Debater]:
        debaters: list[Debater] = []
        for index, side in enumerate(proposed.sides):
            label = _cut_name(side.name)
            taken = {"", *_TAKEN, *(fold(each.name) for each in debaters)}
            debaters.append(Debater("ABCD"[index] if fold(label) in taken else label, side.position.rstrip(".")))
        return debaters

    proposer: Generator[list[Debater]] = generator(
        name=name,
        prompt=system,
        user=turn,
        output_schema=ProposedSides,
        transform=make_debaters,
        **generator_options(options, "intent/chat", NOT_KEPT, where=name),
    )
    proposer.role = "proposer"
    return proposer


async def propose_sides(question: str, *, model: Model | str | None = None) -> list[Debater]:
    """The sides of any question: `default_sides` where its words say them, else those that a model proposes.

    At most one call, which is not stored; with the errors of a run for a model that fails.
    """
    return default_sides(question) or (await create_side_proposer(model=model).run(question)).output


def _cut_name(name: str) -> str:
    r"""`name` without anything but words, cut between them.

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
