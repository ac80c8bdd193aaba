"""Debates in every front end when the model server rejects a request feature in its own words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import OpenAIModel
from flowdebate.models.openai.optional import learned_of
from flowdebate.service import Service
from tests.cli.stage import PATIENCE, Stage, start_on_pipes
from tests.profiles import example_count
from tests.server.stage import staged

if TYPE_CHECKING:
    from collections.abc import Callable

    Body = dict[str, Any]

PARTS: dict[str, Callable[[Body], bool]] = {
    "stream": lambda body: "stream" in body,
    "stream_options": lambda body: "stream_options" in body,
    "response_format": lambda body: "response_format" in body,
    "any form but text": lambda body: not {"response_format", "tools"}.isdisjoint(body),
    "system": lambda body: body["messages"][0]["role"] == "system",
    "reasoning_effort": lambda body: "reasoning_effort" in body,
}
CODES = sorted(set(range(400, 500)) - {401, 402, 408, 409, 429})
WORDS = st.lists(st.text("bdfghjklqvwxz", min_size=3, max_size=9), min_size=1, max_size=8).map(" ".join)
REFUSALS = st.tuples(st.sampled_from(CODES), WORDS.map(lambda words: {"error": {"message": words}}))
SIDES = ["ann=cap rents", "ben=free rents"]


def rejecting_stage(part: str, refusal: tuple[int, Any]) -> Stage:
    """Serve a stage whose models reject any request that uses `part`."""
    return Stage(refuse=lambda body: refusal if PARTS[part](body) else None)


def check_command(part: str, refusal: tuple[int, Any]) -> None:
    """Run a debate from the command line with a reasoning effort set."""
    with rejecting_stage(part, refusal) as stage:
        options = [f"--debater={side}" for side in SIDES]
        arguments = stage.options(*options, "--max-rounds", "1", "--no-synthesizer", "--effort", "low", "--json")
        with start_on_pipes(*arguments) as process:
            out, problems = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, problems
    document = json.loads(out)
    assert [entry["text"] for entry in document["raw"]["transcript"]] == ["Homes first.", "Build more."]
    assert document["raw"]["verdict"]["verdict"] == "Both are right."
    refuses_effort = part == "reasoning_effort"
    assert (b"rejects effort" in problems) == refuses_effort
    assert document.get("remarks") == (["staged answered 3 calls " + NOTE] if refuses_effort else None)


NOTE = "without the configured effort, which it rejects"


def check_page(part: str, refusal: tuple[int, Any]) -> None:
    """Run a debate from the web page with a reasoning effort set."""
    learned_of.cache_clear()  # an earlier stage may have used this port
    with rejecting_stage(part, refusal) as stage:
        model = OpenAIModel("staged", base_url=stage.base_url, api_key="k")
        with staged(lambda: Service(store="memory:", model=model)) as server:
            debaters = [dict(zip(("name", "stance"), side.split("="), strict=True)) for side in SIDES]
            options = {"debaters": debaters, "max_rounds": 1, "synthesizer": False, "effort": "low"}
            run_id = server.finished(options=options)
            page = server.http.get(f"{server.pages}/runs/{run_id}")
    assert page.status_code == 200
    assert all(text in page.text for text in ("Homes first.", "Build more.", "Both are right."))
    assert (NOTE in page.text) == (part == "reasoning_effort")


@pytest.mark.parametrize("part", ["stream", "reasoning_effort"])
def test_command_finishes_a_debate_if_one_feature_is_rejected(part: str) -> None:
    check_command(part, (418, {"error": {"message": "frobs are not wibbled"}}))


@pytest.mark.filterwarnings("ignore:model .* rejects")
@pytest.mark.parametrize("part", ["stream", "reasoning_effort"])
def test_page_finishes_a_debate_if_one_feature_is_rejected(part: str) -> None:
    check_page(part, (418, {"error": {"message": "frobs are not wibbled"}}))


@pytest.mark.slow
@settings(max_examples=example_count(10))
@given(part=st.sampled_from(list(PARTS)), refusal=REFUSALS)
def test_command_finishes_a_debate_whatever_features_are_rejected(part: str, refusal: tuple[int, Any]) -> None:
    check_command(part, refusal)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:model .* rejects")
@settings(max_examples=example_count(10))
@given(part=st.sampled_from(list(PARTS)), refusal=REFUSALS)
def test_page_finishes_a_debate_whatever_features_are_rejected(part: str, refusal: tuple[int, Any]) -> None:
    check_page(part, refusal)
