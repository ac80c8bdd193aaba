"""Debate formats. A single declaration defines a format's phases, speakers and type of decision.

>>> from flowdebate import Format, Phase
>>> mock_trial = Format(
...     name="mock_trial",
...     purpose="Two sides try a case, with a cross-examination.",
...     phases=[Phase("opening"), Phase("cross-examination", asks="pairs"), Phase("closing")],
... )
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from flowdebate._text import join_choices
from flowdebate.chassis.roster import Debater, MemberT, Persona
from flowdebate.errors import ConfigurationError

from .phases import Phase, PhaseLike


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Format for a debate, passed as `debate(format=Format(…))` or by name after registration with `add_format`."""

    name: str
    purpose: str
    """One-line description of the format's purpose."""
    pattern: Literal["debate", "consensus"] = "debate"
    phases: Sequence[PhaseLike] = ()
    """Phases of the debate."""
    sides: int | None = None
    """Required number of debaters, or None if any number is allowed."""
    members: Sequence[Debater | Persona] = ()
    """Default speakers offered by front ends."""
    roles: Sequence[str] = ()
    """Roles assigned in roster order to members that have no role."""
    audience: Sequence[str] = ()
    """Listeners whose votes before and after the debate decide its outcome."""
    anonymous: str = ""
    """Word that, followed by a number, replaces each member's name; empty to keep the names."""
    instructions: str | None = None
    """Instructions for all default blocks; instructions set by the application take precedence."""


oxford: Format = Format(
    name="oxford",
    purpose="For persuading others: cross-examination, rebuttal and a short closing.",
    sides=2,
    phases=[
        Phase("opening"),
        Phase("cross-examination", asks="pairs"),
        Phase("rebuttal"),
        Phase("closing", length="short"),
    ],
)
lincoln_douglas: Format = Format(
    name="lincoln_douglas",
    purpose="For a question of values, one against one.",
    sides=2,
    phases=[
        Phase(
            "affirmative case",
            speakers=[1],
            aim="Name the value that should decide the question, a criterion to measure it by, and two reasons for "
            "your side.",
        ),
        Phase("cross-examination by the negative", asks="pairs", speakers=[2]),
        Phase(
            "negative case",
            speakers=[2],
            aim="Name your own value and criterion, or win on those of the other side, and answer both of its reasons.",
        ),
        Phase("cross-examination by the affirmative", asks="pairs", speakers=[1]),
        Phase("affirmative rebuttal", speakers=[1]),
        Phase(
            "negative rebuttal",
            speakers=[2],
            aim="Answer the last speech, and explain why your value decides the question. Do not raise new points.",
        ),
        Phase(
            "affirmative close",
            speakers=[1],
            length="short",
            aim="Explain why your value decides the question after everything that has been said. Do not raise new "
            "points.",
        ),
    ],
)
parliamentary: Format = Format(
    name="parliamentary",
    purpose="For a policy: the government must show that it works, the opposition that it does harm.",
    sides=2,
    roles=("the government, which moves that this be done", "the opposition, which votes against it"),
    phases=[
        Phase(
            "first speeches",
            aim="Government: define the motion, and say what would be done and what it would achieve. "
            "Opposition: accept or correct the definition, and say what harm the motion would do.",
        ),
        Phase("points of information", asks="pairs", speakers=[2, 1]),
        Phase("second speeches"),
        Phase(
            "reply speeches",
            speakers=[2, 1],
            length="short",
            aim="Sum up the debate for the people who vote: what the main clashes were, and why your side won them. Do "
            "not raise new points.",
        ),
    ],
)
socratic: Format = Format(
    name="socratic",
    purpose="Tests one claim with questions until its premises are on the table.",
    sides=2,
    roles=("the holder of the claim, who answers plainly", "a Socratic questioner, who asserts nothing and only asks"),
    phases=[
        Phase("claim", speakers=[1], length="short", aim="State your claim, and the one reason that supports it best."),
        Phase(
            "questions",
            asks="pairs",
            rounds=4,
            speakers=[2],
            aim="Go one step further with each question: what a word means, what the claim presupposes, a case in "
            "which it would not hold, or what follows from the last answer.",
        ),
        Phase(
            "what stands",
            aim="Say which premises have come to light, which of them hold, and what is left of the claim.",
        ),
    ],
)
devils_advocate: Format = Format(
    name="devils_advocate",
    purpose="One speaker argues as well as possible against a plan that everyone likes.",
    sides=2,
    roles=("the proposer", "the devil's advocate, whose job is to make the best possible case against the plan"),
    phases=[
        Phase("proposal", speakers=[1]),
        Phase(
            "objections",
            speakers=[2],
            aim="Name the three strongest objections, such as a false assumption, a cost that nobody counts, or a "
            "better use of the same resources.",
        ),
        Phase("cross-examination", asks="pairs", speakers=[2]),
        Phase("answer", speakers=[1], aim="Answer each objection: refute it, or show how the plan deals with it."),
        Phase("what remains", speakers=[2], length="short", aim="Say which objections remain, the most serious first."),
    ],
)
premortem: Format = Format(
    name="premortem",
    purpose="A year later the plan has failed: why, and what would have prevented it?",
    instructions=(
        "This is a premortem: a year has passed, and what the question asks about has failed. The winner is the most "
        "likely cause, not the best speech."
    ),
    members=(
        Debater("People", "It failed because of people: skills, habits, incentives, who had to agree"),
        Debater("Facts", "It failed because something that was taken for granted was not true"),
        Debater("World", "It failed because of what came from outside: rivals, rules, prices, time"),
    ),
    phases=[
        Phase(
            "how it failed",
            turn_order="simultaneous",
            aim="Describe, from the point of view of your position, how it failed: concrete events, in order.",
        ),
        Phase("how likely", asks="pairs"),
        Phase(
            "prevention",
            length="short",
            aim="Name the earliest sign of this failure, and the one measure that would prevent most of it at the "
            "least cost.",
        ),
    ],
)
delphi: Format = Format(
    name="delphi",
    purpose="Anonymous experts estimate, give their reasons, and revise the numbers in rounds.",
    pattern="consensus",
    anonymous="Expert",
    members=tuple(Persona(f"Expert {number}") for number in range(1, 6)),
    instructions=(
        "This is a Delphi study. A proposal is an estimate: a number or a date, the range in which it lies with "
        "90 percent certainty, and the two reasons that matter most for it. If your estimate is far from the others, "
        "say what the others may not know. Revise an estimate for a reason, never because others disagree."
    ),
)

FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in (oxford, lincoln_douglas, parliamentary, socratic, devils_advocate, premortem, delphi)
}
"""Registered formats, keyed by name."""


def add_format(format: Format) -> Format:  # noqa: A002 - what it is
    """Register a format under its name, so that front ends can offer it as well.

    Any existing format of the same name is replaced.
    """
    if not format.name.isidentifier():  # names must be single words, for use on the command line
        raise ConfigurationError("add_format()", "name", format.name, "must consist of letters, digits and underscores")
    FORMATS[format.name] = format
    return format


def find_format(value: object, *, location: str, pattern: str, field: str = "format") -> Format | None:
    """Return the format named `value`; a format or None is returned unchanged.

    Raises ConfigurationError for any other value.
    """
    if value is None:
        return None
    format_ = FORMATS.get(value.replace("-", "_")) if isinstance(value, str) else value
    if not isinstance(format_, Format) or format_.pattern != pattern:
        raise ConfigurationError(
            location,
            field,
            value,
            f"must be {join_choices(names_of(pattern))}, or a Format for {pattern}",
            choices=names_of(pattern),
        )
    return format_


def names_of(pattern: str) -> list[str]:
    """Return the names of a pattern's formats."""
    return [debate_format.name for debate_format in FORMATS.values() if debate_format.pattern == pattern]


def purposes(pattern: str) -> str:
    """List a pattern's formats and their purposes, one per line."""
    formats = (entry for entry in FORMATS.values() if entry.pattern == pattern)
    return "\n".join(f"{entry.name}: {entry.purpose}" for entry in formats)


def with_roles(members: Sequence[MemberT], format_: Format, *, location: str, field: str) -> tuple[MemberT, ...]:
    """Assign the format's roles and names to `members`; a role that a member already has is kept.

    Raises ConfigurationError if there are too many or too few members.
    """
    if format_.sides is not None and len(members) != format_.sides:
        problem = f"must have {format_.sides} entries in the format {format_.name}"
        raise ConfigurationError(location, field, len(members), problem)
    roles = [*format_.roles, *[None] * len(members)]
    renamed = [replace(member, role=member.role or role) for member, role in zip(members, roles, strict=False)]
    if format_.anonymous:
        renamed = [
            replace(member, name=f"{format_.anonymous} {number}") for number, member in enumerate(renamed, start=1)
        ]
    return tuple(renamed)


def format_of(options: Any, pattern: str) -> Format | None:  # noqa: ANN401 - the options of a plan
    """Return the format named in a plan.

    If the name is unknown, raises a ConfigurationError stating the option's location in the plan.
    """
    location, field = options.place("format")
    return find_format(options.format, location=location, field=field, pattern=pattern)
