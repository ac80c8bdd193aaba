"""Planted bugs that checks must find, and correct patterns in which they must find none.

`python -m tests.testing.planted` records the number of examples needed to find each bug.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import (
    Debater,
    FailurePolicy,
    Persona,
    consensus,
    council,
    debate,
    deliberation,
    format_transcript_for_judge,
    generator,
    handoff,
    human,
    round_robin,
    stop,
)
from flowdebate.chassis import rounds
from flowdebate.chassis.rounds import RoundCondition
from flowdebate.chassis.state import TurnsOrdered, accepted
from flowdebate.models.base import Usage
from flowdebate.patterns.debate import factory as debate_factory
from flowdebate.patterns.debate.events import VerdictReached
from flowdebate.patterns.debate.schemas import (
    DebateContributionEntry,
    DebateRawOutput,
    DebateTranscriptState,
    DebateVerdict,
)
from flowdebate.runs.run import Run
from flowdebate.testing.check import find_broken_promise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from flowdebate.runs.context import Context
    from flowdebate.runs.events import ModelCalled
    from flowdebate.testing.check import CheckOptions, Finding

SEEDS = range(10)
EXAMPLES = 100
CHEAP = {"a predicate that never fires": 1, "a condition that never holds": 1, "a side that is never called": 10}
"""Number of examples for bugs found only by the final check of a run that has no failures."""
PAGE = Path(__file__).parents[2] / "evidence" / "records" / "planted-bugs.md"

SIDES = (Debater("ann", "for"), Debater("bob", "against"))
MEMBERS = (Persona("ann"), Persona("bob", "a landlord"), Persona("a, for] [b"))
SKIP = FailurePolicy(on_failure="skip", quorum=1)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A bug, and the promise that it breaks."""

    make: Callable[[], Any]
    promise: str
    library: Callable[[], AbstractContextManager[None]] = nullcontext
    """Context manager that plants the bug in the library instead of the pattern."""
    of_debates: bool = True
    """True if the pattern is a debate."""
    apart_from: tuple[str, ...] = ()
    """Kinds of debates in which the behavior is not a bug."""
    also: tuple[str, ...] = ()
    """Other promises that the bug breaks in some kinds of debates."""


_VARIED: dict[str, Any] = {}


@contextmanager
def varied(**options: Any) -> Iterator[None]:
    """Add options to every debate that `rent()` builds."""
    _VARIED.update(options)
    try:
        yield
    finally:
        _VARIED.clear()


class TakenAlready(Exception):
    """Raised if a debate with a bug already sets an option that varies."""


def rent(block: Any = None, *, max_rounds: int = 2, **options: Any) -> Any:
    """Build a debate between `ann` and a debater whose block is `block`."""
    if conflicts := options.keys() & _VARIED.keys():
        raise TakenAlready(", ".join(conflicts))
    options = {"synthesizer": False, "ann": None, **options, **_VARIED}
    sides = [Debater("ann", "for", block=options.pop("ann")), Debater("bob", "against", block=block)]
    around = options.pop("around", None)
    if "phases" in options:  # phases determine the number of rounds
        max_rounds = 2
    pattern = debate(name="rent", debaters=sides, max_rounds=max_rounds, **options)
    return pattern if around is None else around(pattern)


def entries_of(ctx: Any) -> Any:
    """Return the transcript so far."""
    return ctx.resources.transcript.state.entries


def verdict_for(winner: object) -> dict[str, object]:
    """Return a verdict."""
    return {"verdict": "So be it.", "winner": winner, "reasoning": "It was argued better."}


# Debates with a bug


def a_predicate_that_never_fires() -> Any:
    """Build a debate with a predicate that waits for a debater who does not take part."""
    return rent(max_rounds=3, terminate_when=lambda ctx: any(entry.agent_name == "eve" for entry in entries_of(ctx)))


def a_moderator_naming_strangers() -> Any:
    """Build a debate with a moderator that names an unknown debater in the second round."""

    def moderate(_: object, ctx: Any) -> dict[str, Any]:
        return {"next_speakers": ["ann", "bob"] if ctx.sequencer.state.round == 1 else ["bob", "eve"]}

    return rent(moderator=moderate)


def empty_arguments() -> Any:
    """Build a debate with a debater that returns nothing when contradicted in its own words."""

    def contradict(_: object, ctx: Any) -> str:
        texts = [entry.text for entry in entries_of(ctx)]
        return "" if "Yes." in texts else f"{texts} No!"

    return rent(contradict)


def a_winner_that_is_no_stance() -> Any:
    """Build a debate with a judge that names the winning debater instead of the stance."""
    return rent(judge=lambda _, ctx: verdict_for(max(entries_of(ctx), key=lambda entry: len(entry.text)).agent_name))


def a_verdict_that_needs_a_winner() -> Any:
    """Build a debate with an output function that fails without a winner."""
    return rent(synthesizer=lambda raw: raw.verdict.winner.upper())


def state_of_two_runs() -> Any:
    """Build a debate with a predicate that counts its calls and therefore depends on earlier runs."""
    numbers = count()
    return rent(max_rounds=3, terminate_when=lambda _: next(numbers) % 3 == 2)


def a_condition_that_never_holds() -> Any:
    """Build a debate with a stop condition that never becomes true, as one part of a larger expression."""
    never = stop.when(lambda ctx: entries_of(ctx)[-1].agent_name == "eve")
    return rent(max_rounds=3, terminate_when=never & stop.rounds(1) | stop.seconds(60))


def state_between_runs() -> Any:
    """Build a debate with a block that has a mutable attribute."""

    class Counts:
        def __init__(self) -> None:
            self.turns = 0

        def __call__(self, _: object) -> str:
            self.turns += 1
            return f"Point {self.turns}."

    return rent(Counts())


def a_remembered_question() -> Any:
    """Build a debate with a block that asks a model about the first question it ever received."""

    @cache
    def prompt() -> list[str]:
        return []

    def ask(question: Any) -> str:
        prompt().append(question.question)
        return f"Against: {prompt()[0]}"

    return rent(generator(name="rent-debater-bob", user=ask))


def format_on_a_question() -> Any:
    """Build a debate with a prompt that is formatted twice, so that braces in the question become fields."""
    template = "You argue against: {question} Answer as {{name}}."

    def ask(question: Any) -> str:
        return template.format(question=question.question).format(name="bob")

    return rent(generator(name="rent-debater-bob", user=ask))


def percent_on_a_question() -> Any:
    """Build a debate with a prompt that inserts the question using percent formatting."""
    return rent(generator(name="rent-debater-bob", user=lambda question: f"{question.question} %s." % "Answer as bob"))


def a_question_without_its_markup() -> Any:
    """Build a debate with a prompt that strips HTML-like text from the question."""

    def ask(question: Any) -> str:
        return re.sub("<[^>]*>", "", question.question)

    return rent(generator(name="rent-debater-bob", user=ask))


def an_answer_kept_without_its_question() -> Any:
    """Build a debate with a block that repeats its first answer to every question without calling a model."""
    answers: dict[str, str] = {}
    return rent(lambda request: answers.setdefault("bob", f"{len(request.question)} letters are too many."))


def a_block_that_swallows_cancellation() -> Any:
    """Build a debate with a block that mistakes a cancellation for a model failure."""
    speak = generator(name="speak", user="Argue against it.")

    async def argue(value: object, ctx: Any) -> str:
        try:
            text: str = await speak(value, ctx.child("speak", f"{ctx.path}/speak"))
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                raise
            return "Nothing to add."
        return text

    return rent(argue)


def an_output_with_a_lock() -> Any:
    """Build a debate with an output that no store can serialize."""
    return rent(synthesizer=lambda raw: {"verdict": raw.verdict, "lock": threading.Lock()})


def a_moderator_with_a_favorite() -> Any:
    """Build a debate with a moderator that never calls the second debater."""
    return rent(moderator=lambda _: {"next_speakers": ["ann"]})


def a_cleared_transcript() -> Any:
    """Build a debate with a block that clears the transcript, which the library rejects."""
    return rent(lambda _, ctx: ctx.resources.transcript.set(DebateTranscriptState()))


def a_rewound_round() -> Any:
    """Build a debate with a block that goes back a round, which the library rejects."""
    return rent(lambda _, ctx: ctx.sequencer.update(round=0))


def a_round_rewound_past_the_guard() -> Any:
    """Build a debate with a block that bypasses the guard and rewinds the round through `ctx.scope`."""

    def speak(_: object, ctx: Any) -> str:
        ctx.scope.handle.update(round=max(ctx.sequencer.state.round - 1, 0))
        return "Once more."

    return rent(speak, max_rounds=3)


def a_judge_that_depends_on_order() -> Any:
    """Build a debate with a judge that always picks the first position it reads."""

    def judge(_: object, ctx: Any) -> dict[str, Any]:
        view = format_transcript_for_judge(entries_of(ctx), random=ctx.random)
        match = re.search(r"\[(for|against)\]", view)
        return verdict_for(match and match[1])

    return rent(judge=judge)


def a_draw_without_the_seed() -> Any:
    """Build a debate with a judge that decides at random without using the run's seed."""
    return rent(judge=lambda _: {**verdict_for(random.choice(["for", "against"])), "reasoning": f"{random.random()}"})


def an_endless_debater() -> Any:
    """Build a debate with a block that calls its model until it accepts the answer."""
    draft = generator(name="draft", user="Argue against it.")

    async def speak(value: object, ctx: Any) -> str:
        while not (text := await draft(value, ctx.child("draft", f"{ctx.path}/draft"))).startswith("I am sure"):
            pass
        return text

    return rent(speak)


def a_task_of_its_own() -> Any:
    """Build a debate with a block that bypasses the guard and completes its turn's task with a different text."""

    def speak(_: object, ctx: Any) -> str:
        audit = ctx.scope.handles["audit"]
        for task in audit.list(status="in_progress"):
            audit.complete(task.id, output="A draft.")
        return "What I really say."

    return rent(speak)


def an_event_of_the_librarys() -> Any:
    """Build a debate with a debater that emits the library's own verdict event."""

    def speak(_: object, ctx: Any) -> str:
        ctx.emit(VerdictReached(block="rent-judge", verdict=DebateVerdict(**verdict_for("against"))))
        return "It is over."

    return rent(speak)


def moderated() -> Any:
    """Build a debate with this moderator."""
    return rent() if "moderator" in _VARIED else rent(moderator=True)


def in_another_order() -> Any:
    """Build a debate whose turn order is announced in each round."""
    return rent() if "turn_order" in _VARIED else rent(turn_order="rotated")


@contextmanager
def patched(location: object, name: str, value: object) -> Iterator[None]:
    """Replace the library's function `name`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(location, name, value)
        yield


def forgetting(_: object, *entries: DebateContributionEntry) -> DebateTranscriptState:
    """Return a transcript reduced to its last entry."""
    return DebateTranscriptState(entries=list(entries))


def as_they_arrived(state: DebateTranscriptState, entries: Sequence[DebateContributionEntry]) -> DebateTranscriptState:
    """Return a transcript in order of arrival."""
    return state if len(entries) == len(state.entries) else DebateTranscriptState(entries=list(entries))


def misattributing(state: DebateTranscriptState, *entries: DebateContributionEntry) -> DebateTranscriptState:
    """Return a transcript that attributes everything to the first debater."""
    misattributed = [entry.model_copy(update={"agent_name": "ann", "stance": "for"}) for entry in entries]
    return DebateTranscriptState(entries=[*state.entries, *misattributed])


async def for_another_reason(condition: RoundCondition, value: object, ctx: Context) -> bool:
    """Return True if another round follows, but always say that the moderator ended the debate."""
    wrong = replace(condition, stop_reason=lambda state: condition.stop_reason(state) and "moderator_done")
    return await ANOTHER_ROUND(wrong, value, ctx)


ANOTHER_ROUND = RoundCondition.__call__


async def for_the_audience(*args: Any, **options: Any) -> Any:
    """Return a verdict for a side that nobody argued."""
    return (await accepted(*args, **options)).model_copy(update={"winner": "the audience"})


async def by_the_seed(read: Any, ctx: Context, **options: Any) -> Any:
    """Return a verdict whose winner depends on the seed."""
    winner = ["for", "against"][ctx.run.seed % 2]
    return (await accepted(read, ctx, **options)).model_copy(update={"winner": winner})


def announced_backwards(**event: Any) -> TurnsOrdered:
    """Announce a turn order that is not followed."""
    return TurnsOrdered(**{**event, "speakers": event["speakers"][::-1]})


def without_rounds(output: DebateRawOutput) -> dict[str, Any]:
    """Return a wire format in which every entry is in the first round."""
    wire = output.model_dump(mode="json", by_alias=True)
    return {**wire, "transcript": [{**entry, "round": 1} for entry in wire["transcript"]]}


def count_twice(run: Run, called: ModelCalled, *args: Any) -> None:
    """Count the cost of the second debater's call twice."""
    _COUNT(run, called, *args)
    run.usage += Usage(calls=1) if "bob" in called.block else Usage.zero()


_COUNT = Run._count


# Other patterns with a bug


def a_discussion_that_the_first_decides() -> Any:
    """Build a deliberation with a moderator that lets the first answer decide."""
    speak = generator(name="speak", user="Speak.")

    def member(name: str) -> Persona:
        async def said(value: object, ctx: Any) -> str:
            text: str = await speak(value, ctx.child("speak", f"{ctx.path}/speak"))
            ctx.session.state.setdefault("first", name)
            return text

        return Persona(name, block=said)

    def moderate(_: object, ctx: Any) -> dict[str, Any]:
        return {"summary": "Done.", "status": "SETTLED", "decision": f"As {ctx.session.state['first']} says."}

    return deliberation(name="rent", debaters=[member("ann"), member("bob")], moderator=moderate)


def a_speaker_that_hands_over_to_a_stranger() -> Any:
    """Build a handoff with a speaker that hands over to an unknown name, without a retry or a random choice."""
    lost = Persona("bob", block=lambda _: {"response": "Ask her.", "next_agent_name": "eve"})
    return handoff(name="rent", debaters=[MEMBERS[0], lost], max_turns=3, on_invalid="error")


def a_referee_that_grows_stricter() -> Any:
    """Build a panel with a referee that depends on the number of its earlier calls."""
    requests: list[object] = []

    def audit(_: object) -> dict[str, Any]:
        requests.append(None)
        return {"assessments": [], "notes": f"Report {len(requests)}."}

    return round_robin(name="rent", debaters=MEMBERS, referee=audit, synthesizer=False)


def a_chair_that_draws_lots() -> Any:
    """Build a council with a chair that decides at random without using the run's seed."""
    return council(name="rent", members=MEMBERS, chair=lambda _: f"Lot {random.random()}")


def an_agent_without_a_proposal() -> Any:
    """Build a consensus with an agent whose proposal is blank."""

    def act(request: Any) -> Any:
        if request.kind == "proposal":
            return " \n"
        if request.kind == "vote":
            return {"choice": "bob"}
        return (
            {"proposal": " ", "enough": True} if request.kind == "revision" else {"reasoning": "Fine.", "severity": 0.1}
        )

    agents = [MEMBERS[0], Persona("bob", block=act)]
    return consensus(name="rent", agents=agents, max_rounds=1)


PLANTED: dict[str, Planted] = {
    "a predicate that never fires": Planted(make=a_predicate_that_never_fires, promise="terminate_when_can_fire"),
    "a moderator naming strangers": Planted(make=a_moderator_naming_strangers, promise="fails_only_with_known_errors"),
    "empty arguments": Planted(make=empty_arguments, promise="has_no_empty_arguments"),
    "a winner that is no stance": Planted(make=a_winner_that_is_no_stance, promise="winner_is_among_the_positions"),
    "a condition that never holds": Planted(make=a_condition_that_never_holds, promise="terminate_when_can_fire"),
    "a verdict that needs a winner": Planted(
        make=a_verdict_that_needs_a_winner, promise="fails_only_with_known_errors"
    ),
    "state of two runs' period": Planted(
        make=state_of_two_runs,
        promise="keeps_no_state",
        apart_from=("fork",),  # a fork and its parent are already two runs
    ),
    "state kept between runs": Planted(make=state_between_runs, promise="keeps_no_state"),
    "the first question for ever": Planted(make=a_remembered_question, promise="keeps_question_verbatim"),
    "an answer kept without its question": Planted(
        make=an_answer_kept_without_its_question, promise="answers_current_question"
    ),
    "a swallowed cancellation": Planted(
        make=a_block_that_swallows_cancellation,
        promise="ends_when_cancelled",
        # simultaneous turns are cancelled as well, which ends the run; after a person's answer, the run may end too
        # early
        apart_from=("simultaneous", "mirror", "person moderates"),
    ),
    "an output with a lock": Planted(make=an_output_with_a_lock, promise="has_storable_output"),
    "a side that is never called": Planted(
        make=a_moderator_with_a_favorite, promise="gives_every_side_a_turn", apart_from=("phases",)
    ),
    "`.format` on a question": Planted(make=format_on_a_question, promise="fails_only_with_known_errors"),
    "`%` on a question": Planted(make=percent_on_a_question, promise="fails_only_with_known_errors"),
    "a question without its markup": Planted(make=a_question_without_its_markup, promise="keeps_question_verbatim"),
    "a cleared transcript": Planted(make=a_cleared_transcript, promise="fails_only_with_known_errors"),
    "a transcript that forgets": Planted(
        make=rent,
        promise="records_contributions",
        library=lambda: patched(DebateTranscriptState, "with_entry", forgetting),
    ),
    "a rewound round": Planted(make=a_rewound_round, promise="fails_only_with_known_errors"),
    "a rewound round, past the guard": Planted(make=a_round_rewound_past_the_guard, promise="ends_within_rounds"),
    "a winner by the seed": Planted(
        make=rent,
        promise="judges_regardless_of_order",
        library=lambda: patched(debate_factory, "accepted", by_the_seed),
        apart_from=("mirror",),  # a mirror's verdict is computed from the ballots
    ),
    "a judge that depends on order": Planted(make=a_judge_that_depends_on_order, promise="judges_regardless_of_order"),
    "lots without the run's seed": Planted(make=a_draw_without_the_seed, promise="keeps_no_state"),
    "a debater that never stops": Planted(make=an_endless_debater, promise="ends_within_rounds"),
    "an entry in another's name": Planted(
        make=rent,
        promise="records_contributions",
        library=lambda: patched(DebateTranscriptState, "with_entry", misattributing),
    ),
    "a task completed with a draft": Planted(make=a_task_of_its_own, promise="tasks_match_the_transcript"),
    "an event of the library's": Planted(make=an_event_of_the_librarys, promise="events_match_result"),
    "a status that hides a failure": Planted(
        make=lambda: rent(failures=SKIP),
        promise="reports_failures",
        library=lambda: patched(Run, "degrade", lambda *_: None),
    ),
    "a call that counts twice": Planted(
        make=rent, promise="counts_every_call", library=lambda: patched(Run, "_count", count_twice)
    ),
    "a wrong stop reason": Planted(
        make=rent,
        promise="reports_true_stop_reason",
        library=lambda: patched(RoundCondition, "__call__", for_another_reason),
    ),
    "a winner of the library's own": Planted(
        make=rent,
        promise="winner_is_among_the_positions",
        library=lambda: patched(debate_factory, "accepted", for_the_audience),
        apart_from=("mirror",),  # a mirror counts the ballots of both halves itself
    ),
    "speakers in another order": Planted(
        make=moderated,
        promise="only_scheduled_speakers_speak",
        library=lambda: patched(
            debate_factory, "_speakers_of_round", lambda ctx: sorted(ctx.sequencer.state.decision.next_speakers)
        ),
        apart_from=("rotated", "shuffled", "simultaneous", "phases"),
    ),
    "a speaker who is left out": Planted(
        make=moderated,
        promise="only_scheduled_speakers_speak",
        library=lambda: patched(
            debate_factory, "_speakers_of_round", lambda ctx: ctx.sequencer.state.decision.next_speakers[:1]
        ),
    ),
    "an order that nobody keeps": Planted(
        make=in_another_order,
        promise="keeps_turn_order",
        library=lambda: patched(rounds, "TurnsOrdered", announced_backwards),
        also=("only_scheduled_speakers_speak",),  # if a moderator calls the speakers
    ),
    "arguments in the order of arrival": Planted(
        make=lambda: rent(turn_order="simultaneous"),
        promise="keeps_turn_order",
        library=lambda: patched(DebateTranscriptState, "with_entries", as_they_arrived),
        apart_from=("person speaks",),  # one of the two debaters has answered before the run resumes
    ),
    "a wire format without rounds": Planted(
        make=rent,
        promise="round_trips_json",
        library=lambda: patched(DebateRawOutput, "to_wire", without_rounds),
    ),
    "whoever answers first decides": Planted(
        make=a_discussion_that_the_first_decides, promise="ignores_arrival_order", of_debates=False
    ),
    "a handoff to a stranger": Planted(
        make=a_speaker_that_hands_over_to_a_stranger, promise="fails_only_with_known_errors", of_debates=False
    ),
    "a referee that remembers": Planted(make=a_referee_that_grows_stricter, promise="keeps_no_state", of_debates=False),
    "a chair that draws lots": Planted(make=a_chair_that_draws_lots, promise="keeps_no_state", of_debates=False),
    "a blank proposal": Planted(
        make=an_agent_without_a_proposal, promise="fails_only_with_known_errors", of_debates=False
    ),
}


def correct_patterns() -> dict[str, Callable[[], Any]]:
    """Return bug-free patterns of all six kinds."""

    def agreed(ctx: Any) -> bool:
        return any("I concede" in entry.text for entry in entries_of(ctx))

    return {
        "debate": lambda: debate(name="rent", debaters=SIDES),
        "debate, moderated, with a predicate": lambda: debate(
            name="rent", debaters=SIDES, max_rounds=3, moderator=True, terminate_when=agreed, failures=SKIP
        ),
        "debate, all at once": lambda: debate(
            name="rent", debaters=SIDES, turn_order="simultaneous", moderator=True, failures=SKIP
        ),
        "debate, mirrored": lambda: debate(
            name="rent", debaters=SIDES, mirror=True, moderator=True, judge="swap", failures=SKIP
        ),
        "debate, by lot": lambda: rent(turn_order="shuffled", failures=SKIP),
        "debate, judged in both orders": lambda: rent(lambda _: "No.", judge="swap", failures=SKIP),
        "deliberation": lambda: deliberation(name="rent", debaters=MEMBERS, failures=SKIP),
        "handoff": lambda: handoff(name="rent", debaters=MEMBERS, max_turns=4),
        "handoff, in text": lambda: handoff(
            name="rent", debaters=MEMBERS, max_turns=3, transition="text", on_invalid="error", failures=SKIP
        ),
        "round robin": lambda: round_robin(name="rent", debaters=MEMBERS, referee=True, failures=SKIP),
        "consensus": lambda: consensus(name="rent", agents=MEMBERS, max_rounds=1),
        "consensus, with people": lambda: consensus(
            name="rent",
            agents=[MEMBERS[0], Persona("bob", block=human(name="bob"))],
            max_rounds=2,
            judge=human(name="jo"),
            tie_break=human(name="tom"),
            terminate_when=stop.rounds(2) | stop.flag("enough"),
        ),
        "council": lambda: council(name="rent", members=MEMBERS, failures=SKIP),
    }


def search(planted: Planted, seed: int, **options: Any) -> Finding:
    """Search for a planted bug and return the finding."""
    check_options: CheckOptions = {"seed": seed, "max_examples": EXAMPLES, "max_calls": 200, "skip": planted.also}
    check_options.update(options)  # type: ignore[typeddict-item]
    with planted.library():
        return find_broken_promise(planted.make, shrink=False, **check_options)


def rows() -> Iterator[list[str]]:
    """Yield rows of bug, promise, and the median and maximum number of examples before the bug was found."""
    for name, planted in PLANTED.items():
        findings = [search(planted, seed) for seed in SEEDS]
        promises = {finding.broken.promise for finding in findings if finding.broken is not None}
        numbers = [finding.examples if finding.broken is not None else EXAMPLES + 1 for finding in findings]
        yield [
            name,
            ", ".join(f"`{promise}`" for promise in sorted(promises)),
            f"{median(numbers):g}",
            f"{max(numbers)}",
        ]


HEADER = ["Planted bug", "Broken promise", "Examples (median)", "Most"]
_TABLE = re.compile(rf"^\| {HEADER[0]} \|.*?\n\n", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Write the table to the record, or fail if a bug is found in a correct pattern."""
    for name, make in correct_patterns().items():
        for seed in SEEDS:
            broken = find_broken_promise(make, seed=seed, max_examples=EXAMPLES).broken
            if broken is not None:
                raise SystemExit(f"{name}, seed {seed}: {broken}")
        print(f"{name}: {len(SEEDS)} x {EXAMPLES} examples, nothing found")  # noqa: T201
    lines = [HEADER, ["---"] * len(HEADER), *rows()]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    PAGE.write_text(_TABLE.sub(lambda _: f"{table}\n", PAGE.read_text("utf-8")), "utf-8")
    print(table)  # noqa: T201


if __name__ == "__main__":
    main()
