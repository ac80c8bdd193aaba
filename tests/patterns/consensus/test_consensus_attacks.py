"""A whole debate in which everybody says what attacks: nobody's text is taken for anybody else's."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import pytest
from hypothesis import given

from flowdebate._text import clean_text
from flowdebate.patterns.consensus.agents import create_conclusive_judge, create_tie_judge
from flowdebate.resources.archive import Archive, CritiquePattern, PastDebate
from flowdebate.testing import ATTACKS
from tests.patterns.consensus.test_consensus_rendering import MARK, check_same_lines
from tests.prompts.nasty import texts
from tests.prompts.test_attacks import CONTROL_TOKENS

from .debates import THREE, Call, check_emitted, model, plan

arguments = [attack for attack in ATTACKS if attack.place == "argument"]
called = [attack for attack in ATTACKS if attack.place in ("name", "stance")]


def held(text: str, names: tuple[str, ...] = THREE) -> tuple[list[Call], Any]:
    """A debate of two rounds in which all that anybody writes is `text`, and that of the past too."""
    said = f"Build {text} now."
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        match call.phase:
            case "proposal":
                return said
            case "critique":
                return {"reasoning": said, "issues": [said], "suggestions": [said], "severity": 0.5}
            case "revision":
                return {"proposal": said, "position": said[:100], "enough": False}
            case "judge":
                return {"reasoning": said, "conclusive": False}
            case _:
                return {"reasoning": said, "choice": call.agent or names[0], "confidence": 1}

    archive = Archive()
    cleaned = clean_text(said)
    past = PastDebate(id="1", task=f"affordable homes {cleaned}", outcome="consensus", answer=cleaned)
    asyncio.run(archive.past_debates.add(past))
    point = CritiquePattern(issue=cleaned, suggestion=cleaned, successes=1, uses=1)
    asyncio.run(archive.critique_patterns.record("1", [point]))
    debate = plan(
        names,
        max_rounds=2,
        convergence=None,
        topology="all-to-all",
        judge=create_conclusive_judge(name="plan"),
        tie_break=create_tie_judge(name="plan", choices=names),
        archive=archive,
        research=lambda _: said,
    )
    result = debate.run_sync(f"Some affordable homes {text}", model=model(answer, calls=calls), seed=3)
    check_emitted(result)
    return calls, result


@cache
def harmless() -> tuple[list[Call], Any]:
    """A debate in which nobody attacks."""
    return held(MARK)


def check(calls: list[Call], result: Any) -> None:
    """Message by message, the lines are those of a harmless debate up to where the texts begin; so are the records."""
    assert [call.request.block for call in calls] == [call.request.block for call in harmless()[0]]
    for call, own in zip(calls, harmless()[0], strict=True):
        for message, plain in zip(call.request.messages, own.request.messages, strict=True):
            assert message["role"] == plain["role"]
            check_same_lines(message["content"], plain["content"])
            assert not any(token in message["content"] for token in CONTROL_TOKENS)
        assert call.request.output_schema == own.request.output_schema
    output, wanted = result.output, harmless()[1].output
    assert (output.winner, output.strength, output.tally) == (wanted.winner, wanted.strength, wanted.tally)
    assert [one.edges for one in output.rounds] == [one.edges for one in wanted.rounds]
    assert [(b.voter, b.choice) for b in output.ballots] == [(b.voter, b.choice) for b in wanted.ballots]
    assert output.model_validate_json(output.model_dump_json()) == output


@pytest.mark.parametrize("attack", arguments, ids=lambda attack: attack.id)
def test_no_attack_changes_what_others_are_shown(attack: Any) -> None:
    """As an idea, a critique, a position, a reason, a finding of research, or in a debate long ago."""
    check(*held(attack.written(own="ann", other="bob")))


@given(text=texts)
def test_no_text_changes_what_others_are_shown(text: str) -> None:
    """Any characters at all, in all of these places at once."""
    check(*held(text))


@pytest.mark.parametrize("attack", called, ids=lambda attack: attack.id)
def test_an_agent_with_an_attack_for_a_name_is_an_agent_like_any(attack: Any) -> None:
    """It proposes, criticises, revises, votes, and can win."""
    name = clean_text(attack.written(own="ann", other="bob"))
    calls, result = held("homes", (name, "bob", "cy"))
    assert len(calls) == len(harmless()[0])
    assert [ballot.choice for ballot in result.output.ballots] == [name, "bob", "cy"]
    assert result.output.winner == name
    for call, own in zip(calls, harmless()[0], strict=True):
        shown = [len(message["content"].splitlines()) for message in call.request.messages]
        assert shown == [len(message["content"].splitlines()) for message in own.request.messages]
