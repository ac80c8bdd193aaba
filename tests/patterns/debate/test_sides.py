"""Sides for questions that name none: derived from the wording where that is safe, or proposed by a model."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowdebate import Debater, create_side_proposer, debate, default_sides, propose_sides
from flowdebate.chassis.roster import check_roster
from flowdebate.errors import SchemaViolation
from flowdebate.patterns.debate.sides import yes_no_sides
from flowdebate.prompts import as_seen
from flowdebate.testing import ScriptedModel

CLAIMS = [
    tuple(case.split("\n"))
    for case in """\
Should we ship on Friday?
We should ship on Friday
We should not ship on Friday

Should there be a wealth tax?
There should be a wealth tax
There should not be a wealth tax

Should we ship or not?
We should ship
We should not ship

Should I quit my job?
I should quit my job
I should not quit my job

should we use Node.js ?
We should use Node.js
We should not use Node.js

Would it be fair to tax wealth?
It would be fair to tax wealth
It would not be fair to tax wealth

Could they have survived?
They could have survived
They could not have survived
""".strip().split("\n\n")
]
"""Questions about what "we" (or another pronoun) should do, each with the claim and its negation."""

ANSWERS = [
    "Should private cars be banned from city centers?",
    "Should social media companies be liable for what users post?",
    "Should the state tax have limits?",
    "Should teachers strike?",
    "Should the king abdicate?",
    "Must rents be capped?",
    "Can machines think?",
    "Could Rome have survived?",
    "Would a wealth tax be fair?",
    "Is AI dangerous?",
    "Is there a God?",
    "Are there aliens?",
    "Is it right to lie to a dying friend?",
    "Do we need more roads?",
    "Does coffee help?",
    "Does God exist?",
    "Does it have a future?",
    "Has democracy failed?",
    "Have we lost the war on drugs?",
    "Should our team adopt a four-day week?",
    "Should the company move its headquarters to Berlin?",
    "Should the city council of Berlin in 2027 build a new tram line?",
    "Should Johnson and Johnson sell its baby powder?",
    "Should France and Germany merge their armies?",
    "Should parental leave become longer?",
    "Should companies using AI pay more taxes?",
    "Should the government ban the sale of single-use plastics?",
    "Will AI replace programmers?",
    "May employers read private messages?",
    "Is nuclear power safe?",
    "Is a hot dog a sandwich?",
    "Is democracy the best form of government?",
    "Is the mayor of the city corrupt?",
    "Are electric cars better than petrol cars?",
    "Is Python faster than Java?",
    "Is climate change caused by humans?",
    "Is AI going to take our jobs?",
    "Is working from home good for teams?",
    "Is the death penalty just?",
    "Was the moon landing fake?",
    "Do video games cause the violence we see?",
    "Do the rich pay enough taxes?",
    "Does remote work reduce productivity?",
    "Did the moon landing happen?",
    "Has the United States lost its way?",
    "Should the government ban single-use plastics?",
    "Can you trust it?",
    "Should we ever lie?",
    "Should people who want to be alone be left alone?",
    "Should people in cities walk?",
    "Should schools help pupils become citizens?",
    "Should students work and earn money?",
    "Should teachers strike and students get refunds?",
    "Is giving children a phone harmful?",
    "Is the book you read good?",
    "Is what we do the best?",
    "Do you think that it is right?",
    "Does anybody care?",
]
"""Other yes-no questions, in which simple rules cannot identify the subject."""

ALTERNATIVES = [
    tuple(case.split("\n"))
    for case in """\
Should we use Postgres or MySQL?
We should use Postgres
We should use MySQL

Should we rent or buy?
We should rent
We should buy

Tea or coffee?
The better choice is tea
The better choice is coffee

Vim or Emacs?
The better choice is Vim
The better choice is Emacs

Which is better, cats or dogs?
The better choice is cats
The better choice is dogs
""".strip().split("\n\n")
]

UNCERTAIN = [
    "Is it better to work from home or in an office?",
    "Is it better to rent or to buy?",
    "Is it better to rent or buy a house?",
    "Is light a wave or a particle?",
    "Are humans good or evil?",
    "Which database should we use?",
    "What should we do about rents?",
    "How should we make rents affordable?",
    "Why did Rome fall?",
    "Who should lead the team?",
    "When should we ship?",
    "Where should we open the next office?",
    "Whose fault is it?",
    "To what extent is the market free?",
    "Cap rents?",
    "Rents should be capped.",
    "Should we ship",
    "Should we ship? Why?",
    "We disagree. Should we ship?",
    "Should we, as a company, ship?",
    "Should we not ship?",
    "Shouldn't we ship?",
    "Should we go to Rome or Paris?",
    "Should we use Postgres, MySQL or SQLite?",
    "Should we raise taxes or cut spending?",
    "Should the city build a tram or a metro line?",
    "Can cats or dogs talk?",
    "Sollen wir liefern?",
    "Ist KI gefährlich?",
    "¿Deberíamos usar Postgres?",
    "我们应该做吗?",
    "Should " + "very " * 60 + "old cars be banned?",
]
"""Questions whose sides must be proposed by a model."""


@pytest.mark.parametrize(("question", "yes", "no"), CLAIMS)
def test_plain_questions_become_a_claim_and_its_negation(question: str, yes: str, no: str) -> None:
    """The sides reuse the wording of the question and must be correct English."""
    assert default_sides(question) == [Debater("pro", yes), Debater("con", no)]
    assert default_sides(f"\n {question.removesuffix('?')}\t ? ") == default_sides(question)


@pytest.mark.parametrize("question", ANSWERS)
def test_other_yes_no_questions_have_fixed_sides(question: str) -> None:
    """The fixed sides fit every yes-or-no question and do not require a model call."""
    answers = [("pro", f'The answer to "{question}" is yes'), ("con", f'The answer to "{question}" is no')]
    assert [(side.name, side.stance) for side in default_sides(question) or ()] == answers


@pytest.mark.parametrize(("question", "first", "second"), ALTERNATIVES)
def test_alternatives_become_the_sides(question: str, first: str, second: str) -> None:
    """The stance of each side is one of the alternatives, so no side is called "yes"."""
    assert [side.stance for side in default_sides(question) or ()] == [first, second]


@pytest.mark.parametrize("question", UNCERTAIN)
def test_unclear_questions_have_no_sides(question: str) -> None:
    """Calling a model is better than producing ungrammatical sides or offering "yes" as the answer to a wh-question."""
    assert default_sides(question) is None


HEADS = st.sampled_from(
    [question.rsplit(" ", 2)[0] for question, *_ in [*CLAIMS, *ALTERNATIVES]]
    + ["Is", "Does", "Should we", "Which", "Why"]
)
WORDS = st.lists(
    st.sampled_from(
        [
            "the",
            "a",
            "our",
            "cars",
            "and",
            "or",
            "not",
            "to",
            "be",
            "of",
            "good",
            "build",
            "Berlin",
            "we",
            "who",
            "than",
            "-",
        ]
    )
    | st.text(max_size=6),
    max_size=8,
).map(" ".join)


@given(HEADS, WORDS, st.sampled_from(["?", " ?", "", "??"]))
@example("Is there", "a", "?")
@example("Are there", "the", "?")
@example("A", "or a", "?")
def test_sides_are_a_valid_roster_of_distinct_positions(head: str, words: str, end: str) -> None:
    sides = default_sides(f"{head} {words}{end}")
    if sides is None:
        return
    assert len(check_roster(sides, location="test")) == 2
    one, other = (side.stance for side in sides)
    assert as_seen(one) != as_seen(other)
    for stance in (one, other):
        assert stance == " ".join(stance.split())
        assert stance.isprintable()
        assert not stance.endswith("?")
        assert stance[0] == stance[0].upper()


@given(st.sampled_from(["which", "what", "who", "whom", "whose", "why", "how", "when", "where"]), st.text(max_size=60))
def test_wh_questions_never_get_yes_and_no_sides(word: str, rest: str) -> None:
    """No rule may turn a wh-question into a claim and its negation."""
    assert all(side.name != "pro" for side in default_sides(f"{word} {rest}?") or ())


@given(st.text())
def test_yes_and_no_sides_exist_for_every_question(question: str) -> None:
    """Some data sets consist of questions to which the correct answer is always yes or no."""
    yes, no = yes_no_sides(question + "?")
    assert (yes.name, no.name) == ("pro", "con")
    assert as_seen(yes.stance) != as_seen(no.stance)
    assert len(yes.stance) < 350


# Sides proposed by a model


def reply_with_sides(
    *positions: object, names: tuple[str, ...] = ("Postgres", "MySQL", "SQLite", "Redis", "five")
) -> dict[str, object]:
    """Create a model's answer that proposes these positions."""
    return {"sides": [{"name": name, "position": position} for name, position in zip(names, positions, strict=False)]}


def propose(*answers: object, question: str = "Which database should we use?") -> list[Debater]:
    """Return the sides proposed by a model that gives these answers."""
    model = ScriptedModel(*answers)  # type: ignore[arg-type]  # answers of any kind
    return asyncio.run(propose_sides(question, model=model))


def test_sides_for_other_questions_are_proposed_by_a_model() -> None:
    model = ScriptedModel(reply_with_sides("We should use Postgres.", "We should use MySQL."))
    sides = create_side_proposer().run_sync("Which database should we use?", model=model).output
    assert sides == [Debater("Postgres", "We should use Postgres"), Debater("MySQL", "We should use MySQL")]
    assert "Which database should we use?" in str(model.calls[0].messages[-1])
    assert debate(name="db", debaters=sides).name == "db"


def test_positions_are_cut_to_their_first_sentence() -> None:
    """Small models tend to add an explanation.

    A period in an abbreviation or version number does not end a sentence.
    """
    sides = propose(
        reply_with_sides("Use Postgres 1.2 by E. Codd. It is known for its speed and", "Use MySQL! Why not")
    )
    assert [side.stance for side in sides] == ["Use Postgres 1.2 by E. Codd", "Use MySQL!"]


def test_plain_questions_need_no_call() -> None:
    assert [side.name for side in propose(question="Should we cap rents?")] == ["pro", "con"]


@pytest.mark.parametrize(
    "answer",
    [
        reply_with_sides("only one"),
        reply_with_sides("1", "2", "3", "4", "5"),
        reply_with_sides("Postgres", " "),
        reply_with_sides("Postgres", "postgres."),
        reply_with_sides("Postgres", "Post\u200bgres"),
        reply_with_sides("Postgres", "My\x1b[2JSQL"),
        reply_with_sides("Postgres", "x" * 201),
        reply_with_sides("Postgres", None),
        {"sides": "Postgres"},
        {},
    ],
    ids=["one", "five", "blank", "alike", "unseen", "control", "long", "null", "text", "empty"],
)
def test_invalid_rosters_raise_a_schema_violation(answer: dict[str, object]) -> None:
    """No part of an invalid roster may reach a page or a debate."""
    with pytest.raises(SchemaViolation):
        propose(answer)


@given(st.lists(st.text(max_size=60), min_size=2, max_size=4), st.data())
def test_invented_names_always_form_a_valid_roster(names: list[str], data: st.DataObject) -> None:
    """Long names are cut at a word boundary, and a letter replaces an empty or duplicate name."""
    names = [
        data.draw(st.sampled_from([name, "Judge", "MODERATOR", "b", "same", "\x1b[2J", "a\nb: c"])) for name in names
    ]
    sides = propose(reply_with_sides(*(f"Position {index}" for index in range(len(names))), names=tuple(names)))
    assert len(check_roster(sides, location="test")) == len(names)
    for side in sides:
        assert re.fullmatch(r"[\w.+#&'-]+( [\w.+#&'-]+)*", side.name)
        assert len(side.name) <= 24
        assert side.name.lower() not in ("judge", "moderator", "synthesizer")
