"""Profile, length, template and instructions: which texts each role of each pattern is asked with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import (
    Debater,
    DebaterOptions,
    JudgeOptions,
    ModeratorOptions,
    RefereeOptions,
    consensus,
    council,
    debate,
    deliberation,
    handoff,
    round_robin,
)
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.council.chair import ChairTemplate
from flowdebate.patterns.roles import RoleOptions

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("options", [RoleOptions, DebaterOptions, ModeratorOptions, RefereeOptions, JudgeOptions])
def test_an_unknown_profile_of_a_role_is_refused(options: Any) -> None:
    """When the options are made."""
    with pytest.raises(ConfigurationError, match=rf"{options.__name__}.*`profile` must be 'concise', 'full' or None"):
        options(profile="small")


LENGTHS = ["tiny", 9, 2_001, True, 20.5, [120]]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_length_is_a_name_or_a_number_of_words(length: Any) -> None:
    """From 10 to 2,000; a bool is no number here."""
    with pytest.raises(ConfigurationError, match="`length` must be 'short', 'medium', 'long', a number of words"):
        DebaterOptions(length=length)


def _own(_: Any) -> str:
    return "Yes."


PEOPLE = [{"name": "ann", "block": _own}, {"name": "bea", "block": _own}]
SIDES = [Debater("ann", "for", block=_own), Debater("bea", "against", block=_own)]
FACTORIES: dict[str, Callable[..., Any]] = {
    "debate": partial(debate, name="x", debaters=SIDES),
    "deliberation": partial(deliberation, name="x", debaters=PEOPLE),
    "handoff": partial(handoff, name="x", debaters=PEOPLE),
    "consensus": partial(consensus, name="x", agents=PEOPLE),
    "round_robin": partial(round_robin, name="x", debaters=PEOPLE),
    "council": partial(council, name="x", members=PEOPLE),
}


@pytest.mark.parametrize("pattern", FACTORIES)
@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("profile", "small", "'concise', 'full' or None"),
        ("length", 5, "'short', 'medium', 'long', a number of words from 10 to 2,000, or None"),
        ("template", ChairTemplate(), "a .*Template, or None"),
    ],
)
def test_every_pattern_refuses_such_options_by_its_name(pattern: str, field: str, value: Any, allowed: str) -> None:
    """Even where all its blocks are the application's own."""
    with pytest.raises(ConfigurationError, match=rf"{pattern} 'x'.*`{field}` must be {allowed}"):
        FACTORIES[pattern](**{field: value})
