"""Invariants of runs: each function states a promise in its docstring and yields any violations of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Any, TypeAlias, TypeVar

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from flowdebate._text import clean_text, error_text, is_blank, short_repr
from flowdebate._util.wire import BaseEvent
from flowdebate.chassis.output import PatternOutput
from flowdebate.chassis.registry import load_patterns
from flowdebate.chassis.state import RoleFailed, RoundsEnded, RoundStarted, TurnFinished, TurnsOrdered, TurnStarted
from flowdebate.errors import FlowDebateError
from flowdebate.models.base import Usage
from flowdebate.patterns.debate.schemas import DebateRawOutput
from flowdebate.prompts import quoted
from flowdebate.runs.events import ModelCalled, RunFinished, RunStarted
from flowdebate.runs.result import RunView
from flowdebate.stop import PATTERNS_OWN
from flowdebate.store.base import COMPLETE
from flowdebate.testing.examples import Example, ExampleModel
from flowdebate.testing.play import Wait

EventT = TypeVar("EventT")


@dataclass(frozen=True, kw_only=True)
class Played:
    """Record of one run of a pattern on an example, up to the end or failure of the run."""

    example: Example
    view: RunView
    """The run's result, or its handle if it failed."""
    output: object
    error: Exception | None
    model: ExampleModel
    stances: frozenset[str]
    """Stances of the debaters; empty if they are unknown, or if the pattern is not a debate."""
    hangs: str | None = None
    """Description of where a run was waiting when it exceeded its time limit and was cancelled."""

    @property
    def unending(self) -> bool:
        """True if the run exceeded its time limit and was cancelled."""
        return self.model.unending or self.hangs is not None

    @property
    def raw(self) -> PatternOutput | None:
        """Raw output; partial if the run failed, and None if it failed before producing any."""
        raw: PatternOutput | None = self.view.raw
        return raw

    @property
    def complete(self) -> bool:
        """True if the pattern ran to completion."""
        return self.error is None and self.view.status in COMPLETE

    @cached_property
    def _patterns(self) -> tuple[str, tuple[str, ...]]:
        """Paths of the outermost pattern (of the last one, if there are several) and of all patterns within it."""
        paths: list[str] = []
        for event in self.view.events:
            if isinstance(event, RoundStarted):
                around = event.path.rpartition("/")[0]
                # A round may be a separate block inside the pattern, such as `debate/round[1]/…`.
                paths.append(around.rpartition("/")[0] if around.endswith("]") else around)
        top = min((path.count("/") for path in paths), default=0)
        outermost = next((path for path in reversed(paths) if path.count("/") == top), "")
        return outermost, tuple({f"{path}/" for path in paths if path.startswith(f"{outermost}/")})

    def events(self, kind: type[EventT]) -> list[EventT]:
        """Return the events of one kind, in order, excluding those of patterns nested in the outermost one."""
        outermost, inside = self._patterns
        matching: list[Any] = [event for event in self.view.events if isinstance(event, kind)]
        return [
            event
            for event in matching
            if f"{event.path}/".startswith(f"{outermost}/") and not f"{event.path}/".startswith(inside)
        ]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs of one example; all except `alone` use the same pattern object."""

    first: Played
    at_once: Played
    """Repetition of `first`, run immediately after it."""
    other: Played
    """Run made before `first`, using a different question and seed, and without model failures."""
    later: Played
    """Repetition of `other`, run after `first`."""
    changed: Played | None
    """Repetition of `first` with a different seed (for a debate), or with answers arriving in a different order.

    None if models fail in the first run.
    """
    alone: Played
    """Repetition of `first` with a new pattern object; `first` itself if the check cannot build a new one."""


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """A run that continued after it was cancelled."""

    place: Wait | None
    """Location in the application's code where the run was waiting; None if it was waiting in library code."""
    run: Played


@dataclass(kw_only=True)
class Coverage:
    """Coverage of a pattern: how much of it the runs in a check have exercised."""

    has_predicate: bool = False
    """True if the pattern has a `terminate_when` predicate."""
    evaluated: int = 0
    """Number of runs in which `terminate_when` was evaluated."""
    fired: int = 0
    """Number of runs ended by `terminate_when`."""
    examples: int = 0
    runs: int = 0
    speakers: frozenset[tuple[str, str]] = frozenset()
    """Pairs of turn name and speaker, for all turns in the pattern."""
    heard: set[str] = field(default_factory=set)
    """Names of the turns that have been answered."""

    def count(self, run: Played) -> None:
        self.runs += 1
        self.heard |= {_block_of(event.path) for event in run.view.events if isinstance(event, TurnFinished)}
        reason = getattr(run.raw, "stop_reason", None)
        fired = reason is not None and reason not in PATTERNS_OWN
        self.fired += fired
        self.evaluated += fired or (_count_rounds(run.raw) or 0) > 1


Problems: TypeAlias = Iterator[str]


# One run


def fails_only_with_known_errors(run: Played) -> Problems:
    """Check that a run raises only library errors, and fails or continues without an answer only if a model fails."""
    for loss in run.raw.losses if run.raw is not None and not run.model.failed else ():
        if loss.instead not in _FLAGS:
            yield f"the run continued without an answer although no model failed: {loss.error}"
    if run.error is None or run.unending:
        return
    if not isinstance(run.error, FlowDebateError) or not run.model.failed:
        notes = "; ".join(getattr(run.error, "__notes__", ()))
        yield f"{error_text(run.error)}{f' ({notes})' if notes else ''}"


def ends_within_rounds(run: Played) -> Problems:
    """Check that runs end: rounds are numbered from 1 to at most the maximum, and the output reports their number."""
    if run.unending:
        yield run.hangs or f"{len(run.model.calls) - 1} calls were made, but the run did not end"
        return
    rounds = run.events(RoundStarted)
    numbers = [event.round for event in rounds]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"rounds must count up from 1, got {numbers}"
    if rounds and len(rounds) > rounds[0].max_rounds:
        yield f"{len(rounds)} rounds were run, but at most {rounds[0].max_rounds} are allowed"
    counted = _count_rounds(run.raw)
    if counted is not None and counted != len(rounds):
        yield f"the output reports {counted} rounds, but {len(rounds)} began"


def reports_true_stop_reason(run: Played) -> Problems:
    """Check that a complete run reports the true stop reason, such as `max_rounds` or a role's decision."""
    ended = run.events(RoundsEnded)
    rounds = run.events(RoundStarted)
    if not run.complete or run.raw is None or not ended or not rounds:
        return
    reason = run.raw.stop_reason
    if [(event.reason, event.rounds) for event in ended] != [(reason, len(rounds))]:
        reasons = [f"{event.reason!r} after {event.rounds}" for event in ended]
        yield f"the output reports {reason!r} after {len(rounds)} rounds, but the events report {', '.join(reasons)}"
    settled = getattr(run.raw, "is_settled", False)
    at_most, over = ("max_rounds", "max_turns"), len(rounds) >= rounds[0].max_rounds
    if (reason in at_most and not over) or (over and reason not in (*at_most, *getattr(run.raw, "early_reasons", ()))):
        yield f"the stop reason is {reason!r} after {len(rounds)} of {rounds[0].max_rounds} rounds"
    decisions = getattr(run.raw, "moderator_decisions", ())
    if reason == "moderator_done" and not (decisions and decisions[-1].done):
        yield "the stop reason is 'moderator_done', but the moderator's last decision is not done"
    if reason == "settled" and not settled:
        yield "the stop reason is 'settled', but the moderator's last report is not settled"


def records_contributions(run: Played) -> Problems:
    """Check that each finished turn has one transcript entry by its speaker, and that rounds are in ascending order."""
    if run.raw is None:
        return
    spoken = [(entry.round, entry.speaker) for entry in run.raw.entries]
    if [number for number, _ in spoken] != sorted(number for number, _ in spoken):
        yield f"the rounds of the entries must ascend, got {[number for number, _ in spoken]}"
    finished = [event for event in run.events(TurnFinished) if event.phase not in _BALLOTS]
    turns = Counter((event.round, event.agent_name) for event in finished)
    for (number, speaker), missing in (turns - Counter(spoken)).items() if run.complete else ():
        yield f"{missing} of {turns[number, speaker]} turns of {speaker!r} in round {number} are not in the transcript"
    for (number, speaker), more in (Counter(spoken) - turns).items():
        yield f"{more} entries of {speaker!r} in round {number} belong to no turn"


def tasks_match_the_transcript(run: Played) -> Problems:
    """Check that every turn has a task, and that no task is left open.

    Each task must have been completed by its speaker with the turn's text, or have failed or been cancelled.
    """
    if run.raw is None:
        return
    tasks = run.view.tasks.list()
    for task in tasks:
        if not task.finished:
            yield f"task {task.id} of {task.assignee!r} is {task.status} at the end"
    completed = [task for task in tasks if task.status == "completed"]
    who, turns = Counter(task.assignee for task in completed), run.events(TurnFinished)
    if who != Counter(event.agent_name for event in turns):
        yield f"tasks were completed by {dict(who)}, but {len(turns)} turns were finished"
    texts = [task.output for task in completed if isinstance(task.output, str)]
    if run.complete and len(texts) == len(run.raw.entries):
        for text in Counter(entry.text for entry in run.raw.entries) - Counter(texts):
            yield f"the transcript contains {short_repr(text)}, which is not the output of any task"


def only_scheduled_speakers_speak(run: Played) -> Problems:
    """Check that only the debaters called by the moderator speak in a round, in the announced order.

    In a cross-examination, the same applies to the debaters being questioned.
    """
    ordered = {event.round: list(event.speakers) for event in run.events(TurnsOrdered)}
    for decision in getattr(run.raw, "moderator_decisions", ()):
        turns = [event for event in run.events(TurnStarted) if event.round == decision.round]
        spoke, called = [event.agent_name for event in turns], decision.next_speakers
        targets = [event.target for event in turns if event.phase == "question" and event.target is not None]
        order = ordered.get(decision.round, called)
        if (run.complete or not targets) and sorted(order) != sorted([*called, *targets]):
            yield f"round {decision.round}: {called} were called, but {order} have turns"
        expected = order if run.complete else order[: len(spoke)]
        if spoke != expected:
            yield f"round {decision.round}: {expected} were called, but {spoke} spoke"


def keeps_turn_order(run: Played) -> Problems:
    """Check that turns and entries follow the order announced for the round, and that nobody else speaks."""
    for event in run.events(TurnsOrdered):
        order = list(event.speakers)
        turns = [turn.agent_name for turn in run.events(TurnStarted) if turn.round == event.round]
        if turns != (order if run.complete else order[: len(turns)]):
            yield f"round {event.round}: the order is {order}, but the turns are {turns}"
        spoken = [entry.speaker for entry in run.raw.entries if entry.round == event.round] if run.raw else []
        rest = iter(order)
        if not all(speaker in rest for speaker in spoken):  # a subsequence, because skipped turns leave gaps
            yield f"round {event.round}: the order is {order}, but the entries are by {spoken}"


def has_no_empty_arguments(run: Played) -> Problems:
    """Check that no entry of the transcript is empty, unless a model has failed."""
    for entry in run.raw.entries if run.raw is not None and not run.model.failed else ():
        if is_blank(entry.text):
            yield f"{entry.speaker!r} says {entry.text!r} in round {entry.round}"


def winner_is_among_the_positions(run: Played) -> Problems:
    """Check that the winner, if there is one, is a stance in the debate or an agent with a proposal."""
    if isinstance(run.raw, DebateRawOutput):
        verdict = run.raw.verdict
        winner = None if verdict is None else verdict.unknown_winner or verdict.winner
        positions = run.stances
    else:
        winner = getattr(run.raw, "winner", None)
        positions = frozenset(proposal.agent for proposal in getattr(run.raw, "final_proposals", ()))
    if winner is not None and positions and winner not in positions:
        yield f"the winner is {winner!r}, but the positions are {', '.join(sorted(map(repr, positions)))}"


def reports_failures(run: Played) -> Problems:
    """Check that every tolerated provider failure is reported by an event and in `losses`, and affects the status."""
    if run.raw is None:
        return
    losses, failures = list(run.raw.losses), run.events(RoleFailed)
    if Counter(loss.name for loss in losses) != Counter(event.name for event in failures):
        affected = [event.name for event in failures]
        yield f"the losses concern {[loss.name for loss in losses]}, but the events concern {affected}"
    if run.complete and losses and "complete" in (run.raw.status, run.view.status):
        yield f"the run is {run.view.status!r} and its output {run.raw.status!r} despite {len(losses)} losses"
    inside = sum(isinstance(event, RoleFailed) for event in run.view.events) > len(failures)
    # Failures of inner patterns affect only the run's status.
    if run.complete and run.raw.status != run.view.status and not inside:
        yield f"the run is {run.view.status!r}, but its output is {run.raw.status!r}"
    if run.error is not None and run.view.status != "failed":
        yield f"the run is {run.view.status!r} after {run.error!r}"


def counts_every_call(run: Played) -> Problems:
    """Check that a run's usage is the total over its calls, and that each model request is counted as a call."""
    called = [event for event in run.view.events if isinstance(event, ModelCalled)]
    total = reduce(add, (event.usage for event in called), Usage.zero())
    if total != run.view.usage:
        yield f"the run reports {run.view.usage}, but its calls add up to {total}"
    # Ignore calls to real fallback models, which fail, and answers that a fork has reused from its parent.
    answered = [event for event in called if event.model == run.model.name and event.origin == "asked"]
    if len(answered) != len(run.model.calls):
        yield f"{len(run.model.calls)} requests were made, but {len(answered)} calls were counted"


def events_match_result(run: Played) -> Problems:
    """Check that a run's start and end events come first and last, and that events report the whole output.

    The output includes all decisions, reports and verdicts.
    """
    events = run.view.events
    if not (isinstance(events[0], RunStarted) and isinstance(events[-1], RunFinished)):
        yield f"the first event is {events[0]!r} and the last {events[-1]!r}"
    elif (events[-1].status, events[-1].usage) != (run.view.status, run.view.usage):
        yield f"the last event reports {events[-1].status!r} and {events[-1].usage}, but the run is {run.view.status!r}"
    for kind, (part, attribute) in _output_items():
        announced = [getattr(event, part) for event in run.events(kind)]
        value = getattr(run.raw, attribute, None)
        recorded = [item for item in (value if isinstance(value, list) else [value]) if item is not None]
        if announced != recorded:
            difference = _describe_difference(_as_json(recorded), _as_json(announced))
            yield f"`{attribute}` and the events differ: {difference}"


def _output_items() -> Iterator[tuple[type[BaseEvent], tuple[str, str]]]:
    """Yield each event class that has a counterpart in the raw output.

    Each class is paired with two field names: the one in the event and the one in the output.
    """
    for info in load_patterns().values():
        for kind in info.load_events():
            if kind.output_item is not None:
                yield kind, kind.output_item


def round_trips_json(run: Played) -> Problems:
    """Check that converting the raw output to its wire format and back leaves it unchanged."""
    if run.raw is not None and run.complete:
        wire = run.raw.to_wire()
        read = type(run.raw).model_validate(wire)
        if read != run.raw:
            yield _describe_difference(wire, read.to_wire()) or "its wire format omits something"


def has_storable_output(run: Played) -> Problems:
    """Check that the output and the raw output can be stored, as JSON data or as data that pydantic can convert."""
    for what, value in (("output", run.output), ("raw output", run.raw)) if run.complete else ():
        try:
            to_json(value, inf_nan_mode="strings")
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            yield f"the {what} is {short_repr(value)}: {error_text(error)}"


# Several runs


def keeps_no_state(runs: Runs) -> Problems:
    """Check that patterns keep no state between runs: the same question, seed and answers must produce equal runs."""
    for first, again in ((runs.first, runs.at_once), (runs.other, runs.later)):
        difference = _compare(first, again)
        if difference is not None:
            yield difference
            return


def _compare(first: Played, again: Played) -> str | None:
    """Describe the first difference between two runs, or return None if they are equal."""
    for number, calls in enumerate(zip(first.model.calls, again.model.calls, strict=False), start=1):
        if calls[0] != calls[1]:
            return f"call {number}: {_describe_difference(list(calls[0]), list(calls[1]))}"
    for what, one, two in (
        ("number of calls", len(first.model.calls), len(again.model.calls)),
        ("error", *(None if run.error is None else error_text(run.error) for run in (first, again))),
        ("raw output", _as_json(first.raw), _as_json(again.raw)),
        ("output", _as_json(first.output), _as_json(again.output)),
    ):
        if one != two:
            return f"{what}: {_describe_difference(one, two)}"
    return None


def keeps_question_verbatim(runs: Runs) -> Problems:
    """Check that the raw output and the prompts contain the question verbatim.

    A block whose prompts show the question in one run must show it in every run.
    """
    for run in (runs.first, runs.other):
        if run.raw is not None and run.raw.subject != clean_text(run.example.question):
            yield f"the output contains {run.raw.subject!r} instead of {run.example.question!r}"
    for one, two in ((runs.first, runs.other), (runs.other, runs.first)):
        if len(one.example.question) < _TELLING:
            continue
        for block in sorted(_find_blocks_showing(one) - _find_blocks_showing(two)):
            if any(call.block == block for call in two.model.calls):
                yield f"the prompt of {block!r} does not show {two.example.question!r}"


def answers_current_question(runs: Runs) -> Problems:
    """Check that a run never mentions an earlier run's question, and has the same result with a newly built pattern."""
    for run in (runs.first, runs.at_once):
        material = f"{run.example.question} {' '.join(run.example.texts)}".casefold()
        for text in _list_texts([_as_json(run.raw), _as_json(run.output)]):
            for word in OTHER_WORDS:
                if word.casefold() in text.casefold() and word.casefold() not in material:
                    yield f"when asked {short_repr(run.example.question)}, the run answered {short_repr(text)}"
                    return
    difference = None if runs.alone is runs.first else _compare(runs.alone, runs.first)
    if difference is not None:
        yield f"a newly built pattern and one that has answered another question differ: {difference}"


def judges_regardless_of_order(runs: Runs) -> Problems:
    """Check that the winner does not depend on the judge's reading order: a new seed must not change it.

    The check requires a single transcript, and a model that judges regardless of order.
    """
    one, two = runs.first, runs.changed
    if two is None or not (one.complete and two.complete):
        return
    first, second = one.raw, two.raw
    if not isinstance(first, DebateRawOutput) or not isinstance(second, DebateRawOutput):
        return
    if first.transcript == second.transcript and first.verdict and second.verdict:
        winners = first.verdict.winner, second.verdict.winner
        if winners[0] != winners[1]:
            yield f"{winners[0]!r} wins with seed {one.view.seed}, but {winners[1]!r} with seed {two.view.seed}"


def ignores_arrival_order(runs: Runs) -> Problems:
    """Check that the order in which answers arrive does not affect the raw output."""
    one, two = runs.first, runs.changed
    if two is not None and one.view.seed == two.view.seed and _as_json(one.raw) != _as_json(two.raw):
        yield f"raw output: {_describe_difference(_as_json(one.raw), _as_json(two.raw))}"


# Cancelled runs


def ends_when_cancelled(cancelled: Cancelled) -> Problems:
    """Check that a cancelled run ends: no block may swallow the cancellation."""
    run, place = cancelled.run, "" if cancelled.place is None else f" at {cancelled.place}"
    status = run.hangs or (run.view.status if run.error is None else error_text(run.error))
    yield f"the run was cancelled{place} but continued: {status}"


# All runs


def gives_every_side_a_turn(seen: Coverage) -> Problems:
    """Check that everyone with a turn in the pattern speaks at least once, given five examples per speaker."""
    patterns: dict[str, list[tuple[str, str]]] = {}
    for turn, speaker in sorted(seen.speakers):
        patterns.setdefault(turn.removesuffix(speaker), []).append((turn, speaker))
    # a pattern that never runs, for example in an unused branch of a router, cannot be judged
    for turns in patterns.values():
        silent = [speaker for turn, speaker in turns if turn not in seen.heard]
        if silent and len(silent) < len(turns) and seen.examples >= _CHANCES * len(turns):
            yield f"{', '.join(map(repr, silent))} never spoke in {seen.runs} runs"


def terminate_when_can_fire(seen: Coverage) -> Problems:
    """Check that a `terminate_when` condition ends at least one run before its last round.

    Generated examples may lack the words that trigger it; use `texts=["…"]` to have models say them.
    """
    if seen.has_predicate and seen.evaluated and not seen.fired:
        yield f"terminate_when was evaluated in {seen.evaluated} runs but was never true"


OF_A_RUN: Sequence[Callable[[Played], Problems]] = (
    fails_only_with_known_errors,
    ends_within_rounds,
    reports_true_stop_reason,
    records_contributions,
    tasks_match_the_transcript,
    only_scheduled_speakers_speak,
    keeps_turn_order,
    has_no_empty_arguments,
    winner_is_among_the_positions,
    reports_failures,
    counts_every_call,
    events_match_result,
    round_trips_json,
    has_storable_output,
)
OF_RUNS: Sequence[Callable[[Runs], Problems]] = (
    keeps_no_state,
    keeps_question_verbatim,
    answers_current_question,
    judges_regardless_of_order,
    ignores_arrival_order,
)
OF_A_CANCELLATION: Sequence[Callable[[Cancelled], Problems]] = (ends_when_cancelled,)
OF_A_CHECK: Sequence[Callable[[Coverage], Problems]] = (terminate_when_can_fire, gives_every_side_a_turn)

OTHER_WORDS = ("Quellfurt", "Ostermarn")
"""Made-up names, too rare to occur by chance, for use in the question of the `other` run."""
# Number of examples per speaker needed to rule out that a moderator never calls a speaker merely by chance.
_CHANCES = 5

# Minimum length in characters: a shorter question, such as "Why?", may be in a prompt by chance.
_TELLING = 12
# Number of characters of context shown before the first difference.
_BEFORE = 40
# Phases whose turns are ballots, which transcripts do not contain.
_BALLOTS = ("poll", "vote")
# Losses that are not failures, and are checked by other invariants.
_FLAGS = ("cut_off", "empty", "unheard", "not_counted")
# Measured fields, whose values vary between runs.
_TIMES = frozenset({"seconds", "at"})


def _count_rounds(raw: object) -> int | None:
    counted = getattr(raw, "turns", getattr(raw, "rounds", None))
    return len(counted) if isinstance(counted, list) else counted


def _find_blocks_showing(run: Played) -> set[str]:
    """Return the names of blocks whose prompts include the question."""
    text = clean_text(run.example.question)
    # A question that looks like a line of the prompt appears there in escaped form.
    return {call.block for call in run.model.calls if text in call.prompt or quoted(text) in call.prompt}


def _block_of(path: str) -> str:
    """Return the name of the block at the end of a path, without the number added to a repeated block."""
    return path.rpartition("/")[2].rpartition("[")[0] if path.endswith("]") else path.rpartition("/")[2]


def _list_texts(value: object) -> Iterator[str]:
    """Yield the strings in JSON data."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _list_texts(item)


def _as_json(value: object) -> object:
    """Convert `value` to JSON data, leaving out measured times."""
    return _drop_times(to_jsonable_python(value, fallback=lambda unknown: type(unknown).__name__))


def _drop_times(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _drop_times(item) for key, item in value.items() if key not in _TIMES}
    return [_drop_times(item) for item in value] if isinstance(value, list) else value


def _describe_difference(one: object, two: object, place: str = "") -> str:
    """Describe the first difference between two values; return "" if there is none."""
    if isinstance(one, Mapping) and isinstance(two, Mapping) and one.keys() == two.keys():
        pairs = [(f"{place}.{key}" if place else str(key), one[key], two[key]) for key in one]
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        pairs = [(f"{place}[{index}]", *values) for index, values in enumerate(zip(one, two, strict=True))]
    elif isinstance(one, str) and isinstance(two, str) and one != two:
        same = next((index for index, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), 0)
        begin = max(same - _BEFORE, 0)
        return f"{f'{place} is ' if place else ''}{short_repr(one[begin:])}, then {short_repr(two[begin:])}"
    elif one != two:
        return f"{f'{place} is ' if place else ''}{short_repr(one)}, then {short_repr(two)}"
    else:
        return ""
    return next(filter(None, (_describe_difference(first, second, location) for location, first, second in pairs)), "")
