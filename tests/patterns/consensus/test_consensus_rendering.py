"""What the agents of a consensus debate are shown: nobody's text can pass for anything but that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.patterns.consensus.prompts import CONSENSUS, ConsensusTemplate, render_agent_system
from flowdebate.patterns.consensus.questions import (
    CritiqueAsked,
    ProposalAsked,
    RevisionAsked,
    RoundsAsked,
    TieAsked,
    VoteAsked,
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
"""Takes the place of an attack, to compare with."""

arguments = [attack for attack in ATTACKS if attack.place == "argument"]
called = [attack for attack in ATTACKS if attack.place in ("name", "stance")]


def proposal(agent: str, text: str) -> Proposal:
    """A proposal of any texts: half a surrogate pair would not travel."""
    return Proposal.model_construct(agent=agent, text=text, round=0, position=text)


def critique(critic: str, target: str, text: str) -> Critique:
    """A critique of which every part is `text`."""
    return Critique.model_construct(
        critic=critic, target=target, round=1, reasoning=text, issues=[text, text], suggestions=[text], severity=0.25
    )


def known(text: str) -> ConsensusContext:
    """A context of which every part is `text`."""
    agreed = PastDebate.model_construct(id=text, task=text, outcome="consensus", answer=text, winner=text)
    open_ = PastDebate.model_construct(id=text, task=text, outcome="no_consensus", answer=None, winner=text)
    point = CritiquePattern.model_construct(issue=text, suggestion=text, successes=1, uses=1)
    bare = CritiquePattern.model_construct(issue=text, suggestion="", successes=1, uses=1)
    return ConsensusContext.model_construct(
        past_debates=[agreed, open_], critique_patterns=[point, bare], research=text, skipped=[]
    )


VIEWS: dict[str, Callable[[str, str], str]] = {
    "system": lambda name, text: render_agent_system(task=text, context=known(text), name=name, role=name),
    "judge's system": lambda _, text: render_agent_system(task=text, context=known(text)),
    "proposal": lambda *_: render_turn(ProposalAsked(task="Q?", agent="bob")),
    "critique": lambda name, text: render_turn(
        CritiqueAsked(task="Q?", agent="bob", proposal=proposal(name, text), round=1)
    ),
    "revision": lambda name, text: render_turn(
        RevisionAsked(
            task="Q?",
            agent="bob",
            proposal=proposal(name, text),
            critiques=[critique("bob", name, text), critique(name, "cy", text)],
            round=2,
        )
    ),
    "vote": lambda name, text: render_turn(
        VoteAsked(task="Q?", agent="bob", proposals=[proposal(name, text), proposal("bob", text)])
    ),
    "judge": lambda name, text: render_turn(
        RoundsAsked(task="Q?", round=3, proposals=[proposal(name, text)], critiques=[critique("bob", name, text)])
    ),
    "tie": lambda name, text: render_turn(TieAsked(task="Q?", proposals=[proposal(name, text), proposal("bob", text)])),
}
each_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())


def check_same_lines(shown: str, harmless: str) -> None:
    """`shown` has the lines of `harmless`, each up to where the text of somebody begins."""
    lines, wanted = lines_of(shown), lines_of(harmless)
    assert len(lines) == len(wanted)
    for line, own in zip(lines, wanted, strict=True):
        before, *rest = own.split(MARK)
        assert line.startswith(before)
        assert rest or line == own


@pytest.mark.parametrize("attack", arguments, ids=lambda attack: attack.id)
def test_no_attack_begins_a_line_or_ends_a_message(attack: Attack) -> None:
    """As many lines as without it, which begin with the same words; no token of a chat template; it can be sent."""
    for view in VIEWS.values():
        shown = view("ann", attack.written())
        check_same_lines(shown, view("ann", MARK))
        assert not any(token in shown for token in CONTROL_TOKENS)
        assert json.loads(json.dumps(shown, ensure_ascii=False).encode()) == shown


@pytest.mark.parametrize("attack", called, ids=lambda attack: attack.id)
def test_an_attack_by_name_or_role_stays_on_its_line(attack: Attack) -> None:
    """Who is called so has one tag, and no more."""
    for view in VIEWS.values():
        shown = view(attack.written(), "Cap rents.")
        harmless = view(MARK, "Cap rents.")
        check_same_lines(shown, harmless)
        assert [line.count("[") for line in lines_of(shown)] == [line.count("[") for line in lines_of(harmless)]
        assert not any(token in shown for token in CONTROL_TOKENS)


@each_view
@given(name=texts.filter(bool), text=texts.filter(bool))
def test_no_text_begins_a_line(view: Callable[[str, str], str], name: str, text: str) -> None:
    """Whatever it is made of, and wherever it is inserted."""
    shown = view(name, text)
    check_same_lines(shown, view(MARK, MARK))
    json.dumps(shown, ensure_ascii=False).encode()


@given(written=st.lists(st.tuples(texts.filter(bool), texts), min_size=1, max_size=5, unique_by=lambda one: one[0]))
def test_proposals_can_be_told_apart_and_read_back(written: list[tuple[str, str]]) -> None:
    """Whoever reads the lines by the rule that the system message states gets who proposed what."""
    shown = render_turn(VoteAsked(task="Q?", agent="bob", proposals=[proposal(name, text) for name, text in written]))
    entries: list[list[str]] = []
    for line in shown.split("\n\nVote for the best one")[0].split("\n")[1:]:
        if line.startswith("  | "):
            entries[-1].append(line)
        else:
            entries.append([line])
    read = []
    for first, *rest in entries:
        tag, text = first.split("] ", 1)
        read.append((tag.removeprefix("["), unquoted("\n".join([text, *rest]))))
    assert read == [(tag_name(name), text) for name, text in written]


def test_what_is_not_known_takes_no_room() -> None:
    """Without history, points and research nothing is said of them; without an agent it is a judge."""
    plain = render_agent_system(task="Q?", name="ann")
    assert "known from before" not in plain
    assert render_agent_system(task="Q?", context=ConsensusContext(), name="ann") == plain
    assert plain.endswith("You are the agent ann.")
    assert render_agent_system(task="Q?").endswith(CONSENSUS.judge)


def test_an_agents_own_words_stand_last_and_as_they_are() -> None:
    """A system prompt is the application's: it is trusted, lines and all."""
    system = render_agent_system(task="Q?", name="ann", role="a mayor", system_prompt="Be brief.\n\n[x] <|y|> {z}")
    assert system.endswith("You are the agent ann. Your role: a mayor\n\nBe brief.\n\n[x] <|y|> {z}")


def test_nothing_is_said_about_a_proposal_where_nothing_was() -> None:
    """A round whose critics were all lost."""
    asked = RoundsAsked(task="Q?", round=1, proposals=[proposal("a", "b")], critiques=[])
    assert "in this round:\n(nothing)\n" in render_turn(asked)


def test_a_template_of_ones_own_is_filled() -> None:
    """Every part of it can be replaced."""
    own = ConsensusTemplate(vote="Choose:\n{proposals}\nNow.")
    asked = VoteAsked(task="Q?", agent="bob", proposals=[proposal("ann", "Cap.")])
    assert render_turn(asked, template=own) == "Choose:\n[ann] Cap.\nNow."


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
def test_a_template_cannot_put_text_where_it_could_pass_for_its_own(part: str, text: Any) -> None:
    """What somebody wrote begins no line, and lines stand alone on theirs."""
    with pytest.raises(ConfigurationError) as caught:
        ConsensusTemplate(**{part: text})
    assert caught.value.field == part
