"""Decisions made by application code are recorded: a resumed run keeps them, whatever the code would decide now."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, Session, consensus, debate, deliberation, handoff, round_robin, router, sequencer
from flowdebate.errors import OutputError
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel
from tests.patterns.every import REPORT, VERDICT, WITH_ROUNDS, make_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.context import Context

pytestmark = pytest.mark.anyio

GUARDED = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "budget_guard.py"))["pattern"]
QUESTION = "Should rents be capped?"


class Killed(Exception):
    """The error that interrupts a run."""


class Lives:
    """Number of the current attempt (or life), plus the turns and questions from all attempts."""

    def __init__(self) -> None:
        self.life = 1
        self.turns: list[int] = []
        self.requests: list[tuple[int, int]] = []

    def answer(self, when: dict[int, set[int]], *, wait: bool = False) -> Callable[[Context], Any]:
        """Return a predicate that is true in the rounds that `when` lists for the current life."""

        def holds(ctx: Context) -> bool:
            number = ctx.sequencer.state.round
            self.requests.append((self.life, number))
            return number in when[self.life]

        async def later(ctx: Context) -> bool:
            return holds(ctx)

        return later if wait else holds


@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("pattern", WITH_ROUNDS)
async def test_predicate_is_not_evaluated_again_on_resume(pattern: str, *, wait: bool) -> None:
    """A recorded decision remains valid after a restart, even if the predicate would now decide differently."""
    lives, store = Lives(), MemoryStore()

    def act(_: Any, ctx: Context) -> None:
        number = ctx.sequencer.state.round
        if lives.life == 1 and number == 2:
            raise Killed
        lives.turns.append(number)

    predicate = lives.answer({1: set(), 2: {1, 2}}, wait=wait)
    built = make_pattern(pattern, act, terminate_when=predicate)
    with pytest.raises(Killed):
        await built.run(QUESTION, store=store, run_id="it")
    lives.life = 2
    raw = (await built.resume("it", store=store)).raw
    assert lives.requests == [(1, 1), (2, 2)]
    assert raw.stop_reason == "predicate"
    assert (raw.turns if pattern == "handoff" else raw.rounds if isinstance(raw.rounds, int) else len(raw.rounds)) == 2


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
async def test_run_ended_by_a_predicate_stays_ended(pattern: str) -> None:
    """After the run is killed, the predicate is changed so that it would let the run continue."""
    lives, store = Lives(), MemoryStore()
    predicate = lives.answer({1: {1}, 2: set()})

    def act(_: Any, ctx: Context) -> None:
        lives.turns.append(ctx.sequencer.state.round)

    built = make_pattern(pattern, act, terminate_when=predicate)
    first = (await built.run(QUESTION, store=store, run_id="it", seed=1)).raw
    lives.life, before = 2, len(lives.turns)
    second = (await built.resume("it", store=store)).raw
    assert (second.stop_reason, len(lives.turns)) == (first.stop_reason, 2 * before)
    assert lives.requests == [(1, 1)]


@pytest.mark.parametrize("calls", [1, 100], ids=["stops later", "goes on later"])
async def test_budget_example_keeps_its_number_of_rounds(calls: int) -> None:
    """The run is killed during the judge's call and resumed with a different budget.

    It keeps the rounds already paid for and adds no others.
    """
    store, rounds = MemoryStore(), list[str]()
    killed = True

    def answer(request: ModelRequest) -> Any:
        if request.block.endswith("judge") and killed:
            raise Killed
        rounds.append(request.block)
        return VERDICT | {"winner": None} if request.block.endswith("judge") else "I say so."

    def session(budget: int) -> Session:
        return Session(state={"budget": {"calls": budget, "tokens": 10**9}})

    model = FunctionModel(answer)
    with pytest.raises(Killed):
        await GUARDED.run(QUESTION, model=model, store=store, run_id="it", session=session(4 if calls == 1 else 2))
    argued, killed = len(rounds), False
    raw = (await GUARDED.resume("it", model=model, store=store, session=session(calls))).raw
    assert (len(rounds), raw.rounds) == (argued + 1, argued // 2)


async def test_topology_is_not_evaluated_again_on_resume() -> None:
    store, life, choices = MemoryStore(), 1, list[int]()

    def topology(names: Any, _: int, __: Any) -> list[tuple[str, str]]:
        choices.append(life)
        ann, bob, carl = names
        return [(ann, bob), (bob, carl), (carl, ann)] if life == 1 else [(bob, ann), (carl, bob), (ann, carl)]

    def agent(request: Any) -> Any:
        if request.kind == "vote" and life == 1:
            raise Killed
        critique: dict[str, Any] = {"reasoning": "Thin.", "issues": [f"life {life}"], "suggestions": []}
        return {"critique": critique, "vote": {"choice": "ann"}}.get(request.kind, f"In life {life}.")

    people = [{"name": name, "block": agent} for name in ("ann", "bob", "carl")]
    plan = consensus(name="plan", agents=people, topology=topology, max_rounds=1)
    with pytest.raises(Killed):
        await plan.run(QUESTION, store=store, run_id="it")
    life = 2
    output = (await plan.resume("it", store=store)).output
    assert choices == [1]
    assert output.rounds[0].edges == [("ann", "bob"), ("bob", "carl"), ("carl", "ann")]
    assert {item.issues[0] for item in output.rounds[0].critiques} == {"life 1"}
    assert {proposal.text for proposal in output.final_proposals} == {"In life 1."}


def life_debater(lives: Lives) -> Callable[[Any], str]:
    """Return a debater whose answers mention the current life."""
    return lambda _: f"Said in life {lives.life}."


async def test_function_block_answers_in_a_debate_are_recorded() -> None:
    """The resumed run uses the recorded speakers, arguments and verdict.

    By then, the functions would return something else.
    """
    lives, store = Lives(), MemoryStore()
    sides = [
        Debater("ann", "for", block=life_debater(lives)),
        Debater("bob", "against", block=life_debater(lives)),
    ]

    def minutes(raw: Any) -> Any:
        if lives.life == 1:
            raise Killed
        return raw

    rent = debate(
        name="rent",
        debaters=sides,
        max_rounds=1,
        moderator=lambda _: {"next_speakers": ["ann", "bob"] if lives.life == 1 else ["bob"]},
        judge=lambda _: VERDICT | {"reasoning": f"Life {lives.life}."},
        synthesizer=minutes,
    )
    with pytest.raises(Killed):
        await rent.run(QUESTION, store=store, run_id="it")
    lives.life = 2
    raw = (await rent.resume("it", store=store)).output
    assert [entry.text for entry in raw.transcript] == ["Said in life 1."] * 2
    assert [entry.agent_name for entry in raw.transcript] == ["ann", "bob"]
    assert raw.verdict.reasoning == "Life 1."


@pytest.mark.parametrize("kind", ["deliberation", "handoff", "round_robin"])
async def test_function_block_answers_in_other_patterns_are_recorded(kind: str) -> None:
    lives, store = Lives(), MemoryStore()

    def speak(_: Any, ctx: Context) -> Any:
        if lives.life == 1 and ctx.sequencer.state.round == 2:
            raise Killed
        opponents = {1: "carl", 2: "bob"}
        argument = {"text": f"Said in life {lives.life}."}
        return argument | {"next_agent_name": opponents[lives.life]} if kind == "handoff" else argument

    def report(_: Any) -> Any:
        return REPORT | {"summary": f"Life {lives.life}."}

    def referee(_: Any) -> Any:
        return {"notes": f"Life {lives.life}.", "assessments": []}

    people: Any = [{"name": name, "block": speak} for name in ("ann", "bob", "carl")]
    patterns: dict[str, Any] = {
        "deliberation": deliberation(name="x", debaters=people, max_rounds=2, moderator=report),
        "handoff": handoff(name="x", debaters=people, max_turns=2, on_invalid="random"),
        "round_robin": round_robin(name="x", debaters=people, max_rounds=2, referee=referee, synthesizer=False),
    }
    built = patterns[kind]
    with pytest.raises(Killed):
        await built.run(QUESTION, store=store, run_id="it")
    lives.life = 2
    raw = (await built.resume("it", store=store)).raw
    assert {entry.text for entry in raw.entries if entry.round == 1} == {"Said in life 1."}
    assert {entry.text for entry in raw.entries if entry.round == 2} == {"Said in life 2."}
    if kind == "handoff":
        assert raw.transcript[0].next_agent_name == "carl"
    if kind == "deliberation":
        assert raw.summaries == ["Life 1.", "Life 2."]
    if kind == "round_robin":
        assert [audit.notes for audit in raw.audits] == ["Life 1.", "Life 2."]


async def test_rejected_answer_can_be_corrected() -> None:
    """Only accepted answers are recorded, so the run continues once the function has been fixed."""
    lives, store = Lives(), MemoryStore()
    sides = [
        Debater("ann", "for", block=life_debater(lives)),
        Debater("bob", "against", block=life_debater(lives)),
    ]
    verdicts: dict[int, Any] = {1: {"winner": "for"}, 2: VERDICT}
    rent = debate(name="rent", debaters=sides, max_rounds=1, judge=lambda _: verdicts[lives.life], synthesizer=False)
    with pytest.raises(OutputError, match="must return"):
        await rent.run(QUESTION, store=store, run_id="it")
    lives.life = 2
    raw = (await rent.resume("it", store=store)).output
    assert raw.verdict is not None
    assert [entry.text for entry in raw.transcript] == ["Said in life 1."] * 2


async def test_pipeline_conditions_and_routers_are_not_evaluated_again_on_resume() -> None:
    store, life, calls = MemoryStore(), 1, list[str]()

    def decide(name: str, first: str) -> Callable[[Any], bool]:
        answers = [answer == "y" for answer in first]

        def condition(_: object) -> bool:
            calls.append(f"{name} in life {life}")
            return answers.pop(0) if life == 1 else first[-1] == "n"

        return condition

    def choose(_: object) -> str:
        calls.append(f"route in life {life}")
        return "left" if life == 1 else "right"

    def log(name: str) -> Callable[[list[str]], list[str]]:
        return lambda value: [*value, name]

    def end(value: list[str]) -> list[str]:
        if life == 1:
            raise Killed
        return value

    block = (
        sequencer(name="s")
        .then(router(name="way", choose=choose, routes={"left": log("left"), "right": log("right")}))
        .then_if(decide("then_if", "y"), log("then"))
        .branch((decide("branch", "n"), log("if")), otherwise=log("else"))
        .do_while(log("once"), decide("do_while", "yn"), max_iterations=5)
        .tap(log("pass"))
        .loop_back("way", when=decide("loop_back", "n"), max_iterations=2)
        .then(end)
    )
    with pytest.raises(Killed):
        await block.run([], store=store, run_id="it")
    before, life = list(calls), 2
    output = (await block.resume("it", store=store)).output
    assert calls == before
    assert output == ["left", "then", "else", "once", "once"]


async def test_each_condition_has_its_own_steps_and_random_draws() -> None:
    """If a resumed run skips a recorded condition, the steps of later conditions must not shift."""
    store, life = MemoryStore(), 0
    steps: list[tuple[int, float]] = []

    async def fewer(count: int, ctx: Context) -> bool:
        async def look() -> float:
            return ctx.random.random()

        steps.append((count, await ctx.step(look)))
        if count == 2 and life == 1:
            raise Killed
        return count < 3

    block = sequencer(name="s").do_while(lambda count: count + 1, fewer, max_iterations=9)
    await block.run(0, seed=5)
    undisturbed, steps, life = steps, [], 1
    with pytest.raises(Killed):
        await block.run(0, store=store, run_id="it", seed=5)
    life = 2
    assert (await block.resume("it", store=store)).output == 3
    assert list(dict.fromkeys(steps)) == undisturbed


class DecisionlessStore(MemoryStore):
    """A store that discards decisions, as if the process had ended before recording them."""

    async def commit(self, run_id: str, key: str, kind: Any, body: str, at: float) -> None:
        if not key.endswith("#decision"):
            await super().commit(run_id, key, kind, body, at)


async def test_run_without_recorded_decisions_evaluates_them_on_resume() -> None:
    """The first process ends before its decision is recorded, so the second process has to make the decision."""
    lives, store = Lives(), DecisionlessStore()

    def act(_: Any, ctx: Context) -> None:
        if lives.life == 1 and ctx.sequencer.state.round == 2:
            raise Killed

    built = make_pattern("debate", act, terminate_when=lives.answer({1: set(), 2: {1}}))
    with pytest.raises(Killed):
        await built.run(QUESTION, store=store, run_id="it")
    lives.life = 2
    raw = (await built.resume("it", store=store)).raw
    assert (raw.rounds, lives.requests) == (1, [(1, 1), (2, 1)])
