from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given

from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.debater import (
    DEBATER,
    DebaterIdentity,
    DebaterTemplate,
    render_debater_system,
    render_debater_turn,
)
from flowdebate.patterns.debate.judging.jurors import JUDGE, JudgeTemplate, render_judge_turn
from flowdebate.patterns.debate.moderator import MODERATOR, ModeratorTemplate
from flowdebate.patterns.debate.synthesizer import SYNTHESIZER, SynthesizerTemplate
from flowdebate.prompts import Template, filled, quoted
from tests.prompts.nasty import texts


@pytest.mark.parametrize(
    ("template", "part", "text", "message"),
    [
        (
            JudgeTemplate,
            "turn",
            "Now: {questoin}",
            "has an unknown field; known: {question}, {transcript} (got {questoin})",
        ),
        (JudgeTemplate, "system", "Asked: {question}", "has an unknown field; known: {positions} (got {question})"),
        (SynthesizerTemplate, "system", "Asked: {question}", "cannot have fields"),
        (DebaterTemplate, "transcript", "Round {round}\n{transcript}", "has an unknown field; known: {transcript}"),
        (
            JudgeTemplate,
            "turn",
            "{question}\n{transcript}",
            "must not begin a line with {question}; put a label before it",
        ),
        (
            DebaterTemplate,
            "turn",
            "Now.\n{stance} is yours",
            "must not begin a line with {stance}; put a label before it",
        ),
        (JudgeTemplate, "turn", "The debate: {transcript}", "must have {transcript} alone on its line"),
        (ModeratorTemplate, "system", "Among:\n{roster}.", "must have {roster} alone on its line"),
        (ModeratorTemplate, "next", None, "`next` must be text"),
    ],
)
def test_unsafe_templates_are_rejected_when_created(
    template: type[Template], part: str, text: Any, message: str
) -> None:
    with pytest.raises(ConfigurationError) as failure:
        template(**{part: text})
    assert message in str(failure.value)
    assert (failure.value.location, failure.value.field) == (template.__name__, part)


@pytest.mark.parametrize("template", [DEBATER, MODERATOR, JUDGE, SYNTHESIZER], ids=lambda parts: type(parts).__name__)
def test_template_parts_list_their_fields(template: Template) -> None:
    """Because a part knows its fields, a typo can be reported as soon as the template is created."""
    for part in fields(template):
        with pytest.raises(ConfigurationError):
            replace(template, **{part.name: "x {no_such_field}"})


def test_single_parts_can_be_overridden() -> None:
    german = DebaterTemplate(opening="Beginne: {stance}")
    identity = DebaterIdentity(stance="dafür", max_rounds=2)
    rendered = render_debater_turn(identity, entries=[], round=1, template=german)
    assert rendered.endswith("Beginne: dafür")
    assert german.rebuttal == DEBATER.rebuttal


def test_braces_without_a_field_are_unchanged() -> None:
    """A template may contain JSON or code."""
    template = JudgeTemplate(turn='Like {"winner": null}, {} or {a b}: {question}\n{transcript}')
    rendered = render_judge_turn(question="q", transcript="t", template=template)
    assert rendered == 'Like {"winner": null}, {} or {a b}: q\nt'


@given(texts)
def test_values_filled_into_a_template_are_not_parsed_again(text: str) -> None:
    """Braces and backslashes in a question must stay as they are."""
    assert filled("Q: {question} ({round})", question=text, round=1) == f"Q: {text} (1)"
    system = render_debater_system(question=text, stances=["for"], max_rounds=1)
    assert f"\nQuestion: {quoted(text)}\n" in system
