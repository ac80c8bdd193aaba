"""Cost of policies around an instant in-process model: calls with no policy, with each policy, and with all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from flowdebate.models import (
    CircuitBreaker,
    ConcurrencyLimit,
    Fallback,
    ModelRequest,
    RateLimit,
    Retrying,
    Timeout,
    Wrapper,
)
from flowdebate.models.call import ask
from flowdebate.testing import FunctionModel
from report import alternating, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = 2_000
MESSAGES = [{"role": "user", "content": "Are rivers enough?"}]
TEXT = "Rivers run at night as well, and what they give can be stored without a single battery."


def answering(_: ModelRequest) -> str:
    return TEXT


PLAIN = FunctionModel(answering)

MODELS: dict[str, Any] = {
    "none": PLAIN,
    "Wrapper": Wrapper(PLAIN),
    "Retrying": Retrying(PLAIN),
    "Timeout": Timeout(PLAIN, 60),
    "Timeout, streaming": Timeout(PLAIN, 60, first_text=30, between=10),
    "RateLimit": RateLimit(PLAIN, requests=10**9, tokens=10**12),
    "ConcurrencyLimit": ConcurrencyLimit(PLAIN, 8),
    "CircuitBreaker": CircuitBreaker(PLAIN),
    "Fallback": Fallback(PLAIN, PLAIN),
    "all": Fallback(
        CircuitBreaker(
            Retrying(ConcurrencyLimit(RateLimit(Timeout(PLAIN, 60), requests=10**9, tokens=10**12), 8)),
        ),
        PLAIN,
    ),
}


def calling(model: Any) -> Callable[[], object]:  # noqa: ANN401 - a model, which FunctionModel is by its shape
    """Make this many calls, one after the other."""

    async def many() -> None:
        for _ in range(CALLS):
            request = ModelRequest(messages=MESSAGES, block="bench")
            assert (await ask(model, request)).text == TEXT  # noqa: S101 - the figure is for calls that are answered

    return lambda: asyncio.run(many())


def main() -> None:
    medians = alternating({name: calling(model) for name, model in MODELS.items()}, repeats=7)
    base = medians["none"]
    print_table(
        "CPU of policies: one call of an instant in-process model",
        ["", "µs a call", "more than none", "ratio"],
        [
            [name, f"{value / CALLS * 1e6:.1f}", f"{(value - base) / CALLS * 1e6:.1f}", f"{value / base:.2f}"]
            for name, value in medians.items()
        ],
        note="Calls have a deadline and an account in every row. all: six policies around each other.",
    )


if __name__ == "__main__":
    main()
