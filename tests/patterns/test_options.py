"""Options common to all patterns: which blocks receive them, which models are used, and which items are visible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Capability, Debater, Persona, Session, Visibility, generator
from flowdebate.chassis.state import TurnFinished
from flowdebate.models import ModelSettings
from flowdebate.runs.events import BlockAnswered, ModelCalled
from flowdebate.testing import FunctionModel, ToolCall
from tests.patterns.debates import decision, events

from .every import REPORT, VERDICT, answer_of
from .talks import QUESTION, Talkers, talk
from .test_prompt_options import ROLES, give_answer, requests_of

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest


def search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


RESEARCH = Capability(name="research", tools=[search], instructions="Look it up.", context=["Today is Monday."])
CONTEXT = [{"role": "user", "content": "Rents rose."}, "By 9%."]


@pytest.mark.parametrize("pattern", ROLES)
def test_tools_and_settings_are_passed_to_every_default_block(pattern: str) -> None:
    make, roles = ROLES[pattern]
    requests = requests_of(make(tools=[search], settings=ModelSettings(temperature=0.3)))
    assert {block for block, _ in roles.values()} <= {request.block for request in requests}
    for request in requests:
        assert [tool.name for tool in request.tools] == ["search"]
        assert request.settings.temperature == 0.3


@pytest.mark.parametrize("as_function", [False, True], ids=["messages", "a function"])
@pytest.mark.parametrize("pattern", ROLES)
def test_capabilities_and_context_are_passed_to_every_default_block(pattern: str, as_function: bool) -> None:  # noqa: FBT001
    context: Any = (lambda _, __: CONTEXT) if as_function else CONTEXT
    for request in requests_of(ROLES[pattern][0](uses=[RESEARCH], context=context)):
        assert [tool.name for tool in request.tools] == ["search"]
        assert "Look it up." in request.messages[0]["content"]
        between = [message["content"] for message in request.messages[1:-1]]
        assert between == ["Rents rose.", "By 9%.", "Today is Monday."]


@pytest.mark.parametrize("pattern", ROLES)
def test_speakers_call_tools_before_answering(pattern: str) -> None:
    tool_results: list[Any] = []

    def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-ann") and request.messages[-1]["role"] != "tool":
            return ToolCall(id="1", name="search", arguments='{"query": "rents"}')
        tool_results.extend(message["content"] for message in request.messages if message["role"] == "tool")
        return give_answer(request)

    result = ROLES[pattern][0](tools=[search]).run_sync(QUESTION, model=FunctionModel(answer))
    assert set(tool_results) == {"found rents"}
    assert any(entry.speaker == "ann" and entry.text for entry in result.raw.entries)


ROLES_OF_ONES_OWN: dict[tuple[str, str], Any] = {
    **{(pattern, "block"): None for pattern in ROLES},
    ("debate", "judge"): VERDICT,
    ("debate", "moderator"): decision("ann", done=True),
    ("debate", "synthesizer"): "Yes.",
    ("round_robin", "referee"): {"assessments": [], "notes": "Fair."},
    ("round_robin", "synthesizer"): "Yes.",
    ("deliberation", "moderator"): REPORT,
    ("consensus", "judge"): {"reasoning": "Much is open.", "conclusive": False},
    ("council", "chair"): "Yes.",
    ("review", "merger"): {"pairs": []},
}
"""Roles that a custom block can fill, each with the block's output in that role."""


@pytest.mark.parametrize(("pattern", "role"), ROLES_OF_ONES_OWN)
def test_options_do_not_apply_to_custom_blocks(pattern: str, role: str) -> None:
    custom = generator(name="mine", prompt="Mine.")

    async def own(request: Any, ctx: Context) -> Any:
        await custom("Well?", ctx)
        return answer_of(request) if role == "block" else ROLES_OF_ONES_OWN[pattern, role]

    talkers = Talkers()
    own_role: dict[str, Any] = {role: own}
    options: dict[str, Any] = {"instructions": "Be polite.", "tools": [search], "context": CONTEXT}
    talk(pattern, **own_role, **options).run_sync(QUESTION, model=talkers.model())
    requests = [request for request in talkers.asked if request.block == "mine"]
    assert requests
    for request in requests:
        assert [message["content"] for message in request.messages] == ["Mine.", "Well?"]
        assert request.tools == ()


# Models


def named_model(name: str) -> FunctionModel:
    """Create a model for all blocks, identified in events by this name."""
    return FunctionModel(give_answer, name=name)


def people(pattern: str, **anns: Any) -> dict[str, Any]:
    """Create two speakers, the first with options."""
    if pattern == "debate":
        return {"debaters": [Debater("ann", "for", **anns), Debater("bea", "against")]}
    field = {"consensus": "agents", "council": "members", "review": "reviewers"}.get(pattern, "debaters")
    return {field: [Persona("ann", **anns), Persona("bea")]}


def models_of(pattern: Any, **run: Any) -> dict[str, set[str]]:
    """Return the models called by ann's blocks, by bea's blocks and by all other roles in a run."""
    models_by_speaker: dict[str, set[str]] = {}
    for event in events(pattern.run_sync(QUESTION, seed=1, **run), ModelCalled):
        speaker = event.block.rpartition("-")[2]
        models_by_speaker.setdefault(speaker if speaker in ("ann", "bea") else "others", set()).add(event.model)
    return models_by_speaker


@pytest.mark.parametrize("pattern", ROLES)
def test_speaker_models_take_precedence(pattern: str) -> None:
    """A speaker's model takes precedence over the run's model, and the run's model over the pattern's.

    An override replaces all of them.
    """
    make, roles = ROLES[pattern]
    pattern_of_ann = make(**people(pattern, model=named_model("anns")), model=named_model("ours"))
    other_roles = {"others": {"ours"}} if roles else {}
    assert models_of(pattern_of_ann) == {"ann": {"anns"}, "bea": {"ours"}, **other_roles}
    other_roles = {"others": {"runs"}} if roles else {}
    assert models_of(pattern_of_ann, model=named_model("runs")) == {"ann": {"anns"}, "bea": {"runs"}, **other_roles}
    assert set().union(*models_of(pattern_of_ann, override_model=named_model("runs")).values()) == {"runs"}


@pytest.mark.parametrize("pattern", ROLES)
def test_intents_are_resolved_first_by_the_run_and_then_by_the_pattern(pattern: str) -> None:
    make, roles = ROLES[pattern]
    other_roles = [{"others": {name}} if roles else {} for name in ("thinker", "ours")]
    intents = {"chat": named_model("talker"), "synthesize": named_model("thinker")}
    assert models_of(make(), model=intents) == {"ann": {"talker"}, "bea": {"talker"}, **other_roles[0]}
    assert models_of(make(model=intents)) == {"ann": {"talker"}, "bea": {"talker"}, **other_roles[0]}
    pattern_of_ann = make(**people(pattern, model=named_model("anns")), model=named_model("ours"))
    assert models_of(pattern_of_ann, model={"chat": named_model("runs")}) == {
        "ann": {"anns"},
        "bea": {"runs"},
        **other_roles[1],
    }


# Items and the audit trail

VISIBILITIES: dict[str, dict[str, tuple[str, bool]]] = {
    "debate": {"debater": ("-debater-", False), "judge": ("-judge", True), "synthesizer": ("-synthesizer", True)},
    "round_robin": {"debater": ("-debater-", False), "synthesizer": ("-synthesizer", True)},
    "deliberation": {"debater": ("-debater-", False), "moderator": ("-moderator", True)},
    "handoff": {"debater": ("-debater-", False)},
    "consensus": {"agent": ("-propose-", False)},
    "council": {"member": ("-member-", False), "chair": ("-chair", True)},
    "review": {"reviewer": ("-reviewer-", False)},
}
"""Roles whose visibility can be set, keyed by pattern.

Each role is listed with part of its blocks' names, and with whether the history stores its items by default.
"""


def items_of(pattern: str, **options: Any) -> tuple[set[str], set[str], int]:
    """Return the blocks with visible items, the blocks with stored items, and the number of turns."""
    session = Session()
    result = ROLES[pattern][0](**options).run_sync(QUESTION, model=FunctionModel(give_answer), session=session, seed=1)
    blocks = {event.block for event in events(result, BlockAnswered)}
    return blocks, {item["name"] for item in session.history}, len(events(result, TurnFinished))


@pytest.mark.parametrize(
    ("pattern", "role"), [(pattern, role) for pattern, roles in VISIBILITIES.items() for role in roles]
)
def test_visibility_of_a_role_applies_to_its_items(pattern: str, role: str) -> None:
    part, by_default = VISIBILITIES[pattern][role]
    visible, stored, turns = items_of(pattern)
    role_blocks = {block for block in visible if part in block}
    assert role_blocks
    assert {block for block in stored if part in block} == (role_blocks if by_default else set())
    still, flipped, as_many = items_of(pattern, **{f"{role}_visibility": {"client": False, "history": not by_default}})
    assert {block for block in still if part in block} == set()
    assert {block for block in flipped if part in block} == (set() if by_default else role_blocks)
    assert turns == as_many > 0
    plain = Visibility(client=True, history=by_default)
    assert items_of(pattern, **{f"{role}_visibility": plain}) == (visible, stored, turns)


@pytest.mark.parametrize("pattern", ROLES)
def test_collection_id_identifies_the_audit_trail(pattern: str) -> None:
    make, _ = ROLES[pattern]
    for options, expected in (({}, "x"), ({"collection_id": "trail-7"}, "trail-7")):
        assert make(**options).run_sync(QUESTION, model=FunctionModel(give_answer)).tasks.collection_id == expected
