"""Forks: answers of the parent are reused, and calls that depend on a change are repeated."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_jsonable_python

from flowdebate import Debater, JudgeOptions, Limits, debate, generator, handler, human, sequencer, stop, submit_answer
from flowdebate.errors import ConfigurationError, ProviderFailed, RunExists, RunNotFound
from flowdebate.models.base import ToolCall
from flowdebate.models.codec import digest_of
from flowdebate.runs.events import ModelCalled
from flowdebate.store import MemoryStore, export_run, import_runs
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.profiles import example_count
from tests.runs.durable.patterns import PATTERNS, QUESTION, SKIP, answer_to, run_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.context import Context

pytestmark = pytest.mark.anyio

Calls = list[tuple[str, str]]


def recording_model(calls: Calls, *, failing: float = 0.0, word: str = "") -> FunctionModel:
    """Return a deterministic model that answers any request and records the request's block and hash."""

    def answer(request: ModelRequest) -> Any:
        calls.append((request.block, digest_of(request)))
        reply = answer_to(request, failing=failing)
        return f"{word}{reply}" if isinstance(reply, str) else reply

    return FunctionModel(answer)


def strip_times(value: Any) -> Any:
    """Return an output as JSON data, without the duration of the run."""
    data = to_jsonable_python(value)
    if isinstance(data, dict) and isinstance(data.get("analytics"), dict):
        data["analytics"].pop("seconds")
    return data


SIDES = [Debater("ann", "for"), Debater("bob", "against")]


def two_sides(**options: Any) -> Any:
    """Return a two-round debate between two sides."""
    return debate(name="rent", debaters=SIDES, max_rounds=2, **options)


@pytest.mark.parametrize("name", PATTERNS)
@given(seed=st.integers(0, 2**20), failing=st.sampled_from([0.0, 0.1]))
@settings(max_examples=example_count(3))
async def test_unchanged_fork_makes_no_call_and_has_the_same_result(name: str, seed: int, failing: float) -> None:
    """The result must be the same for every pattern, even if providers fail and even for a fork of a fork."""
    store, pattern, calls = MemoryStore(), PATTERNS[name](), Calls()
    try:
        first = await pattern.run(
            QUESTION, model=recording_model(calls, failing=failing), store=store, run_id="first", seed=seed
        )
    except Exception:  # noqa: BLE001 - a run that failed has no state to compare
        return
    calls.clear()
    second = await PATTERNS[name]().fork(
        "first", model=recording_model(calls, failing=failing), store=store, fork_id="again"
    )
    assert calls == []
    assert second.usage.calls == 0
    assert strip_times(second.output) == strip_times(first.output)
    assert strip_times(second.raw) == strip_times(first.raw)
    third = await PATTERNS[name]().fork("again", model=recording_model(calls, failing=failing), store=store)
    assert calls == []
    assert strip_times(third.raw) == strip_times(first.raw)


@pytest.mark.parametrize("name", PATTERNS)
@given(drawn=st.integers(0, 10**6))
@settings(max_examples=example_count(4))
async def test_edit_repeats_only_dependent_calls(name: str, drawn: int) -> None:
    store, calls = MemoryStore(), Calls()
    await PATTERNS[name]().run(QUESTION, model=recording_model(calls), store=store, run_id="first", seed=1)
    rows = {row.key: row for row in await store.steps("first")}
    texts = [key for key, row in rows.items() if row.kind == "call" and '"data"' not in (row.body or "")]
    if not texts:
        return
    place = texts[drawn % len(texts)]
    forked = await PATTERNS[name]().fork(
        "first", model=recording_model(calls, word="New: "), store=store, fork_id="fork", edits={place: "I was wrong."}
    )
    then = {row.key: row.request for row in rows.values()}
    for row in await store.steps("fork"):
        if row.kind == "call" and row.key in then and row.key != place and '"origin"' not in (row.body or ""):
            assert row.request != then[row.key]
    origins = {event.path: event.origin for event in forked.events if isinstance(event, ModelCalled)}
    assert origins[place] == "edited"
    before = [row.key for row in rows.values() if (row.seq or 0) < (rows[place].seq or 0) and row.kind == "call"]
    assert {origins[key] for key in before if key in origins} <= {"reused"}


async def test_edit_of_an_answer_within_a_skipped_turn_is_used() -> None:
    """The parent's turn was skipped because its second call failed, so the fork takes the turn again."""

    async def draft_and_polish(value: Any, ctx: Context) -> str:
        return await polish(await draft(value, ctx.below(draft)), ctx.below(polish))

    def answer(request: ModelRequest, *, fails: bool = False) -> Any:
        if fails and request.block == "polish":
            raise ProviderFailed("down", status=503)
        return answer_to(request)

    draft, polish = generator(name="draft"), generator(name="polish")
    ann = Debater("ann", "for", block=handler(draft_and_polish, name="ann"))
    sides = [ann, Debater("bob", "against"), Debater("cy", "neither")]
    pattern = debate(name="rent", debaters=sides, max_rounds=1, failures=SKIP)
    store = MemoryStore()
    parent = await pattern.run(QUESTION, model=FunctionModel(partial(answer, fails=True)), store=store, run_id="first")
    place = next(row.key for row in await store.steps("first") if row.key.endswith("/draft"))
    fork = await pattern.fork("first", model=FunctionModel(answer), store=store, edits={place: "Build more."})
    assert (parent.status, fork.status) == ("degraded", "complete")
    assert [event.origin for event in fork.events if isinstance(event, ModelCalled)][:2] == ["edited", "asked"]


async def test_edit_of_an_answer_within_a_tool_is_used() -> None:
    def answer(request: ModelRequest) -> Any:
        if request.tools and request.messages[-1]["role"] != "tool":
            return ToolCall(id="1", name="aide", arguments='{"input": "trams"}')
        return str(request.messages[-1]["content"])

    pattern = sequencer(name="draft").then(generator(name="ann", tools=[generator(name="aide")]))
    store, model = MemoryStore(), FunctionModel(answer)
    await pattern.run("q", model=model, store=store, run_id="first")
    place = next(row.key for row in await store.steps("first") if row.kind == "call" and "/aide" in row.key)
    fork = await pattern.fork("first", model=model, store=store, edits={place: "Trams are slow."})
    assert fork.output == "Trams are slow."


async def test_changed_judge_repeats_only_the_judge_call() -> None:
    store, calls = MemoryStore(), Calls()
    await two_sides().run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    calls.clear()
    stricter = two_sides(judge=JudgeOptions(instructions="Be strict."))
    result = await stricter.fork("first", model=recording_model(calls), store=store)
    assert {block for block, _ in calls} <= {"rent-judge", "rent-synthesizer"}
    assert calls[0][0] == "rent-judge"
    assert result.usage.calls == len(calls)


async def test_changed_judge_model_repeats_only_the_judge_call() -> None:
    """A fork of the fork makes no call, because it reuses the new judge's answer."""
    store, calls = MemoryStore(), Calls()
    chat, judge = recording_model(calls), recording_model(judged := Calls())
    judge.name = "another"
    await two_sides(synthesizer=False).run(QUESTION, model=chat, store=store, run_id="first")
    calls.clear()
    for fork_id, parent, times in (("second", "first", 1), ("third", "second", 1)):
        models = {"chat": chat, "synthesize": judge}
        result = await two_sides(synthesizer=False).fork(parent, model=models, store=store, fork_id=fork_id)
        assert (calls, [block for block, _ in judged]) == ([], ["rent-judge"] * times)
        assert result.usage.calls == (1 if parent == "first" else 0)


async def test_fork_with_more_rounds_makes_only_the_additional_calls() -> None:
    """If the fork and its parent are created from different patterns, the fork decides again whether to stop."""
    store, calls = MemoryStore(), Calls()
    first = debate(name="rent", debaters=SIDES, max_rounds=3, terminate_when=stop.rounds(1), synthesizer=False)
    await first.run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    calls.clear()
    later = debate(name="rent", debaters=SIDES, max_rounds=3, terminate_when=stop.rounds(2), synthesizer=False)
    result = await later.fork("first", model=recording_model(calls), store=store)
    assert [block for block, _ in calls] == ["rent-debater-ann", "rent-debater-bob", "rent-judge"]
    assert result.raw.rounds == 2


async def test_forking_never_changes_the_parent_even_if_it_is_in_progress() -> None:
    store, calls = MemoryStore(), Calls()
    await two_sides().run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    before = (await store.run("first"), await store.steps("first"))
    handle = two_sides().start(QUESTION, model=recording_model(calls), store=store, run_id="second")
    await handle.started()
    await two_sides().fork("second", model=recording_model(calls), store=store)
    await handle
    await two_sides().fork("first", model=recording_model(calls), store=store, edits={before[1][0].key: "No."})
    assert (await store.run("first"), await store.steps("first")) == before


async def test_fork_at_a_step_repeats_everything_after_it() -> None:
    store, calls = MemoryStore(), Calls()
    await two_sides().run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    rows = await store.steps("first")
    calls.clear()
    await two_sides().fork("first", model=recording_model(calls), store=store, at=rows[2].key)
    assert len(calls) == len(rows) - 2


async def test_killed_fork_is_resumed_without_its_parent() -> None:
    """The fork records all reused answers before it does anything else, so the parent is no longer needed."""
    store, calls = MemoryStore(), Calls()
    await two_sides().run(QUESTION, model=recording_model(calls), store=store, run_id="first", seed=3)
    rows = await store.steps("first")
    calls.clear()
    broken = ScriptedModel("New words.", RuntimeError("the process is gone"))
    broken.name = recording_model(calls).name
    with pytest.raises(RuntimeError):
        await two_sides().fork("first", model=broken, store=store, fork_id="fork", edits={rows[1].key: "I agree."})
    await store.delete("first")
    result = await two_sides().resume("fork", model=recording_model(calls), store=store, allow_changes=True)
    assert [event.origin for event in result.events if isinstance(event, ModelCalled)][:3] == [
        "reused",
        "edited",
        "asked",
    ]
    assert len(calls) == 3
    assert [entry.text for entry in result.raw.transcript][1:3] == ["I agree.", "New words."]


async def test_imported_fork_reuses_nothing_from_this_store() -> None:
    """The author of an imported file can choose any id, so an unrelated run in this store may have the parent's id."""
    store, calls = MemoryStore(), Calls()
    await two_sides().run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    await two_sides().fork("first", model=recording_model(calls), store=store, fork_id="fork")
    header, *_ = [json.loads(line) async for line in export_run(store, "fork")]
    await store.delete("fork")
    header["rows"] = header["run"]["steps"] = 0
    header["run"]["status"] = "interrupted"
    await import_runs(store, [json.dumps(header)])
    assert (await store.run("fork")).header.parent == {"run": "first"}
    calls.clear()
    result = await two_sides().resume("fork", model=recording_model(calls), store=store)
    assert len(calls) == result.usage.calls == 6
    second = await two_sides().fork("fork", model=recording_model(calls), store=store)
    assert (second.status, second.usage.calls) == ("complete", 0)


async def test_edited_structured_answer_is_validated() -> None:
    store, calls = MemoryStore(), Calls()
    await two_sides(synthesizer=False).run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    judge = (await store.steps("first"))[-1].key
    verdict = {"reasoning": "Ann was right.", "winner": "for", "verdict": "Do it."}
    edited = await two_sides(synthesizer=False).fork(
        "first", store=store, model=recording_model(calls), edits={judge: verdict}
    )
    assert edited.raw.verdict.winner == "for"
    with pytest.raises(ConfigurationError, match="edits"):
        await two_sides(synthesizer=False).fork(
            "first", store=store, model=recording_model(calls), edits={judge: {"winner": "nobody"}}
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"edits": {"nowhere": "x"}}, "the path of a recorded answer"),
        ({"at": "nowhere"}, "the path of a recorded answer"),
        ({"edits": {"rent/round[1]/rent-turn-ann/rent-debater-ann": 5}}, "text that is not blank"),
        ({"edits": {"rent/round[1]/rent-turn-ann/rent-debater-ann": "  "}}, "text that is not blank"),
        ({"edits": ["x"]}, "a dict that maps paths"),
        ({"fork_id": " "}, "`fork_id` must not be blank"),
        ({"fork_id": 5}, "`fork_id` must be text \\(got 5\\)"),
    ],
)
async def test_invalid_edits_are_rejected_before_anything_is_stored(options: dict[str, Any], words: str) -> None:
    store, calls = MemoryStore(), Calls()
    await two_sides().run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    with pytest.raises(ConfigurationError, match=words):
        await two_sides().fork("first", store=store, model=recording_model(calls), **options)
    assert len(await store.runs()) == 1


JUDGE = "rent/rent-judge"


async def assert_fork_rejected(
    store: Any, pattern: Any, edits: dict[str, Any], words: str = "a valid answer for the step"
) -> None:
    """Check that a fork with `edits` is rejected, makes no call, stores no run, and leaves its id free."""
    calls = Calls()
    before = [run.header.run_id for run in await store.runs()]
    with pytest.raises(ConfigurationError, match=words):
        await pattern.fork("first", store=store, model=recording_model(calls), edits=edits, fork_id="f")
    assert calls == []
    assert [run.header.run_id for run in await store.runs()] == before


@pytest.mark.parametrize("name", PATTERNS)
async def test_rejected_edit_leaves_no_run_behind(name: str) -> None:
    """After an invalid edit is rejected, the corrected fork can use the same id.

    The test edits every kind of step.
    """
    store, calls = MemoryStore(), Calls()
    await PATTERNS[name]().run(QUESTION, model=recording_model(calls), store=store, run_id="first", seed=1)
    bodies = {row.key: json.loads(row.body or "{}") for row in await store.steps("first") if row.kind == "call"}
    data = {key: body["data"] for key, body in bodies.items() if "data" in body}
    kinds = {key.rpartition("/")[2]: key for key in data}
    for place in kinds.values():
        fitting = data[place]
        # an object that is not a valid handoff leads to another request, whatever its fields
        for edit in [5] if name == "handoff" else [5, {"typo": 1}]:
            await assert_fork_rejected(store, PATTERNS[name](), {place: edit})
        await PATTERNS[name]().fork(
            "first", store=store, model=recording_model(calls), edits={place: fitting}, fork_id=f"f-{place}"
        )


async def test_pattern_can_reject_an_edit() -> None:
    """The edited proposal in this test has the right type but is blank."""
    store = MemoryStore()
    await PATTERNS["consensus"]().run(QUESTION, model=recording_model(Calls()), store=store, run_id="first", seed=1)
    revision = next(row for row in await store.steps("first") if row.key.endswith("plan-revise-ann"))
    blank = {**json.loads(revision.body or "")["data"], "proposal": " "}
    await assert_fork_rejected(store, PATTERNS["consensus"](), {revision.key: blank}, "plan-revise-ann.*got blank text")


async def test_edit_after_repeated_calls_is_rejected() -> None:
    """An edit may come after calls that the fork has to repeat.

    If the edit is invalid, it is rejected before these calls are paid for, even if the judge receives a different
    request.
    """
    store, first = MemoryStore(), "rent/round[1]/rent-turn-ann/rent-debater-ann"
    await two_sides().run(QUESTION, model=recording_model(Calls()), store=store, run_id="first")
    await assert_fork_rejected(store, two_sides(), {first: "I was wrong.", JUDGE: {"winner": "the audience"}})
    verdict = {"reasoning": "Ann was right.", "winner": "for", "verdict": "Do it."}
    longer = debate(name="rent", debaters=[Debater("ann", "yes"), Debater("bob", "no")], max_rounds=2)
    await assert_fork_rejected(store, longer, {JUDGE: verdict})
    fork = await two_sides(synthesizer=False).fork(
        "first", store=store, model=recording_model(Calls()), edits={first: "No.", JUDGE: verdict}, fork_id="f"
    )
    assert fork.raw.verdict.winner == "for"


async def test_edit_must_be_a_valid_human_answer() -> None:
    store = MemoryStore()

    def people() -> Any:
        sides = [Debater("ann", "for", block=human(name="ann")), Debater("bob", "against")]
        return debate(name="rent", debaters=sides, max_rounds=1, judge=human(name="solomon"), synthesizer=False)

    verdict = {"reasoning": "Ann was right.", "winner": "for", "verdict": "Do it."}
    await people().run(QUESTION, model=recording_model(Calls()), store=store, run_id="first")
    await submit_answer(store, "first", "Homes first.")
    await people().resume("first", model=recording_model(Calls()), store=store)
    await submit_answer(store, "first", verdict)
    done = await people().resume("first", model=recording_model(Calls()), store=store)
    assert done.status == "complete"
    ann, judge = [row.key for row in await store.steps("first") if row.kind == "human"]
    for edits in ({ann: " "}, {ann: {"text": "Homes."}}, {judge: {**verdict, "winner": "the audience"}}, {judge: 5}):
        await assert_fork_rejected(store, people(), edits, "asked again")
    fork = await people().fork(
        "first",
        store=store,
        model=recording_model(Calls()),
        edits={judge: {**verdict, "winner": "against"}},
        fork_id="f",
    )
    assert fork.raw.verdict.winner == "against"


async def test_invalid_forks_are_rejected() -> None:
    store, calls = MemoryStore(), Calls()
    await two_sides().run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    with pytest.raises(RunNotFound):
        await two_sides().fork("other", store=store, model=recording_model(calls))
    with pytest.raises(RunExists):
        await two_sides().fork("first", store=store, model=recording_model(calls), fork_id="first")
    with pytest.raises(ConfigurationError, match="a run of city"):
        await debate(name="city", debaters=[Debater("a", "x"), Debater("b", "y")]).fork("first", store=store)
    with pytest.raises(ConfigurationError, match="store"):
        await two_sides().fork("first", model=recording_model(calls))


def _effects(done: list[str]) -> Callable[[Any, Any], Any]:
    async def act(value: str, ctx: Any) -> str:
        async def write() -> str:
            done.append(value)
            return f"{value}!"

        return str(await ctx.step(write))

    return act


async def test_side_effects_are_reused_until_the_first_difference() -> None:
    """A call can be matched to one of the parent's calls by its request, but a side effect has no request."""
    store, calls = MemoryStore(), Calls()
    done: list[str] = []

    def flow() -> Any:
        from flowdebate import generator

        return (
            sequencer(name="flow")
            .then(handler(_effects(done), name="first"))
            .then(generator(name="writer", prompt="Write."))
            .then(handler(_effects(done), name="second"))
        )

    await flow().run("go", model=recording_model(calls), store=store, run_id="a")
    assert len(done) == 2
    await flow().fork("a", model=recording_model(calls), store=store)
    assert len(done) == 2
    await flow().fork("a", model=recording_model(calls), store=store, edits={"flow/writer": "Other words."})
    assert done[2:] == ["Other words."]


async def test_human_answer_is_reused_like_a_model_answer() -> None:
    store, calls = MemoryStore(), Calls()

    def mixed() -> Any:
        return debate(
            name="rent",
            debaters=[Debater("ann", "for", block=human(name="ann")), Debater("bob", "against")],
            max_rounds=1,
        )

    await mixed().run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    await submit_answer(store, "first", "Homes first.")
    first = await mixed().resume("first", model=recording_model(calls), store=store)
    assert first.status == "complete"
    calls.clear()
    same_answer = await mixed().fork("first", model=recording_model(calls), store=store)
    assert same_answer.status == "complete"
    assert calls == []
    assert same_answer.raw == first.raw
    place = next(row.key for row in await store.steps("first") if row.kind == "human")
    edited = await mixed().fork("first", model=recording_model(calls), store=store, edits={place: "Jobs first."})
    assert edited.raw.transcript[0].text == "Jobs first."
    assert "rent-debater-bob" in {block for block, _ in calls}


async def test_fork_limits_count_only_new_calls() -> None:
    """Reused answers cost nothing."""
    store, calls = MemoryStore(), Calls()
    await two_sides().run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    stricter = two_sides(judge=JudgeOptions(instructions="Be strict."), synthesizer=False)
    result = await stricter.fork("first", model=recording_model(calls), store=store, limits=Limits(calls=1))
    assert result.status == "complete"
    assert result.usage.calls == 1


async def test_fork_clock_continues_from_its_parent() -> None:
    """The days between a run and its fork do not count toward a pattern's time limit."""
    store, calls = MemoryStore(), Calls()
    first = await two_sides().run(QUESTION, model=recording_model(calls), store=store, run_id="first")
    fork = await two_sides().fork("first", model=recording_model(calls), store=store)
    assert [event.at for event in fork.events][:-1] == [event.at for event in first.events][:-1]
    assert run_state(fork, usage=False)
