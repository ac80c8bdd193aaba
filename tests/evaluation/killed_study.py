"""Run a study whose process is killed: `python -m tests.evaluation.killed_study FOLDER KILLS SEED`.

The script prints the study's report. Each attempt runs in its own process, which writes a byte for each model call and
is killed after a random number of calls. Only the last attempt runs to the end.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, debate
from flowdebate.evaluation import AnswersFile, Study, ask_study, study_report
from flowdebate.models.base import ModelResponse, Usage
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.testing import ModelRequest


def study() -> Study:
    """Create a study with two designs, three baselines and a noise condition, on 12 questions."""

    def design(order: Any, *baselines: Any) -> Any:
        def make_design(_: object, positions: Sequence[str]) -> Block[Any, Any]:
            sides = [Debater(name, stance) for name, stance in zip("ab", positions, strict=True)]
            return debate(
                name="killed",
                debaters=sides,
                max_rounds=1,
                moderator=False,
                synthesizer=False,
                turn_order=order,
                baselines=list(baselines),
            )

        return make_design

    rows = [
        {"question": f"Is {n} prime?", "choices": ["prime", "composite"], "truth": int(n % 3 == 0)} for n in range(12)
    ]
    designs = {
        "together": design("simultaneous", "single", "self_consistency", "revision"),
        "in_turn": design("declared"),
    }
    return Study(name="killed", rows=rows, designs=designs, noise=True, seed=4)


def prompt_model(call: int) -> FunctionModel:
    """Create a model whose answer depends only on the prompt; each call writes a byte to the pipe."""

    def answer(request: ModelRequest) -> ModelResponse:
        os.write(call, b".")
        prompt = " ".join(str(message["content"]) for message in request.messages)
        used = Usage(calls=1, prompt_tokens=90, cached_tokens=0, completion_tokens=10)
        if request.output_schema is None:
            return ModelResponse(text=f"Of {len(prompt)} reasons the first one counts.", usage=used)
        winner = Random(prompt).choice(("prime", "composite"))
        reply = {"reasoning": "-", "winner": winner, "verdict": "-"}
        return ModelResponse(data={key: reply[key] for key in request.output_schema["properties"]}, usage=used)

    return FunctionModel(answer)


def run_attempt(folder: Path, killed_after: int | None) -> bool:
    """Continue the study in a separate process; return True if it finished before it was killed."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        asking = ask_study(study(), folder / "answers.jsonl", model=prompt_model(writing), store=folder / "runs.db")
        asyncio.run(asking)
        os._exit(0)
    os.close(writing)
    calls = 0
    while os.read(reading, 1):
        calls += 1
        if calls == killed_after:
            os.kill(process, signal.SIGKILL)
    os.close(reading)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def main() -> None:
    """Kill and continue the study, then report on it; print the number of kills to stderr."""
    folder, kills, random = Path(sys.argv[1]), int(sys.argv[2]), Random(int(sys.argv[3]))
    # load lazy imports once here rather than in each attempt
    with Path(os.devnull).open("wb") as nobody:
        asyncio.run(ask_study(study(), folder / "first.jsonl", model=prompt_model(nobody.fileno()), maximum=2))
    gc.freeze()
    kill_count = sum(not run_attempt(folder, random.randint(1, 12)) for _ in range(kills))
    while not run_attempt(folder, None):
        pass
    answers = list(AnswersFile(folder / "answers.jsonl").answers.values())
    sys.stderr.write(f"{kill_count}\n")
    sys.stdout.write(study_report(study(), answers).model_dump_json())


if __name__ == "__main__":
    main()
