"""`ModelCheck`: calls over real HTTP to servers with different faults."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import AnthropicModel, OpenAIModel
from flowdebate.errors import BadFile, FlowDebateWarning, RequestRejected
from flowdebate.evaluation.model_check import MAX_REQUESTS, USUAL_CALLS, CheckRow, ModelCheck
from flowdebate.models import ModelRequest, ModelSettings, RecordingModel, ReplayModel, Retry
from flowdebate.models.call import ask
from flowdebate.models.openai.optional import learned_of
from flowdebate.models.resolve import resolve_model
from flowdebate.testing import FunctionModel, serve_recording
from tests.models.server import ChatServer, Exchange, completion
from tests.vendors import vendors

from .model_stub import Stub

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.models import Model

pytestmark = pytest.mark.anyio

KEY = "sk-canary-0123456789"


def model_at(base_url: str, **options: Any) -> OpenAIModel:
    """Return a model with a secret key, after forgetting what was known about earlier servers on its port."""
    learned_of.cache_clear()
    return OpenAIModel("m", base_url=base_url, api_key=KEY, retry=Retry(first_wait=0), **options)


async def check(model: Model, record: Path | None = None) -> ModelCheck:
    """Run all calls of the check."""
    report = ModelCheck(model, None if record is None else str(record))
    async for _ in report.run():
        pass
    return report


async def check_stub(stub: Stub, record: Path | None = None) -> ModelCheck:
    """Run all calls of the check against a stub."""
    async with stub.server() as server:
        return await check(model_at(server.base_url), record)


def outcomes(report: ModelCheck, *unlike: str) -> dict[str, str]:
    """Return the outcomes by row name, leaving out those in `unlike`."""
    return {row.name: row.outcome for row in report.rows() if row.outcome not in unlike}


def row_of(report: ModelCheck, name: str) -> CheckRow:
    """Return the row with this name."""
    return next(row for row in report.rows() if row.name == name)


async def test_fully_capable_models_need_no_settings() -> None:
    stub = Stub()
    report = await check_stub(stub)
    assert outcomes(report, "works") == {"model": "differs"}, report.rows()
    assert report.advice() == []
    assert (report.status, len(stub.requests)) == ("complete", USUAL_CALLS)
    assert [row.name for row in report.rows() if row.group == "structured answers"] == [
        "json_schema",
        "tools",
        "json",
        "md_json",
    ]
    assert [row.name for row in report.rows() if row.group == "roles"] == [
        "debater",
        "moderator",
        "judge in both orders",
        "synthesizer",
        "council member",
        "ranking of answers",
        "chair",
        "code reviewer",
    ]


@pytest.mark.parametrize(
    ("refuses", "rows", "advice"),
    [
        (
            ["stream", "temperature", "older limit", "effort", "logprobs"],
            ["streaming", "temperature", "effort", "log-probabilities"],
            ["not set temperature", "--effort", "--answer-form letter"],
        ),
        (
            ["system", "neighbours", "schema", "stream_options", "limit"],
            ["stream options", "token limit", "system message", "neighbors of one role", "json_schema"],
            ["not set max_tokens", 'structured="tools"'],
        ),
        (["tools", "formats"], ["tools", "json_schema", "json"], ["tools=", 'structured="md_json"']),
    ],
    ids=["settings", "messages", "tools and formats"],
)
async def test_server_rejections_are_quoted(refuses: list[str], rows: list[str], advice: list[str]) -> None:
    report = await check_stub(Stub(refuses=refuses, words="Diese Angabe wird hier nicht angenommen."))
    refusals = [row for row in report.rows() if row.outcome == "refused"]
    assert [row.name for row in refusals if row.group == "request"] == [name for name in rows if "json" not in name]
    assert {row.name for row in refusals} >= set(rows)
    assert all("Diese Angabe" in row.detail for row in refusals), refusals
    assert {row.outcome for row in report.rows() if row.group == "roles"} == {"works"}
    assert len(report.advice()) == len(advice)
    for part, sentence in zip(advice, report.advice(), strict=True):
        assert part in sentence


@pytest.mark.parametrize("status", [200, 404, 422, 501])
async def test_rejections_are_recognized_whatever_their_status(status: int, tmp_path: Path) -> None:
    """Even a response with status 200 can be a rejection, and the recording keeps the status."""
    record = tmp_path / "check.jsonl"
    report = await check_stub(Stub(refuses=["stream"], words="No streaming on this plan.", status=status), record)
    assert row_of(report, "streaming").detail == f"{status}: No streaming on this plan."
    with serve_recording(record) as base_url:
        second = await check(model_at(base_url))
    assert [row.outcome for row in second.rows()] == [row.outcome for row in report.rows()]


async def test_accepted_name_for_the_token_limit_is_reported() -> None:
    """The server rejects one parameter name for the token limit, but not the limit itself."""
    report = await check_stub(Stub(refuses=["older limit"]))
    assert row_of(report, "token limit") == CheckRow(
        group="request", name="token limit", outcome="works", detail="as max_completion_tokens"
    )


async def test_thinking_repairs_and_stop_reasons_are_counted() -> None:
    """A model that shows its thinking, fences its JSON and gives unusual stop reasons can still fill every role."""

    def write(text: str) -> str:
        fenced = f"```json\n{text}\n```" if text.startswith("{") else text
        return f"<think>Let me see.</think>\n{fenced}"

    report = await check_stub(Stub(write=write, finish="eos_token_seen"))
    assert "aloud in" in row_of(report, "thinking").detail
    assert row_of(report, "thinking").outcome == "differs"
    assert "eos_token_seen (" in row_of(report, "finish reasons").detail
    assert "code fence (" in row_of(report, "repairs").detail
    assert "fails" not in outcomes(report).values()


async def test_failed_roles_are_reported_with_a_remedy() -> None:
    stub = Stub(
        data=lambda body, data: "I would rather not." if "scores" in json.dumps(data) else data,
        letters=False,
        calls_tools=False,
    )
    report = await check_stub(stub)
    failing = {name for name, outcome in outcomes(report).items() if outcome == "fails"}
    assert failing == {"judge in both orders", "a tool call", "letters"}
    assert "does not match its schema" in row_of(report, "judge in both orders").detail
    assert report.advice()[-1] == "Give another model to the judge: --model judge=SPEC."
    assert len(stub.requests) <= MAX_REQUESTS


async def test_order_dependent_judges_are_detected() -> None:
    def prefer_the_first(body: Any, data: Any) -> Any:
        if "scores" in data:
            prompt = json.dumps(body["messages"])
            sides = sorted(data["scores"], key=prompt.rindex)
            data["scores"] = dict(zip(sides, (90, 10), strict=True))
        return data

    report = await check_stub(Stub(data=prefer_the_first))
    row = row_of(report, "judge in both orders")
    assert (row.outcome, row.detail) == ("differs", "another winner in the other order")
    assert report.advice() == ["Let it judge in both orders: --schedule swap."]


async def test_wrong_names_are_distinguished_from_schema_mismatches() -> None:
    """The schema permits the wrong name, so no other check detects the error."""

    def blame(_: Any, data: Any) -> Any:
        return {**data, "winner": "Blaise Pascal"} if "confidence" in data else data

    report = await check_stub(Stub(data=blame))
    assert row_of(report, "names of persons").detail == "the right one in 0 of 4 answers"
    assert row_of(report, "md_json").detail == "it fits, but names Blaise Pascal instead of Ada Lovelace"


@pytest.mark.parametrize(
    ("status", "body", "requests", "says"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, 1, "API key"),
        (404, {"error": {"message": "The model `m` does not exist."}}, 1, "does not exist"),
        (404, "<html><body>nothing here</body></html>", 1, "base_url"),
        (200, completion(""), 2, "no text"),
        (200, completion("<think>Hm.</think>"), 2, "wrote no answer"),
    ],
    ids=["key", "model", "address", "nothing", "only thinking"],
)
async def test_check_ends_at_once_if_a_model_does_not_answer(status: int, body: Any, requests: int, says: str) -> None:
    async def serve(exchange: Exchange) -> None:
        if isinstance(body, str):
            await exchange.answer(body.encode(), kind="text/html", status=status)
        else:
            await exchange.json(body, status=status)

    async with ChatServer({}, otherwise=serve) as server:
        report = await check(model_at(server.base_url))
    assert report.status == "failed"
    assert report.error is not None
    assert says in report.error
    assert KEY not in report.error
    assert not [row for row in report.rows() if row.group == "roles"]
    assert report.as_dict()["calls"] == requests


async def test_number_of_requests_in_a_check_is_bounded() -> None:
    stub = Stub(data=lambda *_: "no", refuses=["formats"])
    report = await check_stub(stub)
    assert len(stub.requests) <= MAX_REQUESTS
    assert report.status in ("complete", "limit")


async def test_models_without_a_server_can_be_checked() -> None:
    """For a model without a server, there are no request features to check and there is only one output mode."""

    def reply(request: Any) -> Any:
        return "Trams." if request.output is None else {"reasoning": "r", "winner": "Ada Lovelace", "confidence": 1}

    report = await check(FunctionModel(reply))
    assert {row.group for row in report.rows()} == {"structured answers", "answers", "roles"}
    assert row_of(report, "in its own way").outcome == "works"
    assert row_of(report, "moderator").outcome == "fails"


# Recordings


def weird_stub() -> Stub:
    """Create a server whose texts and answers contain private data."""
    return Stub(
        refuses=["temperature", "schema"],
        words=f"No. {KEY} at http://127.0.0.1:8123/v1, gpu-7.internal, /home/ann/model.gguf, org-abcdef123456",
        write=lambda text: f"<think>Hm: http://10.1.2.3:8000/v1 of ann@example.com.</think>{text}",
    )


async def test_replayed_recordings_have_the_same_faults(tmp_path: Path) -> None:
    """Checking the replayed recording must give the same rows, although names and prompts differ between runs."""
    record = tmp_path / "check.jsonl"
    report = await check_stub(weird_stub(), record)
    with serve_recording(record) as base_url:
        second = await check(model_at(base_url))
    assert [(row.name, row.outcome) for row in second.rows()] == [(row.name, row.outcome) for row in report.rows()]
    assert second.advice() == report.advice()
    assert second.as_dict()["requests"] == report.as_dict()["requests"]


async def test_recording_is_a_cassette(tmp_path: Path) -> None:
    """The answers, including their repairs and flags, can be replayed without a server."""
    record = tmp_path / "check.jsonl"
    report = await check_stub(weird_stub(), record)
    replayed = await check(ReplayModel(record))
    roles = [(row.name, row.outcome) for row in report.rows() if row.group == "roles"]
    assert [(row.name, row.outcome) for row in replayed.rows() if row.group == "roles"] == roles
    assert row_of(replayed, "thinking").outcome == "differs"


async def test_recording_contains_no_key_or_address(tmp_path: Path) -> None:
    """The server's responses reveal details about the server and its user, none of which may be recorded."""
    record = tmp_path / "check.jsonl"
    await check_stub(weird_stub(), record)
    text = record.read_text()
    assert "[address]" in text
    assert "[redacted]" in text
    for secret in (KEY, "canary", "127.0.0.1", "10.1.2.3", "gpu-7", "example.com", "/home/ann", "abcdef123456"):
        assert secret not in text, secret
    assert '"status": 400' in text


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "gemini", "ollama"])
async def test_each_vendor_is_checked_and_replayed_through_its_own_interface(vendor: Any, tmp_path: Path) -> None:
    record = tmp_path / "check.jsonl"
    with vendors() as clients:
        name = f"{vendor}/{clients[vendor].models[0]}"
        report = await check(resolve_model(name), record)
        assert len(clients[vendor].asked) == report.as_dict()["requests"]
        assert str(clients[vendor].key) not in record.read_text()
    assert {row.outcome for row in report.rows() if row.group == "roles"} == {"works"}
    kind = AnthropicModel if vendor == "anthropic" else OpenAIModel
    with serve_recording(record) as base_url:
        learned_of.cache_clear()
        second = await check(kind("m", base_url=base_url, api_key=KEY))
    repeated = [(row.group, row.name, row.outcome) for row in second.rows() if row.name != "model"]
    assert repeated == [(row.group, row.name, row.outcome) for row in report.rows()]


async def test_recordings_answer_any_request_that_uses_recorded_features(tmp_path: Path) -> None:
    record = tmp_path / "check.jsonl"
    await check_stub(Stub(refuses=["temperature"], words="No temperature."), record)
    with serve_recording(record) as base_url:
        model = model_at(base_url)
        text = [{"role": "user", "content": "Is this in the file?"}]
        request = ModelRequest(messages=[{"role": "system", "content": "Other words."}, *text], block="mine")
        assert (await ask(model, request)).text == "Trams carry more people."
        warm = replace(request, settings=ModelSettings(temperature=1))
        with pytest.warns(FlowDebateWarning, match="rejects temperature"):
            response = await ask(model, warm)
        assert response.flags == ("other_model", "without_temperature")
        seed = replace(request, settings=ModelSettings(extra={"seed": 1}))
        with pytest.raises(RequestRejected, match="the recording has no request with seed"):
            await ask(model, seed)
    with pytest.raises(BadFile, match="exchanges=True"), serve_recording(plain_cassette(tmp_path)):
        pass


def plain_cassette(folder: Path) -> Path:
    """Write a cassette without exchanges."""
    path = folder / "plain.jsonl"
    RecordingModel(FunctionModel(lambda _: "Trams."), path)
    return path
