"""Forms in a real browser: start a run, answer in it, and play a role through a link."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.browser.visit import Visit
from tests.server.stage import TOKEN, Gate, answer_debate, propose_sides, staged
from tests.sources.test_images import png
from tests.vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.server.stage import Stage

SIDES = [{"name": "Ann", "stance": "Ship"}, {"name": "Ben", "stance": "Wait"}]
MAX_TABS = 120
"""Maximum number of Tab presses."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve a model that answers immediately."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as stage:
        yield stage


def test_example_debate_takes_three_clicks(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """One click opens the form, one fills in the example, and one starts the run."""
    page = visit(stage.url).open("/")
    page.get_by_role("link", name="New debate").click()
    page.get_by_role("link", name="Use this example").click()
    page.get_by_role("button", name="Start the debate").click()
    page.get_by_text("What the judge saw").wait_for()
    assert page.locator("h1").inner_text() == "Is it better to work from home or in an office?"


def test_chosen_pattern_is_visible_on_a_narrow_screen(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """The row of patterns scrolls to the chosen one."""
    page = visit(stage.url).open("/new?pattern=consensus")
    page.set_viewport_size({"width": 360, "height": 800})
    page.reload()
    box = page.locator("a[data-pattern][aria-current]").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    assert page.get_by_role("button", name="Add an agent").count() == 1


def placeholder_sides(page: Page) -> list[tuple[str, str]]:
    """Return the sides that a form shows as placeholders."""
    names = page.locator(".seats [data-name=name] input")
    stances = page.locator(".seats [data-name=stance] textarea")
    return [
        (names.nth(at).get_attribute("placeholder") or "", stances.nth(at).get_attribute("placeholder") or "")
        for at in range(names.count())
    ]


@pytest.mark.parametrize(
    ("question", "sides"),
    [
        (
            "Should we use Postgres or MySQL?",
            [("Postgres", "We should use Postgres"), ("MySQL", "We should use MySQL")],
        ),
        ("Should we ship?", [("pro", "We should ship"), ("con", "We should not ship")]),
    ],
)
def test_default_sides_follow_the_question(
    stage: Stage, visit: Callable[[str], Visit], question: str, sides: list[tuple[str, str]]
) -> None:
    """The debate uses the placeholder sides unless the user replaces them, and replacing one side keeps the other."""
    page = visit(stage.url).open("/new")
    page.get_by_label("Question").fill(question)
    page.get_by_text("These are the sides of your question.").wait_for()
    assert placeholder_sides(page) == sides
    page.locator(".seats [data-name=stance] textarea").last.fill("Neither")
    page.locator("[data-as=toml]").get_by_text("Neither").wait_for()
    page.get_by_role("button", name="Start the debate").click()
    page.get_by_text("What the judge saw").wait_for()
    run_id = page.url.rpartition("/")[2].partition("?")[0]
    debaters = stage.get(f"/runs/{run_id}?wait=30").json()["document"]["debaters"]
    assert [(side["name"], side["stance"]) for side in debaters] == [sides[0], (sides[1][0], "Neither")]


def test_missing_sides_are_proposed(visit: Callable[[str], Visit]) -> None:
    with staged(lambda: Service(store="memory:", model=FunctionModel(propose_sides))) as stage:
        page = visit(stage.url).open("/new")
        page.get_by_label("Question").fill("Which database?")
        page.get_by_role("button", name="Propose sides (1 call)").click()
        page.locator("[data-as=toml]").get_by_text("SQLite will do").wait_for()
        assert page.locator(".seats > li").count() == 3
        assert page.locator(".seats textarea").first.evaluate("field => field === document.activeElement")
        page = visit(stage.url).open("/new")
        page.get_by_label("Question").fill("Which database?")
        page.get_by_text("The model proposes them when you start").wait_for()
        page.get_by_role("button", name="Start the debate").click()
        page.get_by_text("What the judge saw").wait_for()
        assert page.get_by_text("MySQL is simpler").count()


def test_format_is_selected_by_name(stage: Stage, visit: Callable[[str], Visit]) -> None:
    page = visit(stage.url).open("/new?example=true")
    plan = page.locator("[data-as=toml]")
    page.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")
    page.get_by_label("Socratic").check()
    plan.get_by_text('format = "socratic"').wait_for()
    page.get_by_label("No format").check()
    plan.filter(has_not_text="socratic").wait_for()
    assert "format" not in tomllib.loads(plan.inner_text())


def test_command_beside_a_form_follows_its_fields(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """The command and the Python code beside the form omit options that have not been changed."""
    page = visit(stage.url).open("/new?example=true")
    page.get_by_label("Question").fill('Why "so"?')
    page.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")
    page.get_by_label("Rounds", exact=True).first.fill("3")
    page.get_by_label("Turn order").select_option("Shuffled")
    page.get_by_role("checkbox", name="Moderator").last.check()
    page.get_by_role("button", name="Add a side").click()
    page.keyboard.type("Zoe")
    page.locator(".seats textarea").nth(-2).fill("Neither")
    page.get_by_role("checkbox", name="A person").last.check()
    page.get_by_label("Length of a turn").fill("40")
    page.get_by_label("Fallback models").fill("a/b\n c/d ")
    page.get_by_label("Material").fill("One.")
    phases = page.locator("[data-name=phases]")
    phases.get_by_role("button", name="Add a phase").click()
    phases.get_by_label("Name").fill("opening")
    phases.get_by_label("Sides that speak").fill("1, 3")
    schema = page.locator("[data-name=output_schema]")
    schema.get_by_role("button", name="Add a field").click()
    schema.get_by_label("Name").fill("price")
    schema.get_by_label("Type").select_option("Whole number")
    page.get_by_role("checkbox", name="Synthesizer").uncheck()
    page.get_by_role("checkbox", name="Drafts").check()
    page.locator("[data-as=toml]").filter(has_text="drafts").wait_for()
    assert tomllib.loads(page.locator("[data-as=toml]").inner_text()) == {
        "pattern": "debate",
        "question": 'Why "so"?',
        "max_rounds": 3,
        "turn_order": "shuffled",
        "moderator": True,
        "debaters": [
            {"name": "Remy", "stance": "Working from home is better"},
            {"name": "Olga", "stance": "Working in an office is better"},
            {"name": "Zoe", "stance": "Neither"},
        ],
        "humans": ["Zoe"],
        "length": 40,
        "fallback": ["a/b", "c/d"],
        "sources": {"text": "One."},
        "phases": [{"name": "opening", "speakers": [1, 3]}],
        "output_schema": {
            "type": "object",
            "properties": {"price": {"type": "integer"}},
            "required": ["price"],
            "additionalProperties": False,
        },
        "synthesizer": False,
        "baselines": ["drafts"],
    }


@pytest.mark.parametrize(
    ("label", "typed", "problem"),
    [
        ("Rounds", "many", "a whole number of at least 1"),
        ("Orders for the judge", "often", "single"),
        ("Name", "Ann", "Is required"),
    ],
)
def test_problems_are_shown_beside_their_field(
    stage: Stage, visit: Callable[[str], Visit], label: str, typed: str, problem: str
) -> None:
    page = visit(stage.url).open("/new")
    # the form cannot propose a position for Ann based on this question
    page.get_by_label("Question").fill("Which one?")
    page.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")
    field = page.get_by_label(label).first
    field.fill(typed)
    page.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = false; })")
    page.get_by_role("button", name="Start the debate").click()
    alert = page.get_by_role("alert").filter(has_text="Nothing was started.")
    alert.wait_for()
    assert problem in page.locator(".field.bad > .problem").inner_text()
    focused = page.locator("[aria-invalid]")
    assert focused.evaluate("field => field === document.activeElement && field.ariaInvalid === 'true'")
    assert field.input_value() == typed
    assert page.get_by_label("Question").input_value() == "Which one?"


def test_human_side_needs_a_name(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """The suggested name can be replaced, but the debate cannot be started without a name."""
    page = visit(stage.url).open("/new")
    page.get_by_label("Question").fill("Which one?")
    page.get_by_role("checkbox", name="A person").first.check()
    page.get_by_role("button", name="Start the debate").click()
    page.get_by_text("Name the side that a person plays.").wait_for()
    page.get_by_label("Question").fill("Should we ship?")
    page.get_by_role("button", name="Start the debate").click()
    page.get_by_role("link", name="Answer", exact=True).wait_for()
    run_id = page.url.rpartition("/")[2].partition("?")[0]
    assert [request["block"] for request in stage.get(f"/runs/{run_id}").json()["pending"]] == ["debate-debater-pro"]


def test_unknown_model_is_reported_beside_its_field(stage: Stage, visit: Callable[[str], Visit]) -> None:
    page = visit(stage.url).open("/new?question=Should+we+ship%3F")
    seat = page.locator(".seats > li").nth(1).locator("[data-name=model] input").first
    seat.fill("no-such-model")
    page.get_by_role("button", name="Start the debate").click()
    problem = page.get_by_text("must be a model that this server allows")
    problem.wait_for()
    assert problem.count() == 1
    assert seat.get_attribute("aria-errormessage") == problem.get_attribute("id")


def test_two_people_can_argue_and_judge_alongside_models(stage: Stage, chromium: Browser) -> None:
    run_id = stage.begin(options={"max_rounds": 1, "debaters": SIDES, "humans": ["Ann", "judge"]})
    stage.get(f"/runs/{run_id}?wait=30")
    owner, ann, judge = (Visit(chromium, stage.url, token=token) for token in (TOKEN, None, None))
    shared = owner.open(f"/runs/{run_id}")
    shared.get_by_role("button", name="Copy link for the judge").click()
    shared.get_by_role("button", name="Copy link for Ann").click()
    shared.get_by_label("Link for this role only, valid for a week").nth(1).wait_for()
    to_ann, to_judge = (
        field.input_value() for field in shared.get_by_label("Link for this role only, valid for a week").all()
    )
    judging = judge.open(to_judge.removeprefix(stage.url))
    judging.get_by_text("Not your turn", exact=True).wait_for()
    arguing = ann.open(to_ann.removeprefix(stage.url))
    arguing.get_by_role("textbox", name="Your answer").fill("It is tested.")
    arguing.get_by_role("button", name="Send").click()
    arguing.get_by_text("Not your turn", exact=True).wait_for()
    arguing.get_by_text("debate-debater-Ben is sure.").wait_for()
    judging.get_by_text("Your turn", exact=True).wait_for()
    assert judging.locator("article.turn h3").all_inner_texts() == ["Side A", "Side B"]
    judging.get_by_role("button", name="Send").click()
    judging.get_by_role("alert").filter(has_text="Nothing was sent.").wait_for()
    judging.get_by_label("Side A: Ship").check()
    judging.get_by_label("Reasoning").fill("A was tested.")
    judging.get_by_label("Verdict").fill("Ship it.")
    judging.get_by_role("button", name="Send").click()
    for page in (judging, arguing):
        page.get_by_text("The run is over").wait_for()
    shared.get_by_text("Ship it.").first.wait_for()
    for reader in (judge, owner, ann):
        reader.close()
        assert reader.problems == []


def press_tab_to(page: Page, name: str) -> None:
    """Press Tab until the focus is on an element with the given name."""
    for _ in range(MAX_TABS):
        page.keyboard.press("Tab")
        focused: Any = page.evaluate(
            """const at = document.activeElement;
            at === document.body ? "" : [...(at.labels ?? []), at].map(each => each.textContent).join()"""
        )
        if re.search(name, focused):
            return
    raise AssertionError(name)


def test_run_can_be_started_answered_and_stopped_by_keyboard(visit: Callable[[str], Visit]) -> None:
    """Every control is reachable by Tab, and the focus moves on to the next useful control."""
    with staged(lambda: Service(store="memory:", model=Gate())) as stage:
        page = visit(stage.url).open("/")
        press_tab_to(page, "New debate")
        page.keyboard.press("Enter")
        page.locator("#new").wait_for()
        press_tab_to(page, "Use this example")
        page.keyboard.press("Enter")
        page.wait_for_url("**/new?*example=true")
        press_tab_to(page, "A person")
        page.keyboard.press("Space")
        press_tab_to(page, "Start the debate")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Answer", exact=True).wait_for()
        press_tab_to(page, "Answer")
        page.keyboard.press("Enter")
        page.locator("#answer").wait_for()
        press_tab_to(page, "Your answer")
        page.keyboard.type("Home is quiet.")
        press_tab_to(page, "Send")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Stop").wait_for()
        page.get_by_text("Home is quiet.").wait_for()
        press_tab_to(page, "Stop")
        page.keyboard.press("Enter")
        page.get_by_text("Interrupted").first.wait_for()


SEATS = {"Ann": "openai/gpt-5-mini", "Ben": "anthropic/claude-haiku-5-5", "default": "gemini/gemini-3-pro"}
SEATS |= {"judge": "ollama/gemma3"}


def test_four_vendors_receive_the_choices_made_in_the_form(visit: Callable[[str], Visit], tmp_path: Path) -> None:
    """Every vendor receives the text and the image, but never the requests or the key of another vendor."""
    pytest.importorskip("anthropic")  # import it up front, since that takes seconds
    (tmp_path / "report.md").write_text("Rents rose by 15 per cent.")
    (tmp_path / "chart.png").write_bytes(png())
    make = lambda: Service(store="memory:", allow_models=SEATS.values())  # noqa: E731 - as `staged` takes it
    with vendors() as clients, staged(make) as stage:
        page = visit(stage.url).open("/new")
        page.get_by_label("Question").fill("Should rents be capped?")
        page.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")
        for at, (name, stance) in enumerate((("Ann", "Cap rents"), ("Ben", "Free rents"))):
            seat = page.locator(".seats > li").nth(at)
            seat.locator("[data-name=name] input").fill(name)
            seat.locator("[data-name=stance] textarea").fill(stance)
            seat.locator("[data-name=model] input").first.fill(SEATS[name])
        for role in ("default", "judge"):
            page.locator(f".field[data-name=model] .field[data-name={role}] input").fill(SEATS[role])
        page.get_by_label("Rounds", exact=True).first.fill("1")
        page.get_by_label("Material").fill("Homes are scarce.")
        page.get_by_label("Add files").set_input_files([tmp_path / "report.md", tmp_path / "chart.png"])
        page.get_by_text("(the content of chart.png)").first.wait_for()
        page.get_by_role("button", name="Start the debate").click()
        page.get_by_text("What the judge saw").wait_for(timeout=90_000)
    for vendor in clients.values():
        headers = str([request.headers for request in vendor.asked])
        assert vendor.refused == 0
        assert all((other.key in headers) is (other is vendor) for other in clients.values() if other.key)
    assert {name: len(vendor.asked) for name, vendor in clients.items()} == dict.fromkeys(clients, 1) | {
        "ollama": 2
    }  # the judge reads both orders
    for vendor in (clients["openai"], clients["anthropic"]):
        [request] = vendor.asked
        body = json.dumps(request.body)
        assert "[text] Homes are scarce." in body
        assert "[report.md] Rents rose by 15 per cent." in body
        assert base64.b64encode(png()).decode() in body


def test_unreadable_file_is_reported_beside_the_sources(
    stage: Stage, visit: Callable[[str], Visit], tmp_path: Path
) -> None:
    """The message is the same as on the command line, and no run starts."""
    (tmp_path / "app.bin").write_bytes(b"\0\1\2")
    page = visit(stage.url).open("/new?example=true")
    page.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")
    page.get_by_label("Add files").set_input_files([tmp_path / "app.bin"])
    page.get_by_role("button", name="Start the debate").click()
    problems = page.locator("#problems")
    problems.get_by_text("app.bin: is binary: only text, documents and images").wait_for()
    assert page.url.endswith("/new?example=true")


DIFF = """diff --git a/app.py b/app.py
--- a/app.py
+++ b/app.py
@@ -1 +1 @@
-x = 1
+x = 2
diff --git a/old.py b/old.py
deleted file mode 100644
--- a/old.py
+++ /dev/null
@@ -1 +0,0 @@
-y = 1
"""


def test_review_form_accepts_a_diff_and_dropped_files(
    stage: Stage, visit: Callable[[str], Visit], tmp_path: Path
) -> None:
    (tmp_path / "more.diff").write_text("--- a/util.py\n+++ b/util.py\n@@ -1 +1 @@\n-z = 1\n+z = 2\n")
    page = visit(stage.url).open("/new?pattern=review")
    page.get_by_label("What to review").fill(DIFF)
    page.get_by_role("button", name="Add another text").click()
    assert page.locator("[data-files] li .mono").all_inner_texts() == ["app.py", "old.py"]
    page.get_by_label("Add files").set_input_files([tmp_path / "more.diff"])
    page.get_by_text("util.py").first.wait_for()
    page.locator(".drop").evaluate(
        """zone => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File(["Ship on Friday."], "plan.md", { type: "text/markdown" }));
            zone.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
        }"""
    )
    page.locator("[data-files]").get_by_text("plan.md").wait_for()
    page.get_by_role("button", name="Remove util.py").click()
    page.get_by_label("What to review").fill("One more note.")
    page.locator("[data-as=toml]").get_by_text("One more note.").wait_for()
    plan = tomllib.loads(page.locator("[data-as=toml]").inner_text())
    assert [*plan["sources"]] == ["app.py", "old.py", "plan.md", "text"]
    assert plan["sources"]["app.py"].startswith("diff --git a/app.py")
    assert plan["question"] == "What is wrong with this change?"
    page.get_by_role("button", name="Start the review").click()
    page.wait_for_url("**/runs/*")
