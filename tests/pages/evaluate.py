"""Setup for docs/evaluate.md."""

from __future__ import annotations

import os
import re
import tempfile
from random import Random
from typing import Any

from flowdebate.models import ModelResponse, Usage
from flowdebate.testing import FunctionModel, ModelRequest


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, number))


def _prompt_and_usage(request: ModelRequest) -> tuple[str, Usage]:
    prompt = " ".join(str(message["content"]) for message in request.messages)
    return prompt, Usage(calls=1, prompt_tokens=len(prompt) // 4, cached_tokens=0, completion_tokens=60)


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that is right in 70% of its answers, and in 90% of its verdicts."""
    draws: dict[tuple[str, int], Random] = {}

    def answer(request: ModelRequest) -> ModelResponse:
        prompt, usage = _prompt_and_usage(request)
        if request.output_schema is None:
            return ModelResponse(text="Nobody has named a divisor. " * 6, usage=usage)
        number = int(re.findall(r"Is (\d+) a prime", prompt)[0])
        is_judge = request.block == "primes-judge"
        draw = draws.setdefault((request.block, number), Random(f"{request.block} {number}")).random()
        is_right = draw < (0.9 if is_judge else 0.7)
        winner = "it is prime" if _is_prime(number) == is_right else "it is not prime"
        data = {"reasoning": "So it is.", "winner": winner}
        return ModelResponse(data={**data, "verdict": "So it is."} if is_judge else data, usage=usage)

    page["model"] = FunctionModel(answer)


def study(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that is right in 75% of its answers, and in 85% of its verdicts."""
    os.chdir(tempfile.mkdtemp())
    draws: dict[tuple[int, bool], Random] = {}

    def answer(request: ModelRequest) -> ModelResponse:
        prompt, usage = _prompt_and_usage(request)
        fields = request.output_schema and request.output_schema["properties"]
        if not fields:
            text = "Try the small divisors first; only 7 and 11 take any work."
            return ModelResponse(text=text, usage=usage)
        number = next(int(word) for word in prompt.split() if word.isdigit() and 100 < int(word) < 400)
        is_verdict = "verdict" in fields
        draw = draws.setdefault((number, is_verdict), Random(f"{number}{is_verdict}")).random()
        is_right = draw < (0.85 if is_verdict else 0.75)
        winner = "it is prime" if _is_prime(number) == is_right else "it is not prime"
        data = {"reasoning": "I tried the divisors.", "verdict": "So it is.", "winner": winner}
        return ModelResponse(data={key: data[key] for key in fields}, usage=usage)

    page["model"] = FunctionModel(answer)
