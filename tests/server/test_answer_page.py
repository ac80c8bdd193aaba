"""The page for a human turn: a readable request, and a form for its schema."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.blocks.human.prompt import Statement, render_contributions, render_request
from flowdebate.patterns.debate.schemas import DebateContributionEntry
from flowdebate.service.service import Service
from flowdebate.service.state import PendingInput
from flowdebate.testing import FunctionModel
from flowdebate.web.forms import OpenRequest, answer_fields
from tests.server.stage import staged
from tests.server.test_links import SIDES, WITH_JUDGE, waiting_run
from tests.server.test_pages import HOSTILE, Parts

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest
    from tests.server.stage import Stage

VERDICT = {
    "properties": {"winner": {"anyOf": [{"enum": ["Ship", "Wait"]}, {"type": "null"}]}, "verdict": {"type": "string"}},
    "required": ["winner", "verdict"],
}


def make_pending(text: str, schema: dict[str, Any] | None = None) -> PendingInput:
    """Create a pending request for a human answer."""
    return PendingInput(block="rent-judge", place="p", shown=text, expects="Answer.", answer_schema=schema)


def test_judge_page_hides_names(stage: Stage) -> None:
    """Sides are identified by letter, without names or colors. The judge chooses the winner by stance."""
    run_id = waiting_run(stage, **WITH_JUDGE)
    page = stage.http.get(f"/runs/{run_id}/answer").text
    article = page.partition("<main")[2]
    assert "You are the judge" in article
    assert "data-side" not in article
    assert article.count("<h3>Side A</h3>") == 1
    assert "Side B: Wait" in article
    assert "Ann" not in re.sub(r"debate-debater-\w+ is sure", "", article)
    assert len(re.findall(r'type="radio"', article)) == len(SIDES) + 1
    assert 'data-name="verdict" data-kind="long" data-required' in article


def test_debater_page_has_a_text_field(stage: Stage) -> None:
    run_id = waiting_run(stage)
    page = stage.http.get(f"/runs/{run_id}").text
    place = stage.get(f"/runs/{run_id}/requests").json()[0]["place"]
    address = f"/runs/{run_id}/answer?place={quote(place, safe='/')}"
    assert f'href="{address}"' in page
    assert 'data-link="&#34;debate-debater-Ann&#34;"' in page
    page = stage.http.get(address).text
    assert "You are Ann. You argue for this position: Ship" in page
    assert page.count('data-name=""') == 1
    assert f'data-place="&#34;{place}&#34;"' in page


def test_every_participant_gets_a_link(stage: Stage) -> None:
    """Participants who join later get a link, but nobody gets one after the run has ended."""
    run_id = waiting_run(stage, options={"max_rounds": 1, "debaters": SIDES, "humans": ["Ann", "judge"]})
    page = stage.http.get(f"/runs/{run_id}").text
    assert re.findall(r'data-link="&#34;(.*?)&#34;"', page) == ["debate-debater-Ann", "debate-judge"]
    assert "data-link" not in stage.http.get(f"/runs/{stage.finished()}").text


def test_answer_page_exists_only_while_the_run_waits(stage: Stage) -> None:
    run_id = waiting_run(stage)
    assert stage.http.get(f"/runs/{run_id}/answer?place=elsewhere").status_code == 404
    assert stage.http.get(f"/runs/{stage.finished()}/answer").status_code == 404
    assert stage.http.get("/runs/nothing/answer").status_code == 404


def test_participants_other_than_judges_see_names() -> None:
    """A moderator, for example, must be able to name the next speaker."""
    transcript = render_contributions([DebateContributionEntry(round=1, agent_name="Ann", stance="Ship", text="Yes.")])
    view = render_request(who=None, prompt=None, question="?", context=None, transcript=transcript, task=None)
    moderator = {"properties": {"nextSpeakers": {"type": "array", "items": {"enum": ["Ann"]}}}}
    for schema in (None, moderator, {"properties": {"winner": {"enum": ["Buy", "Sell"]}}}):
        assert not OpenRequest.of(make_pending(view, schema)).blind
    assert OpenRequest.of(make_pending(view, VERDICT)).blind == {"Ship": "Side A", "Wait": "Side B"}


def test_schema_is_rendered_as_a_form() -> None:
    schema = {
        "$defs": {"Why": {"type": "object", "properties": {"text": {"type": "string"}, "sure": {"type": "boolean"}}}},
        "required": ["why", "score"],
        "properties": {
            "winner": VERDICT["properties"]["winner"],  # type: ignore[index]  # a schema
            "score": {"type": "integer", "minimum": 0, "maximum": 9},
            "done": {"type": "boolean"},
            "why": {"$ref": "#/$defs/Why"},
            "next": {"type": "array", "items": {"enum": ["a", "b"]}},
            "notes": {"type": "array", "items": {"type": "string"}},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"of": {"type": "string"}}}},
            "length": {"anyOf": [{"enum": ["short"], "type": "string"}, {"type": "integer"}]},
            "anything": {},
        },
    }
    fields = {field.name: field for field in answer_fields(schema)}
    assert {name: field.kind for name, field in fields.items()} == {
        "winner": "choice",
        "score": "number",
        "done": "flag",
        "why": "group",
        "next": "choices",
        "notes": "lines",
        "rows": "json",
        "length": "mixed",
        "anything": "json",
    }
    assert fields["rows"].help == "It is a list, each {of: text}."
    assert [name for name, field in fields.items() if field.required] == ["score", "why"]
    assert [part.kind for part in fields["why"].parts] == ["text", "flag"]
    assert fields["winner"].nullable
    (field,) = answer_fields({"type": "array", "items": {"type": "string"}})
    assert (field.name, field.kind, field.required) == ("", "lines", True)


schemas = st.recursive(
    st.sampled_from(
        [{}, {"type": "string"}, {"type": "null"}, {"enum": [1, None]}, {"$ref": "#/$defs/a"}, {"const": 0}]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "anyOf": st.lists(inner, max_size=3),
            "items": inner,
            "properties": st.dictionaries(st.text(max_size=3), inner, max_size=3),
            "type": st.sampled_from(["object", "array", "integer"]),
            "$defs": st.dictionaries(st.just("a"), inner, max_size=1),
        },
    ),
    max_leaves=12,
)


@given(schemas)
def test_any_schema_can_be_rendered_as_a_form(schema: dict[str, Any]) -> None:
    assert answer_fields(schema)


def test_hostile_text_in_a_form_is_escaped(stage: Stage) -> None:
    """Questions, names, stances and the values of a choice can all be hostile."""
    plain: Parts | None = None
    for content in ["A plain text.", *HOSTILE[:6]]:
        text = content.encode(errors="replace").decode()
        sides = [{"name": f"{text} 1", "stance": f"{text} 1"}, {"name": "B", "stance": "y"}]
        run_id = waiting_run(stage, question=text, options={"max_rounds": 1, "debaters": sides, "humans": ["judge"]})
        page = stage.http.get(f"/runs/{run_id}/answer").text + stage.http.get(f"/new?question={quote(text)}").text
        parts = Parts(page.replace(run_id, ""))
        plain = plain or parts
        assert parts.found <= plain.found | {("h1", "class")}, text
        assert parts.addresses <= plain.addresses | {
            address for address in parts.addresses if address.startswith("?pattern=")
        }


def test_judge_with_a_link_sees_no_more_than_a_model() -> None:
    """Neither the page nor the JSON behind the link reveals any names, even inside arguments.

    Afterwards, the run page lists the names that were hidden.
    """

    def answer(request: ModelRequest) -> str | dict[str, Any]:
        return (
            "I am Ann, and Ben errs." if request.block.endswith("Ann") else "As Ben, I say that Ann's figures are old."
        )

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        run_id = waiting_run(stage, **WITH_JUDGE)
        link = stage.post(f"/runs/{run_id}/links", {"role": "debate-judge"}).json()
        with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as person:
            view = person.get(link["path"]).json()["shown"]
            page = person.get(link["page"]).text.partition("<main")[2]
        assert "[Ship] I am Speaker" in view
        for text in (view, page, stage.get(f"/runs/{run_id}/requests").text):
            assert not re.search(r"\bAnn\b|\bBen\b", text), text
        assert page.count("<h3>Side A</h3>") == 1
        verdict = {"reasoning": "-", "winner": "Ship", "verdict": "Ship."}
        assert stage.post(f"/runs/{run_id}/answers", {"answer": verdict}).status_code == 200
        assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "complete"
        after = stage.http.get(f"/runs/{run_id}").text
        assert "Names in arguments that were hidden from debaters and judge" in after
        assert "4 (Ann, Ben)" in after


def test_stance_with_a_comma_round_trips() -> None:
    transcript = "Round 1:\n[Ship, now] Yes.\n[Wait] No."
    view = render_request(who=None, prompt=None, question="?", context=None, transcript=transcript, task=None)
    question = OpenRequest.of(make_pending(view, {"properties": {"winner": {"enum": ["Ship, now", "Wait"]}}}))
    assert question.parts.sections[0].parts == (Statement("", "Ship, now", "Yes."), Statement("", "Wait", "No."))
    assert question.blind == {"Ship, now": "Side A", "Wait": "Side B"}
