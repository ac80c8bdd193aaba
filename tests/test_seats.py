"""A model per role in every front end: requests reach only the right vendor, with only the right key."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from openai import BadRequestError, OpenAI
from typer.testing import CliRunner

from flowdebate import Debater, Limits, council, debate
from flowdebate.chassis.seats import seat_models
from flowdebate.cli.app import app
from flowdebate.errors import (
    AuthenticationFailed,
    ConfigurationError,
    FlowDebateError,
    FlowDebateWarning,
    ModelUnavailable,
)
from flowdebate.mcp import create_server
from flowdebate.patterns import PATTERNS
from flowdebate.service import Service
from flowdebate.store import export_run, import_runs
from flowdebate.testing import FunctionModel
from flowdebate.ui.models import models_line
from flowdebate.ui.plan import make_plan, stored_plan
from tests.mcp.conftest import error_text, structured_output
from tests.profiles import example_count
from tests.server.stage import TOKEN, answer_debate, staged

from .vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from .vendors import Vendor, VendorName, VendorRequest

    Found = dict[VendorName, Vendor]

QUESTION = "Should rents be capped?"
SEATS = {"default": "openai/gpt-5-mini", "con": "anthropic/claude-haiku-5-5", "judge": "gemini/gemini-3-pro"}
SEATS |= {"synthesizer": "ollama/gemma3"}
ASKED = {"openai": ["gpt-5-mini"], "anthropic": ["claude-haiku-5-5"], "gemini": ["gemini-3-pro"], "ollama": ["gemma3"]}
ASKED_BY_FRONT_ENDS = {**ASKED, "gemini": ASKED["gemini"] * 2}
"""Expected requests in front ends, where a judge of two sides reads both orders."""
ANSWERED = {"pro": "openai/gpt-5-mini", "con": SEATS["con"], "judge": SEATS["judge"], "synthesizer": "ollama/gemma3"}
MEMBERS = {"Ada": "openai/gpt-5-mini", "Ben": SEATS["con"], "Cleo": SEATS["judge"], "default": "openai/gpt-5-mini"}
ALLOWED = ["openai/gpt-5-mini", SEATS["con"], SEATS["judge"]]


@pytest.fixture
def vendor_stubs() -> Iterator[Found]:
    """Start the four vendors."""
    with vendors() as running:
        yield running


def requested_models(vendor_stubs: Found) -> dict[str, list[str]]:
    """Return the models requested from each vendor, and check that each received only its own key."""
    for vendor in vendor_stubs.values():
        headers = str([exchange.headers for exchange in vendor.asked])
        assert vendor.refused == 0
        assert all(
            (other.key in headers) is (other is vendor) for other in vendor_stubs.values() if other.key and vendor.asked
        )
    return {name: [exchange.model for exchange in vendor.asked] for name, vendor in vendor_stubs.items()}


def answer_ranking(exchange: VendorRequest) -> Any:
    """Answer as a council member, either with an opinion or with the others' letters in order."""
    if exchange.schema is None:
        return "Homes first."
    if "ranking" not in str(exchange.schema):
        return None
    return {
        "ranking": [
            {"answer": letter, "reason": "Sound."} for letter in "ABC" if f"[Answer {letter}]" in exchange.prompt
        ]
    }


# Front ends


def test_four_vendors_debate_from_python(vendor_stubs: Found) -> None:
    sides = [Debater("pro", "cap rents"), Debater("con", "free rents")]
    result = debate(name="rent", debaters=sides, max_rounds=1, model=SEATS).run_sync(QUESTION)
    assert requested_models(vendor_stubs) == ASKED
    assert result.models == {seat: (model,) for seat, model in ANSWERED.items()}


def test_four_vendors_debate_from_the_command_line(vendor_stubs: Found) -> None:
    flags = [text for seat, model in SEATS.items() for text in ("--model", f"{seat}={model}".removeprefix("default="))]
    result = CliRunner().invoke(app, ["debate", QUESTION, "--max-rounds", "1", "--no-store", *flags])
    assert result.exit_code == 0, result.stderr
    assert requested_models(vendor_stubs) == ASKED_BY_FRONT_ENDS
    first = " ".join(result.stdout.partition("\n\n")[0].split())
    assert (
        "openai/gpt-5-mini (pro); anthropic/claude-haiku-5-5 (con); gemini/gemini-3-pro (judge); ollama/gemma3" in first
    )


def test_four_vendors_debate_over_http(vendor_stubs: Found) -> None:
    with staged(lambda: Service(store="memory:", allow_models=SEATS.values())) as stage:
        run_id = stage.post("/runs", {"pattern": "debate", "question": QUESTION, "options": debate_options()}).json()[
            "runId"
        ]
        run = stage.get(f"/runs/{run_id}?wait=30").json()
        page, listed = stage.http.get(f"/runs/{run_id}").text, stage.http.get("/").text
    assert requested_models(vendor_stubs) == ASKED_BY_FRONT_ENDS
    assert run["document"]["models"] == run["models"] == {seat: [model] for seat, model in ANSWERED.items()}
    for model in ANSWERED.values():
        assert model in page
        assert model in listed


def debate_options() -> dict[str, Any]:
    """Return the options for a debate among four vendors."""
    return {"max_rounds": 1, "model": SEATS}


def test_four_vendors_debate_for_an_openai_client(vendor_stubs: Found) -> None:
    """The client's `model` field selects the pattern, so the request lists the model for each role under `models`.

    Error messages list the allowed models.
    """
    with staged(lambda: Service(store="memory:", allow_models=SEATS.values()), openai=True) as stage:
        client = OpenAI(base_url=f"{stage.url}/v1", api_key=TOKEN, max_retries=0)

        def ask(models: Mapping[str, str]) -> str:
            messages: Any = [{"role": "user", "content": QUESTION}]
            answer = client.chat.completions.create(
                model="flowdebate/debate", messages=messages, extra_body={"models": models}
            )
            return str(answer.choices[0].message.content)

        def respond(models: Mapping[str, str]) -> str:
            answer = client.responses.create(model="flowdebate/debate", input=QUESTION, extra_body={"models": models})
            return answer.output_text

        for way in (ask, respond):
            for vendor in vendor_stubs.values():
                vendor.asked.clear()
            assert "Round 1" in way(SEATS)
            vendor_models = requested_models(vendor_stubs)
            assert {name: set(models) for name, models in vendor_models.items()} == {
                name: {*entries} for name, entries in ASKED.items()
            }
            with pytest.raises(BadRequestError, match="a model that this server allows: openai/gpt-5-mini") as refused:
                way({"judge": "openai/gpt-4o"})
            assert refused.value.param == "models"
            assert requested_models(vendor_stubs) == vendor_models


@pytest.mark.anyio
async def test_four_vendors_debate_over_mcp(vendor_stubs: Found) -> None:
    service = Service(store="memory:", allow_models=SEATS.values())
    async with service, Client(create_server(service)) as client:
        begin = {"question": QUESTION, "max_rounds": 1, "model": SEATS, "wait": 50}
        wrong = await client.call_tool("start_debate", {**begin, "effort": {"sceptic": "low"}})
        assert "`effort` matches no name or role in the run" in error_text(wrong)
        details = structured_output(await client.call_tool("start_debate", {**begin, "effort": {"con": "high"}}))
        run = await service.run(details["run_id"])
    assert details["status"] == "complete"
    assert requested_models(vendor_stubs) == ASKED_BY_FRONT_ENDS
    assert [exchange.effort for vendor in vendor_stubs.values() for exchange in vendor.asked] == [
        None,
        "high",
        None,
        None,
        None,
    ]
    assert run.models == {seat: [model] for seat, model in ANSWERED.items()}


@pytest.mark.anyio
async def test_allowed_models_form_a_council_over_mcp(vendor_stubs: Found) -> None:
    """Clients learn which models are allowed from the tool's description."""
    for vendor in vendor_stubs.values():
        vendor.say = answer_ranking
    service = Service(store="memory:", allow_models=ALLOWED)
    async with service, Client(create_server(service)) as client:
        tools = {tool.name: tool.description or "" for tool in (await client.list_tools()).tools}
        assert f"Models that you may name: {', '.join(ALLOWED)}." in tools["start_debate"]
        begin = {"question": QUESTION, "sources": {"plan.md": "Trams open in 2031."}, "wait": 50}
        no = error_text(
            await client.call_tool("start_council", {**begin, "model": {**MEMBERS, "chair": "ollama/gemma3"}})
        )
        assert "must be a model that this server allows" in no
        assert all(not vendor.asked for vendor in vendor_stubs.values())
        details = structured_output(await client.call_tool("start_council", {**begin, "model": MEMBERS}))
        assert details["status"] == "complete"
        assert all(
            "[plan.md] Trams open in 2031." in vendor.asked[0].prompt
            for vendor in vendor_stubs.values()
            if vendor.asked
        )
        again = {"run_id": details["run_id"], "model": {"Ada": "xai/grok-4.3"}}
        assert "must be a model that this server allows" in error_text(await client.call_tool("fork_run", again))
    assert {name: set(models) for name, models in requested_models(vendor_stubs).items()} == {
        "openai": {"gpt-5-mini"}, "anthropic": {"claude-haiku-5-5"}, "gemini": {"gemini-3-pro"}, "ollama": set(),
    }  # fmt: skip


# Available vendors


def test_keyword_each_assigns_vendors_in_order(vendor_stubs: Found) -> None:
    """Vendors are assigned in the order of the provider table, followed by local servers.

    The judge's vendor is not used for any debater.
    """
    options = {"question": QUESTION, "model": ["each"]}
    plan = make_plan(PATTERNS["debate"], options)
    names = (
        "openai/gpt-5.6-luna (pro)",
        "anthropic/claude-haiku-5-5 (con)",
        "gemini/gemini-flash-latest (judge, synthesizer)",
    )
    assert models_line(plan) == f"Models: {'; '.join(names)}"
    stored = stored_plan(plan)["options"]["model"]
    assert "each" not in stored.values()  # so that a resumed run uses the same models, whatever is configured by then
    fixed = make_plan(PATTERNS["debate"], {**options, "model": ["each", "pro=gemini/gemini-3-pro"]})
    assert [side.model for side in fixed.speakers] == ["gemini/gemini-3-pro", "openai/gpt-5.6-luna"]
    assert fixed.models is not None
    assert fixed.models["synthesize"] == "anthropic/claude-haiku-5-5"
    assert not any(vendor.asked for vendor in vendor_stubs.values())


def test_council_without_members_uses_all_vendors(vendor_stubs: Found) -> None:
    """A warning is issued in Python, and a note is printed on the command line.

    If the user names a single model or sets FLOWDEBATE_MODEL, all members use that model.
    """
    for vendor in vendor_stubs.values():
        vendor.say = answer_ranking
    with pytest.warns(
        FlowDebateWarning, match=r"openai/gpt-5\.6-luna, anthropic/.*, gemini/.*, ollama/gemma3 are used"
    ):
        result = council(name="rent").run_sync(QUESTION)
    assert {name: len(set(models)) for name, models in requested_models(vendor_stubs).items()} == dict.fromkeys(
        vendor_stubs, 1
    )
    assert result.models["chair"] == ("ollama/gemma3",)
    printed = CliRunner().invoke(app, ["council", QUESTION, "--no-store"])
    assert "gemini/gemini-flash-latest (Cleo)" in " ".join(printed.stdout.partition("\n\n")[0].split())
    plan_ = make_plan(PATTERNS["council"], {"question": QUESTION, "model": ["openai/gpt-4o"]}, begins=True)
    note = "Model: openai/gpt-4o everywhere; see “One model everywhere” on the page “Models”"
    assert models_line(plan_).startswith(note)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOWDEBATE_MODEL", "openai/gpt-4o")
        assert make_plan(PATTERNS["council"], {"question": QUESTION}, begins=True).dealt is None


def test_single_available_vendor_is_reported(vendor_stubs: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning is issued in Python, and a note is printed on the command line.

    If there is no vendor at all, an error is raised before any call.
    """
    monkeypatch.setattr("flowdebate.models.resolve.running_servers", dict)
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name)
    with pytest.warns(
        FlowDebateWarning, match=r"only one vendor is configured, so all members use openai/gpt-5\.6-luna"
    ):
        council(name="rent")
    line = models_line(make_plan(PATTERNS["debate"], {"question": QUESTION, "model": ["each"]}))
    assert line.startswith("Model: openai/gpt-5.6-luna everywhere")
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setattr("flowdebate.models.local.gguf.local_model_installed", lambda: False)
    with pytest.raises(ModelUnavailable, match="no model is configured"):
        debate(name="rent", debaters=[Debater("a", "x"), Debater("b", "y")], model="each")
    assert not any(vendor.asked for vendor in vendor_stubs.values())


# Valid model mappings


@pytest.mark.filterwarnings("ignore:.*a judge and a debater belong to the same model family")
@pytest.mark.parametrize("name", PATTERNS)
def test_role_keys_match_those_of_the_pattern(name: str) -> None:
    """The function that builds the pattern accepts a model for each role key, and for no other."""
    info = PATTERNS[name]
    page = info.load_page()
    on = {role: True for role in page.options.ROLES if role in page.options.model_fields}
    subject = {info.subject: page.example, **on}
    every = dict.fromkeys((*page.options.ROLES, page.options.SPEAKER, "default"), "openai/gpt-5")
    make_plan(info, {}, file={**subject, "model": every}).pattern()
    with pytest.raises(ConfigurationError, match=r"matches no name or role in the run .*Choose .* or default"):
        make_plan(info, {}, file={**subject, "model": {"sceptic": "openai/gpt-5"}})


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            {"sceptic": "local"},
            r"matches no name or role in the run .*Did you mean skeptic\?",
        ),
        (
            {"moderator": "local"},
            "matches no name or role in the run",
        ),  # the pattern does not have this role
        ({"judge": "openai:gpt-5"}, r"model.judge` must be .*Did you mean openai/gpt-5"),
        ({"judge": "each"}, "only a pattern has roles"),
    ],
)
def test_error_for_an_unknown_role_lists_the_valid_roles(model: dict[str, str], sentence: str) -> None:
    """The error is raised before any call and suggests a role."""
    with pytest.raises(ConfigurationError, match=sentence):
        debate(name="rent", debaters=[Debater("skeptic", "x"), Debater("ben", "y")], model=model)


def test_name_that_is_also_a_role_is_rejected() -> None:
    """The key would be ambiguous. If the key is not used, a debater may have this name."""
    sides = [Debater("skeptic", "x"), Debater("judge", "y")]
    with pytest.raises(
        ConfigurationError, match="is ambiguous, because it is both a name and a role: rename the debater"
    ):
        debate(name="rent", debaters=sides, model={"judge": "openai/gpt-5"})
    debate(name="rent", debaters=sides, model={"skeptic": "openai/gpt-5"})


def test_keyword_each_is_rejected_as_the_model_of_a_run() -> None:
    talk = debate(name="rent", debaters=[Debater("a", "x"), Debater("b", "y")])
    with pytest.raises(ConfigurationError, match='debate\\(model="each"\\), or --model each'):
        talk.run_sync(QUESTION, model="each")


_MODELS = st.sampled_from(["a/1", "b/2", "c/3"])


@given(st.dictionaries(st.sampled_from(["default", "chat", "synthesize", "debater", "judge", "ann", "ben"]), _MODELS))
def test_most_specific_key_applies(choice: dict[str, str]) -> None:
    """A name takes precedence over a role, a role over an intent, and an intent over the default."""
    seats = seat_models(
        choice, {"ann": None, "ben": "own"}, ["judge"], speaker="debater", location="x", check=lambda *_, **__: None
    )
    rest = seats.rest if isinstance(seats.rest, dict) else {}

    def first(*keys: str) -> str | None:
        return next((choice[key] for key in keys if key in choice), None)

    assert seats.members.get("ann", rest.get("chat")) == first("ann", "debater", "chat", "default")
    assert seats.members.get("ben", "own") == (first("ben") or "own")
    assert seats.roles.get("judge", rest.get("synthesize")) == first("judge", "synthesize", "default")


# Missing models are reported before any call


@pytest.mark.filterwarnings("ignore:.*a judge and a debater belong to the same model family")
@pytest.mark.parametrize("name", PATTERNS)
def test_all_roles_of_a_pattern_are_known_in_advance(name: str) -> None:
    info = PATTERNS[name]
    page = info.load_page()
    on = {role: True for role in page.options.ROLES if role in page.options.model_fields}
    plan = make_plan(info, {}, file={info.subject: page.example, **on})
    pattern, called = plan.pattern(), set()

    def answer(request: Any) -> Any:
        called.add(request.block)
        return answer_debate(request)

    with suppress(Exception):  # an answer may be invalid, but only the calling blocks matter
        pattern.run_sync(plan.subject, model=FunctionModel(answer), limits=Limits(calls=40))
    assert called
    assert called <= {seat.block for seat in pattern.seats()}


def test_role_without_a_key_is_an_error_before_any_call(vendor_stubs: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every front end names the role and the environment variable. A resumed run needs no key."""
    monkeypatch.delenv("GEMINI_API_KEY")
    sentence = "there is no API key: set GEMINI_API_KEY, or pass api_key"
    sides = [Debater("pro", "cap rents"), Debater("con", "free rents")]
    block = debate(name="rent", debaters=sides, max_rounds=1, model=SEATS)
    with pytest.raises(AuthenticationFailed, match=sentence) as failed:
        block.run_sync(QUESTION)
    assert (failed.value.block, failed.value.model) == ("rent-judge", "gemini/gemini-3-pro")
    flags = [text for seat, model in SEATS.items() for text in ("--model", f"{seat}={model}".removeprefix("default="))]
    result = CliRunner().invoke(app, ["debate", QUESTION, "--no-store", *flags])
    assert result.exit_code != 0
    assert sentence in " ".join(result.stderr.split())
    with staged(lambda: Service(store="memory:", allow_models=SEATS.values())) as stage:
        refused = stage.post("/runs", {"pattern": "debate", "question": QUESTION, "options": debate_options()})
        assert refused.status_code == 503
        assert sentence in refused.json()["detail"]
        assert stage.get("/runs").json()["runs"] == []  # a run that could not start is not stored
    assert not any(vendor.asked for vendor in vendor_stubs.values())


def test_role_without_a_model_is_an_error_before_any_call(vendor_stubs: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this check, calls for the other roles would be wasted."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("flowdebate.models.resolve.running_servers", dict)
    monkeypatch.setattr("flowdebate.models.local.gguf.local_model_installed", lambda: False)
    sides = [Debater("pro", "cap rents"), Debater("con", "free rents")]
    block = debate(name="rent", debaters=sides, max_rounds=1, model={"debater": "ollama/gemma3"})
    with pytest.raises(ModelUnavailable, match="no model is configured") as failed:
        block.run_sync(QUESTION)
    assert failed.value.block == "rent-judge"
    for wrong, sentence in (("openai:gpt-5", "Did you mean openai/gpt-5"), ("each", "only a pattern has roles")):
        monkeypatch.setenv("FLOWDEBATE_MODEL", wrong)
        with pytest.raises(ConfigurationError, match=f"environment: `FLOWDEBATE_MODEL` .*{sentence}"):
            block.run_sync(QUESTION)
    assert not any(vendor.asked for vendor in vendor_stubs.values())


def test_key_that_gemini_rejects_is_an_authentication_error(
    vendor_stubs: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unlike other vendors, Gemini responds with status 400 and a body that is a list."""
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-another")
    block = debate(name="rent", debaters=[Debater("a", "x"), Debater("b", "y")], model="gemini/gemini-3-pro")
    with pytest.raises(AuthenticationFailed, match=r"400: API key not valid\. Please .* Check the API key"):
        block.run_sync(QUESTION)
    assert vendor_stubs["gemini"].refused == 1


@pytest.mark.anyio
# warnings about the settings that a program still reads
@pytest.mark.filterwarnings("ignore::flowdebate.errors.FlowDebateWarning")
async def test_unusable_agent_cli_is_an_error_before_any_call(
    vendor_stubs: Found, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A CLI may be missing, or may report that it is not signed in."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    seats = ("openai/gpt-5-mini", "con=cli/claude")
    command = ["debate", QUESTION, "--no-store", *(text for seat in seats for text in ("--model", seat))]
    result = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert result.exit_code == 2
    sentence = "debate-debater-con, CliModel: the program claude is not installed or not on the PATH"
    assert sentence in " ".join(result.stderr.split())
    (tmp_path / "claude").write_text("#!/bin/sh\necho '{\"loggedIn\": false}'\nexit 1\n")
    (tmp_path / "claude").chmod(0o755)
    service = Service(store="memory:", allow_models=["openai/*", "cli/*"])
    async with service, Client(create_server(service)) as client:
        model = {"default": "openai/gpt-5-mini", "con": "cli/claude"}
        begun = await client.call_tool("start_debate", {"question": QUESTION, "model": model, "wait": 50})
        assert "cli/claude requires a login: run `claude` and sign in" in str(begun.content)
    assert not any(vendor.asked for vendor in vendor_stubs.values())


# Models that others may use


@pytest.mark.anyio
async def test_allowed_models_apply_to_roles_forks_and_imports(vendor_stubs: Found) -> None:
    async with Service(store="memory:") as anywhere:
        run = await anywhere.begin("debate", QUESTION, options={**debate_options(), "max_calls": 1})
        assert (await anywhere.wait(run.run_id, 30)).status == "limit"
        lines = [line async for line in export_run(anywhere.store, run.run_id)]
    before = requested_models(vendor_stubs)
    async with Service(store="memory:", allow_models=["openai/*"]) as service:
        await import_runs(service.store, lines)
        for seat in ("default", "pro", "judge", "debater"):
            with pytest.raises(ConfigurationError, match=r"a model that this server allows: openai/\*"):
                await service.begin("debate", QUESTION, options={"model": {seat: "gemini/gemini-3-pro"}})
        sides = [{"name": "a", "stance": "x", "model": "ollama/gemma3"}, {"name": "b", "stance": "y"}]
        for options in ({"debaters": sides}, {"fallback": ["ollama/gemma3"]}, {"panel": ["ollama/gemma3"]}):
            with pytest.raises(ConfigurationError, match="a model that this server allows"):
                await service.begin("debate", QUESTION, options=options)
        for continuation_option in (service.resume(run.run_id), service.fork(run.run_id)):
            with pytest.raises(ConfigurationError, match="a model that this server allows"):
                await continuation_option
        assert (await service.run(run.run_id)).status == "limit"  # it can still be read
        forked = await service.fork(run.run_id, options={"model": "openai/gpt-4o", "max_calls": 9})
        assert (await service.wait(forked.run_id, 30)).status == "complete"
    after = requested_models(vendor_stubs)
    assert {name: models for name, models in after.items() if name != "openai"} == {
        name: models for name, models in before.items() if name != "openai"
    }


@pytest.mark.anyio
async def test_server_allows_configured_models_by_default(vendor_stubs: Found) -> None:
    """By default, the server allows the default model of each provider with a key, and all models of local servers."""
    service = Service(store="memory:")
    create_server(service)
    async with service:
        names = "openai/gpt-5.6-luna, anthropic/claude-haiku-5-5, gemini/gemini-flash-latest, ollama/gemma3"
        with pytest.raises(ConfigurationError, match=f"a model that this server allows: {names}"):
            await service.begin("debate", QUESTION, options={"model": "xai/grok-4.3"})
        run = await service.begin("debate", QUESTION, options={"model": "each", "max_rounds": 1})
        assert (await service.wait(run.run_id, 30)).status == "complete"
    assert not vendor_stubs["ollama"].asked


@pytest.mark.anyio
async def test_keyword_each_assigns_only_allowed_models(vendor_stubs: Found) -> None:
    """If a vendor's default is not allowed, its first allowed model is used.

    Vendors without an allowed model are left out.
    """
    for vendor in vendor_stubs.values():
        vendor.say = answer_ranking
    allowed = ["openai/*", "gemini/gemini-3-pro", "xai/grok-4.3"]
    async with Service(store="memory:", allow_models=allowed) as service:
        for options in ({"model": "each"}, {}, {"model": {"default": "each", "chair": "openai/gpt-4o"}}):
            run = await service.begin("council", QUESTION, options=options)
            assert (await service.wait(run.run_id, 30)).status == "complete"
        again = await service.fork(run.run_id, options={"model": "each", "seed": 5})
        assert (await service.wait(again.run_id, 30)).status == "complete"
    assigned = {name: set(models) for name, models in requested_models(vendor_stubs).items()}
    assert assigned == {
        "openai": {"gpt-5.6-luna", "gpt-4o"}, "anthropic": set(), "gemini": {"gemini-3-pro"}, "ollama": set(),
    }  # fmt: skip
    async with Service(store="memory:", allow_models=["xai/grok-4.3"]) as service:
        with pytest.raises(
            ConfigurationError,
            match=r'cannot be "each": no provider of an allowed model is configured \(xai/grok-4\.3\)',
        ):
            await service.begin("debate", QUESTION, options={"model": "each"})
    async with Service(store="memory:", allow_models=["gemini/*"]) as service:
        run = await service.begin("council", QUESTION)
        assert {*map(tuple, ((await service.wait(run.run_id, 30)).models or {}).values())} == {
            ("gemini/gemini-flash-latest",)
        }


def test_form_lists_allowed_models(vendor_stubs: Found) -> None:
    for allowed, text in (("gemini/*", "Model: gemini/gemini-flash-latest everywhere"), ("xai/*", "New debate")):
        with staged(partial(Service, store="memory:", allow_models=[allowed])) as stage:
            page = stage.http.get("/new?pattern=council").text
        assert text in page
        assert "anthropic/claude" not in page
    assert not any(vendor.asked for vendor in vendor_stubs.values())


# A key is sent only to its own provider

_NAMED = [f"{name}/{model}" for name, models in ASKED.items() for model in models]
_CHOICES = st.dictionaries(
    st.sampled_from(["default", "chat", "synthesize", "debater", "judge", "synthesizer", "pro", "con"]),
    st.sampled_from([*_NAMED, "xai/grok-4.3"]),
    max_size=5,
)
_OWN = st.lists(st.sampled_from([None, *_NAMED]), min_size=2, max_size=2)


@pytest.fixture
def checked_keys(vendor_stubs: Found) -> Callable[[], None]:
    """Check and clear the recorded requests, since hypothesis would print them otherwise."""

    def check() -> None:
        requested_models(vendor_stubs)
        for vendor in vendor_stubs.values():
            vendor.asked.clear()

    return check


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:.*a judge and a debater belong to the same model family")
@settings(max_examples=example_count(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(model=_CHOICES, keys=_OWN, fork=_CHOICES, imported=st.booleans())
async def test_key_is_not_sent_to_other_addresses(
    checked_keys: Callable[[], None],
    model: dict[str, str],
    keys: list[str | None],
    fork: dict[str, str],
    imported: bool,  # noqa: FBT001
) -> None:
    sides = [
        {"name": name, "stance": f"{name} it", **({} if key_ is None else {"model": key_})}
        for name, key_ in zip(("pro", "con"), keys, strict=True)
    ]
    options = {"max_rounds": 1, "debaters": sides, "attempts": 1, **({"model": model} if model else {})}
    async with Service(store="memory:") as service:
        with suppress(FlowDebateError):  # a model without a provider here has no key
            run = await service.begin("debate", QUESTION, options=options)
            await service.wait(run.run_id, 30)
            if imported:
                lines = [line async for line in export_run(service.store, run.run_id)]
                await service.delete(run.run_id)
                await import_runs(service.store, lines)
            again = await service.fork(run.run_id, options={"model": fork, "seed": 5} if fork else {"seed": 5})
            await service.wait(again.run_id, 30)
    checked_keys()


# Names without a provider

BARE = {"default": "gpt-5-mini", "con": "claude-haiku-5-5", "judge": "gemini-3-pro", "synthesizer": "gemma3"}


def test_bare_names_find_their_vendors_from_python(vendor_stubs: Found) -> None:
    """For three models, the name alone reveals the vendor. The fourth is found because a local server lists it."""
    sides = [Debater("pro", "cap rents"), Debater("con", "free rents")]
    result = debate(name="rent", debaters=sides, max_rounds=1, model=BARE).run_sync(QUESTION)
    assert requested_models(vendor_stubs) == ASKED
    assert result.models == {seat: (model,) for seat, model in ANSWERED.items()}


def test_bare_names_find_their_vendors_from_the_command_line(vendor_stubs: Found) -> None:
    """The models in `--fallback` and `--price` can also be given by their bare names."""
    flags = [text for seat, model in BARE.items() for text in ("--model", f"{seat}={model}".removeprefix("default="))]
    prices = ["--price", "1/1", "--price", "gpt-5-mini=1000/1000", "--max-cost", "1000", "--fallback", "gpt-4o"]
    result = CliRunner().invoke(app, ["debate", QUESTION, "--max-rounds", "1", "--no-store", "--json", *prices, *flags])
    assert result.exit_code == 0, result.stderr
    assert requested_models(vendor_stubs) == ASKED_BY_FRONT_ENDS
    # the cost of the first side, whose model has the name used in the price table
    assert json.loads(result.stdout)["cost"] > 0.1


def test_bare_names_find_their_vendors_over_http(vendor_stubs: Found) -> None:
    """Allowed models can be listed with or without their provider. All other models are rejected."""
    allowed = ["gpt-5-mini", "anthropic/*", "gemini/gemini-3-pro", "ollama/gemma3"]
    with staged(lambda: Service(store="memory:", allow_models=allowed)) as stage:
        body = {"pattern": "debate", "question": QUESTION, "options": {"max_rounds": 1, "model": BARE}}
        run_id = stage.post("/runs", body).json()["runId"]
        run = stage.get(f"/runs/{run_id}?wait=30").json()
        other = stage.post("/runs", {**body, "options": {"model": "gpt-4o"}})
    assert requested_models(vendor_stubs) == ASKED_BY_FRONT_ENDS
    assert run["models"] == {seat: [model] for seat, model in ANSWERED.items()}
    assert (other.status_code, "a model that this server allows" in other.text) == (422, True)


@pytest.mark.anyio
async def test_bare_names_find_their_vendors_over_mcp(vendor_stubs: Found) -> None:
    for vendor in vendor_stubs.values():
        vendor.say = answer_ranking
    service = Service(store="memory:", allow_models=["openai/*", "claude-haiku-5-5", "gemini/*"])
    async with service, Client(create_server(service)) as client:
        begin = {
            "question": QUESTION,
            "models": ["gpt-5-mini", "claude-haiku-5-5"],
            "model": {"chair": "gemini-flash-latest"},
        }
        details = structured_output(await client.call_tool("start_council", {**begin, "wait": 50}))
        run = await service.run(details["run_id"])
    names = ["openai/gpt-5-mini", "anthropic/claude-haiku-5-5"]
    assert run.models == {name: [name] for name in names} | {"chair": ["gemini/gemini-flash-latest"]}
