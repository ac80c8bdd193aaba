"""The page for a new run: a form for any pattern, and the request as a plan file, Python and curl."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import tomllib
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, debate
from flowdebate.patterns import PATTERNS
from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from flowdebate.testing.examples import Example, ExampleModel
from flowdebate.ui.plan import make_plan
from flowdebate.web.forms import form_of
from flowdebate.web.written import as_curl, as_python, as_toml
from tests.server.stage import answer_debate, staged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server.stage import Stage

SHOWN = re.compile(r'data-as="(\w+)"[^>]*>(.*?)</pre>', re.DOTALL)
NAMES = re.compile(r'data-name="([^"]*)"')


def code_texts(page: str) -> dict[str, str]:
    """Return the generated code shown next to the form."""
    return {name: unescape(text) for name, text in SHOWN.findall(page)}


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_form_has_every_option_of_its_pattern(shared: Stage, pattern: str) -> None:
    described = next(info for info in shared.get("/patterns").json() if info["name"] == pattern)
    page = shared.http.get(f"/new?pattern={pattern}").text
    options = set(described["options"]["properties"]) - {
        "suspend",
        "continuation",
        "earlier",
    }  # only programs can do this
    entry = described["options"]["$defs"][{"debate": "SideEntry"}.get(pattern, "PersonaEntry")]["properties"]
    seats = {"default", *PATTERNS[pattern].load_page().options.ROLES}
    names = set(NAMES.findall(page))
    # people are chosen next to each speaker, or for other roles in a list by name
    assert ("data-human" in page) == ("humans" in options)
    inner = {"name", "type", "description"} if "output_schema" in options else set()
    if "phases" in options:
        inner |= set(described["options"]["$defs"]["PhaseEntry"]["properties"])
    assert names - {"humans"} == (options - {"humans"}) | {described["subject"]} | set(entry) | seats | inner
    assert 'data-kind="json"' not in page
    assert ("humans" in names) == bool(PATTERNS[pattern].load_page().options.PEOPLE)
    assert f'?pattern={pattern}" aria-current="true"' in page


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_prefilled_form_starts_a_run(pattern: str) -> None:
    with staged(lambda: Service(store="memory:", model=ExampleModel(Example()))) as stage:
        request = json.loads(
            shlex.split(code_texts(stage.http.get(f"/new?pattern={pattern}&example=true").text)["curl"])[-1]
        )
        begun = stage.post("/runs", request)
        assert begun.status_code == 201, begun.text
        assert stage.get(f"/runs/{begun.json()['runId']}?wait=30").json()["status"] == "complete"


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_example_is_sent_only_on_request(shared: Stage, pattern: str) -> None:
    """By default, the example's texts are only placeholders, so they are not submitted with another question."""
    page = shared.http.get(f"/new?pattern={pattern}").text
    sample = PATTERNS[pattern].load_page().sample
    plan = tomllib.loads(code_texts(page)["toml"])
    assert plan[PATTERNS[pattern].subject] == ""
    assert not set(plan) & (set(sample) - {PATTERNS[pattern].subject})
    assert f'placeholder="{sample[PATTERNS[pattern].subject]}"' in unescape(page)
    assert f"?pattern={pattern}&amp;example=true" in page
    filled = tomllib.loads(code_texts(shared.http.get(f"/new?pattern={pattern}&example=true").text)["toml"])
    assert {key: filled[key] for key in sample} == dict(sample)


def test_question_is_kept_when_switching_patterns(shared: Stage) -> None:
    """Only the question is kept.

    The sides in the example were written for a different question, so they are dropped.
    """
    page = shared.http.get("/new?pattern=debate&question=Should+we+%3Cship%3E%3F").text
    assert "Should we &lt;ship&gt;?</textarea>" in page
    assert "Working from home" not in page
    assert "example=true" not in page
    assert tomllib.loads(code_texts(page)["toml"]) == {"pattern": "debate", "question": "Should we <ship>?"}
    assert shared.http.get("/new?pattern=nothing").status_code == 404


def test_registered_pattern_has_a_form() -> None:
    rent = debate(name="rent", debaters=[Debater("ann", "cap rents"), Debater("bob", "build more")])
    with staged(lambda: Service({"rent": rent}, store="memory:", model=FunctionModel(answer_debate))) as stage:
        page = stage.http.get("/new?pattern=rent").text
        assert "rent-turn-ann" in page
        assert set(NAMES.findall(page)) == {"question"}
        assert set(code_texts(page)) == {"python", "curl"}
        assert 'href="?pattern=rent"' in stage.http.get("/new").text


def test_form_mentions_data_kept_by_agent_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with staged(lambda: Service(store="memory:", allow_models=["cli/*"])) as stage:
        page = stage.http.get("/new").text
        assert "cli/claude keeps its own instructions in each prompt" in page
        assert 'href="help/models#agent-clis"' in page
        assert "cli/codex keeps" not in page
    with staged(lambda: Service(store="memory:", allow_models=["openai/*"])) as stage:
        assert "cli/claude" not in stage.http.get("/new").text


def test_read_only_server_offers_no_form() -> None:
    with staged(lambda: Service(store="memory:"), read_only=True) as stage:
        assert stage.http.get("/new").status_code == 403
        assert 'href="/new"' not in stage.http.get("/").text


SIDES: list[dict[str, Any]] = [
    {"name": "Ann", "stance": 'Ship "it"\n\u2028 now', "role": None},
    {"name": "Ben", "stance": "Wait \\ é 👍"},
]
REQUEST: dict[str, Any] = {
    "pattern": "debate",
    "question": "Should we ship?",
    "options": {
        "max_rounds": 1,
        "debaters": SIDES,
        "synthesizer": False,
        "sources": {"a b": "One."},
        "length": "short",
        "schedule": "cyclic",
    },
}


def test_all_forms_of_generated_code_are_equivalent(shared: Stage) -> None:
    answer = shared.post("/plans", REQUEST).json()
    plan_file = {**tomllib.loads(answer["toml"])}
    assert plan_file.pop("pattern") == "debate"
    plan = make_plan(PATTERNS["debate"], {}, file=plan_file)
    assert [plan.subject, plan.length, [speaker.stance for speaker in plan.speakers]] == [
        "Should we ship?",
        1,
        [side["stance"] for side in SIDES],
    ]
    *_, address, header, _, body = [word for word in shlex.split(answer["curl"]) if word not in ("curl", "-H")]
    assert (address, json.loads(body)) == (f"{shared.url}/api/v1/runs", REQUEST)
    assert header == "Authorization: Bearer $TOKEN"
    document = asyncio.run(run_program(answer["python"])).document
    assert document.raw.question == "Should we ship?"
    assert [debater.stance for debater in document.debaters] == [side["stance"] for side in SIDES]


async def run_program(program: str) -> Any:
    """Run a generated program with the model that these tests use."""
    names: dict[str, Any] = {"__name__": "written"}
    exec(program, names)  # noqa: S102 - it is what the page shows
    async with Service(store="memory:", model=FunctionModel(answer_debate)) as service:
        return await names["hold"](service)


texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(question=texts, options=st.dictionaries(texts.filter(lambda key: key not in ("pattern", "question")), values))
def test_any_question_round_trips_through_the_generated_code(question: str, options: dict[str, Any]) -> None:
    request = {"pattern": "debate", "question": question, "options": options}
    assert tomllib.loads(as_toml(request) or "") == {"pattern": "debate", "question": question, **options}
    assert json.loads(shlex.split(as_curl(request, "http://localhost/"))[-1]) == request
    begun: list[Any] = []

    class Recorder:
        async def begin(self, *arguments: Any, options: Any = None) -> Any:
            begun.append((*arguments, options or {}))
            return self

        async def wait(self, _: str) -> None:
            return None

        run_id = ""

    names: dict[str, Any] = {"__name__": "written"}
    exec(as_python(request), names)  # noqa: S102 - it is what the page shows
    asyncio.run(names["hold"](Recorder()))
    assert begun == [("debate", question, options)]


def pattern_forms() -> Iterator[Any]:
    """Return the form of each pattern."""
    for info in PATTERNS.values():
        yield form_of(info, is_option_allowed=lambda options, name: "nothing" in options.reaches(name))


def test_form_does_not_mention_command_line_flags() -> None:
    for form in pattern_forms():
        for field in (*form.front, *(part for parts in form.folded.values() for part in parts)):
            assert "--" not in field.help, field
