"""Roles in patterns other than the debate: each role has its own options and is bound by its pattern."""

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
    """Create two people, the first with options or a block."""
    return {"debaters": [Persona("ada", **first), Persona("ben")]}


WAYS: dict[str, Way] = {
    "deliberation moderator": (
        deliberation,
        "-moderator",
        lambda **options: {"moderator": ModeratorOptions(**options)},
    ),
    "deliberation create_moderator": (
        deliberation,
        "-moderator",
        lambda **options: {"moderator": create_moderator(**options)},
    ),
    "deliberation debater": (deliberation, "-ada", lambda **options: people(options=DebaterOptions(**options))),
    "deliberation create_debater": (
        deliberation,
        "-ada",
        lambda **options: people(block=create_persona_debater(**options)),
    ),
    "round_robin referee": (round_robin, "-referee", lambda **options: {"referee": RefereeOptions(**options)}),
    "round_robin create_referee": (round_robin, "-referee", lambda **options: {"referee": create_referee(**options)}),
    "round_robin synthesizer": (
        round_robin,
        "-synth",
        lambda **options: {"synthesizer": SynthesizerOptions(**options)},
    ),
    "round_robin create_synthesizer": (
        round_robin,
        "-synth",
        lambda **options: {"synthesizer": create_round_robin_synthesizer(**options)},
    ),
    "round_robin debater": (round_robin, "-ada", lambda **options: people(options=DebaterOptions(**options))),
    "round_robin create_debater": (
        round_robin,
        "-ada",
        lambda **options: people(block=create_round_robin_debater(**options)),
    ),
    "handoff debater": (handoff, "-ada", lambda **options: people(options=DebaterOptions(**options))),
    "handoff create_speaker": (handoff, "-ada", lambda **options: people(block=create_speaker(**options))),
}


def requests_of(pattern: Any, role: str, options: dict[str, Any]) -> list[Any]:
    """Return the requests made by the block in `role`."""
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
    block = pattern(**{"name": "all", **people(), **length, **referee, **options})
    block.run_sync("Why?", model=FunctionModel(answer))
    return requests


@pytest.mark.parametrize("way", WAYS)
def test_role_options_override_only_the_pattern_options(way: str) -> None:
    pattern, role, make_options = WAYS[way]
    plain = requests_of(pattern, role, {"instructions": "Be kind."})
    custom = requests_of(pattern, role, {"instructions": "Be kind.", **make_options(instructions="Be brief.")})
    assert plain
    assert str(custom).replace("Be brief.", "Be kind.") == str(plain)
    assert "Be brief." in str(custom)


@pytest.mark.parametrize("way", [way for way in WAYS if "create_" in way])
def test_running_an_unbound_block_raises_an_error(way: str) -> None:
    _, _, make_options = WAYS[way]
    (value,) = make_options().values()
    block = value if not isinstance(value, list) else value[0].block
    with pytest.raises(ConfigurationError, match="unless the pattern fills it in"):
        block.run_sync("?")
