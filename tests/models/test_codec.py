"""Model calls and their answers survive a round trip through JSON."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from flowdebate.errors import CassetteMismatch, ModelTimeout, RateLimited
from flowdebate.models import Attempt, ModelRequest, ModelResponse, OutputSchema, Usage
from flowdebate.models.codec import (
    Answer,
    TextHasher,
    call_row,
    digest_of,
    failure_of,
    failure_text,
    json_text,
    read_call,
    read_record,
    request_row,
)
from flowdebate.models.recording import describe_request


class Strict(BaseModel):
    """Schema that accepts neither a list for a tuple nor a string for a date."""

    model_config = ConfigDict(strict=True)

    amounts: tuple[Decimal, ...]
    due: date


def test_a_strictly_typed_answer_survives_storage() -> None:
    """JSON has no tuples or dates, yet a run whose schema uses such types can be resumed."""
    output = OutputSchema.of(Strict)
    response = ModelResponse(data=Strict(amounts=(Decimal("1.10"),), due=date(2026, 1, 2)), validated=output)
    attempt = Attempt(model="m", waited=0.5, seconds=1.5, usage=Usage(calls=1, prompt_tokens=7), error="EmptyResponse")
    request = ModelRequest(messages=[{"role": "user", "content": "How much?"}], block="b", role="judge")
    row = call_row(response, [attempt], seconds=2.0, output=output) | request_row(request, "m", [attempt])
    answer, attempts = read_call(json_text(row))
    response_read, seconds = answer.response(output), answer.seconds
    assert (response_read, attempts, seconds) == (response, [attempt], 2.0)
    assert (answer.block, answer.role, answer.called, answer.prompt) == ("b", "judge", "m", len("How much?"))


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.floats(-1e3, 0), min_size=1))
def test_log_probabilities_survive_storage_exactly(logprobs: dict[str, float]) -> None:
    """A resumed run must base its decision on exactly the same numbers."""
    row = call_row(ModelResponse(text="A", logprobs=logprobs), [], seconds=0, output=None)
    decoded = read_record(Answer, json_text(row)).response(None)
    assert decoded.logprobs == logprobs


LINES = st.lists(st.integers(0, 5), max_size=12).map(
    lambda numbers: "".join(f"{number}é" * 3_000 for number in numbers)
)


@given(st.lists(LINES, max_size=8))
def test_hashing_does_not_depend_on_earlier_hashes(texts: list[str]) -> None:
    hasher = TextHasher()
    for text in texts:
        grown, request = f"{text}end", ModelRequest(messages=[{"role": "user", "content": text}], block="b")
        assert hasher.hash(text) == TextHasher().hash(text) != hasher.hash(grown) == TextHasher().hash(grown)
        assert digest_of(request, hasher) == digest_of(request)


def test_request_hash_includes_the_choices() -> None:
    """Listing the choices in a different order gives a different hash."""
    request = ModelRequest(messages=[{"role": "user", "content": "Which?"}], block="b")
    hashes = {digest_of(replace(request, choices=choices)) for choices in ((), ("A", "B"), ("B", "A"))}
    assert len(hashes) == 3


@pytest.mark.parametrize(
    "error",
    [
        RateLimited("slow down", retry_after=2.5, model="m"),
        CassetteMismatch("another request"),
        ModelTimeout(3.0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_storage(error: Exception) -> None:
    decoded = failure_of(failure_text(error))
    assert (type(decoded), str(decoded), vars(decoded)) == (type(error), str(error), vars(error))


def test_request_hash_includes_opening_words_and_sentence_limits() -> None:
    plain = ModelRequest(messages=[{"role": "user", "content": "Why?"}], block="b")
    prefixed = ModelRequest(messages=plain.messages, block="b", begins="Because")
    bounded = ModelRequest(messages=plain.messages, block="b", sentences=3)
    assert len({digest_of(plain), digest_of(prefixed), digest_of(bounded)}) == 3
    assert [
        describe_request(request).keys() - describe_request(plain).keys() for request in (plain, prefixed, bounded)
    ] == [
        set(),
        {"begins"},
        {"sentences"},
    ]
