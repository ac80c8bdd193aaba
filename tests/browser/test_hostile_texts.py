"""Hostile text on pages in a real browser: it is displayed and has no effect."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from flowdebate.models.output import inline_definitions
from flowdebate.patterns import PATTERNS
from flowdebate.service.service import Service
from flowdebate.testing import ATTACKS, FunctionModel
from tests.browser.visit import Visit, read_finished_page
from tests.server.stage import staged
from tests.web.test_prose import TAGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from playwright.sync_api import Browser, Page

    from flowdebate.models.base import ModelRequest
    from tests.server.stage import Stage

# so many debaters cause a warning
pytestmark = pytest.mark.filterwarnings("ignore::flowdebate.errors.FlowDebateWarning")

ELSEWHERE = "https://attacker.example"
MARKUP = (
    "<script>alert(1)</script>",
    f"<script src={ELSEWHERE}/a.js></script>",
    "<img src=x onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "' autofocus onfocus='alert(1)",
    "</title><script>alert(1)</script>",
    "--><script>alert(1)</script><!--",
    "<svg onload=alert(1)><animate onbegin=alert(1) attributeName=x dur=1s>",
    f"<svg><script href={ELSEWHERE}/a.js /><image href={ELSEWHERE}/a.png /></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    f"<object data={ELSEWHERE}></object><embed src={ELSEWHERE}><video src={ELSEWHERE}></video>",
    f"<link rel=stylesheet href={ELSEWHERE}/a.css><style>@import '{ELSEWHERE}/b.css'; * {{ display: none }}</style>",
    f"<meta http-equiv=refresh content='0; url={ELSEWHERE}'><base href={ELSEWHERE}/>",
    f"<form action={ELSEWHERE}><button autofocus>Go</button></form>",
    "<details open ontoggle=alert(1)><summary>Why</summary></details>",
    "<a href=javascript:alert(1)>why</a> [why](javascript:alert(1)) <javascript:alert(1)>",
    f"[why]: javascript:alert(1)\n\n[why] ![why]({ELSEWHERE}/a.png) <{ELSEWHERE}> {ELSEWHERE}",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
    "```html\n<script>alert(1)</script>\n```\n\n    <script>alert(2)</script>",
)
MARKDOWN = (
    f"# Rents\n\n**Half** of `it`, [why]({ELSEWHERE} 'now') ![a]({ELSEWHERE}/b.png).\n\n- one\n- two\n\n> so\n\n"
    "```js x\nalert(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
)
TEXTS = (*MARKUP, *(attack.written() for attack in ATTACKS))
FOREIGN_LINKS = "a:not([href^='/'], [href^='#'], [href^='?']), :not(a, link)[href]"
HARMLESS = "Nothing special."
PAIR = ({"name": "xenia", "stance": "sail"}, {"name": "yuri", "stance": "wait"})


class Writer:
    """Model that gives the answers in `texts` one after another, then repeats the last one."""

    texts: Sequence[str] = (HARMLESS,)

    def __call__(self, request: ModelRequest) -> Any:
        text, self.texts = self.texts[0], self.texts[1:] or self.texts
        return text if request.output_schema is None else {"reasoning": text, "winner": None, "verdict": text}


@pytest.fixture(scope="module")
def writer() -> Writer:
    """Create the model used by `stage`."""
    return Writer()


@pytest.fixture(scope="module")
def stage(writer: Writer) -> Iterator[Stage]:
    """Serve a model whose answers are chosen by the test."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(writer))) as stage:
        yield stage


def finish_debate(stage: Stage, *, question: str = HARMLESS, **options: Any) -> str:
    """Run a debate and return its id, or "" if the server rejects it."""
    body = {"pattern": "debate", "question": question, "options": {"max_rounds": 1, "debaters": PAIR, **options}}
    answer = stage.post("/runs", content=json.dumps(body), headers={"content-type": "application/json"})
    if answer.status_code == 422:
        return ""
    run_id: str = answer.json()["runId"]
    assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "complete"
    return run_id


@pytest.fixture(scope="module")
def long_runs(stage: Stage, writer: Writer) -> tuple[str, str]:
    """Finish a run that contains every piece of hostile text, and an equally long run that contains none."""
    number = -(-len(TEXTS) // 4)
    debaters = [{"name": f"debater-{index}", "stance": f"way {index}"} for index in range(number)]
    runs = []
    for texts in (TEXTS, (HARMLESS,)):
        writer.texts = texts
        runs.append(finish_debate(stage, max_rounds=4, debaters=debaters))
    assert all(runs)
    return runs[0], runs[1]


def list_elements(page: Page) -> list[str]:
    """Return the names of a page's elements, except for paragraphs, table rows, timelines and rendered Markdown."""
    foreign = page.locator(":not(p, tr, tr *, svg.line *, .prose *, .found *, .serif *)")
    names: list[str] = foreign.evaluate_all("found => found.map(each => each.localName)")
    return names


def check_markdown(page: Page) -> None:
    """Check that the text on a page uses only elements of the Markdown subset and has no links."""
    prose_elements = page.locator(":is(.prose, .found, .sides .serif) *")
    assert set(prose_elements.evaluate_all("found => found.map(each => each.localName)")) <= TAGS
    attributes = prose_elements.evaluate_all("found => found.flatMap(each => each.getAttributeNames())")
    assert set(attributes) <= {"class", "tabindex", "data-still", "scope", "value"}


def strip_marks(text: str) -> str:
    """Return the letters and digits of `text`, which are never Markdown marks."""
    return re.sub(r"[\W_]", "", text)


def strip_spaces(text: str) -> str:
    """Return `text` without whitespace."""
    return "".join(text.split())


def test_contributions_are_shown_as_text(
    stage: Stage, long_runs: tuple[str, str], visit: Callable[[str], Visit]
) -> None:
    visitor = visit(stage.url)
    hostile, harmless = (visitor.open(f"/runs/{run_id}") for run_id in long_runs)
    assert list_elements(hostile) == list_elements(harmless)
    assert hostile.locator(FOREIGN_LINKS).count() == 0
    check_markdown(hostile)
    visible = strip_marks(hostile.locator("#run").inner_text())
    for text in MARKUP:
        assert strip_marks(text) in visible


def test_streamed_markdown_is_rendered_safely(stage: Stage, writer: Writer, visit: Callable[[str], Visit]) -> None:
    writer.texts = [f"{MARKDOWN}\n\n{text}" for text in MARKUP]
    visitor = visit(stage.url)
    sides = [{"name": f"debater-{number}", "stance": f"way {number}"} for number in range(len(MARKUP))]
    body = {"pattern": "debate", "question": HARMLESS, "options": {"max_rounds": 1, "debaters": sides}}
    run_id = stage.post("/runs", body).json()["runId"]
    page = visitor.open(f"/runs/{run_id}")
    read_finished_page(page)
    check_markdown(page)
    assert page.locator("#turn-1 .prose > *").evaluate_all("found => found.map(each => each.localName)")[:6] == [
        *("p", "p", "ul", "blockquote", "pre", "div"),
    ]
    for path in (f"/runs/{run_id}/travel", f"/compare?a={run_id}&b={run_id}", f"/api/v1/runs/{run_id}/report.html"):
        page.goto(stage.pages + path)
        check_markdown(page)


def test_question_and_stance_are_shown_as_text(stage: Stage, visit: Callable[[str], Visit]) -> None:
    visitor = visit(stage.url)
    page = visitor.open(f"/runs/{finish_debate(stage)}")
    usual = list_elements(page)
    for text in MARKUP:
        run_id = finish_debate(stage, question=text, debaters=({**PAIR[0], "stance": text}, PAIR[1]))
        page.goto(f"{stage.pages}/runs/{run_id}")
        assert list_elements(page) == usual, text
        check_markdown(page)
        assert page.locator(FOREIGN_LINKS).count() == 0, text
        title = strip_spaces(page.title().partition("…")[0])  # long titles are cut off
        assert title
        assert strip_spaces(text).startswith(title) or title.startswith(strip_spaces(text))


def test_run_list_shows_questions_as_text(stage: Stage, visit: Callable[[str], Visit]) -> None:
    questions = [text for text in TEXTS if finish_debate(stage, question=text)]
    assert len(questions) >= len(TEXTS) - 2
    page = visit(stage.url).open("/?limit=200")
    rows = page.locator(".list tbody tr").evaluate_all("rows => rows.map(row => row.querySelectorAll('*').length)")
    assert len(rows) >= len(questions)
    assert len(set(rows)) == 1
    assert page.locator(FOREIGN_LINKS).count() == 0


def build_instance(schema: dict[str, Any], text: str) -> Any:
    """Build an answer for `schema` with this text in every free-text field."""
    schema = next((option for option in schema.get("anyOf", ()) if option.get("type") != "null"), schema)
    if "enum" in schema:
        return schema["enum"][0]
    if "properties" in schema:
        return {name: build_instance(field, text) for name, field in schema["properties"].items()}
    if schema.get("type") == "array":
        return [build_instance(schema.get("items", {}), text)] * schema.get("minItems", 1)
    plain_values: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": True, "null": None, "object": {}}
    return plain_values.get(schema.get("type", ""), text[: schema.get("maxLength")])


WRONG = f"""() => [...document.querySelectorAll("*")].filter((each) => {{
    const attributes = [...each.attributes].map(({{ name, value }}) => [name, value.trim().toLowerCase()]);
    const addresses = attributes.filter(([name]) => /^(href|src|action|formaction|data|srcset|xlink:href)$/.test(name));
    return attributes.some(([name]) => name.startsWith("on") || name === "srcdoc")
        || attributes.some(([name, value]) => name === "style" && !/^--n: \\d+;$/.test(value))
        || addresses.some(([, value]) => /^(javascript|vbscript|https?|data:text)/.test(value) || value.startsWith("//")
            || value.includes("{ELSEWHERE}"))
        || /^(iframe|frame|object|embed|base|video|audio|math|foreignobject|applet)$/i.test(each.localName)
        || (each.localName === "meta" && each.httpEquiv.toLowerCase() === "refresh")
        || (each.localName === "script" && each.getAttribute("src") === null && each.type !== "application/json");
}}).map((each) => each.outerHTML.slice(0, 200))"""
"""Script that returns elements that run scripts, load outside resources or link elsewhere."""
EVERYTHING = " ".join(MARKUP)


@pytest.fixture(scope="module")
def hostile() -> Iterator[Stage]:
    """Serve a model that always writes all of the hostile markup."""

    def answer(request: ModelRequest) -> Any:
        if request.output_schema is None:
            return f"{MARKDOWN}\n\n{EVERYTHING}"
        return build_instance(inline_definitions(dict(request.output_schema)), EVERYTHING)

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        yield stage


def hostile_pages(stage: Stage, pattern: str) -> list[str]:
    """Return the pages of two runs of a pattern, with markup in the question, names, stances and labels."""
    info = PATTERNS[pattern]
    page = info.load_page()
    names = [f"{MARKUP[2]}{number}" for number in range(3)]
    options: dict[str, Any] = {page.options.ROSTER: [{"name": name, page.speaks_for: MARKUP[5]} for name in names]}
    if pattern == "debate":
        options[page.options.ROSTER] = [{"name": name, "stance": f"{MARKUP[0]} {name}"} for name in names]
    ids = []
    for number in range(2):
        body: dict[str, Any] = {"pattern": pattern, "question": f"{MARKUP[6]} {number}", "options": options}
        answer = stage.post("/runs", {**body, "labels": {MARKUP[3]: MARKUP[4]}})
        if answer.status_code == 422:  # this pattern expects a different form of roster
            answer = stage.post("/runs", {**body, "options": None, "labels": {MARKUP[3]: MARKUP[4]}})
        assert answer.status_code == 201, answer.text
        ids.append(answer.json()["runId"])
        stage.get(f"/runs/{ids[-1]}?wait=60")
    one, other = ids
    of_run = [f"/runs/{one}", f"/runs/{one}/travel", f"/compare?a={one}&b={other}", f"/api/v1/runs/{one}/report.html"]
    paths = ["/", f"/new?pattern={pattern}&question={quote(MARKUP[6])}", *of_run]
    if pattern == "debate":
        voted = stage.post(
            f"/runs/{one}/votes", {"winner": options[page.options.ROSTER][0]["stance"], "why": MARKUP[1]}
        )
        assert voted.status_code == 201, voted.text
        humans = {**options, "humans": [names[2], "judge"], "suspend": True, "max_rounds": 1}
        awaiting = stage.post("/runs", {**body, "options": humans}).json()["runId"]
        assert stage.get(f"/runs/{awaiting}?wait=60").json()["status"] == "awaiting"
        link = stage.post(f"/runs/{awaiting}/links").json()["page"]
        paths += [
            f"/runs/{one}/blind",
            f"/runs/{awaiting}/answer",
            f"/runs/{awaiting}",
            "/audit",
            "/archive",
            f"!{link}",
        ]
    return paths


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_page_of_every_pattern_shows_hostile_text_as_plain_text(
    pattern: str, hostile: Stage, visit: Callable[[str], Visit]
) -> None:
    """No text from a model or user becomes an element that runs a script, loads anything, or links elsewhere."""
    visitor = visit(hostile.url)
    page = visitor.open("/")
    for path in hostile_pages(hostile, pattern):
        page.goto(f"{hostile.url}{path[1:]}" if path.startswith("!") else hostile.pages + path)
        assert page.evaluate(WRONG) == [], path


def test_forbidden_page_activity_is_detected(stage: Stage, chromium: Browser) -> None:
    """Dialogs, errors, requests to other servers, and Content-Security-Policy violations all count as problems."""
    visitor = Visit(chromium, stage.url)
    page = visitor.open("/")
    with page.expect_event("dialog"):
        page.evaluate("alert('hello')")
    with page.expect_console_message(lambda message: "CSP" in message.text):
        page.evaluate(f"() => {{ new Image().src = '{ELSEWHERE}/a.png'; }}")
    with page.expect_event("requestfailed"):
        page.evaluate(f"() => {{ location = '{ELSEWHERE}/'; }}")
    visitor.close()
    assert {problem.partition(":")[0] for problem in visitor.problems} == {"dialog", "error", "request"}
    plain = chromium.new_page()
    markup = [text.replace("<!--", "") for text in MARKUP]
    problems = plain.evaluate(
        f"texts => texts.map(text => {{ document.body.innerHTML = text; return ({WRONG})(); }})", markup
    )
    plain.close()
    assert sum(violation != [] for violation in problems) >= 12
