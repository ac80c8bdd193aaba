"""Tests for instructor clients used as models. They use the real package and stubs of two vendor APIs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, field_validator

from flowdebate import Debater, Limits, debate, generator
from flowdebate.errors import AuthenticationFailed, ConfigurationError, RealModelForbidden, SchemaViolation
from flowdebate.testing import forbid_real_models
from tests.adapters.needs import needs
from tests.cases import slow_but_first
from tests.vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.adapters.instructor import InstructorModel
    from flowdebate.blocks.base import Block
    from flowdebate.runs.result import RunResult
    from tests.vendors import Vendor, VendorName

pytestmark = needs("instructor", "instructor")
SIDES = [Debater("ann", "cars out"), Debater("bob", "cars in")]


class Plan(BaseModel):
    """A plan with a validator."""

    trams: int

    @field_validator("trams")
    @classmethod
    def check_even(cls, value: int) -> int:
        """Check that the number of trams is even."""
        if value % 2:
            message = "trams go in pairs"
            raise ValueError(message)
        return value


@pytest.fixture
def vendor_stubs() -> Iterator[dict[VendorName, Vendor]]:
    """Start stubs of the vendor APIs."""
    with vendors() as served, forbid_real_models(allow_local=True):
        yield served


def run(block: Block[Any, Any], question: str, instructor_model: InstructorModel, **options: Any) -> RunResult[Any]:
    """Run `block`, then close the client as the application that owns it would."""

    async def main() -> RunResult[Any]:
        try:
            return await block.run(question, model=instructor_model, **options)
        finally:
            client: Any = instructor_model._client.client
            closing = client.close()
            if closing is not None:
                await closing

    return asyncio.run(main())


def client(stub: Vendor, kind: str) -> Any:
    """Create an instructor client in the given mode."""
    import anthropic
    import instructor
    import openai

    base, key = stub.base_url, stub.key
    if kind == "sync":
        return instructor.from_openai(openai.OpenAI(base_url=base, api_key=key))
    if kind == "async":
        return instructor.from_openai(openai.AsyncOpenAI(base_url=base, api_key=key))
    if kind == "anthropic":
        address = base.removesuffix("/v1")
        return instructor.from_anthropic(anthropic.AsyncAnthropic(base_url=address, api_key=key))
    if kind == "provider-async":
        return instructor.from_provider("openai/gpt-5-mini", async_client=True, base_url=base)
    return instructor.from_provider("openai/gpt-5-mini", base_url=base)


def client_model(stub: Vendor, kind: str, **options: Any) -> Any:
    """Create a model that wraps an instructor client."""
    from flowdebate.adapters.instructor import InstructorModel

    name = "claude-haiku-5-5" if kind == "anthropic" else "gpt-5-mini"
    return InstructorModel(client(stub, kind), None if kind.startswith("provider") else name, **options)


@pytest.mark.parametrize("kind", slow_but_first(["sync", "async", "provider-sync", "provider-async", "anthropic"]))
def test_debate_runs_on_a_client(vendor_stubs: dict[VendorName, Vendor], kind: str) -> None:
    stub = vendor_stubs["anthropic" if kind == "anthropic" else "openai"]
    city = debate(name="city", debaters=SIDES, max_rounds=1)
    result = run(city, "May cars go?", client_model(stub, kind))
    assert result.raw.verdict is not None
    assert len(stub.asked) == result.usage.calls == 4
    assert result.usage.total_tokens


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_instructor_retries_invalid_answers_and_every_request_is_counted(
    vendor_stubs: dict[VendorName, Vendor], kind: str
) -> None:
    answers = iter([{"trams": 1}, {"trams": 3}, {"trams": 4}])
    vendor_stubs["openai"].say = lambda _: next(answers)
    result = run(generator(name="plan", output_schema=Plan), "How many?", client_model(vendor_stubs["openai"], kind))
    assert (result.output.trams, result.usage.calls, len(vendor_stubs["openai"].asked)) == (4, 3, 3)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_instructor_retries_stop_at_run_limits(vendor_stubs: dict[VendorName, Vendor], kind: str) -> None:
    from flowdebate.errors import LimitReached

    vendor_stubs["openai"].say = lambda _: {"trams": 1}
    plan = generator(name="plan", output_schema=Plan)
    with pytest.raises(LimitReached):
        run(plan, "How many?", client_model(vendor_stubs["openai"], kind), limits=Limits(calls=2))
    assert len(vendor_stubs["openai"].asked) == 2


def test_answer_that_never_validates_is_a_schema_violation(vendor_stubs: dict[VendorName, Vendor]) -> None:
    """The error is raised after `max_retries` retries and quotes the validator's message."""
    vendor_stubs["openai"].say = lambda _: {"trams": 1}
    with pytest.raises(SchemaViolation, match="trams go in pairs"):
        run(
            generator(name="plan", output_schema=Plan),
            "How many?",
            client_model(vendor_stubs["openai"], "async", max_retries=1, retry=None),
        )
    assert len(vendor_stubs["openai"].asked) == 2


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_wrong_key_raises_an_authentication_error(vendor_stubs: dict[VendorName, Vendor], kind: str) -> None:
    """Authentication errors are permanent, so neither text nor structured requests are retried."""
    stub = vendor_stubs["openai"]
    for schema in (None, Plan):
        instructor_model = client_model(stub, kind)
        instructor_model._client.client.api_key = "wrong"
        with pytest.raises(AuthenticationFailed):
            run(generator(name="plan", output_schema=schema), "How many?", instructor_model)
    assert stub.refused == 2


def test_real_models_can_be_forbidden() -> None:
    import instructor
    import openai

    from flowdebate.adapters.instructor import InstructorModel

    instructor_model = InstructorModel(instructor.from_openai(openai.OpenAI(api_key="k")), "gpt-5-mini")
    with forbid_real_models(), pytest.raises(RealModelForbidden):
        run(generator(name="mayor"), "May cars go?", instructor_model)


def test_only_instructor_clients_with_a_default_model_are_accepted() -> None:
    import instructor
    import openai

    from flowdebate.adapters.instructor import InstructorModel

    with pytest.raises(ConfigurationError, match="`client` must be an instructor client"):
        InstructorModel(openai.OpenAI(api_key="k"))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the client has no default model"):
        InstructorModel(instructor.from_openai(openai.OpenAI(api_key="k")))
