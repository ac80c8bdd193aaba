"""Structured answers as models write them: some are repaired, some requested again, and some left unchanged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from flowdebate import Debater, JudgeOptions, OpenAIModel, council, debate, deliberation, review
from flowdebate.errors import SchemaViolation
from flowdebate.models import ModelRequest, ModelResponse, OutputSchema
from flowdebate.models.call import ask
from flowdebate.models.codec import Answer, call_row, json_text, read_record
from flowdebate.models.reading import find_choice, is_none, parse_json, repair_answer
from flowdebate.patterns.consensus.agents import create_vote_form
from flowdebate.patterns.council.schemas import ranking_of
from flowdebate.patterns.debate.audience import vote_among
from flowdebate.patterns.debate.judging.jurors import scores_among, verdict_among
from flowdebate.patterns.debate.moderator import decision_among
from flowdebate.patterns.deliberation.schemas import ModeratorReport
from flowdebate.patterns.review.schemas import SEVERITY_WORDS, Findings
from flowdebate.patterns.round_robin.schemas import RefereeReport
from flowdebate.runs.events import ModelCalled
from flowdebate.testing import FunctionModel
from tests.models.server import ChatServer, Exchange, chunk, completion, usage_chunk
from tests.patterns.debates import events

if TYPE_CHECKING:
    from collections.abc import Callable

SIDES = ("cap rents", "free rents")
JUDGE = OutputSchema.of(verdict_among(SIDES))
SCORES = OutputSchema.of(scores_among(("at", "of")))
MODERATOR = OutputSchema.of(decision_among(("ann", "bob"))).with_synonyms({"cap rents": "ann", "free rents": "bob"})
REPORT = OutputSchema.of(ModeratorReport)
VOTE = OutputSchema.of(create_vote_form(("ann", "bob")))
LISTENER = OutputSchema.of(vote_among(SIDES))
RANKING = OutputSchema.of(ranking_of(("A", "B", "C"))).with_synonyms({f"Answer {letter}": letter for letter in "ABC"})
FINDINGS = OutputSchema.of(Findings).with_synonyms(SEVERITY_WORDS)
REFEREE = OutputSchema.of(RefereeReport)

VERDICT = {"reasoning": "It answered.", "winner": "cap rents", "verdict": "Cap them."}
WRITTEN = json.dumps(VERDICT)
FINDING = {"title": "t", "claim": "c", "severity": "major"}


def _finding(**changes: object) -> dict[str, object]:
    return {"findings": [{**FINDING, **changes}]}


def _graded(severity: str) -> dict[str, object]:
    return {"findings": [{"severity": severity}]}


def _lines(first: int | None, last: int | None) -> dict[str, object]:
    return {"findings": [{"line": first, "endLine": last}]}


async def read_answer(answer: object, output: OutputSchema) -> ModelResponse:
    """Return the validated answer of a model that writes `answer`: text, or data to be encoded as JSON."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    model = FunctionModel(lambda _: ModelResponse(text=text))
    return await ask(model, ModelRequest(messages=[], block="judge", output=output))


SYNTAX: list[tuple[str, str, tuple[str, ...]]] = [
    ("a trailing comma", WRITTEN[:-1] + ",}", ("trailing comma",)),
    ("a raw line break", WRITTEN.replace("It answered.", "It\nanswered."), ("line break in a string",)),
    ("encoded twice", json.dumps(WRITTEN), ("double encoding",)),
    ("encoded twice without its quotes", json.dumps(WRITTEN)[1:-1], ("double encoding",)),
    ("a wrapper key", json.dumps({"response": VERDICT}), ("wrapper key",)),
    ("the schema's name as wrapper", json.dumps({"DebateVerdict": VERDICT}), ("wrapper key",)),
    ("a call as text", json.dumps({"name": "DebateVerdict", "arguments": VERDICT}), ("wrapper key",)),
    ("a wrapper around text", json.dumps({"answer": WRITTEN}), ("wrapper key",)),
    ("the same object twice", f"{WRITTEN}\n{WRITTEN}", ("repeated object",)),
    ("Python literals", repr(VERDICT), ("Python literals",)),
    ("keys in another case", json.dumps({key.title(): part for key, part in VERDICT.items()}), ("spelling of a key",)),
    ("keys in capitals", json.dumps({key.upper(): part for key, part in VERDICT.items()}), ("spelling of a key",)),
    ("a code fence", f"```json\n{WRITTEN}\n```", ("code fence",)),
    ("a code fence without a language", f"Here it is:\n```\n{WRITTEN}\n```\nDone.", ("code fence",)),
    ("a code fence that never ends", f"```json\n{WRITTEN}", ("code fence",)),
    ("a broken object in a code fence", f"```json\n{WRITTEN[:-1]},}}\n```", ("code fence", "trailing comma")),
    ("prose around it", f"Sure! {WRITTEN} I hope that helps.", ("text around the JSON",)),
    ("a broken object in prose", f"Sure: {WRITTEN[:-1]},}} Bye.", ("text around the JSON", "trailing comma")),
    ("comments", WRITTEN[:-1] + " // that is all\n}", ("comment",)),
    ("a block comment", WRITTEN.replace("{", "{ /* my verdict */ "), ("comment",)),
    ("a missing last brace", WRITTEN[:-1], ("missing brace",)),
    ("curly quotes", "{“reasoning”: “It answered.”, “winner”: “cap rents”, “verdict”: “Cap them.”}", ("curly quotes",)),
    ("a missing comma", WRITTEN.replace('", "', '" "'), ("broken JSON",)),
    ("keys without quotes", WRITTEN.replace('"winner"', "winner"), ("broken JSON",)),
    ("a brace too many", WRITTEN + "}", ("text around the JSON",)),
    ("a list with one object", json.dumps([VERDICT]), ("list around the object",)),
    ("a list with the same object twice", json.dumps([VERDICT, VERDICT]), ("repeated object",)),
    ("an unknown field", json.dumps({**VERDICT, "rationale": "Both."}), ("unknown key",)),
    (
        "a web address and a hash in strings",
        repr({**VERDICT, "x": "http://a.b/#1 // no"}),
        ("Python literals", "unknown key"),
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("text", "repaired"), [case[1:] for case in SYNTAX], ids=[case[0] for case in SYNTAX])
async def test_malformed_json_is_repaired(text: str, repaired: tuple[str, ...]) -> None:
    response = await read_answer(text, JUDGE)
    data: Any = response.data
    assert (data.reasoning.replace("\n", " "), data.winner, data.verdict) == tuple(VERDICT.values())
    assert response.repaired == repaired


AMBIGUOUS = [
    ("two verdicts", f"{WRITTEN} or {json.dumps({**VERDICT, 'winner': 'free rents'})}"),
    ("two broken verdicts", f"{WRITTEN[:-1]},}} {json.dumps({**VERDICT, 'winner': 'free rents'})[:-1]},}}"),
    ("two code fences", f"```json\n{WRITTEN}\n```\n```json\n{WRITTEN.replace('cap', 'free')}\n```"),
    ("a list of two verdicts", json.dumps([VERDICT, {**VERDICT, "winner": "free rents"}])),
    ("a field twice in broken JSON", WRITTEN[:-1] + ', "winner": "free rents",}'),
    ("a field twice, in two cases", json.dumps({**VERDICT, "Winner": "free rents"})),
    ("cut off inside of a string", WRITTEN[:-5]),
    ("cut off before a value", WRITTEN.partition('"cap')[0]),
    ("a negated value", WRITTEN.replace('"cap rents"', '!"cap rents"')),
    ("a value with an operator", WRITTEN.replace('"cap rents"', 'not "cap rents"')),
    ("two values", WRITTEN.replace('"cap rents"', '"cap rents" or "free rents"')),
    ("a wrapper that rejects it", json.dumps({"rejected": VERDICT})),
    ("a draft beside the answer", json.dumps({"draft": VERDICT, "final": {**VERDICT, "winner": "free rents"}})),
    (
        "a verdict in a string of a broken one",
        '{"reasoning": "```json\n' + WRITTEN + '\n```", "winner": "free rents",}',
    ),
    ("a verdict inside of a broken object", '{"draft": ' + WRITTEN + ", oh no"),
    ("no JSON", "I think that cap rents won."),
    ("brackets without an end", "[" * 100_000),
]


@pytest.mark.anyio
@pytest.mark.parametrize("text", [case[1] for case in AMBIGUOUS], ids=[case[0] for case in AMBIGUOUS])
async def test_missing_or_ambiguous_json_is_requested_again(text: str) -> None:
    """The library never chooses between several answers, and never completes a partial one."""
    with pytest.raises(SchemaViolation) as caught:
        await read_answer(text, JUDGE)
    assert caught.value.answer == text


WINNERS: list[tuple[object, str | None]] = [
    ("Cap Rents.", "cap rents"),
    ("[cap rents]", "cap rents"),
    ("Position: cap rents", "cap rents"),
    ("**Winner:** “Cap  rents”.", "cap rents"),
    ("CAP\u00a0RENTS", "cap rents"),
    ("\uff43ap rents", "cap rents"),
    ("cap\u200b rents", "cap rents"),
    ("`free rents`", "free rents"),
    ("(Free Rents)", "free rents"),
    ("The position: [free rents].", "free rents"),
    (["free rents"], "free rents"),
    ("tie", None),
    ("Draw.", None),
    ("null", None),
    ("None", None),
    ("*neither*", None),
    ("N/A", None),
    ("", None),
    ("  ", None),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("written", "winner"), WINNERS)
async def test_a_choice_may_be_spelled_differently(written: object, winner: str | None) -> None:
    """Differences in case, Unicode form, brackets, quotes or emphasis do not matter.

    A label or a trailing period is ignored as well.
    """
    response = await read_answer({**VERDICT, "winner": written}, JUDGE)
    assert getattr(response.data, "winner") == winner  # noqa: B009 - of a schema made for the case
    assert len(response.repaired) == 1


NO_CHOICES: list[object] = ["not cap rents", "do not cap rents", "cap rents and free rents", "cap", "a", "ann", "both"]
NO_CHOICES += ["cap rents (not free rents)", "neither of the two", "[cap rents] [free rents]", "Against: cap rents"]
NO_CHOICES += ["~~cap rents~~", "cap-rents", "[]", "A", "1", "rents", 0, True, {"name": "cap rents"}, list(SIDES)]


@pytest.mark.anyio
@pytest.mark.parametrize("written", NO_CHOICES)
async def test_an_answer_that_matches_no_choice_is_requested_again(written: object) -> None:
    """A substring, a similar word or a hidden name does not count as a choice."""
    with pytest.raises(SchemaViolation, match='"cap rents" or "free rents"'):
        await read_answer({**VERDICT, "winner": written}, JUDGE)


def test_a_choice_takes_precedence_over_a_word_for_none() -> None:
    """A stance may itself be called "none"."""
    output = OutputSchema.of(verdict_among(("none", "all")))
    reading = _repair(json.dumps({**VERDICT, "winner": "None"}), output)
    assert reading.data.winner == "none"


@pytest.mark.parametrize(
    ("text", "choices", "choice"),
    [
        ("C", ("C", "C++", "C#"), "C"),
        ("c++", ("C", "C++", "C#"), "C++"),
        ("US", ("us", "US"), "US"),
        ("Us", ("us", "US"), None),
        ("(a)", ("[a]", "a."), None),
        ("[A]", ("[a]", "a."), "[a]"),
        ("We keep it", ("We keep it.", "We drop it."), "We keep it."),
        ("don\u2019t cap", ("don't cap", "cap"), "don't cap"),
        ("position: yes", ("Position: yes", "yes"), "Position: yes"),
    ],
)
def test_only_an_unambiguous_choice_is_accepted(text: str, choices: tuple[str, ...], choice: str | None) -> None:
    """An exact match takes precedence. If two choices look the same, neither of them is matched."""
    assert find_choice(text, choices) == choice


VALUES: list[tuple[str, OutputSchema, object, object]] = [
    ("shares of ten", SCORES, {"scores": {"at": "8/10", "of": "5/10"}}, {"scores": {"at": 80, "of": 50}}),
    ("percent signs", SCORES, {"scores": {"at": "80%", "of": "55 %"}}, {"scores": {"at": 80, "of": 55}}),
    ("out of a hundred", SCORES, {"scores": {"at": "80 out of 100", "of": "7.5/10"}}, {"scores": {"at": 80, "of": 75}}),
    (
        "a list of pairs",
        SCORES,
        {"scores": [{"position": "of", "score": 55}, {"position": "[At]", "score": "80"}]},
        {"scores": {"at": 80, "of": 55}},
    ),
    ("scores below 1 as they are", SCORES, {"scores": {"at": 0.8, "of": 1}}, {"scores": {"at": 0.8, "of": 1}}),
    ("positions", MODERATOR, {"nextSpeakers": ["free rents", "Cap Rents."]}, {"nextSpeakers": ["bob", "ann"]}),
    ("speakers in one text", MODERATOR, {"nextSpeakers": "ann, bob"}, {"nextSpeakers": ["ann", "bob"]}),
    ("speakers in lines", MODERATOR, {"nextSpeakers": "1. Bob\n2. Ann"}, {"nextSpeakers": ["bob", "ann"]}),
    ("speakers as JSON in text", MODERATOR, {"nextSpeakers": '["bob"]'}, {"nextSpeakers": ["bob"]}),
    ("snake case", MODERATOR, {"next_speakers": ["Bob"], "new_angle": "x"}, {"nextSpeakers": ["bob"], "newAngle": "x"}),
    ("a reason beside it", MODERATOR, {"nextSpeakers": ["ann"], "rationale": "x"}, {"nextSpeakers": ["ann"]}),
    ("null for a default", MODERATOR, {"nextSpeakers": ["ann"], "done": None, "x": 1}, {"nextSpeakers": ["ann"]}),
    ("a status with a full stop", REPORT, {"summary": "s", "status": "Settled."}, {"status": "SETTLED"}),
    ("a labeled status", REPORT, {"summary": "s", "status": "**Status:** continue"}, {"status": "CONTINUE"}),
    ("a percentage for a share", VOTE, {"choice": "ann", "confidence": "85%"}, {"choice": "ann", "confidence": 0.85}),
    ("a number of a hundred", VOTE, {"choice": "bob", "confidence": 85}, {"choice": "bob", "confidence": 0.85}),
    ("a number of ten", VOTE, {"choice": "bob", "confidence": "9/10"}, {"choice": "bob", "confidence": 0.9}),
    ("a number in words", VOTE, {"choice": "bob", "confidence": "70 percent"}, {"choice": "bob", "confidence": 0.7}),
    ("a listener's choice", LISTENER, {"reason": "r", "choice": "Free rents."}, {"choice": "free rents"}),
    ("letters", RANKING, ["B", "A", "C"], {"ranking": [{"answer": "B"}, {"answer": "A"}, {"answer": "C"}]}),
    ("one line", RANKING, "B > A > C", {"ranking": [{"answer": "B"}, {"answer": "A"}, {"answer": "C"}]}),
    ("lines", RANKING, "1. B\n2. A\n3. C", {"ranking": [{"answer": "B"}, {"answer": "A"}, {"answer": "C"}]}),
    (
        "with the word Answer",
        RANKING,
        {"ranking": [{"answer": "Answer C"}, {"answer": "answer b."}, {"answer": "**A**"}]},
        {"ranking": [{"answer": "C"}, {"answer": "B"}, {"answer": "A"}]},
    ),
    ("HIGH", FINDINGS, _finding(severity="HIGH"), _graded("major")),
    ("critical", FINDINGS, _finding(severity="Critical"), _graded("blocker")),
    ("medium", FINDINGS, _finding(severity="medium"), _graded("minor")),
    ("warning", FINDINGS, _finding(severity="warning"), _graded("minor")),
    ("info", FINDINGS, _finding(severity="info"), _graded("nit")),
    ("low", FINDINGS, _finding(severity="[low]"), _graded("nit")),
    ("a range of lines", FINDINGS, _finding(line="12-14"), _lines(12, 14)),
    ("a range with letters", FINDINGS, _finding(line="L12\u2013L14"), _lines(12, 14)),
    ("a line with a letter", FINDINGS, _finding(line="L12"), _lines(12, None)),
    ("line 0", FINDINGS, _finding(line=0, endLine="0"), _lines(None, None)),
    ("no line", FINDINGS, _finding(line="n/a"), {"findings": [{"line": None}]}),
    ("nothing found, in words", FINDINGS, "No issues found.", {"findings": []}),
    ("nothing found, in a string", FINDINGS, '"None"', {"findings": []}),
    ("nothing found, in the field", FINDINGS, {"findings": "There are no problems."}, {"findings": []}),
    ("null for no findings", FINDINGS, {"findings": None}, {"findings": []}),
    ("a bare list", FINDINGS, [FINDING], {"findings": [{"title": "t"}]}),
    ("a bare finding", FINDINGS, FINDING, {"findings": [{"title": "t"}]}),
    ("one finding for a list", FINDINGS, {"findings": FINDING}, {"findings": [{"title": "t"}]}),
    ("one that is no finding", FINDINGS, {"findings": [FINDING, {"note": "x"}]}, {"findings": [{"title": "t"}]}),
    ("text among findings", FINDINGS, [FINDING, "That is all."], {"findings": [{"title": "t"}]}),
    (
        "an assessment without a score",
        REFEREE,
        {"notes": "n", "assessments": [{"agentName": "ann", "score": "8/10"}, {"agentName": "bob"}]},
        {"assessments": [{"agentName": "ann", "score": 80}]},
    ),
]  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize(("output", "raw", "right"), [case[1:] for case in VALUES], ids=[case[0] for case in VALUES])
async def test_values_may_be_spelled_differently(output: OutputSchema, raw: object, right: object) -> None:
    if isinstance(raw, dict) and output in (SCORES, VOTE):
        raw = {"reasoning": "r", **raw, **({"verdict": "v"} if output is SCORES else {})}
    response = await read_answer(raw, output)
    _assert_has(json.loads(getattr(response.data, "model_dump_json")(by_alias=True)), right)  # noqa: B009


def _assert_has(data: Any, right: Any) -> None:
    if isinstance(right, dict):
        for key, part in right.items():
            _assert_has(data[key], part)
    elif isinstance(right, list):
        assert len(data) == len(right)
        for one, expected in zip(data, right, strict=True):
            _assert_has(one, expected)
    else:
        assert data == right


@pytest.mark.anyio
async def test_a_dropped_item_is_counted() -> None:
    response = await read_answer({"findings": [FINDING, {}, {**FINDING, "severity": "awful"}]}, FINDINGS)
    assert response.repaired == ("2 of 3 findings dropped",)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("output", "raw"),
    [
        (FINDINGS, {"findings": [{"note": "x"}]}),
        (FINDINGS, "I looked at it, and no issues found their way in."),
        (RANKING, "A > B"),
        (RANKING, "A > A > B"),
        (RANKING, "I prefer A > B > C"),
        (SCORES, {"reasoning": "r", "verdict": "v", "scores": {"at": "120%", "of": 5}}),
        (SCORES, {"reasoning": "r", "verdict": "v", "scores": {"at": 80}}),
        (VOTE, {"reasoning": "r", "choice": "ann", "confidence": 7}),
        (VOTE, {"reasoning": "r", "choice": "ann", "confidence": "high"}),
        (MODERATOR, {"nextSpeakers": ["ann", "the landlord"]}),
        (MODERATOR, {"nextSpeakers": "ann and the landlord"}),
        (REPORT, {"summary": "s", "status": "not settled"}),
    ],
)
async def test_unreadable_values_are_requested_again(output: OutputSchema, raw: object) -> None:
    with pytest.raises(SchemaViolation):
        await read_answer(raw, output)


def test_a_shared_position_does_not_identify_a_debater() -> None:
    """If two debaters share a position, it cannot stand for either of their names."""
    output = OutputSchema.of(decision_among(("ann", "bob")))
    with pytest.raises(SchemaViolation):
        _repair('{"nextSpeakers": ["cap rents"]}', output)


class Film(BaseModel):
    """An application's schema with nested lists and free text."""

    title: str
    genre: Literal["crime", "comedy"] | None
    stars: float = Field(ge=0, le=5)


@pytest.mark.anyio
async def test_application_schemas_are_read_leniently() -> None:
    """The schema may be a pydantic model or a JSON Schema given as a dict."""
    right = Film(title="M", genre="crime", stars=4.5)
    assert (await read_answer({"Title": "M", "genre": "Crime", "stars": "4.5/5"}, OutputSchema.of(Film))).data == right
    schema = {**Film.model_json_schema(), "additionalProperties": False}
    data = await read_answer({"title": "M", "genre": "n/a", "stars": "90%", "year": 1931}, OutputSchema.of(schema))
    assert data.data == {"title": "M", "genre": None, "stars": 4.5}
    assert (await read_answer('["crime"]', OutputSchema.of(list[Literal["crime", "comedy"]]))).data == ["crime"]


def _repair(text: str, output: OutputSchema) -> Any:
    with pytest.raises(SchemaViolation) as caught:
        output.validate(text)
    return repair_answer(text, output, caught.value)


# Properties


WORDS = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
VERDICTS = st.fixed_dictionaries({"reasoning": WORDS, "winner": st.sampled_from([*SIDES, None]), "verdict": WORDS})


@given(VERDICTS)
@pytest.mark.anyio
async def test_valid_answers_are_unchanged(verdict: dict[str, Any]) -> None:
    """The text fields of a valid answer may contain anything."""
    response = await read_answer(verdict, JUDGE)
    assert json.loads(getattr(response.data, "model_dump_json")()) == verdict  # noqa: B009
    assert response.repaired == ()


def _damaged(text: str, *cuts: tuple[int, int, str]) -> str:
    for at, length, new in cuts:
        begin = at % (len(text) + 1)
        text = text[:begin] + new + text[begin + length :]
    return text


CUTS = st.tuples(
    st.integers(0, 500),
    st.integers(0, 3),
    st.sampled_from(["", ",", '"', "'", "{", "}", "\n", "//", "”", "]", "[", ":", "```"]),
)


@given(VERDICTS, st.lists(CUTS, min_size=1, max_size=3))
def test_repairs_never_change_the_chosen_side(verdict: dict[str, Any], cuts: list[tuple[int, int, str]]) -> None:
    """Whatever is wrong with the syntax, the repaired answer is valid and needs no further repair."""
    assume(not any(side in str(part) for side in SIDES for key, part in verdict.items() if key != "winner"))
    text = _damaged(json.dumps(verdict, ensure_ascii=False), *cuts)
    try:
        data = JUDGE.validate(text)
    except SchemaViolation as violation:
        try:
            data, repairs = repair_answer(text, JUDGE, violation)
        except SchemaViolation:
            return
        assert repairs
        reread = JUDGE.validate(json.dumps(JUDGE.dump(data)))
        assert reread == data
    assert data.winner in (verdict["winner"], None)


@given(WORDS, st.sampled_from(SIDES))
def test_words_around_a_choice_are_never_ignored(words: str, side: str) -> None:
    """A choice may be surrounded only by punctuation or by one of a few labels."""
    assume(any(char.isalnum() for char in words) and ":" not in words and "\uff1a" not in words)
    assert find_choice(f"{words} {side}", SIDES) is None
    assert find_choice(f"{side} {words}", SIDES) is None


@given(WORDS)
def test_reading_is_deterministic(text: str) -> None:
    assert parse_json(text) == parse_json(text)
    assert is_none(text) == is_none(text)


# Stored repairs


def test_repairs_are_stored_with_the_call() -> None:
    repaired = ModelResponse(text=WRITTEN, data=JUDGE.validate(WRITTEN), repaired=("code fence", "trailing comma"))
    plain = ModelResponse(text=WRITTEN, data=JUDGE.validate(WRITTEN))
    body = json_text(call_row(repaired, (), seconds=0.0, output=JUDGE))
    assert read_record(Answer, body).response(JUDGE).repaired == ("code fence", "trailing comma")
    assert "repaired" not in call_row(plain, (), seconds=0.0, output=JUDGE)


# Over HTTP


def _answers(structured: Callable[[str], str]) -> Callable[[Exchange], Any]:
    """Return a handler that answers with `structured(schema name)` if there is a schema, or else with an argument."""

    async def serve(exchange: Exchange) -> None:
        body = exchange.body
        schema = body.get("response_format", {}).get("json_schema", {}).get("name")
        if schema is not None or "tools" in body:
            await exchange.json(completion(structured(str(schema))))
        elif body.get("stream"):
            await exchange.events([chunk("Homes first."), chunk(finish="stop"), usage_chunk()])
        else:
            await exchange.json(completion("Homes first."))

    return serve


async def _run(pattern: Any, structured: Callable[[str], str]) -> tuple[Any, dict[str, tuple[str, ...]]]:
    """Return a run's result and its repairs, keyed by block. Each call succeeds at the first attempt."""
    async with ChatServer({"m": _answers(structured)}) as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k")
        result = await pattern.run("Cap rents?", model=model)
        calls = events(result, ModelCalled)
        assert server.posts == len(calls)
        return result, {call.block: call.repaired for call in calls if call.repaired}


def _rent(**options: Any) -> Any:
    debaters = [Debater("ann", "cap rents"), Debater("bob", "free rents")]
    return debate(name="rent", debaters=debaters, max_rounds=1, synthesizer=False, **options)


@pytest.mark.anyio
@pytest.mark.parametrize("text", [case[1] for case in SYNTAX], ids=[case[0] for case in SYNTAX])
async def test_a_repairable_verdict_needs_no_second_attempt(text: str) -> None:
    """With the default options, the verdict is repaired, and the event for the call lists the repairs."""
    result, repaired = await _run(_rent(), lambda _: text)
    assert result.raw.verdict.winner == "cap rents"
    assert repaired["rent-judge"]


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["aiohttp", "openai"])
async def test_a_name_counts_if_the_judge_sees_names(transport: Any) -> None:
    """If the judge sees names, "Bob" stands for the position that Bob defends.

    A judge that sees only aliases is asked for another answer if it names Bob.
    """
    answer = _answers(lambda _: json.dumps({**VERDICT, "winner": "Bob"}))
    async with ChatServer({"m": answer, "judge": answer}) as server:
        models = [OpenAIModel(n, base_url=server.base_url, api_key="k", transport=transport) for n in ("m", "judge")]
        judge = JudgeOptions(model=models[1])
        with_names = await _rent(judge=judge, anonymize_transcript=False).run("Cap rents?", model=models[0])
        assert server.posts == 3
        unnamed = await _rent(judge=judge).run("Cap rents?", model=models[0])
        reason = server.bodies[-2]["messages"][-1]["content"]
    assert with_names.raw.verdict.winner == "free rents"
    assert '"cap rents" or "free rents"' in reason
    assert unnamed.raw.verdict is None
    assert [loss.error.partition(":")[0] for loss in unnamed.raw.losses] == ["SchemaViolation"]


@pytest.mark.anyio
async def test_a_moderator_can_name_positions() -> None:
    """Each position stands for the debater who argues for it."""
    decision = {"Next_Speakers": ["free rents", "[Cap rents]"], "rationale": "Both.", "done": True}
    result, repaired = await _run(
        _rent(moderator=True), lambda name: json.dumps(VERDICT if name == "DebateVerdict" else decision)
    )
    assert [entry.agent_name for entry in result.raw.transcript] == ["bob", "ann"]
    assert set(repaired["rent-moderator"]) == {"spelling of a key", "unknown key", "spelling of a choice"}


@pytest.mark.anyio
async def test_reviewers_can_rank_by_letters_on_a_single_line() -> None:
    panel = council(name="panel", members=[{"name": name} for name in ("ann", "bob", "cy")], review="all")
    result, repaired = await _run(panel, lambda name: "Answer C > A > B" if name == "Ranking" else '{"Answer": "Cap."}')
    assert len(result.raw.reviews) == 3
    assert len(repaired) >= 3


@pytest.mark.anyio
async def test_a_settlement_is_accepted_in_any_capitalization() -> None:
    report = json.dumps({"Summary": "They agree.", "status": "Settled.", "decision": "Cap."})
    talk = deliberation(name="talk", debaters=[{"name": "ann"}, {"name": "bob"}], max_rounds=3)
    result, _ = await _run(talk, lambda _: f"```json\n{report}\n```")
    assert (result.raw.rounds, result.raw.is_settled, result.raw.final_decision) == (1, True, "Cap.")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "count"), [("No issues found.", 0), (json.dumps([{**FINDING, "severity": "HIGH"}, {}]), 1)]
)
async def test_a_review_keeps_valid_findings(text: str, count: int) -> None:
    change = review(name="change", reviewers=[{"name": "ann"}])
    result, repaired = await _run(change, lambda _: text)
    assert len(result.raw.findings) == count
    assert repaired["change-reviewer-ann"]


def test_an_answer_with_only_unknown_keys_is_requested_again() -> None:
    """All fields of the moderator's schema have defaults, so an answer without known keys would pass validation."""
    with pytest.raises(SchemaViolation):
        _repair('{"error": "the model is overloaded"}', MODERATOR)
