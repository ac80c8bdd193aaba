"""Options of every pattern: the blocks that they reach, the model that is asked, and the items that are shown."""

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
from .test_prompt_options import ROLES, requests_of, said

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest


def search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


RESEARCH = Capability(name="research", tools=[search], instructions="Look it up.", context=["Today is Monday."])
CONTEXT = [{"role": "user", "content": "Rents rose."}, "By 9 %."]


@pytest.mark.parametrize("pattern", ROLES)
def test_tools_and_settings_reach_every_default_block(pattern: str) -> None:
    """All models may call the tools, at the temperature that is asked for."""
    make, roles = ROLES[pattern]
    requests = requests_of(make(tools=[search], settings=ModelSettings(temperature=0.3)))
    assert {block for block, _ in roles.values()} <= {request.block for request in requests}
    for request in requests:
        assert [tool.name for tool in request.tools] == ["search"]
        assert request.settings.temperature == 0.3


@pytest.mark.parametrize("as_function", [False, True], ids=["messages", "a function"])
@pytest.mark.parametrize("pattern", ROLES)
def test_capabilities_and_context_reach_every_default_block(pattern: str, as_function: bool) -> None:  # noqa: FBT001
    """Tools, instructions and messages of a capability; context stands between the system message and the turn's."""
    context: Any = (lambda _, __: CONTEXT) if as_function else CONTEXT
    for request in requests_of(ROLES[pattern][0](uses=[RESEARCH], context=context)):
        assert [tool.name for tool in request.tools] == ["search"]
        assert "Look it up." in request.messages[0]["content"]
        between = [message["content"] for message in request.messages[1:-1]]
        assert between == ["Rents rose.", "By 9 %.", "Today is Monday."]


@pytest.mark.parametrize("pattern", ROLES)
def test_a_tool_is_answered_before_the_speaker_speaks(pattern: str) -> None:
    """The function is called with the model's arguments, and its result goes back to the model."""
    found: list[Any] = []

    def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-ann") and request.messages[-1]["role"] != "tool":
            return ToolCall(id="1", name="search", arguments='{"query": "rents"}')
        found.extend(message["content"] for message in request.messages if message["role"] == "tool")
        return said(request)

    result = ROLES[pattern][0](tools=[search]).run_sync(QUESTION, model=FunctionModel(answer))
    assert set(found) == {"found rents"}
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
"""The roles that a block of the application's own can take, a speaker's or another one, with what it says there."""


@pytest.mark.parametrize(("pattern", "role"), ROLES_OF_ONES_OWN)
def test_options_do_not_reach_blocks_of_ones_own(pattern: str, role: str) -> None:
    """The prompt, tools and messages of a block of the application's own stay its own."""
    mine = generator(name="mine", prompt="Mine.")

    async def own(asked: Any, ctx: Context) -> Any:
        await mine("Well?", ctx)
        return answer_of(asked) if role == "block" else ROLES_OF_ONES_OWN[pattern, role]

    talkers = Talkers()
    own_role: dict[str, Any] = {role: own}
    options: dict[str, Any] = {"instructions": "Be polite.", "tools": [search], "context": CONTEXT}
    talk(pattern, **own_role, **options).run_sync(QUESTION, model=talkers.model())
    asked = [request for request in talkers.asked if request.block == "mine"]
    assert asked
    for request in asked:
        assert [message["content"] for message in request.messages] == ["Mine.", "Well?"]
        assert request.tools == ()


# Models


def named(name: str) -> FunctionModel:
    """A model for all blocks, which events tell apart by its name."""
    return FunctionModel(said, name=name)


def people(pattern: str, **anns: Any) -> dict[str, Any]:
    """Two speakers, of whom the first has options of its own."""
    if pattern == "debate":
        return {"debaters": [Debater("ann", "for", **anns), Debater("bea", "against")]}
    field = {"consensus": "agents", "council": "members", "review": "reviewers"}.get(pattern, "debaters")
    return {field: [Persona("ann", **anns), Persona("bea")]}


def models_of(pattern: Any, **run: Any) -> dict[str, set[str]]:
    """The models of a run's calls: those of ann's blocks, of bea's, and of the other roles'."""
    asked: dict[str, set[str]] = {}
    for event in events(pattern.run_sync(QUESTION, seed=1, **run), ModelCalled):
        speaker = event.block.rpartition("-")[2]
        asked.setdefault(speaker if speaker in ("ann", "bea") else "others", set()).add(event.model)
    return asked


@pytest.mark.parametrize("pattern", ROLES)
def test_the_model_of_a_speaker_comes_before_that_of_the_pattern(pattern: str) -> None:
    """For that speaker alone, and before that of the run, which comes before the pattern's; an override is for all."""
    make, roles = ROLES[pattern]
    own = make(**people(pattern, model=named("anns")), model=named("ours"))
    others = {"others": {"ours"}} if roles else {}
    assert models_of(own) == {"ann": {"anns"}, "bea": {"ours"}, **others}
    others = {"others": {"runs"}} if roles else {}
    assert models_of(own, model=named("runs")) == {"ann": {"anns"}, "bea": {"runs"}, **others}
    assert set().union(*models_of(own, override_model=named("runs")).values()) == {"runs"}


@pytest.mark.parametrize("pattern", ROLES)
def test_intents_are_resolved_by_the_run_then_by_the_pattern(pattern: str) -> None:
    """Speakers ask "intent/chat", all other roles "intent/synthesize"; a speaker's own model comes before both."""
    make, roles = ROLES[pattern]
    others = [{"others": {name}} if roles else {} for name in ("thinker", "ours")]
    both = {"chat": named("talker"), "synthesize": named("thinker")}
    assert models_of(make(), model=both) == {"ann": {"talker"}, "bea": {"talker"}, **others[0]}
    assert models_of(make(model=both)) == {"ann": {"talker"}, "bea": {"talker"}, **others[0]}
    own = make(**people(pattern, model=named("anns")), model=named("ours"))
    assert models_of(own, model={"chat": named("runs")}) == {"ann": {"anns"}, "bea": {"runs"}, **others[1]}


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
"""The roles of each pattern that have a visibility: their blocks, and whether the history keeps them by default."""


def items_of(pattern: str, **options: Any) -> tuple[set[str], set[str], int]:
    """The blocks whose items the client sees, those whose items the session's history has, and the number of turns."""
    session = Session()
    result = ROLES[pattern][0](**options).run_sync(QUESTION, model=FunctionModel(said), session=session, seed=1)
    shown = {event.block for event in events(result, BlockAnswered)}
    return shown, {item["name"] for item in session.history}, len(events(result, TurnFinished))


@pytest.mark.parametrize(
    ("pattern", "role"), [(pattern, role) for pattern, roles in VISIBILITIES.items() for role in roles]
)
def test_the_visibility_of_a_role_says_whether_its_items_are_shown_and_kept(pattern: str, role: str) -> None:
    """By default all are shown, and the history has none of speakers; the events of turns are always there."""
    part, by_default = VISIBILITIES[pattern][role]
    shown, kept, turns = items_of(pattern)
    ours = {block for block in shown if part in block}
    assert ours
    assert {block for block in kept if part in block} == (ours if by_default else set())
    still, flipped, as_many = items_of(pattern, **{f"{role}_visibility": {"client": False, "history": not by_default}})
    assert {block for block in still if part in block} == set()
    assert {block for block in flipped if part in block} == (set() if by_default else ours)
    assert turns == as_many > 0
    plain = Visibility(client=True, history=by_default)
    assert items_of(pattern, **{f"{role}_visibility": plain}) == (shown, kept, turns)


@pytest.mark.parametrize("pattern", ROLES)
def test_the_audit_trail_has_the_name_of_the_pattern_or_the_id_that_it_is_given(pattern: str) -> None:
    """`collection_id` replaces the name."""
    make, _ = ROLES[pattern]
    for options, wanted in (({}, "x"), ({"collection_id": "trail-7"}, "trail-7")):
        assert make(**options).run_sync(QUESTION, model=FunctionModel(said)).tasks.collection_id == wanted
