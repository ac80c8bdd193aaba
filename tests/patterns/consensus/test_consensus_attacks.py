"""Debates in which every text contains an attack.

One agent's text must never be mistaken for another's.
"""

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


def run_debate(text: str, names: tuple[str, ...] = THREE) -> tuple[list[Call], Any]:
    """Run a two-round debate in which every text, including the archive's, contains `text`."""
    sentence = f"Build {text} now."
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        match call.phase:
            case "proposal":
                return sentence
            case "critique":
                return {"reasoning": sentence, "issues": [sentence], "suggestions": [sentence], "severity": 0.5}
            case "revision":
                return {"proposal": sentence, "position": sentence[:100], "enough": False}
            case "judge":
                return {"reasoning": sentence, "conclusive": False}
            case _:
                return {"reasoning": sentence, "choice": call.agent or names[0], "confidence": 1}

    archive = Archive()
    cleaned = clean_text(sentence)
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
        research=lambda _: sentence,
    )
    result = debate.run_sync(f"Some affordable homes {text}", model=model(answer, calls=calls), seed=3)
    check_emitted(result)
    return calls, result


@cache
def run_harmless() -> tuple[list[Call], Any]:
    """Run a debate in which no text contains an attack."""
    return run_debate(MARK)


def check(calls: list[Call], result: Any) -> None:
    """Check that, apart from the texts, the messages have the same lines as in a harmless debate.

    The votes, the result and the pairs of critics and targets must be the same, too.
    """
    assert [call.request.block for call in calls] == [call.request.block for call in run_harmless()[0]]
    for call, harmless_call in zip(calls, run_harmless()[0], strict=True):
        for message, plain in zip(call.request.messages, harmless_call.request.messages, strict=True):
            assert message["role"] == plain["role"]
            check_same_lines(message["content"], plain["content"])
            assert not any(token in message["content"] for token in CONTROL_TOKENS)
        assert call.request.output_schema == harmless_call.request.output_schema
    output, expected = result.output, run_harmless()[1].output
    assert (output.winner, output.strength, output.tally) == (expected.winner, expected.strength, expected.tally)
    assert [one.edges for one in output.rounds] == [one.edges for one in expected.rounds]
    assert [(b.voter, b.choice) for b in output.ballots] == [(b.voter, b.choice) for b in expected.ballots]
    assert output.model_validate_json(output.model_dump_json()) == output


@pytest.mark.parametrize("attack", arguments, ids=lambda attack: attack.id)
def test_attacks_do_not_change_prompts_for_other_agents(attack: Any) -> None:
    check(*run_debate(attack.written(own="ann", other="bob")))


@given(text=texts)
def test_arbitrary_text_does_not_change_prompts_for_other_agents(text: str) -> None:
    check(*run_debate(text))


@pytest.mark.parametrize("attack", called, ids=lambda attack: attack.id)
def test_agents_whose_name_is_an_attack_work_normally(attack: Any) -> None:
    name = clean_text(attack.written(own="ann", other="bob"))
    calls, result = run_debate("homes", (name, "bob", "cy"))
    assert len(calls) == len(run_harmless()[0])
    assert [ballot.choice for ballot in result.output.ballots] == [name, "bob", "cy"]
    assert result.output.winner == name
    for call, harmless_call in zip(calls, run_harmless()[0], strict=True):
        line_counts = [len(message["content"].splitlines()) for message in call.request.messages]
        assert line_counts == [len(message["content"].splitlines()) for message in harmless_call.request.messages]
