"""Find out whether debating helps: questions with known answers are both debated and put directly to a model.

Run it with `python examples/did_it_help.py`. No model is needed, because the answers are simulated: a direct answer is
right in 7 of 10 cases, and the judge of a debate in 9 of 10. So the debate beats a single call, but not a vote among
direct answers that costs as many tokens. To evaluate your own case, pass a real model to `main` and put your own data
into `QUESTIONS`.
"""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any

from flowdebate import debate
from flowdebate.evaluation import evaluate_sync
from flowdebate.models import ModelResponse, Usage
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.blocks import Sequencer
    from flowdebate.evaluation import BenefitReport
    from flowdebate.models import Model
    from flowdebate.testing import ModelRequest

SIDES = [{"name": "ann", "stance": "it is prime"}, {"name": "bob", "stance": "it is not prime"}]


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


QUESTIONS = [
    {"question": f"Is {number} a prime number?", "answer": SIDES[0 if is_prime(number) else 1]["stance"]}
    for number in range(101, 401, 2)
]


def pattern() -> Sequencer[Any, Any]:
    return debate(name="primes", debaters=SIDES, max_rounds=2, synthesizer=False, baselines=True)


def simulated(judge: float, *, direct: float = 0.7) -> FunctionModel:
    """Simulate a judge and direct answers that are right with these probabilities, independently of each other."""
    throws: dict[str, Random] = {}

    def answer(request: ModelRequest) -> ModelResponse:
        prompt = " ".join(str(message["content"]) for message in request.messages)
        usage = Usage(calls=1, prompt_tokens=len(prompt) // 4, cached_tokens=0, completion_tokens=60)
        if request.output_schema is None:
            return ModelResponse(text="Nobody has named a divisor that holds. " * 6, usage=usage)
        number = int(re.findall(r"Is (\d+) a prime", prompt)[0])
        by_judge = request.block == "primes-judge"
        place = f"{request.block} {number}"
        throw = throws.setdefault(place, Random(place)).random()  # noqa: S311 - repeatable on purpose
        right = throw < (judge if by_judge else direct)
        found = {"reasoning": "So it is.", "winner": SIDES[0 if is_prime(number) == right else 1]["stance"]}
        return ModelResponse(data={**found, "verdict": "So it is."} if by_judge else found, usage=usage)

    return FunctionModel(answer)


def main(model: Model | str | None = None, *, judge: float = 0.9, questions: int = len(QUESTIONS)) -> BenefitReport:
    evaluation = evaluate_sync(
        pattern(), QUESTIONS[:questions], truth="answer", model=model or simulated(judge), batch_id="primes"
    )
    for result in evaluation.report.methods:
        print(f"{result.method:<17} right in {result.right:g} of {result.n}, {result.calls:.1f} calls each")
    print(evaluation.report.summary)
    return evaluation.report


if __name__ == "__main__":
    main()
