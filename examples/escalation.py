"""Ask one model, then a second one, then a critic, and hold a debate only if the answer is still in doubt.

Run it with `python examples/escalation.py`; set FLOWDEBATE_MODEL to choose a model. Two models from different vendors
work better than one: pass the second one to `main` as `other`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate import JudgeOptions, critique, debate, escalate, generator, sequencer

if TYPE_CHECKING:
    from flowdebate import EscalationOutput
    from flowdebate.blocks import Sequencer
    from flowdebate.models import Model
    from flowdebate.runs import Context

QUESTIONS = ["Is the Nile longer than the Rhine?", "Should a cafe with three staff close on Mondays?"]
SIDES = [{"name": "ann", "stance": "yes"}, {"name": "ben", "stance": "no"}]
TASK = "Answer yes or no, and give your reason in one sentence."


def last_answer(question: str, ctx: Context) -> dict[str, str]:
    answers = [step.answer for step in ctx.sequencer.state.steps if step.answer]
    return {"question": question, "answer": answers[-1]} if answers else {"question": question}


def pattern(model: Model | str | None = None, other: Model | str | None = None) -> Sequencer[Any, EscalationOutput]:
    check = critique(name="critique", revise=False, model=other or model)
    steps = [
        generator(name="first", prompt=TASK),
        generator(name="second", prompt=TASK, model=other),
        sequencer(name="check").map(last_answer).then(check),
        debate(name="debate", debaters=SIDES, max_rounds=1, judge=JudgeOptions(schedule="swap"), synthesizer=False),
    ]
    return escalate(name="careful", steps=steps, until={"second": "agreement", "check": "undisputed"})


def main(model: Model | str | None = None, *, other: Model | str | None = None) -> list[EscalationOutput]:
    outputs: list[EscalationOutput] = []
    for question in QUESTIONS:
        output = pattern(model, other).run_sync(question, model=model, seed=1).output
        print(f"{question}\n{output.answer}")
        for step in output.steps:
            print(f"  {step.name} (calls: {step.calls + step.check_calls}): {step.reason or 'continues'}")
        print(f"  not needed: {', '.join(output.skipped) or 'nothing'}")
        outputs.append(output)
    return outputs


if __name__ == "__main__":
    main()
