"""Let a person judge: the debate waits for the verdict, then continues in this process or another."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from flowdebate import Debater, ask_in_terminal, debate, human, submit_answer_sync

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput, HumanRequest
    from flowdebate.models import Model
    from flowdebate.runs import RunResult

QUESTION = "Should the old bridge be closed to cars?"
STORE = Path(gettempdir()) / "bridge.sqlite3"

pattern = debate(
    name="bridge",
    debaters=[Debater("walker", "close it"), Debater("driver", "keep it open")],
    judge=human(name="mayor", prompt="You decide. Read both sides first."),
    max_rounds=1,
    synthesizer=False,
)


def begin(store: Path | str, model: Model | str | None = None) -> RunResult[DebateRawOutput]:
    """Hold the rounds, then store the run until the judge answers; no process runs in the meantime."""
    result = pattern.run_sync(QUESTION, model=model, store=store)
    for request in result.pending:
        print(f"{result.run_id} waits for {request.block}:\n\n{request.shown}\n\n{request.expects}")
    return result


def judge(store: Path | str, run_id: str, *, winner: str | None, reasoning: str, verdict: str) -> HumanRequest:
    """Submit the verdict, as the web page for the mayor would."""
    return submit_answer_sync(store, run_id, {"winner": winner, "reasoning": reasoning, "verdict": verdict})


def go_on(store: Path | str, run_id: str, model: Model | str | None = None) -> DebateRawOutput:
    """Resume the run; earlier answers are not requested again."""
    raw: DebateRawOutput = pattern.resume_sync(run_id, store=store, model=model).output
    print(f"{raw.found.winner}: {raw.found.verdict}")
    return raw


def main(model: Model | str | None = None) -> DebateRawOutput:
    """Hold the same debate with the judge at the terminal, so nothing has to be stored."""
    here = debate(
        name="bridge",
        debaters=[Debater("walker", "close it"), Debater("driver", "keep it open")],
        judge=human(name="mayor", ask=ask_in_terminal),
        max_rounds=1,
        synthesizer=False,
    )
    raw: DebateRawOutput = here.run_sync(QUESTION, model=model).output
    return raw


if __name__ == "__main__":
    if sys.stdin.isatty():
        main()
    else:
        begin(STORE)
