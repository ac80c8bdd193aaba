"""All patterns with custom blocks in every role, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate import Debater, consensus, council, critique, debate, deliberation, handoff, review, round_robin
from flowdebate.patterns.council.schemas import ReviewRequest
from flowdebate.patterns.review import ReviewInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.runs.context import Context

VERDICT = {"reasoning": "It held.", "winner": "for", "verdict": "Yes."}
REPORT = {"summary": "Both want it.", "status": "CONTINUE", "decision": None}
ROUNDS = 3


def make_pattern(name: str, act: Callable[[Any, Context], object], **options: Any) -> Sequencer[Any, Any]:
    """Build the pattern with this name.

    `act(input, ctx)` is called in each of the second speaker's turns, before its answer. A pattern with rounds has at
    most `ROUNDS` rounds.
    """

    def first(request: Any) -> object:
        return answer_of(request)

    def second(request: Any, ctx: Context) -> object:
        act(request, ctx)
        return answer_of(request)

    people = [{"name": "ann", "block": first}, {"name": "bob", "block": second}]
    sides = [Debater("ann", "for", block=first), Debater("bob", "against", block=second)]
    common = {"name": "x", "max_rounds": ROUNDS, **options}
    makers: dict[str, Callable[[], Sequencer[Any, Any]]] = {
        "debate": lambda: debate(debaters=sides, judge=lambda _: VERDICT, synthesizer=False, **common),
        "round_robin": lambda: round_robin(debaters=people, synthesizer=False, **common),
        "deliberation": lambda: deliberation(debaters=people, moderator=lambda _: REPORT, **common),
        "handoff": lambda: handoff(name="x", debaters=people, max_turns=ROUNDS, on_invalid="random", **options),
        "consensus": lambda: consensus(agents=people, convergence=None, **common),
        "council": lambda: council(name="x", members=people, chair=lambda _: "Yes."),
        "critique": lambda: critique(
            name="x", author=lambda _: "I say so.", critics=people, judge=lambda _: {"rulings": []}
        ),
        "review": lambda: review(name="x", reviewers=people, merger=lambda _: {"pairs": []}),
    }
    return makers[name]()


PATTERNS = ("debate", "round_robin", "deliberation", "handoff", "consensus", "council", "critique", "review")
WITH_ROUNDS = PATTERNS[:-3]


def answer_of(request: Any) -> object:  # noqa: PLR0911 - one for each pattern
    """Return a speaker's answer to any request that a pattern makes."""
    if isinstance(request, ReviewRequest):
        return {"ranking": [{"answer": letter, "reason": "Sound."} for letter, _ in request.answers]}
    if isinstance(request, ReviewInput):
        return [{"title": "No figures", "claim": "I say so.", "severity": "major"}]
    match getattr(request, "kind", None):
        case "criticize":
            return [{"claim": "It gives no figures.", "kind": "missing"}]
        case "examine":
            return {"verdicts": []}
        case "defend":
            return {"answers": []}
        case "critique":
            return {"reasoning": "Thin.", "issues": ["no figures"], "suggestions": []}
        case "vote":
            return {"choice": "ann"}
        case _:
            return "I say so."
