"""Pages for earlier steps, forks and comparisons, as the server sends them before any script runs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service import Service
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel
from tests.server.stage import QUESTION, answer_debate, staged
from tests.server.test_pages import HOSTILE, Parts

if TYPE_CHECKING:
    from tests.server.stage import Stage

PRO = "debate/round[1]/debate-turn-pro/debate-debater-pro"
CON = "debate/round[1]/debate-turn-con/debate-debater-con"
JUDGE = "debate/debate-judge"


def get_page(stage: Stage, path: str) -> str:
    """Return the page at a path, which must exist."""
    answer = stage.http.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_each_step_links_to_the_run_at_that_step(stage: Stage) -> None:
    """The links work without scripts, and the last one leads to the last step."""
    run_id = stage.finished()
    page = get_page(stage, f"/runs/{run_id}/travel")
    assert re.findall(r'href="\?step=(\d)" aria-label="([^"]+)"', page) == [
        ("1", "1 pro, step 1 of 4"),
        ("2", "2 con, step 2 of 4"),
        ("3", "3 Judge, step 3 of 4"),
        ("4", "4 Synthesizer, step 4 of 4"),
    ]
    assert "Step 4 of 4" in get_page(stage, f"/runs/{run_id}/travel?step=99")
    assert stage.http.get(f"/runs/{run_id}/travel?step=0").status_code == 422
    assert stage.http.get("/runs/nothing/travel").status_code == 404


def test_step_page_shows_the_transcript_up_to_that_step(stage: Stage) -> None:
    run_id = stage.finished()
    first, second, judge = (get_page(stage, f"/runs/{run_id}/travel?step={step}") for step in (1, 2, 3))
    assert "Before this step" not in first
    assert "debate-debater-con is sure" not in first
    assert "1 contribution<" in second
    assert "2 contributions<" in judge
    assert "You are one of the debaters in a debate." in second
    assert f'data-place="{CON}"' in second
    assert "Answer schema" in judge
    assert "&#34;winner&#34;: null" in judge


def test_run_page_links_to_its_steps(stage: Stage) -> None:
    run_id = stage.finished()
    page = get_page(stage, f"/runs/{run_id}")
    assert f'<a href="/runs/{run_id}/travel?step=2" title="Go back to this step">step 2</a>' in page
    assert page.count(f"/runs/{run_id}/travel?step=4") == 1


def test_steps_page_lists_forks(stage: Stage) -> None:
    run_id = stage.finished()
    assert "None yet." in get_page(stage, f"/runs/{run_id}/travel")
    stage.finished(runId="other")
    for name, body in (("edit", {"edits": {CON: "No."}}), ("again", {"at": JUDGE}), ("more", {"seed": 5})):
        assert stage.post(f"/runs/{run_id}/fork", {"forkId": name, **body}).status_code == 201
        assert stage.get(f"/runs/{name}?wait=30").json()["status"] == "complete"
    page = get_page(stage, f"/runs/{run_id}/travel?step=1")
    links = re.findall(rf'<td>(\d?)</td><th scope="row"><a href="/compare\?a={run_id}&amp;b=(\w+)">([^<]+)</a>', page)
    assert links == [("", "more", "other options"), ("3", "again", "Judge asked again"), ("2", "edit", "con changed")]
    assert f'<a href="/compare?a={run_id}&amp;b=edit">Compare with the original</a>' in get_page(stage, "/runs/edit")


def test_edited_data_is_validated_before_the_fork_starts(stage: Stage) -> None:
    run_id = stage.finished()
    for text, fields in (
        ("no JSON", {""}),
        ('{"reasoning": "r"}', {"winner", "verdict"}),
        ('{"reasoning": "r", "winner": "nobody", "verdict": "v"}', {"winner"}),
    ):
        response = stage.post(f"/runs/{run_id}/fork", {"edits": {JUDGE: text}})
        assert response.status_code == 422
        assert {error["field"] for error in response.json()["errors"]} == fields
    assert [run["runId"] for run in stage.get("/runs").json()["runs"]] == [run_id]
    verdict = {"reasoning": "r", "winner": "We should ship", "verdict": "Ship it."}
    fork = stage.post(f"/runs/{run_id}/fork", {"edits": {JUDGE: json.dumps(verdict)}}).json()["runId"]
    assert stage.get(f"/runs/{fork}?wait=30").json()["document"]["raw"]["verdict"]["winner"] == "We should ship"


def test_human_answer_counts_as_a_step(stage: Stage) -> None:
    stage.begin(options={"max_rounds": 1, "humans": ["judge", "pro"], "synthesizer": False}, runId="people")
    stage.get("/runs/people?wait=30")
    stage.post("/runs/people/answers", {"answer": "I say it."})
    stage.get("/runs/people?wait=30")
    verdict = {"reasoning": "r", "winner": None, "verdict": "Wait."}
    stage.post("/runs/people/answers", {"answer": verdict})
    assert stage.get("/runs/people?wait=30").json()["status"] == "complete"
    spoken, judged = (get_page(stage, f"/runs/people/travel?step={step}") for step in (1, 3))
    assert "I say it.</textarea>" in spoken
    assert "a person" in spoken
    assert "&#34;verdict&#34;: &#34;Wait.&#34;" in judged
    place = re.findall(r'data-place="([^"]+)"', judged)[0]
    assert stage.post("/runs/people/fork", {"edits": {place: "{}"}}).status_code == 422
    other = json.dumps({**verdict, "verdict": "Wait no longer."})
    fork = stage.post("/runs/people/fork", {"edits": {place: other}}).json()["runId"]
    assert stage.get(f"/runs/{fork}?wait=30").json()["status"] == "complete"
    page = get_page(stage, f"/compare?a=people&b={fork}")
    assert "step 3, changed by hand" in page
    assert "Steps 1 to 2 are the same: pro, con. Reused without new calls." in re.sub("<[^>]+>", "", page)


def test_comparison_shows_differences(stage: Stage) -> None:
    run_id = stage.finished()
    text = "debate-debater-con is not sure.\nSo it is."
    stage.post(f"/runs/{run_id}/fork", {"forkId": "fork", "edits": {CON: text}})
    stage.get("/runs/fork?wait=30")
    page = get_page(stage, f"/compare?a={run_id}&b=fork")
    assert "Step 1 is the same: pro. Reused without new calls." in re.sub("<[^>]+>", "", page)
    assert "debate-debater-con is <ins>not</ins> sure." in page
    assert "step 2, changed by hand" in page
    assert page.count("<h3>Verdict</h3>") == 2
    assert page.index("<h3>Verdict</h3>") < page.index('class="costs"') < page.index("Step 1 is the same")
    assert "another question" not in page
    assert stage.http.get("/compare?a=fork").status_code == 422
    assert stage.http.get("/compare?a=fork&b=nothing").status_code == 404


PANELS = (
    {"debaters": [{"name": "Ann", "stance": "Ship"}, {"name": "Ben", "stance": "Wait"}]},
    {"debaters": [{"name": "pro", "stance": "Ship now"}, {"name": "con", "stance": "Wait longer"}]},
    # the same sides in reverse order
    {"debaters": [{"name": "Ben", "stance": "Wait"}, {"name": "Ann", "stance": "Ship"}]},
)


@pytest.mark.parametrize("panel", PANELS[1:])
def test_turns_of_two_runs_are_paired_by_round_and_number(stage: Stage, panel: dict[str, Any]) -> None:
    """Speakers' names do not matter, so steps are paired even if the names differ."""
    one, two = (stage.finished(options={"max_rounds": 2, **options}) for options in (PANELS[0], panel))
    page = get_page(stage, f"/compare?a={one}&b={two}")
    assert "No matching step." not in page
    sides = page[page.index("Side by side") :]
    names = re.findall(r'<h3 class="who"><i class="mark"></i>([^<]+)</h3>', sides)
    ones, right = names[::2][:4], names[1::2][:4]
    assert (ones, right) == (["Ann", "Ben"] * 2, [speaker["name"] for speaker in panel["debaters"]] * 2)


def test_any_two_runs_can_be_compared(stage: Stage) -> None:
    """The page points out whether the questions or the patterns differ."""
    one = stage.finished()
    stage.begin(question="Should we wait?", pattern="deliberation", runId="two", options={})
    stage.get("/runs/two?wait=30")
    page = get_page(stage, f"/compare?a={one}&b=two")
    assert "The second run has a different question: Should we wait?" in page
    assert "No matching step." in page


def test_read_only_server_offers_no_changes() -> None:
    store = MemoryStore()
    with staged(lambda: Service(store=store, model=FunctionModel(answer_debate))) as stage:
        run_id = stage.finished()
        assert "<form" in get_page(stage, f"/runs/{run_id}/travel")
    with staged(lambda: Service(store=store), read_only=True) as stage:
        page = get_page(stage, f"/runs/{run_id}/travel")
        assert "debate-debater-pro is sure." in page
        assert "<form" not in page


def test_page_says_that_a_run_has_no_steps() -> None:
    def fails(_: Any) -> str:
        raise RuntimeError

    with staged(lambda: Service(store="memory:", model=FunctionModel(fails))) as stage:
        stage.begin(runId="broken")
        stage.get("/runs/broken?wait=30")
        assert "no step to go back to" in get_page(stage, "/runs/broken/travel")


@pytest.mark.parametrize("step", [1, 3])
def test_hostile_text_is_escaped(step: int) -> None:
    """Contributions cannot add an element, an attribute or a URL to the page."""
    text = "A plain text."

    def answer(request: Any) -> Any:
        return {"reasoning": text, "winner": None, "verdict": text} if request.output_schema else text

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        stage.finished(runId="plain", question=QUESTION)
        text = " ".join(HOSTILE)
        stage.finished(runId="hostile", question=QUESTION)
        paths = ("/runs/{}/travel?step=" + str(step), "/compare?a={}&b={}", "/compare?a=plain&b=hostile")
        plain, hostile = (
            Parts("".join(get_page(stage, path.format(name, name)) for path in paths)) for name in ("plain", "hostile")
        )
        assert hostile.found <= plain.found | {("ins",), ("del",)}
        assert {address.replace("hostile", "plain") for address in hostile.addresses} <= {
            address.replace("hostile", "plain") for address in plain.addresses
        }
