"""Rendered prompts for consensus agents, in which no text can be mistaken for another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.patterns.consensus.prompts import CONSENSUS, ConsensusTemplate, render_agent_system
from flowdebate.patterns.consensus.questions import (
    CritiqueRequest,
    ProposalRequest,
    RevisionRequest,
    StopRequest,
    TieBreakRequest,
    VoteRequest,
    render_turn,
)
from flowdebate.patterns.consensus.schemas import ConsensusContext, Critique, Proposal
from flowdebate.prompts import tag_name, unquoted
from flowdebate.resources.archive import CritiquePattern, PastDebate
from flowdebate.testing import ATTACKS
from tests.prompts.nasty import lines_of, texts
from tests.prompts.test_attacks import CONTROL_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.testing import Attack

MARK = "harmless"
"""Harmless text used where the attack would be."""

arguments = [attack for attack in ATTACKS if attack.place == "argument"]
called = [attack for attack in ATTACKS if attack.place in ("name", "stance")]


def proposal(agent: str, text: str) -> Proposal:
    """Create a proposal with the given texts, stripped of lone surrogates."""
    return Proposal.model_construct(agent=agent, text=text, round=0, position=text)


def critique(critic: str, target: str, text: str) -> Critique:
    """Create a critique with `text` in every field."""
    return Critique.model_construct(
        critic=critic, target=target, round=1, reasoning=text, issues=[text, text], suggestions=[text], severity=0.25
    )


def context_of(text: str) -> ConsensusContext:
    """Create a context with `text` in every field."""
    agreed = PastDebate.model_construct(id=text, task=text, outcome="consensus", answer=text, winner=text)
    open_ = PastDebate.model_construct(id=text, task=text, outcome="no_consensus", answer=None, winner=text)
    point = CritiquePattern.model_construct(issue=text, suggestion=text, successes=1, uses=1)
    bare = CritiquePattern.model_construct(issue=text, suggestion="", successes=1, uses=1)
    return ConsensusContext.model_construct(
        past_debates=[agreed, open_], critique_patterns=[point, bare], research=text, skipped=[]
    )


VIEWS: dict[str, Callable[[str, str], str]] = {
    "system": lambda name, text: render_agent_system(task=text, context=context_of(text), name=name, role=name),
    "judge's system": lambda _, text: render_agent_system(task=text, context=context_of(text)),
    "proposal": lambda *_: render_turn(ProposalRequest(task="Q?", agent="bob")),
    "critique": lambda name, text: render_turn(
        CritiqueRequest(task="Q?", agent="bob", proposal=proposal(name, text), round=1)
    ),
    "revision": lambda name, text: render_turn(
        RevisionRequest(
            task="Q?",
            agent="bob",
            proposal=proposal(name, text),
            critiques=[critique("bob", name, text), critique(name, "cy", text)],
            round=2,
        )
    ),
    "vote": lambda name, text: render_turn(
        VoteRequest(task="Q?", agent="bob", proposals=[proposal(name, text), proposal("bob", text)])
    ),
    "judge": lambda name, text: render_turn(
        StopRequest(task="Q?", round=3, proposals=[proposal(name, text)], critiques=[critique("bob", name, text)])
    ),
    "tie": lambda name, text: render_turn(
        TieBreakRequest(task="Q?", proposals=[proposal(name, text), proposal("bob", text)])
    ),
}
each_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())


def check_same_lines(rendered: str, harmless: str) -> None:
    """Check that `rendered` has the same lines as `harmless`, comparing each line only up to where a text begins."""
    lines, expected_lines = lines_of(rendered), lines_of(harmless)
    assert len(lines) == len(expected_lines)
    for line, expected in zip(lines, expected_lines, strict=True):
        before, *rest = expected.split(MARK)
        assert line.startswith(before)
        assert rest or line == expected


@pytest.mark.parametrize("attack", arguments, ids=lambda attack: attack.id)
def test_no_attack_begins_a_line_or_ends_a_message(attack: Attack) -> None:
    for view in VIEWS.values():
        rendered = view("ann", attack.written())
        check_same_lines(rendered, view("ann", MARK))
        assert not any(token in rendered for token in CONTROL_TOKENS)
        assert json.loads(json.dumps(rendered, ensure_ascii=False).encode()) == rendered


@pytest.mark.parametrize("attack", called, ids=lambda attack: attack.id)
def test_attacks_in_names_or_roles_cannot_start_a_new_line(attack: Attack) -> None:
    for view in VIEWS.values():
        rendered = view(attack.written(), "Cap rents.")
        harmless = view(MARK, "Cap rents.")
        check_same_lines(rendered, harmless)
        assert [line.count("[") for line in lines_of(rendered)] == [line.count("[") for line in lines_of(harmless)]
        assert not any(token in rendered for token in CONTROL_TOKENS)


@each_view
@given(name=texts.filter(bool), text=texts.filter(bool))
def test_arbitrary_text_never_begins_a_line(view: Callable[[str, str], str], name: str, text: str) -> None:
    rendered = view(name, text)
    check_same_lines(rendered, view(MARK, MARK))
    json.dumps(rendered, ensure_ascii=False).encode()


@given(written=st.lists(st.tuples(texts.filter(bool), texts), min_size=1, max_size=5, unique_by=lambda one: one[0]))
def test_rendered_proposals_can_be_parsed(written: list[tuple[str, str]]) -> None:
    """The rule stated in the system message is enough to tell which agent made which proposal."""
    rendered = render_turn(
        VoteRequest(task="Q?", agent="bob", proposals=[proposal(name, text) for name, text in written])
    )
    entries: list[list[str]] = []
    for line in rendered.split("\n\nVote for the best one")[0].split("\n")[1:]:
        if line.startswith("  | "):
            entries[-1].append(line)
        else:
            entries.append([line])
    proposals = []
    for first, *rest in entries:
        tag, text = first.split("] ", 1)
        proposals.append((tag.removeprefix("["), unquoted("\n".join([text, *rest]))))
    assert proposals == [(tag_name(name), text) for name, text in written]


def test_missing_context_is_not_rendered() -> None:
    """If there is no context, the prompt omits the section instead of leaving it empty."""
    plain = render_agent_system(task="Q?", name="ann")
    assert "known from before" not in plain
    assert render_agent_system(task="Q?", context=ConsensusContext(), name="ann") == plain
    assert plain.endswith("You are the agent ann.")
    assert render_agent_system(task="Q?").endswith(CONSENSUS.judge)


def test_agent_instructions_come_last_and_unchanged() -> None:
    """The application wrote the instructions, so their lines are trusted."""
    system = render_agent_system(task="Q?", name="ann", role="a mayor", system_prompt="Be brief.\n\n[x] <|y|> {z}")
    assert system.endswith("You are the agent ann. Your role: a mayor\n\nBe brief.\n\n[x] <|y|> {z}")


def test_proposals_without_critiques_are_rendered_as_such() -> None:
    request = StopRequest(task="Q?", round=1, proposals=[proposal("a", "b")], critiques=[])
    assert "in this round:\n(nothing)\n" in render_turn(request)


def test_custom_templates_are_filled_in() -> None:
    template = ConsensusTemplate(vote="Choose:\n{proposals}\nNow.")
    request = VoteRequest(task="Q?", agent="bob", proposals=[proposal("ann", "Cap.")])
    assert render_turn(request, template=template) == "Choose:\n[ann] Cap.\nNow."


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("vote", "{votes}"),
        ("vote", "Choose: {proposals}"),
        ("system", "{task}"),
        ("revise", "Round {round}: {critiques} and more"),
        ("persona", "{name}, that is you"),
        ("propose", "{task}"),
        ("judge", 7),
    ],
)
def test_templates_with_forgeable_fields_are_rejected(part: str, text: Any) -> None:
    """Each field must be on its own line.

    Otherwise, text written by a model could imitate one of the template's lines.
    """
    with pytest.raises(ConfigurationError) as caught:
        ConsensusTemplate(**{part: text})
    assert caught.value.field == part
