"""`check_debate` finds every planted bug, and none in correct patterns."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, model_validator

from flowdebate import Debater, FailurePolicy, StandIn, consensus, council, debate, deliberation, stop
from flowdebate.errors import ConfigurationError, FlowDebateWarning, PromiseBroken
from flowdebate.patterns.debate.formats import FORMATS
from flowdebate.testing import Example, ScriptedModel, check_debate, check_pattern
from flowdebate.testing.check import PROMISES, find_broken_promise
from flowdebate.testing.examples import FAULTS, ExampleModel
from flowdebate.testing.strategies import examples, personas
from tests.cases import slow_but_first
from tests.profiles import example_count
from tests.testing.planted import (
    CHEAP,
    EXAMPLES,
    HEADER,
    MEMBERS,
    PAGE,
    PLANTED,
    SEEDS,
    SIDES,
    correct_patterns,
    entries_of,
    rent,
    search,
    verdict_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.runs.context import Context

SEED = SEEDS[0]
"""Seed for these tests; the script that writes the table tries several."""


@pytest.mark.parametrize("name", slow_but_first(PLANTED, lambda name: PLANTED[name].promise))
def test_planted_bugs_are_found_within_a_hundred_examples(name: str) -> None:
    """Each bug breaks one promise, and the error must report that promise."""
    planted = PLANTED[name]
    finding = search(planted, SEED, max_examples=CHEAP.get(name, EXAMPLES))
    assert finding.broken is not None
    assert finding.broken.promise == planted.promise
    assert finding.examples <= EXAMPLES


@pytest.mark.parametrize("name", slow_but_first(correct_patterns()))
def test_correct_patterns_have_no_bug(name: str) -> None:
    pattern = correct_patterns()[name]()  # reuse one pattern for all examples, because none of them leaves state behind
    check_pattern(pattern, seed=SEED, max_examples=6, skip=["terminate_when_can_fire"])


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("name", slow_but_first(FORMATS))
def test_formats_have_no_bug(name: str, mirror: bool) -> None:  # noqa: FBT001
    members: Any = list(FORMATS[name].members) or SIDES
    pattern: Any
    if FORMATS[name].pattern == "consensus":
        pattern = consensus(name="x", agents=members[:3], format=name, max_rounds=1 + mirror)
    else:
        pattern = debate(name="x", debaters=members, format=name, mirror=mirror, synthesizer=False)
    check_pattern(pattern, seed=SEED, max_examples=4)


def test_each_promise_is_broken_by_a_planted_bug() -> None:
    assert {planted.promise for planted in PLANTED.values()} == set(PROMISES)
    assert all(promise.__doc__ for promise in PROMISES.values())


def test_page_lists_every_promise() -> None:
    page = (PAGE.parents[2] / "docs" / "testing.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \| [^|]+ \|$", page, re.MULTILINE) == list(PROMISES)
    assert f"finds [{len(PLANTED)} planted bugs]" in page


def test_page_lists_every_planted_bug() -> None:
    page = PAGE.read_text("utf-8")
    lines = page[page.index(f"| {HEADER[0]} |") :].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == HEADER
    assert [(bug, promise) for bug, promise, _, _ in cells[2:]] == [
        (name, f"`{planted.promise}`") for name, planted in PLANTED.items()
    ]
    assert all(1 <= float(typical) <= int(maximum) <= EXAMPLES for _, _, typical, maximum in cells[2:])


@pytest.mark.parametrize("pattern", [rent(), rent], ids=["an instance", "a function"])
def test_debates_can_be_checked_in_two_lines(pattern: Any) -> None:
    """`check_pattern` takes a pattern or a function that builds one."""
    check_debate(pattern, max_examples=5, seed=1)


def check_error(make: Callable[[], Any], **options: Any) -> PromiseBroken:
    """Return the error raised by a check."""
    with pytest.raises(PromiseBroken) as caught:
        check_debate(make, seed=1, **options)
    return caught.value


def test_errors_name_the_promise_and_show_a_reproducible_example() -> None:
    """The `AssertionError` contains a small example that also fails on its own."""
    broken = check_error(PLANTED["`.format` on a question"].make)
    assert isinstance(broken, AssertionError)
    lines = str(broken).splitlines()
    assert lines[0].startswith(
        "fails_only_with_known_errors: Check that a run raises only library errors, and fails or continues"
    )
    assert re.match(r"  found: \w+Error: .*block 'rent-debater-bob'", lines[1])
    assert lines[2] == f"  example: {broken.example!r}"
    assert lines[3] == f"  reproduce: check_debate(…, examples=[{broken.example!r}])"
    example: Any = broken.example
    assert eval(repr(example), {"Example": Example}) == example  # noqa: S307 - it is our own
    assert "{" in example.question
    assert (example.texts, example.choices, example.faults, example.delays) == (("Yes.",), (0,), {}, ())
    repeated = check_error(PLANTED["`.format` on a question"].make, examples=[example], max_examples=1)
    assert repeated.example == example


async def wait_forever(_: object, ctx: Any) -> str:
    """Wait forever without blocking the event loop."""
    ready: asyncio.Event = ctx.session.state.setdefault("ready", asyncio.Event())
    await ready.wait()
    return "Yes."


def block_forever(_: object) -> str:
    """Block the event loop forever."""
    while True:
        time.sleep(0.01)


@pytest.mark.parametrize("block", [wait_forever, block_forever])
def test_endless_runs_that_make_no_calls_are_found(block: Any) -> None:
    broken = check_error(lambda: rent(block), max_seconds=0.3)
    assert broken.promise == "ends_within_rounds"
    line = block.__code__.co_firstlineno + 3
    assert f"the run did not end within 0.3 seconds: it is at test_check.py:{line}, in {block.__name__}" in str(broken)


def test_slow_checks_estimate_their_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowdebate.testing.check._LONG", 0)
    with pytest.warns(FlowDebateWarning, match=r"an example takes \d+\.\d s, so 4 take about \d+ s"):
        check_debate(rent(), max_examples=4, seed=1)


def test_leaks_from_an_earlier_question_are_found_in_reused_patterns() -> None:
    """The pattern cannot be rebuilt for each question, but words from an earlier question reveal the bug."""
    answers: dict[str, str] = {}
    broken = check_error(rent(lambda request: answers.setdefault("bob", f"About {request.question}: no.")))
    assert broken.promise == "answers_current_question"


def test_same_seed_gives_the_same_result() -> None:
    planted = PLANTED["a question without its markup"]
    search(planted, 5)  # import all modules first, because Hypothesis draws constants from loaded modules
    assert str(search(planted, 5).broken) == str(search(planted, 5).broken)
    never = check_error(PLANTED["a predicate that never fires"].make, max_examples=10)
    assert never.reproduce == "check_debate(…, seed=1)"
    assert never.example is None


def test_bugs_that_occur_only_once_are_reported() -> None:
    """A bug may show only in the very first run, even if the pattern is rebuilt afterwards."""
    spent: list[object] = []

    def speak(_: object) -> str:
        spent.append(None)
        return "" if len(spent) == 1 else "Yes."

    assert check_error(lambda: rent(speak)).promise == "has_no_empty_arguments"


def test_promises_can_be_skipped() -> None:
    make = PLANTED["empty arguments"].make
    check_debate(make, max_examples=5, seed=1, skip=["has_no_empty_arguments"])


def test_models_never_fail_if_failures_are_disabled() -> None:
    requests = []

    def note(request: Any) -> None:
        requests.append(request)

    finding = find_broken_promise(rent, failures=False, answers=note, max_examples=10)
    assert finding.broken is None
    assert requests

    @settings(database=None)
    @given(examples(failures=False))
    def without_faults(example: Example) -> None:
        assert not example.faults

    without_faults()


def test_models_named_by_a_pattern_are_not_called() -> None:
    real = ScriptedModel()
    sides = [Debater("ann", "for", model="openai/gpt-5-mini"), Debater("bob", "against", model=real)]
    policy = FailurePolicy(on_failure=StandIn(model="openai/gpt-5-mini"))
    check_debate(debate(name="rent", debaters=sides, model=real, failures=policy), max_examples=20, seed=1)
    assert real.calls == []


class Deal(BaseModel):
    """A deliverable whose valid values no example can guess."""

    price: int

    @model_validator(mode="after")
    def _is_large(self) -> Deal:
        if self.price < 1000:
            message = "too cheap"
            raise ValueError(message)
        return self


def test_users_can_supply_answers() -> None:
    deal = debate(name="rent", debaters=SIDES, output_schema=Deal)
    with pytest.raises(ConfigurationError, match=r"a function that answers block rent-synthesizer.*too cheap"):
        check_debate(deal, max_examples=1)
    check_debate(
        deal,
        max_examples=5,
        answers=lambda request: {"price": 2000} if request.block == "rent-synthesizer" else None,
    )


def test_models_use_the_words_that_a_predicate_waits_for() -> None:
    """Arguments are drawn from `texts` and from string constants in the predicate's code."""

    def agreed(ctx: Any) -> bool:
        return bool(entries_of(ctx)[-1].text == "I am convinced.")

    check_debate(lambda: rent(max_rounds=3, terminate_when=agreed), seed=1, max_examples=5)
    word = "I give in."

    def hidden(ctx: Any) -> bool:
        return bool(entries_of(ctx)[-1].text == word)

    def make() -> Any:
        return debate(name="rent", debaters=SIDES, max_rounds=3, terminate_when=hidden)

    assert check_error(make, max_examples=5).promise == "terminate_when_can_fire"
    check_debate(make, texts=[word], seed=1, max_examples=5)


class Settled(stop.Condition):
    """A custom stop condition written as a class."""

    @property
    def name(self) -> str:
        return "settled it"

    async def reason(self, ctx: Context) -> str | None:
        return self.name if "Let us settle." in [entry.text for entry in entries_of(ctx)] else None


class Agreed:
    """A custom stop condition written as a callable object."""

    def __call__(self, ctx: Context) -> bool:
        return "So it is." in [entry.text for entry in entries_of(ctx)]

    async def later(self, ctx: Context) -> bool:
        return self(ctx) or "Let us agree." in [entry.text for entry in entries_of(ctx)]


def word_condition(word: str, ctx: Context) -> bool:
    """Return True once a debater has said the word."""
    return (
        f"{word}, so it is!" in [entry.text for entry in entries_of(ctx)] or "That is so." in entries_of(ctx)[-1].text
    )


STOPPING: dict[str, Any] = {
    "an object": Agreed(),
    "a method": Agreed().later,
    "a part of a function": partial(word_condition, "Yes"),
    "a class of its own": Settled(),
    "one of several": Settled() | stop.rounds(2) & stop.repeated() | stop.seconds(60),
    "all of several": stop.rounds(1) & stop.when(Agreed(), name="agreed"),
    "not": ~stop.when(lambda ctx: ctx.sequencer.state.round < 2),
    "time": stop.seconds(3600),
    "usage and a flag": stop.tokens(10**9) | stop.flag("enough"),
}


@pytest.mark.parametrize("kind", slow_but_first(STOPPING))
def test_any_stop_condition_can_be_checked(kind: str) -> None:
    # its phrase must be in the last argument, which takes more examples; the phrases for other conditions occur at once
    max_examples = 30 if kind == "a part of a function" else 4
    check_debate(
        lambda: rent(max_rounds=3, terminate_when=STOPPING[kind]), seed=1, max_examples=max_examples, failures=False
    )


def test_judges_that_pick_the_last_speaker_do_not_depend_on_reading_order() -> None:
    check_debate(rent(judge=lambda _, ctx: verdict_for(entries_of(ctx)[-1].stance)), max_examples=20, seed=1)


def test_nested_debates_do_not_count_as_rounds() -> None:
    """Only the outermost pattern's rounds are compared with its output."""
    inner = debate(name="inner", debaters=SIDES, max_rounds=1)
    cut_off = Example(question="Why?", seed=0, texts=("Yes.",), choices=(0,), faults={2: "cut off"}, delays=())
    check_debate(rent(inner), max_examples=10, seed=1, examples=[cut_off])


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no pattern": ({"pattern": 3}, "check_debate.*pattern.*a pattern, or a function that builds one .got 3"),
    "a function of something else": ({"pattern": lambda: "x"}, "a function that builds one .got x"),
    "another pattern": ({"pattern": deliberation(name="x", debaters=MEMBERS)}, "check_pattern.. checks every pattern"),
    "no examples": ({"max_examples": 0}, "`max_examples` must be at least 1 \\(got 0\\)"),
    "no calls": ({"max_calls": True}, "`max_calls` must be a whole number of at least 1 \\(got true\\)"),
    "no time": ({"max_seconds": 0}, "`max_seconds` must be greater than 0 \\(got 0\\)"),
    "an unknown promise": ({"skip": ["typo"]}, "`skip` contains an unknown promise"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_invalid_options_are_rejected(case: str) -> None:
    options, message = WRONG[case]
    with pytest.raises(ConfigurationError, match=message):
        check_debate(**{"pattern": rent(), "max_examples": 1, **options})


def test_error_says_that_hypothesis_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis is an optional dependency."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr("flowdebate._util.validation.find_spec", lambda _: None)
    with pytest.raises(
        ConfigurationError,
        match=r'check_debate.* needs hypothesis, which is not installed: pip install "flowdebate\[testing\]"',
    ):
        check_debate(rent())


@settings(max_examples=example_count(10), suppress_health_check=[HealthCheck.nested_given])
@given(personas(min_size=2), st.integers(0))
def test_examples_fit_any_roster(members: Any, seed: int) -> None:
    finding = find_broken_promise(council(name="x", members=members), failures=False, max_examples=1, seed=seed)
    assert finding.broken is None


@pytest.mark.parametrize("fault", list(FAULTS))
def test_faults_appear_as_provider_failures(fault: str) -> None:
    """Whatever the fault, a debate that skips failures continues without the missing answer."""
    example = Example(faults={1: fault}, texts=("Yes.",))
    model = ExampleModel(example)
    failures = FailurePolicy(on_failure="skip", quorum=1)
    result = rent(failures=failures).run_sync(example.question, model=model, seed=example.seed)
    assert model.failed == 1
    assert [loss.name for loss in result.raw.losses] == ["ann"]


def test_answers_depend_on_the_prompt_but_not_on_the_call_order() -> None:
    example = Example(texts=("Yes.", "No.", "Perhaps."), choices=(3, 1, 2), delays=(2, 0, 1))
    pattern = council(name="x", members=MEMBERS)
    first, second = (
        asyncio.run(pattern.run("Why?", model=ExampleModel(one), seed=1)).raw
        for one in (example, Example(texts=example.texts, choices=example.choices))
    )
    assert first == second
