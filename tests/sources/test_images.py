"""Images as sources: what each vendor receives, how a lack of vision is detected, and which files are not images."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate import Debater, Limits, council, debate
from flowdebate.cli.app import app
from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.models import Fallback, OpenAIModel
from flowdebate.models.base import accepts_images
from flowdebate.models.resolve import resolve_model
from flowdebate.patterns import PATTERNS
from flowdebate.sources.files import make_source, read_sources
from flowdebate.testing import FunctionModel
from flowdebate.ui.plan import make_plan, stored_plan, with_stored_sources
from tests.server.stage import BRIEF, answer_debate, staged
from tests.sources.test_fronts import kept_in
from tests.vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.vendors import Vendor

QUESTION = "Should rents be capped?"
SIDES = [Debater("pro", "rents rise"), Debater("con", "rents fall")]


def png(side: int = 4) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\xff" * 3 * side) * side)
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


BEGINS = {
    "chart.png": png(),
    "photo.jpeg": b"\xff\xd8\xff\xe0" + bytes(20),
    "old.gif": b"GIF89a" + bytes(20),
    "new.webp": b"RIFF\x10\0\0\0WEBPVP8 " + bytes(20),
}
URL = f"data:image/png;base64,{base64.b64encode(png()).decode()}"


@pytest.fixture
def chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an image in the command's working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chart.png").write_bytes(png())
    return tmp_path / "chart.png"


@pytest.fixture
def servers() -> Iterator[dict[Any, Vendor]]:
    with vendors() as running:
        yield running


# Requests to models


@pytest.mark.parametrize("transport", ["aiohttp", "openai"])
def test_vendors_receive_the_image_before_the_transcript(
    transport: Any, chart: Path, servers: dict[Any, Vendor]
) -> None:
    """The image is sent to OpenAI and Anthropic through their own SDKs.

    The judge receives no image.
    """
    pytest.importorskip("anthropic")
    custom_model = OpenAIModel("gpt-5-mini", transport=transport)
    sides = [Debater("pro", "rents rise", model=custom_model)]
    sides += [Debater("con", "rents fall", model="anthropic/claude-haiku-5-5")]
    rent = debate(name="rent", debaters=sides, max_rounds=2, synthesizer=False, sources=[chart])
    result = rent.run_sync(QUESTION, model={"synthesize": "gemini/gemini-3-pro"})
    for request in servers["openai"].asked:
        system, user, task = request.body["messages"]
        assert "[chart.png] (an image, which is shown to you)" in system["content"]
        label = {"type": "text", "text": "[chart.png]"}
        assert user == {"role": "user", "content": [label, {"type": "image_url", "image_url": {"url": URL}}]}
        assert task["content"].startswith("The debate so far:")
    for request in servers["anthropic"].asked:
        [turn] = request.body["messages"]
        label, image, *rest = turn["content"]
        assert label["text"] == "[chart.png]"
        inline = {"type": "base64", "media_type": "image/png", "data": URL.partition(",")[2]}
        assert image == {"type": "image", "source": inline}
        assert all(part["type"] == "text" for part in rest)
    assert len(servers["openai"].asked) == len(servers["anthropic"].asked) == 2
    assert "image" not in str(servers["gemini"].asked[0].body["messages"])
    assert result.raw.sources is not None
    [listed] = result.raw.sources
    assert (listed.name, listed.media_type, listed.characters) == ("chart.png", "image/png", 0)
    assert result.raw.quotes == [[], [], [], []]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_all_speakers_in_a_pattern_see_the_image(pattern: str, chart: Path) -> None:
    """Pages and traces show the request without the image."""
    info = PATTERNS[pattern]
    plan = make_plan(info, {info.subject: info.load_page().example, "sources": ["chart.png"]})
    has_image = [
        any("image_url" in str(message) for message in request.messages)
        for request in requests_of(plan.pattern(), plan.subject)
    ]
    assert any(has_image)


def requests_of(pattern: Any, question: str) -> list[Any]:
    """Run a pattern until it reaches its limit, and return the requests made so far."""
    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        return answer_debate(request)

    with pytest.MonkeyPatch.context():
        try:
            pattern.run_sync(question, model=FunctionModel(answer), limits=Limits(calls=4))
        except Exception:  # noqa: BLE001 - an answer may not fit: the requests are what is looked at
            return requests
    return requests


def test_images_are_stored_once_and_restored(chart: Path) -> None:
    """The run's plan contains the data URL, so the file is not needed to resume the run."""
    plan = make_plan(PATTERNS["debate"], {"question": QUESTION, "sources": ["chart.png"], "model": ["openai/gpt-5"]})
    stored = stored_plan(plan)
    chart.unlink()
    restored = make_plan(PATTERNS["debate"], {}, file=with_stored_sources(stored["options"]))
    assert restored.sources == plan.sources == (make_source("chart.png", URL),)
    assert str(stored).count(URL) == 1


def test_durable_runs_keep_the_image_in_their_journal(chart: Path, tmp_path: Path) -> None:
    """The journal contains the image only once, and a resumed run reads it from there."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, sources=["chart.png"])
    store = tmp_path / "runs.sqlite3"
    ended = rent.run_sync(QUESTION, model=FunctionModel(answer_debate), store=store, run_id="r", limits=Limits(calls=1))
    assert ended.status == "limit"
    chart.write_bytes(b"GIF89a" + bytes(9))
    prompts: list[str] = []

    def answer(request: Any) -> Any:
        prompts.append(str(request.messages))
        return answer_debate(request)

    later = rent.resume_sync("r", model=FunctionModel(answer), store=store, limits=Limits(calls=9))
    assert later.status == "complete"
    assert URL in prompts[0]
    assert kept_in(store).count(URL) == 1


def test_budgets_count_image_tokens() -> None:
    """The characters of the base64 data are not counted."""
    from flowdebate.models import ModelRequest

    parts = [{"type": "text", "text": "four"}, {"type": "image_url", "image_url": {"url": "x" * 1_000_000}}]
    request = ModelRequest(messages=[{"role": "user", "content": parts}], block="b")
    assert request.characters == 4 + 6_400


# Models without vision


@pytest.mark.parametrize("name", ["cerebras/gpt-oss-120b", "deepseek/deepseek-flash", "openai/gpt-4", "local"])
def test_models_without_vision_are_rejected_before_any_call(
    name: str, chart: Path, servers: dict[Any, Vendor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the block, the model and the file, even if only one of two possible models lacks vision."""
    for variable in ("CEREBRAS_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.setenv(variable, "key")
    for model in (name, Fallback("openai/gpt-5-mini", name)):
        sides = [Debater("pro", "x", model="openai/gpt-5-mini"), Debater("con", "y", model=model)]
        rent = debate(name="rent", debaters=sides, sources=[chart])
        with pytest.raises(
            ConfigurationError,
            match=r"rent-debater-con: `sources` include images, which .* cannot read .got chart\.png",
        ):
            rent.run_sync(QUESTION, model={"synthesize": "openai/gpt-5-mini"})
    flags = ("--model", "openai/gpt-5-mini", "--model", f"con={name}", "--source", "chart.png", "--no-store")
    result = CliRunner().invoke(app, ["debate", QUESTION, *flags])
    assert result.exit_code == 2
    assert f"include images, which {name} cannot read (got chart.png)" in " ".join(result.stderr.split())
    assert not any(vendor.asked for vendor in servers.values())


def test_vision_support_depends_on_the_model_name() -> None:
    """A model is assumed to support images unless its name indicates otherwise, and an option can override this."""
    for name in ("openai/gpt-5.6-luna", "anthropic/claude-haiku-5-5", "gemini/gemini-flash-latest", "ollama/gemma3"):
        assert accepts_images(resolve_model(name)), name
    for name in ("groq/openai/gpt-oss-120b", "mistral/codestral-latest", "ollama/llama3", "openai/o3-mini"):
        assert not accepts_images(resolve_model(name)), name
    assert accepts_images(OpenAIModel("gpt-oss-vision", images=True))
    assert not accepts_images(OpenAIModel("gpt-5", images=False))


# Recognizing images


@pytest.mark.parametrize("name", BEGINS)
def test_images_are_recognized_by_their_bytes(name: str, tmp_path: Path) -> None:
    """A misleading file name makes no difference."""
    path = tmp_path / name
    path.write_bytes(BEGINS[name])
    [source] = read_sources([f"figure={path}"])
    assert (source.name, source.text, source.size) == ("figure", "", len(BEGINS[name]))
    assert source.info.media_type == f"image/{path.suffix[1:]}"
    assert source == make_source("figure", str(source.image))


def test_images_have_limits(tmp_path: Path) -> None:
    """The size of each image and their total size are limited. An invalid or damaged image raises an error."""
    big, image = tmp_path / "big.png", tmp_path / "a.png"
    big.write_bytes(png() + bytes(3_750_000))
    image.write_bytes(png() + bytes(3_500_000))
    with pytest.raises(BadFile, match=r"big\.png: is larger than 3\.75 MB, the most that providers accept"):
        read_sources([str(big)])
    with pytest.raises(BadFile, match="has more than 10 MB of images"):
        read_sources([f"{name}={image}" for name in "abc"])
    for text, why in (
        ("data:image/png;base64,%%%", "is not a valid data URL: its base64 cannot be decoded"),
        ("data:image/png;base64,AAAA", r"is binary: only text, documents and images \(PNG, JPEG, WebP, GIF\) can be"),
    ):
        with pytest.raises(BadFile, match=f"chart: {why}"):
            council(name="c", members=[{"name": "a"}, {"name": "b"}], sources={"chart": text})


def test_images_in_a_folder_are_omitted(tmp_path: Path) -> None:
    """Most images in folders are logos, and an image that matters can be named explicitly."""
    (tmp_path / "notes.md").write_text("Rents rose.")
    (tmp_path / "logo.png").write_bytes(png())
    reasons = {source.name: source.left_out for source in read_sources([f"docs={tmp_path}"])}
    assert reasons == {"docs/notes.md": None, "docs/logo.png": "is an image: pass the image itself to include it"}


def test_http_requests_can_include_images_as_data_urls() -> None:
    """The page lists the image, and the prompt shown there mentions it.

    Invalid images are rejected.
    """
    from flowdebate.service import Service

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as server:
        options: dict[str, Any] = {"max_rounds": 1, "sources": {"chart.png": URL}}
        run_id = server.finished(options=options)
        [listed] = server.get(f"/runs/{run_id}").json()["document"]["raw"]["sources"]
        assert listed["mediaType"] == "image/png"
        page = server.http.get(f"{server.pages}/runs/{run_id}/travel?step=1")
        assert page.status_code == 200
        assert "[chart.png]\n(an image)" in page.text
        assert "base64" not in page.text
        broken = {**options, "sources": {"chart.png": "data:image/png;base64,AAAA"}}
        refused = server.post("/runs", {**BRIEF, "options": broken})
        assert refused.status_code == 422
        assert "chart.png: is binary: only text, documents and images" in refused.text
