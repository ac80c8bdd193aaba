"""Members given as a list of models in every front end: the models called, their names, and the chair."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from openai import OpenAI
from typer.testing import CliRunner

from flowdebate import consensus, council, deliberation, handoff, review, round_robin
from flowdebate.cli.app import app
from flowdebate.errors import ConfigurationError
from flowdebate.mcp import create_server
from flowdebate.patterns import PATTERNS
from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from flowdebate.ui.models import AllowedModels, models_line
from flowdebate.ui.plan import make_plan
from tests.mcp.conftest import error_text, structured_output
from tests.server.stage import TOKEN, staged

from .vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .vendors import Vendor, VendorName, VendorRequest

    Found = dict[VendorName, Vendor]

QUESTION = "Should rents be capped?"
LISTED = ["openai/gpt-5-mini", "anthropic/claude-haiku-5-5"]
CHAIR = "gemini/gemini-3-pro"
WITH_FIRST = {LISTED[0]: [LISTED[0]], LISTED[1]: [LISTED[1]], "chair": [LISTED[0]]}
WITH_CHAIR = {**WITH_FIRST, "chair": [CHAIR]}


@pytest.fixture
def vendor_stubs() -> Iterator[Found]:
    """Start four vendors whose models rank answers."""
    with vendors() as running:
        for vendor in running.values():
            vendor.say = answer_ranking
        yield running


def answer_ranking(exchange: VendorRequest) -> Any:
    """Answer as a council member, either in text or by ranking the others' letters in order."""
    if exchange.schema is None:
        return "Homes first."
    if "ranking" not in str(exchange.schema):
        return None
    return {
        "ranking": [
            {"answer": letter, "reason": "Sound."} for letter in "ABC" if f"[Answer {letter}]" in exchange.prompt
        ]
    }


def models_by_role(document: dict[str, Any]) -> dict[str, list[str]]:
    """Return a run's models by role, after checking that members are named after their models."""
    assert [member["name"] for member in document["members"]] == LISTED
    return {seat: [*models] for seat, models in document["models"].items()}


# Front ends


@pytest.mark.usefixtures("vendor_stubs")
@pytest.mark.parametrize(("options", "expected"), [({}, WITH_FIRST), ({"model": {"chair": CHAIR}}, WITH_CHAIR)])
def test_list_of_models_forms_a_council_in_python(options: dict[str, Any], expected: dict[str, Any]) -> None:
    """The first model is the chair unless another model is configured."""
    result = council(name="rent", members=LISTED, **options).run_sync(QUESTION)
    assert {seat: [*models] for seat, models in result.models.items()} == expected
    assert [opinion.agent_name for opinion in result.output.opinions] == LISTED


@pytest.mark.usefixtures("vendor_stubs")
def test_council_models_can_be_listed_on_the_command_line_and_in_a_plan_file(tmp_path: Path) -> None:
    """`--model` can be repeated without names. A plan file lists the models under `members` or `model`."""

    def hold(*args: str) -> dict[str, list[str]]:
        result = CliRunner().invoke(app, ["council", QUESTION, "--no-store", "--json", *args])
        assert result.exit_code == 0, result.stderr
        return models_by_role(json.loads(result.stdout))

    flags = [text for model in LISTED for text in ("--model", model)]
    assert hold(*flags) == WITH_FIRST
    assert hold(*flags, "--model", f"chair={CHAIR}") == WITH_CHAIR
    assert hold(*flags, "--attempts", "2") == WITH_FIRST
    plan = tmp_path / "council.toml"
    for key in ("members", "model"):
        plan.write_text(f"{key} = {json.dumps(LISTED)}")
        assert hold("--file", str(plan)) == WITH_FIRST
    plan.write_text(f'members = [{{name = "Ada"}}, {{name = "Ben"}}]\nmodel = "{CHAIR}"')
    # options override the members in the file, but the file's default model remains the chair
    assert hold("--file", str(plan), *flags) == WITH_CHAIR


@pytest.mark.usefixtures("vendor_stubs")
def test_command_names_the_chair(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chair is printed on the first line, before any call."""
    plan = make_plan(PATTERNS["council"], {"question": QUESTION, "model": LISTED})
    assert models_line(plan) == f"Models: {LISTED[0]} ({LISTED[0]}, chair); {LISTED[1]} ({LISTED[1]})"
    monkeypatch.setenv("FLOWDEBATE_MODEL", CHAIR)
    plan = make_plan(PATTERNS["council"], {"question": QUESTION, "model": LISTED})
    assert models_line(plan).endswith(f"{CHAIR} (chair)")
    assert council(name="rent", members=LISTED).run_sync(QUESTION).models["chair"] == (CHAIR,)


def test_listed_models_can_share_one_address(vendor_stubs: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model in FLOWDEBATE_MODEL is at a different address, so the first model in the list becomes the chair."""
    monkeypatch.setenv("FLOWDEBATE_MODEL", CHAIR)
    vendor_stubs["ollama"].models = ("gemma3", "qwen3")
    address = ["--base-url", vendor_stubs["ollama"].base_url, "--model", "gemma3", "--model", "qwen3"]
    result = CliRunner().invoke(app, ["council", QUESTION, "--no-store", "--json", *address])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["models"] == {"gemma3": ["gemma3"], "qwen3": ["qwen3"], "chair": ["gemma3"]}
    assert not vendor_stubs["gemini"].asked


def test_error_for_an_address_without_a_model_lists_its_models(vendor_stubs: Found) -> None:
    """The error for `--base-url` without `--model` lists the models that the server offers.

    No server is contacted if it is on another machine, or if only allowed models may be used.
    """
    vendor_stubs["ollama"].models = ("gemma3", "qwen3")
    near, far = vendor_stubs["ollama"].base_url, "http://192.0.2.1/v1"
    results = [CliRunner().invoke(app, ["debate", QUESTION, "--no-store", "--base-url", url]) for url in (near, far)]
    needed = "Error: --model is required with --base-url: specify a model on the server at"
    assert [result.exit_code for result in results] == [2, 2]
    assert " ".join(results[0].stderr.split()) == f"{needed} {near}. It has: gemma3, qwen3."
    assert " ".join(results[1].stderr.split()) == f"{needed} {far}."
    allowed = AllowedModels(patterns=("*",))
    with pytest.raises(ConfigurationError) as refused:
        make_plan(PATTERNS["debate"], {"question": QUESTION, "base_url": near}, allow=allowed)
    assert "gemma3" not in str(refused.value)


@pytest.mark.usefixtures("vendor_stubs")
@pytest.mark.parametrize("key", ["members", "model"])
@pytest.mark.parametrize("owner", [None, CHAIR])
def test_list_of_models_forms_a_council_over_http(key: str, owner: str | None) -> None:
    listed: list[Any] = [*LISTED[:1], {"model": LISTED[1]}] if key == "members" else LISTED
    with staged(lambda: Service(store="memory:", model=owner, allow_models=[*LISTED, CHAIR])) as stage:
        body = {"pattern": "council", "question": QUESTION, "options": {key: listed}}
        run_id = stage.post("/runs", body).json()["runId"]
        run = stage.get(f"/runs/{run_id}?wait=30").json()
    assert models_by_role(run["document"]) == (WITH_FIRST if owner is None else WITH_CHAIR)


@pytest.mark.usefixtures("vendor_stubs")
def test_list_of_models_forms_a_council_for_an_openai_client() -> None:
    """The client's `model` field selects the pattern, so the list is passed in `models`."""
    with staged(lambda: Service(store="memory:", allow_models=LISTED), openai=True) as stage:
        client = OpenAI(base_url=f"{stage.url}/v1", api_key=TOKEN, max_retries=0)
        messages: Any = [{"role": "user", "content": QUESTION}]
        client.chat.completions.create(model="flowdebate/council", messages=messages, extra_body={"models": LISTED})
        [run] = stage.get("/runs").json()["runs"]
    assert run["models"] == WITH_FIRST


@pytest.mark.anyio
@pytest.mark.parametrize("tool", ["start_council", "start_debate"])
async def test_list_of_models_forms_a_council_over_mcp(vendor_stubs: Found, tool: str) -> None:
    """The chair uses its own model or, by default, the first model in the list.

    If a model is forbidden, the error gives its position in the list.
    """
    begin: dict[str, Any] = {"question": QUESTION, "wait": 50, "models": LISTED}
    begin |= {"pattern": "council"} if tool == "start_debate" else {"depth": "thorough"}
    service = Service(store="memory:", allow_models=[*LISTED, CHAIR])
    async with service, Client(create_server(service)) as client:
        no = error_text(await client.call_tool(tool, {**begin, "models": [LISTED[0], "xai/grok-4.3"]}))
        assert "`models[1]` must be a model that this server allows" in no
        assert not any(vendor.asked for vendor in vendor_stubs.values())
        for model, expected in ((None, WITH_FIRST), ({"chair": CHAIR}, WITH_CHAIR)):
            details = structured_output(await client.call_tool(tool, {**begin, "model": model}))
            run = await service.run(details["run_id"])
            assert run.document is not None
            assert models_by_role(run.document.to_data()) == expected


@pytest.mark.anyio
async def test_debate_over_mcp_rejects_a_list_of_models() -> None:
    """A debate must know which model argues for which side. A council must have at least two models."""
    service = Service(store="memory:", allow_models=LISTED)
    async with service, Client(create_server(service)) as client:
        no = error_text(await client.call_tool("start_debate", {"question": QUESTION, "models": LISTED}))
        assert "`models` cannot be used in a debate; assign models by name in `model`" in no
        no = error_text(await client.call_tool("start_council", {"question": QUESTION, "models": LISTED[:1]}))
        assert "`models` must be given at least twice" in no


# Patterns without sides


@pytest.mark.parametrize(
    "build",
    [
        lambda roster: council(name="x", members=roster),
        lambda roster: review(name="x", reviewers=roster),
        lambda roster: consensus(name="x", agents=roster),
        lambda roster: consensus(name="x", agents=roster, format="delphi"),
        lambda roster: round_robin(name="x", debaters=roster),
        lambda roster: deliberation(name="x", debaters=roster),
        lambda roster: handoff(name="x", debaters=roster),
    ],
    ids=["council", "review", "consensus", "delphi", "round_robin", "deliberation", "handoff"],
)
def test_every_pattern_without_sides_accepts_models(
    build: Callable[[Any], Any], request: pytest.FixtureRequest
) -> None:
    """Members are named after their models. If a model is unknown, the error gives its position in the list."""
    outline = str(build(["openai/a", "anthropic/b", "anthropic/b"]).outline())
    if "delphi" not in request.node.name:  # members of this pattern have no names
        assert "openai/a" in outline
        assert "anthropic/b (2)" in outline
    with pytest.raises(ConfigurationError, match=r"\[1\]` must be .*got opnai/b.* Did you mean openai/b"):
        build(["openai/a", "opnai/b"])


@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name != "debate"])
def test_every_plan_without_sides_accepts_models(pattern: str) -> None:
    info = PATTERNS[pattern]
    plan_ = {info.subject: info.load_page().example, "model": LISTED}
    plan = make_plan(info, plan_)
    assert [speaker.name for speaker in plan.speakers] == LISTED
    assert plan.keywords["model"] == LISTED[0]
    again = make_plan(info, {}, file=plan.options.stored())
    assert again.speakers == plan.speakers


def test_debate_accepts_one_model_or_one_per_debater() -> None:
    """The rule is the same on the command line and in plan files. No two debaters get the same name."""
    with pytest.raises(
        ConfigurationError, match="`--model` must be a single model: assign models to a debater with NAME=MODEL"
    ):
        make_plan(PATTERNS["debate"], {"question": QUESTION, "model": LISTED})
    options = {"question": QUESTION, "model": LISTED, "members": ["Ada=openai/a", "Ben=openai/b"]}
    with pytest.raises(ConfigurationError, match="`--model` must be a single model if `members` is set"):
        make_plan(PATTERNS["council"], options)
    with pytest.raises(
        ConfigurationError, match=r"members\[0\]` must be a model name, or a table with a `name` or `model` key"
    ):
        make_plan(PATTERNS["council"], {"question": QUESTION}, file={"members": [{"role": "economist"}]})


def test_model_object_can_be_combined_with_named_members() -> None:
    model = FunctionModel(lambda request: "Wait.", name="gemini/c")
    ship = council(name="ship", members=[model, {"name": "Ben"}, {"model": model}], review="none")
    custom = FunctionModel(
        lambda request: {"answer": "Wait."} if request.block == "ship-chair" else "Wait.", name="own"
    )
    result = ship.run_sync("Ship?", model={"chat": custom, "synthesize": custom})
    assert result.models["chair"] == ("own",)
    assert [opinion.agent_name for opinion in result.output.opinions] == ["gemini/c", "Ben", "gemini/c (2)"]
