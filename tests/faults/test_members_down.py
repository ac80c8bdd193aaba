"""Members that are permanently down, in every pattern, role and front end.

Over real HTTP, a run ends with a marked answer or a clear error, and answers already paid for stay readable.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.errors import FlowDebateError
from flowdebate.mcp import create_server
from flowdebate.patterns import PATTERNS
from flowdebate.service.service import Service
from flowdebate.ui.plan import make_plan
from tests.faults.members import FAULTS, Endpoint, endpoint, model_word
from tests.server.stage import staged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server.stage import Stage

SUBJECT = "Should rents be capped?"
PANELS = ("council", "review", "consensus", "round_robin")
MEMBERS = ("ann", "ben", "cleo", "dan")
ROSTERS = {"council": "members", "review": "reviewers", "consensus": "agents"}
QUORUMS = {"consensus": 1}
ROLES: dict[str, tuple[str, ...]] = {
    "debate": ("judge", "moderator", "synthesizer"),
    "council": ("chair",),
    "review": ("merger",),
    "consensus": ("judge", "tie_break"),
    "round_robin": ("referee", "synthesizer"),
    "deliberation": ("moderator",),
    "handoff": (),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "debate": {"max_rounds": 1, "moderator": True, "synthesizer": True},
    "consensus": {"max_rounds": 1, "judge": True, "tie_break": True, "archive": False},
    "round_robin": {"max_rounds": 1, "referee": True},
    "deliberation": {"max_rounds": 1},
    "handoff": {"max_turns": 4},
}


@dataclass(frozen=True)
class Case:
    """A pattern with its failing members."""

    pattern: str
    down: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.pattern}: {', '.join(self.down)}"

    def plan(self, fault: str) -> dict[str, Any]:
        """Return plan file options with a separate model for each member and role."""

        def model(name: str) -> str:
            return f"openai/{fault if name in self.down else 'up'}-{name}"

        roster = ROSTERS.get(self.pattern, "debaters")
        members: list[dict[str, str]] = [{"name": name, "model": model(name)} for name in MEMBERS]
        if self.pattern == "debate":
            members = [{**member, "stance": f"side {member['name']}"} for member in members]
        options = {**OPTIONS.get(self.pattern, {}), roster: members}
        if ROLES[self.pattern]:
            options["model"] = {role: model(role) for role in ROLES[self.pattern]}
        if "j1" in self.down:
            options["panel"] = [model(judge) for judge in JUDGES]
            options["model"] = {"moderator": "openai/up-moderator", "synthesizer": "openai/up-synthesizer"}
        return options


JUDGES = ("j1", "j2", "j3")
CASES = [
    *(Case(pattern, MEMBERS[:number]) for pattern in ROLES for number in (1, 2, 4)),
    *(Case(pattern, (role,)) for pattern, roles in ROLES.items() for role in roles),
    *(Case(pattern, (*MEMBERS, *roles)) for pattern, roles in ROLES.items() if roles),
    *(Case("debate", JUDGES[:number]) for number in (1, 2, 3)),
]
"""Cases with one, two or all members down, with each role down, with everything down, and with panel judges down."""
QUICK = ("council: ann", "council: chair", "review: ann, ben", "round_robin: ann, ben, cleo, dan", "debate: judge")


def case_param(case: Case, fault: str, *, quick: bool) -> Any:
    """Return a case as a test parameter, marked slow unless it is `quick`."""
    return pytest.param(case, fault, id=f"{case}, {fault}", marks=() if quick else pytest.mark.slow)


FAULT_OF = {case: FAULTS[number % len(FAULTS)] for number, case in enumerate(CASES)}
each_fault = pytest.mark.parametrize(
    ("case", "fault"), [case_param(case, fault, quick=FAULT_OF[case] == fault) for case in CASES for fault in FAULTS]
)
each_case = pytest.mark.parametrize(
    ("case", "fault"), [case_param(case, fault, quick=str(case) in QUICK) for case, fault in FAULT_OF.items()]
)
"""Cases with one fault each; across the cases, every front end is tested with every fault."""


@contextmanager
def set_environment(stub: Endpoint) -> Iterator[None]:
    """Point OpenAI's environment variables at the endpoint."""
    before = dict(os.environ)
    os.environ.update(OPENAI_BASE_URL=stub.url, OPENAI_API_KEY="none", FLOWDEBATE_MODEL="openai/up-default")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def served_endpoint() -> Iterator[Endpoint]:
    """Provide an endpoint to which OpenAI's environment variables point."""
    with endpoint() as stub, set_environment(stub):
        yield stub


@pytest.fixture(autouse=True)
def _none_is_asked_yet(served_endpoint: Endpoint) -> None:
    served_endpoint.clear()


@pytest.fixture(scope="module")
def case_server(served_endpoint: Endpoint) -> Iterator[Stage]:
    """Provide an HTTP server that allows OpenAI models."""
    with staged(lambda: Service(store="memory:", allow_models=["openai/*"])) as stage:
        yield stage


def check_line(text: str | None, case: Case, served_endpoint: Endpoint) -> None:
    """Check that `text` is present and names every failed model."""
    assert text is not None
    names = {name.partition("-")[2] for name in served_endpoint.failed}
    for name in names:
        assert name in text, text


def check_ending(case: Case, served_endpoint: Endpoint, status: str, incomplete: str | None) -> None:
    """Check that a completed run reports missing members if and only if there are any."""
    if served_endpoint.failed:
        assert status in ("degraded", "no_verdict")
        check_line(incomplete, case, served_endpoint)
    else:  # the failing role was never called
        assert (status, incomplete) == ("complete", None)


def should_complete(case: Case, fault: str) -> bool:
    """Return whether the pattern's defaults accept the number of remaining members."""
    lost = sum(name in case.down for name in MEMBERS)
    if case.pattern in PANELS:
        return len(MEMBERS) - lost >= QUORUMS.get(case.pattern, 2)
    if case.pattern == "debate" and "moderator" in case.down and fault == "malformed":
        # if the moderator's answers are malformed, the debaters speak in the declared order
        return lost == 0 and "synthesizer" not in case.down
    return lost == 0 and not {"moderator", "synthesizer"} & {*case.down}


def check_paid(raw: Any, served_endpoint: Endpoint) -> None:
    """Check that the text of every model is in the raw output."""
    text = json.dumps(raw.to_wire())
    for model in served_endpoint.answered:
        if model.partition("-")[2] in MEMBERS:
            assert model_word(model) in text


@each_fault
def test_failed_members_are_reported_in_python(case: Case, fault: str, served_endpoint: Endpoint) -> None:
    """What the other members wrote is available in the result or, if the run fails, in the error."""
    plan = make_plan(PATTERNS[case.pattern], {}, file={PATTERNS[case.pattern].subject: SUBJECT, **case.plan(fault)})
    if not should_complete(case, fault):
        with pytest.raises(FlowDebateError, match=r"503|401|404|empty|no text|nothing") as caught:
            plan.pattern().run_sync(SUBJECT, model=plan.models)
        assert caught.value.run.status == "failed"
        check_paid(caught.value.run.raw, served_endpoint)
        return
    result = plan.pattern().run_sync(SUBJECT, model=plan.models)
    check_paid(result.raw, served_endpoint)
    check_ending(case, served_endpoint, result.status, result.raw.incomplete)
    assert result.raw.status == result.status
    text = result.output if isinstance(result.output, str) else getattr(result.output, "answer", None)
    if served_endpoint.failed and case.pattern in ("council", "round_robin", "debate") and text is not None:
        assert text.splitlines()[0] == result.raw.incomplete
    assert (result.raw.incomplete or "") in repr(result)


@each_case
def test_failed_members_are_reported_on_the_command_line(
    case: Case, fault: str, served_endpoint: Endpoint, tmp_path: Path
) -> None:
    """The page and the document list the missing members above the answer.

    If the run fails, they show the error and the finished arguments instead.
    """
    path = tmp_path / "plan.json"
    plan = {"pattern": case.pattern, PATTERNS[case.pattern].subject: SUBJECT, **case.plan(fault)}
    path.write_text(json.dumps(plan))
    completed = CliRunner().invoke(app, ["run", str(path), "--no-store"], env={"COLUMNS": "500"})
    quiet = CliRunner().invoke(app, ["run", str(path), "--no-store", "--quiet"], env={"COLUMNS": "500"})
    saved = CliRunner().invoke(app, ["run", str(path), "--no-store", "--json"])
    document = json.loads(saved.stdout)
    assert {completed.exit_code, quiet.exit_code} == {saved.exit_code}
    if not should_complete(case, fault):
        assert (saved.exit_code, document["status"]) == (1, "failed")
        assert "Error: " in completed.stderr
        return
    if not served_endpoint.failed:
        assert (saved.exit_code, document["status"]) == (0, "complete")
        return
    assert document["status"] in ("degraded", "no_verdict")
    for page in (completed.stdout, quiet.stdout):
        result = " ".join(page.split())
        check_line(result[result.index("Incomplete: ") :], case, served_endpoint)
        if document["raw"].get("answer"):
            assert "Answer: Incomplete: " in result or case.pattern == "consensus"
        if document.get("output"):
            assert re.search(r"(Output|Output Incomplete:.*|Incomplete: .*) word", result)


@each_case
def test_failed_members_are_reported_over_http(
    case: Case, fault: str, served_endpoint: Endpoint, case_server: Stage
) -> None:
    options = case.plan(fault)
    run_id = case_server.begin(pattern=case.pattern, question=SUBJECT, options=options)
    details = case_server.get(f"/runs/{run_id}?wait=30").json()
    if not should_complete(case, fault):
        assert details["status"] == "failed"
        assert details["error"]
        return
    if not served_endpoint.failed:
        assert details["status"] == "complete"
        return
    assert details["status"] in ("degraded", "no_verdict")
    assert details["document"]["raw"]["losses"]
    check_line(details["document"]["incomplete"], case, served_endpoint)
    page = case_server.http.get(f"{case_server.pages}/runs/{run_id}").text
    # the mark is above the result, or on the first line of a synthesizer's text
    mark = page.partition('id="incomplete"')[2].partition("<summary>Details</summary><p>")[2]
    details = (mark or page.partition("<p>Incomplete: ")[2]).split("</p>")[0]
    check_line(f"Incomplete: {details}", case, served_endpoint)
    report = case_server.get(f"/runs/{run_id}/report.md").text
    assert "Incomplete" in report


@each_case
def test_failed_members_are_reported_over_mcp(case: Case, fault: str, served_endpoint: Endpoint) -> None:
    options = case.plan(fault)

    async def report() -> Any:
        async with (
            Service(store="memory:", allow_models=["openai/*"]) as service,
            Client(create_server(service)) as client,
        ):
            run = await service.begin(case.pattern, SUBJECT, options=options)
            called = await client.call_tool("wait_for_run", {"run_id": run.run_id, "seconds": 30})
            return called.structured_content

    output = asyncio.run(report())
    if not should_complete(case, fault):
        assert output["status"] == "failed"
        assert output["error"]
        return
    if not served_endpoint.failed:
        assert output["status"] == "complete"
        return
    assert output["status"] in ("degraded", "no_verdict")
    check_line("\n".join(output["result"].splitlines()[:3]), case, served_endpoint)


ONE_GONE = ["--member", "Ada=up-ada", "--member", "Ben=up-ben", "--member", "Cleo=404-cleo", "--member", "Dan=up-dan"]


def test_a_council_names_the_member_without_an_endpoint(served_endpoint: Endpoint) -> None:
    """Each member has its own model at the same address, and there is no default model.

    The council's answer begins by naming the missing member.
    """
    command = [
        "council",
        SUBJECT,
        *ONE_GONE,
        "--model",
        "chair=up-chair",
        "--base-url",
        served_endpoint.url,
        "--no-store",
    ]
    saved = CliRunner().invoke(app, [*command, "--json"])
    document = json.loads(saved.stdout)
    assert (saved.exit_code, document["status"]) == (0, "degraded")
    assert [opinion["agentName"] for opinion in document["raw"]["opinions"]] == ["Ada", "Ben", "Dan"]
    first, _, rest = document["raw"]["answer"].partition("\n\n")
    assert first.startswith("Incomplete: Cleo did not answer (ModelNotFound: the endpoint answered 404: No endpoints")
    assert (first, rest) == (document["incomplete"], f"{model_word('up-chair')} is fine.")
    assert {model.partition("-")[2] for model in served_endpoint.answered} == {"ada", "ben", "dan"}


def test_a_base_url_needs_a_model_for_every_role(served_endpoint: Endpoint) -> None:
    """The default model cannot be used, because it has a different address.

    The error names the roles that have no model.
    """
    arguments = ["--debater", "ann=Yes", "--debater", "ben=No", "--model", "ann=up-ann", "--model", "ben=up-ben"]
    refused = CliRunner().invoke(app, ["debate", SUBJECT, *arguments, "--base-url", served_endpoint.url, "--no-store"])
    assert refused.exit_code == 2
    words = " ".join(refused.stderr.split())
    assert f"for judge, synthesizer: specify a model on the server at {served_endpoint.url}" in words
    assert (served_endpoint.answered, served_endpoint.failed) == ([], set())


def test_resume_calls_a_failed_judge_again(served_endpoint: Endpoint, tmp_path: Path) -> None:
    """The recorded arguments are reused, so the judge's call is the only one that is repeated."""
    store = ["--store", str(tmp_path / "runs.sqlite3")]
    arguments = ["--debater", "ann=Yes", "--debater", "ben=No", "--max-rounds", "1", "--base-url", served_endpoint.url]
    models = ["--model", "up-default", "--model", "judge=503-judge"]
    lost = CliRunner().invoke(app, ["debate", SUBJECT, *arguments, *models, *store, "--json"])
    assert lost.exit_code == 3
    before = json.loads(lost.stdout)
    assert (before["status"], before["raw"]["verdict"]) == ("no_verdict", None)
    assert f"flowdebate resume {before['runId'][:8]}" in lost.stderr
    answered = list(served_endpoint.answered)
    still = CliRunner().invoke(app, ["resume", before["runId"], *store, "--json"])
    assert (still.exit_code, served_endpoint.answered) == (3, answered)
    flags = ["--allow-changes", "--model", "judge=up-judge"]
    resumed = CliRunner().invoke(app, ["resume", before["runId"], *store, *flags, "--json"])
    after = json.loads(resumed.stdout)
    assert (resumed.exit_code, after["status"], after["raw"]["losses"]) == (0, "complete", [])
    assert after["raw"]["transcript"] == before["raw"]["transcript"]
    assert after["raw"]["verdict"]["verdict"] == f"{model_word('up-judge')} is fine."
    # the synthesizer is called for the first time, since there was no verdict before
    assert served_endpoint.answered == [*answered, "up-default"]


def test_an_openai_client_sees_the_missing_members_first(served_endpoint: Endpoint) -> None:
    members = [{"name": name, "model": f"openai/{'404' if name == 'cleo' else 'up'}-{name}"} for name in MEMBERS]

    panel = PATTERNS["council"].load_factory()(name="panel", members=members)
    with staged(lambda: Service({"panel": panel}, store="memory:"), openai=True) as stage:
        for model, begins in (("debate/panel:answer", True), ("debate/panel", False)):
            body = {"model": model, "messages": [{"role": "user", "content": SUBJECT}]}
            answer = stage.http.post("/v1/chat/completions", json=body).json()
            content = answer["choices"][0]["message"]["content"]
            assert content.startswith("Incomplete: cleo did not answer") is begins
            assert "Incomplete" in content.partition("## Answer")[0 if begins else 2]
            assert answer["flowdebate"]["status"] == "degraded"
            assert answer["flowdebate"]["incomplete"].startswith("Incomplete: cleo did not answer")


def test_a_notebook_shows_the_missing_members() -> None:
    result = make_plan(PATTERNS["council"], {}, file={"question": SUBJECT, **Case("council", ("ann",)).plan("404")})
    html = result.pattern().run_sync(SUBJECT)
    assert "Incomplete: ann did not answer" in (html._repr_html_() or "")
    assert "Incomplete" in (html._repr_markdown_() or "")


def test_a_default_model_does_not_replace_other_models() -> None:
    """The `model` of a run is only a default, whereas `override_model` replaces every model."""
    plan = make_plan(PATTERNS["council"], {}, file={"question": SUBJECT, **Case("council", ()).plan("404")})
    members = plan.pattern()
    default = members.run_sync(SUBJECT, model="openai/up-default")
    assert {name for names in default.models.values() for name in names} == {
        *(f"openai/up-{name}" for name in MEMBERS),
        "openai/up-chair",
    }
    override = members.run_sync(SUBJECT, override_model="openai/up-other")
    assert {name for names in override.models.values() for name in names} == {"openai/up-other"}
