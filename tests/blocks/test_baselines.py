"""Baselines for a debate: one call, a vote on first drafts, and self-consistency with an equal token budget."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import BaselineOptions, DebateState, debate, generator, sequencer
from flowdebate.errors import AuthenticationFailed, ConfigurationError, ProviderFailed, RealModelForbidden
from flowdebate.models.base import ModelResponse, Usage
from flowdebate.patterns import PATTERNS
from flowdebate.patterns.debate.baseline_names import BASELINES, Equal
from flowdebate.patterns.debate.baselines import Baselines, create_baselines, read_baselines
from flowdebate.patterns.debate.schemas import BaselineAnswer
from flowdebate.runs.events import BlockAnswered, ModelCalled
from flowdebate.runs.limits import Limits, Price
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel
from flowdebate.ui.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

STANCES = ("for", "against")
QUESTION = "Should rents be capped?"


def usage(tokens: int) -> Usage:
    """Return the usage of one call with this many tokens."""
    return Usage(calls=1, prompt_tokens=tokens - 1, cached_tokens=0, completion_tokens=1)


class Voters:
    """A model whose arguments take `argument` tokens and whose answers, chosen by `vote`, take `answer` tokens."""

    def __init__(
        self,
        vote: Callable[[int, Sequence[str]], Any] = lambda number, shown: "for",
        *,
        argument: int | None = 50,
        answer: int | None = 10,
        name: str = "voters",
    ) -> None:
        self.vote = vote
        self.argument = argument
        self.answer = answer
        self.asked: list[ModelRequest] = []
        self.model = FunctionModel(self._answer, name=name)

    def _answer(self, request: ModelRequest) -> ModelResponse:
        took = self.argument if request.output is None else self.answer
        spent = Usage.unknown() if took is None else usage(took)
        if request.output is None:
            return ModelResponse(text="Rents eat wages.", usage=spent)
        self.asked.append(request)
        outcome = self.vote(len(self.asked), positions_of(request))
        if isinstance(outcome, BaseException):
            raise outcome
        return ModelResponse(data={"reasoning": "It follows.", "winner": outcome}, usage=spent)


def positions_of(request: ModelRequest) -> list[str]:
    """Return the positions in the order in which a request lists them."""
    _, _, rest = str(request.messages[0]["content"]).partition("Positions:\n")
    return re.findall(r"^- (.*)$", rest.partition("\n\n")[0], re.MULTILINE)


def town(baselines: Baselines, *, turns: int = 4) -> Sequencer[Any, list[BaselineAnswer]]:
    """Build a stand-in for a debate: this many turns, followed by the baselines."""
    pipeline = sequencer(name="town", state=lambda: DebateState(question=QUESTION))
    for number in range(turns):
        pipeline = pipeline.tap(generator(name=f"turn-{number}"))
    return pipeline.then(baselines)


def baselines_of(*names: Any, stances: Sequence[str] = STANCES, **options: Any) -> Baselines:
    """Create baselines from their names."""
    return create_baselines(name="town", stances=stances, baselines=list(names), **options)


async def test_baselines_report_their_result_and_cost() -> None:
    voters = Voters(argument=50, answer=10)
    answers = (await town(create_baselines(name="town", stances=STANCES)).run(QUESTION, model=voters.model)).output
    assert [answer.name for answer in answers] == list(BASELINES)
    assert [answer.winner for answer in answers] == ["for"] * 3
    assert [answer.calls for answer in answers] == [1, 2, 20]
    assert [answer.tokens for answer in answers] == [10, 20, 200]
    assert [answer.votes for answer in answers] == [{"for": calls, "against": 0} for calls in (1, 2, 20)]
    assert all(answer.problem is None and answer.cost is None for answer in answers)


@given(argument=st.integers(1, 400), answer=st.integers(1, 90), turns=st.integers(1, 5), cap=st.integers(1, 70))
def test_samples_stay_within_the_debate_token_budget(argument: int, answer: int, turns: int, cap: int) -> None:
    voters = Voters(argument=argument, answer=answer)
    block = baselines_of("self_consistency", max_samples=cap)
    (baseline,) = town(block, turns=turns).run_sync(QUESTION, model=voters.model).output
    assert baseline.calls == max(min(argument * turns // answer, cap), 1)


@pytest.mark.parametrize(
    ("equal", "calls"), [("tokens", 20), ("completion_tokens", 4), ("cost", 10), ("calls", 4)], ids=str
)
async def test_number_of_samples_matches_the_selected_budget(equal: Any, calls: int) -> None:
    """The debate's four turns of 50 tokens set the budget, which is measured in tokens, output tokens, price or calls.

    Each sample uses 10 tokens.
    """
    prices = {"voters": Price(prompt=1.0, completion=16.0)}
    block = baselines_of("self_consistency", equal=equal)
    limits = Limits(prices=prices)
    (baseline,) = (await town(block).run(QUESTION, model=Voters(argument=50, answer=10).model, limits=limits)).output
    assert baseline.calls == calls


def two_sides(**options: Any) -> Any:
    """Build a one-round debate."""
    sides = [{"name": "ann", "stance": "cap"}, {"name": "bob", "stance": "free"}]
    return debate(name="town", debaters=sides, max_rounds=1, synthesizer=False, **options)


def favor_caps(request: ModelRequest) -> Any:
    """Answer every request in favor of one side."""
    reply = {"reasoning": "So.", "winner": "cap", "verdict": "Cap them."}
    return {key: reply[key] for key in request.output_schema["properties"]} if request.output_schema else "."


async def test_debates_and_plans_accept_the_equal_option() -> None:
    """Matching by cost requires prices; if they are missing, an error is raised before any call."""
    calls: list[object] = []

    def answer(request: ModelRequest) -> Any:
        calls.append(request)
        return favor_caps(request)

    model = FunctionModel(answer)
    with pytest.raises(ConfigurationError, match="`equal` cannot be cost without `prices`"):
        await two_sides(baselines=BaselineOptions(equal="cost")).run(QUESTION, model=model)
    assert calls == []
    limits = Limits(prices=lambda _, usage: float(usage.calls))
    result = await two_sides(baselines=BaselineOptions(equal="cost")).run(QUESTION, model=model, limits=limits)
    assert [(baseline.name, baseline.calls) for baseline in result.raw.baselines] == [
        ("single", 1),
        ("drafts", 2),
        ("self_consistency", 3),
    ]
    options = {"question": QUESTION, "baselines": True, "equal": "calls"}
    assert make_plan(PATTERNS["debate"], options).options.equal == "calls"


@pytest.mark.parametrize("baselines", [False, [], ["single", "drafts"]])
def test_equal_option_requires_self_consistency(baselines: Any) -> None:
    with pytest.raises(ConfigurationError, match="`equal` needs self_consistency or revision among the `baselines`"):
        two_sides(baselines=BaselineOptions(baselines, equal="calls"))
    options = {"question": QUESTION, "baselines": baselines, "equal": "tokens"}
    with pytest.raises(
        ConfigurationError, match="`--equal` needs self_consistency or revision among the `--baselines`"
    ):
        make_plan(PATTERNS["debate"], options)


async def test_equal_option_rejects_unknown_values_and_cost_without_prices() -> None:
    with pytest.raises(ConfigurationError, match="`equal` cannot be cost without `prices` in the run's limits"):
        await town(baselines_of("self_consistency", equal="cost")).run(QUESTION, model=Voters().model)
    with pytest.raises(ConfigurationError, match="`equal` must be tokens, "):
        baselines_of("self_consistency", equal="money")


@pytest.mark.parametrize("equal", get_args(Equal))
async def test_other_baselines_do_not_enlarge_the_sampling_budget(equal: Equal) -> None:
    calls = []
    limits = Limits(prices=lambda _, usage: float(usage.total_tokens or 0))
    for names in (("self_consistency",), ("single", "drafts", "self_consistency")):
        result = await town(baselines_of(*names, equal=equal)).run(QUESTION, model=Voters().model, limits=limits)
        calls.append(result.output[-1].calls)
    assert calls[0] == calls[1] > 1


@pytest.mark.parametrize(("argument", "answer"), [(None, 10), (50, None), (None, None)])
async def test_sample_count_matches_the_call_count_if_token_counts_are_unknown(
    argument: int | None, answer: int | None
) -> None:
    """If an unknown token count were treated as zero, sampling would never end."""
    voters = Voters(argument=argument, answer=answer)
    (baseline,) = (await town(baselines_of("self_consistency"), turns=5).run(QUESTION, model=voters.model)).output
    assert (baseline.calls, baseline.tokens) == (5, None if answer is None else 50)


async def test_standalone_self_consistency_takes_one_sample() -> None:
    """Without a debate, there is no budget to match, so the block takes one sample of the question in its input."""
    voters = Voters()
    (baseline,) = (await baselines_of("self_consistency").run(QUESTION, model=voters.model)).output
    assert baseline.calls == 1
    assert QUESTION in str(voters.asked[0].messages)


async def test_baselines_see_neither_the_debate_nor_each_other() -> None:
    voters = Voters()
    await town(create_baselines(name="town", stances=STANCES)).run(QUESTION, model=voters.model)
    prompts = Counter(str(request.messages) for request in voters.asked)
    assert len(prompts) == 2
    assert not any("Rents eat wages" in prompt or "turn" in prompt for prompt in prompts)
    orders = {tuple(positions_of(request)) for request in voters.asked}
    assert orders == {("for", "against"), ("against", "for")}
    for request in voters.asked:
        assert request.output_schema is not None
        assert request.output_schema["properties"]["winner"]["enum"] == positions_of(request)


@given(argument=st.integers(1, 400), answer=st.integers(1, 90), turns=st.integers(1, 5), cap=st.integers(1, 30))
def test_revisions_stay_within_the_debate_token_budget(argument: int, answer: int, turns: int, cap: int) -> None:
    voters = Voters(argument=argument, answer=answer)
    block = baselines_of("revision", max_samples=cap)
    (baseline,) = town(block, turns=turns).run_sync(QUESTION, model=voters.model).output
    rounds = max(min(argument * turns // answer // 2, -(-cap // 2)), 1)
    assert baseline.calls == 2 * rounds
    assert sum(baseline.votes.values()) == 2


async def test_revisions_see_only_their_own_answer() -> None:
    votes = {1: "for", 2: "against", 3: "against", 4: ProviderFailed("away", status=500)}
    voters = Voters(lambda number, _: votes[number], argument=15)
    (baseline,) = (await town(baselines_of("revision", max_samples=4)).run(QUESTION, model=voters.model)).output
    assert (baseline.votes, baseline.calls, baseline.lost) == ({"for": 0, "against": 2}, 4, 1)
    drafts = [str(request.messages[-1]["content"]) for request in voters.asked]
    assert ["Your answer was: " in text for text in drafts] == [False, False, True, True]
    assert "Your answer was: for\n" in drafts[2]
    assert "Your answer was: against\n" in drafts[3]
    assert "Your reasoning was: It follows.\n" in drafts[2]
    assert not any("Rents eat wages" in text for text in drafts)


async def test_bias_toward_the_first_position_favors_no_side() -> None:
    """Each call lists the positions in a random order, so a model's bias toward the first slot favors no position."""
    first = Voters(lambda _, positions: positions[0], argument=500)
    (baseline,) = (await town(baselines_of("self_consistency")).run(QUESTION, model=first.model, seed=3)).output
    assert baseline.calls == 64
    assert 20 <= baseline.votes["for"] <= 44


@given(votes=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=7), seed=st.integers(0, 5))
def test_position_with_the_most_votes_wins_and_ties_have_no_winner(votes: list[str], seed: int) -> None:
    voters = Voters(lambda number, _: votes[number - 1])
    block = baselines_of("drafts", stances=("a", "b", "c"), models=[None] * len(votes))
    (baseline,) = town(block).run_sync(QUESTION, model=voters.model, seed=seed).output
    counted = Counter(votes)
    leaders = [name for name in "abc" if counted[name] == max(counted.values())]
    assert baseline.votes == {name: counted[name] for name in "abc"}
    assert baseline.leaders == leaders
    assert baseline.winner == (leaders[0] if len(leaders) == 1 else None)
    assert baseline.problem is None


async def test_each_role_drafts_with_its_own_model() -> None:
    """A debater's model writes that debater's draft, and the default model provides all other answers."""
    custom, default = Voters(lambda *_: "against", name="own"), Voters(name="default")
    block = baselines_of("single", "drafts", stances=STANCES, models=[custom.model, None])
    result = await town(block).run(QUESTION, model={"chat": default.model})
    assert [answer.winner for answer in result.output] == ["for", None]
    assert (len(custom.asked), len(default.asked)) == (1, 2)


async def test_drafts_are_requested_concurrently() -> None:
    """The test's model returns no draft until all three drafts have been requested."""
    gate, call_count = asyncio.Event(), 0

    async def answer(request: ModelRequest) -> dict[str, str]:
        nonlocal call_count
        call_count += 1
        if call_count == 3:
            gate.set()
        await gate.wait()
        return {"reasoning": "So it is.", "winner": "for"}

    block = baselines_of("drafts", models=[None] * 3)
    (baseline,) = (await block.run(QUESTION, model=FunctionModel(answer))).output
    assert baseline.votes == {"for": 3, "against": 0}


async def test_baselines_are_requested_concurrently() -> None:
    call_count, first = 0, asyncio.Event()

    async def answer(request: ModelRequest) -> Any:
        nonlocal call_count
        if request.output is None:
            return "So."
        call_count += 1
        if call_count == 4:  # after one direct call, two drafts and the first sample
            first.set()
        await first.wait()
        return {"reasoning": "It follows.", "winner": "for"}

    result = await town(create_baselines(name="town", stances=STANCES)).run(QUESTION, model=FunctionModel(answer))
    assert [baseline.winner for baseline in result.output] == ["for"] * 3


async def test_failed_drafts_are_excluded_and_reported() -> None:
    voters = Voters(lambda number, _: ProviderFailed("down") if number == 2 else "for")
    (baseline,) = (await town(baselines_of("drafts", models=[None] * 3)).run(QUESTION, model=voters.model)).output
    assert (baseline.winner, baseline.votes, baseline.lost) == ("for", {"for": 2, "against": 0}, 1)
    assert baseline.problem is not None
    assert "down" in baseline.problem


async def test_only_one_wave_of_samples_is_requested_from_unavailable_providers() -> None:
    voters = Voters(lambda *_: ProviderFailed("down"))
    result = await town(create_baselines(name="town", stances=STANCES)).run(QUESTION, model=voters.model)
    assert result.status == "complete"
    assert [(answer.winner, answer.lost, answer.leaders) for answer in result.output] == [
        (None, 1, []),
        (None, 2, []),
        (None, 1, []),
    ]


async def test_unknown_positions_count_as_failures() -> None:
    (baseline,) = (await town(baselines_of("single")).run(QUESTION, model=Voters(lambda *_: "perhaps").model)).output
    assert baseline.winner is None
    assert "SchemaViolation" in str(baseline.problem)


@pytest.mark.parametrize("error", [AuthenticationFailed("no key"), RealModelForbidden(), ZeroDivisionError("oops")])
async def test_errors_other_than_provider_failures_are_raised(error: Exception) -> None:
    """A wrong key or an application error must not look like a weak baseline."""
    with pytest.raises(type(error)):
        await town(baselines_of("single")).run(QUESTION, model=Voters(lambda *_: error).model)


async def test_run_limits_end_the_baselines_but_not_the_debate() -> None:
    """A call that would exceed the limit counts as failed, just like a call that the provider rejects."""
    result = await town(create_baselines(name="town", stances=STANCES), turns=2).run(
        QUESTION, model=Voters().model, limits=Limits(calls=4)
    )
    assert result.status == "complete"
    assert sum(answer.calls for answer in result.output) == 2  # the debate itself took the other 2 of the 4 calls
    assert result.output[0].winner == "for"
    assert {answer.lost for answer in result.output[1:]} != {0}
    assert all("LimitReached" in str(answer.problem) for answer in result.output if answer.lost)


async def test_baseline_costs_use_the_prices_set_for_the_run() -> None:
    prices = {"voters": Price(prompt=0.0, completion=1_000_000.0)}
    block = create_baselines(name="town", stances=STANCES)
    result = await town(block).run(QUESTION, model=Voters().model, limits=Limits(prices=prices))
    assert [answer.cost for answer in result.output] == [1.0, 2.0, 20.0]
    assert result.cost == 4 + 23


async def test_same_seed_gives_the_same_orders() -> None:
    orders = []
    for seed in (7, 7, 8):
        voters = Voters(argument=500)
        await town(baselines_of("self_consistency")).run(QUESTION, model=voters.model, seed=seed)
        orders.append([positions_of(request) for request in voters.asked])
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("cut", [5, 7, 9, 14])
async def test_resumed_runs_repeat_no_calls_and_give_the_same_result(cut: int) -> None:
    def vote(number: int, _: Sequence[str]) -> Any:
        return ProviderFailed("down") if number == 3 else STANCES[number % 2]

    block = create_baselines(name="town", stances=STANCES)
    uninterrupted = await town(block).run(QUESTION, model=Voters(vote).model, seed=1)
    store, voters = MemoryStore(), Voters(vote)
    with pytest.raises(asyncio.CancelledError):
        await town(block).run(QUESTION, model=Cut(voters, after=cut).model, seed=1, store=store, run_id="town-1")
    result = await town(block).resume("town-1", store=store, model=voters.model)
    assert [answer.model_dump() for answer in result.output] == [answer.model_dump() for answer in uninterrupted.output]
    assert len(voters.asked) == 23
    assert result.usage == uninterrupted.usage


class Cut:
    """A model that is canceled once it has given `after` answers."""

    def __init__(self, voters: Voters, *, after: int) -> None:
        self.model = FunctionModel(self._answer, name=voters.model.name)
        self._voters = voters
        self._left = after

    async def _answer(self, request: ModelRequest) -> ModelResponse:
        if not self._left:
            raise asyncio.CancelledError
        self._left -= 1
        return await self._voters.model.request(request)


async def test_baseline_answers_appear_only_as_events() -> None:
    result = await town(baselines_of("single", "drafts"), turns=1).run(QUESTION, model=Voters().model)
    paths = [event.path for event in result.events if isinstance(event, ModelCalled)]
    assert paths[1:] == [f"town/town-baselines/{place}" for place in ("single[1]", "drafts[1]", "drafts[2]")]
    assert [event.block for event in result.events if isinstance(event, BlockAnswered)] == ["turn-0"]
    assert len(result.session.history) == 1


def test_baseline_names_are_sorted_and_validated() -> None:
    value: Any
    for value, names in (
        (True, BASELINES),
        (False, ()),
        (["drafts", "single"], ("single", "drafts")),
        (["revision", "single"], ("single", "revision")),
    ):
        assert read_baselines(value, location="debate 'x'") == names
    wrong: Any
    for wrong in ("single", ["double"], ["single", "single"], 1, None):
        with pytest.raises(ConfigurationError, match="baselines"):
            read_baselines(wrong, location="debate 'x'")
    for options in ({"max_samples": 0}, {"stances": ()}):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            baselines_of("single", **options)


def test_outline_lists_the_baselines() -> None:
    assert baselines_of("single", "drafts").outline().text == "town-baselines (single, drafts)"
