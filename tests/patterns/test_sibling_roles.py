"""Roles of the siblings take options of their own, and are bound by the pattern that they are put into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import (
    DebaterOptions,
    ModeratorOptions,
    Persona,
    RefereeOptions,
    SynthesizerOptions,
    deliberation,
    handoff,
    round_robin,
)
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.deliberation import create_moderator, create_persona_debater
from flowdebate.patterns.handoff import create_speaker
from flowdebate.patterns.round_robin import (
    create_referee,
    create_round_robin_debater,
    create_round_robin_synthesizer,
)
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.testing import ModelRequest

Way = tuple[Any, str, "Callable[..., dict[str, Any]]"]


def people(**first: Any) -> dict[str, Any]:
    """Two people, of whom the first has options or a block of its own."""
    return {"debaters": [Persona("ada", **first), Persona("ben")]}


WAYS: dict[str, Way] = {
    "deliberation moderator": (deliberation, "-moderator", lambda **own: {"moderator": ModeratorOptions(**own)}),
    "deliberation create_moderator": (deliberation, "-moderator", lambda **own: {"moderator": create_moderator(**own)}),
    "deliberation debater": (deliberation, "-ada", lambda **own: people(options=DebaterOptions(**own))),
    "deliberation create_debater": (deliberation, "-ada", lambda **own: people(block=create_persona_debater(**own))),
    "round_robin referee": (round_robin, "-referee", lambda **own: {"referee": RefereeOptions(**own)}),
    "round_robin create_referee": (round_robin, "-referee", lambda **own: {"referee": create_referee(**own)}),
    "round_robin synthesizer": (round_robin, "-synth", lambda **own: {"synthesizer": SynthesizerOptions(**own)}),
    "round_robin create_synthesizer": (
        round_robin,
        "-synth",
        lambda **own: {"synthesizer": create_round_robin_synthesizer(**own)},
    ),
    "round_robin debater": (round_robin, "-ada", lambda **own: people(options=DebaterOptions(**own))),
    "round_robin create_debater": (round_robin, "-ada", lambda **own: people(block=create_round_robin_debater(**own))),
    "handoff debater": (handoff, "-ada", lambda **own: people(options=DebaterOptions(**own))),
    "handoff create_speaker": (handoff, "-ada", lambda **own: people(block=create_speaker(**own))),
}


def asked(pattern: Any, role: str, options: dict[str, Any]) -> list[Any]:
    """What the block of `role` is asked."""
    requests: list[Any] = []

    def answer(request: ModelRequest) -> Any:
        if role in request.block:
            requests.append((request.block, request.messages, request.output_schema))
        if request.block.endswith("-referee"):
            return {"assessments": [], "notes": "Fair."}
        if request.block.endswith("-moderator"):
            return {"summary": "Done.", "status": "SETTLED", "decision": "Yes."}
        return "I agree." if pattern is not handoff else {"response": "I agree.", "next_agent_name": "ben"}

    length = {"max_turns": 1} if pattern is handoff else {"max_rounds": 1}
    referee = {"referee": True} if pattern is round_robin else {}
    made = pattern(**{"name": "all", **people(), **length, **referee, **options})
    made.run_sync("Why?", model=FunctionModel(answer))
    return requests


@pytest.mark.parametrize("way", WAYS)
def test_what_a_role_is_given_takes_the_place_of_the_pattern_s_and_all_else_stays(way: str) -> None:
    """Its instructions, not the pattern's; the prompt, the schema and the path are as they were."""
    pattern, role, given = WAYS[way]
    plain = asked(pattern, role, {"instructions": "Be kind."})
    own = asked(pattern, role, {"instructions": "Be kind.", **given(instructions="Be brief.")})
    assert plain
    assert str(own).replace("Be brief.", "Be kind.") == str(plain)
    assert "Be brief." in str(own)


@pytest.mark.parametrize("way", [way for way in WAYS if "create_" in way])
def test_an_unbound_block_by_itself_says_what_is_missing(way: str) -> None:
    """And who would fill it in."""
    _, _, given = WAYS[way]
    (value,) = given().values()
    block = value if not isinstance(value, list) else value[0].block
    with pytest.raises(ConfigurationError, match="filled in by the pattern"):
        block.run_sync("?")
