"""Prompt cost of a debate with three sides and three rounds, compared with a manually written loop.

`python -m scripts.benchmarks.prompt_cache` needs no key and costs nothing. The stub servers of the tests count cached
prefixes as their vendors do; prices come from genai-prices. All answers have 1,600 characters, about 270 words.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, debate
from flowdebate.models import AnthropicModel, ModelRequest, Usage, resolve_model
from flowdebate.models.call import ask
from flowdebate.models.prices import known_price, prices_source
from tests.vendors import vendors

if TYPE_CHECKING:
    from tests.vendors import Vendor, VendorRequest

QUESTION = "Should cities cap rents?"
POSITIONS = {"ann": "rents should be capped", "ben": "rents should be free", "cleo": "rents should be subsidised"}
MODELS = {"openai": "gpt-5.6-luna", "anthropic": "claude-haiku-5-5", "gemini": "gemini-flash-latest"}
ROUNDS = 3
_TURN = "A reason that takes some room to be told in full. "


def _say(request: VendorRequest) -> Any:  # noqa: ANN401 - text, or data that fits
    return None if request.schema else (_TURN * 32)[:1_600]


def ours(model: str) -> Usage:
    """Run the library's debate, with a judge and no synthesizer."""
    sides = [Debater(name, stance) for name, stance in POSITIONS.items()]
    pattern = debate(name="rent", debaters=sides, max_rounds=ROUNDS, synthesizer=False)
    return pattern.run_sync(QUESTION, model=model).usage


async def by_hand(model: str) -> Usage:
    """Run a loop over chat messages; each debater has a system message and reads arguments as messages."""
    calls = (
        AnthropicModel(model.partition("/")[2], cache=False) if model.startswith("anthropic") else resolve_model(model)
    )
    transcript: list[dict[str, str]] = []
    usage = Usage.zero()
    for _ in range(ROUNDS):
        for name, stance in POSITIONS.items():
            rules = (
                f"You are {name}, and argue that {stance}. Question: {QUESTION} Answer the others, then add a reason."
            )
            request = ModelRequest(messages=[{"role": "system", "content": rules}, *transcript], block=name)
            response = await ask(calls, request)
            usage += response.usage
            transcript.append({"role": "user", "content": f"{name}: {response.text}"})
    judge = [{"role": "system", "content": "You judge a debate. Who argued best?"}, *transcript]
    return usage + (await ask(calls, ModelRequest(messages=judge, block="judge"))).usage


def row(label: str, model: str, usage: Usage) -> str:
    """Format one row of the table."""
    cached, written = usage.cached_tokens or 0, usage.cache_written_tokens or 0
    fresh = (usage.prompt_tokens or 0) - cached - written
    cost = known_price(model, usage) or 0.0
    prompts = cost - (known_price(model, Usage(calls=1, completion_tokens=usage.completion_tokens)) or 0.0)
    return f"| {label} | `{model}` | {fresh:,} | {cached:,} | {written:,} | ${prompts:.5f} | ${cost:.5f} |"


def main() -> None:
    """Print the table."""
    print(f"| Who | Model | Read afresh | From cache | Into cache | Prompts | All | ({prices_source()})")
    print("|---|---|---|---|---|---|---|")
    for name, model in MODELS.items():
        for label, run in (("flowdebate", ours), ("loop", lambda spec: asyncio.run(by_hand(spec)))):
            with vendors() as servers:
                vendor: Vendor = servers[name]  # type: ignore[index]  # one of them
                vendor.say = _say
                print(row(label, f"{name}/{model}", run(f"{name}/{model}")))


if __name__ == "__main__":
    main()
