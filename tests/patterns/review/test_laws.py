"""Invariants of reviews, whatever reviewers find, confirm or refute, and whatever models answer."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowdebate import FlowDebateError, FlowDebateWarning, Limits, review
from flowdebate._text import is_blank
from flowdebate.errors import ConfigurationError, OutputError
from flowdebate.patterns.review import FindingDraft, FindingsRequest, ReviewRawOutput
from flowdebate.patterns.review.findings import MAX_PAIRS, STATE_RULES, decide, group, join, locate, pairs_to_compare
from flowdebate.patterns.review.schemas import Defence, Finding, Place, Raised, Verdict
from flowdebate.sources.source import Source
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.testing import ModelRequest

NAMES = ("ann", "bea", "cid", "dov")
QUESTION = "What is wrong?"
CODE = {"app.py": "one = 1\ntwo = 2\nthree = 3\nfour = one / 0\n", "b/util.py": "def f():\n    return None\n"}

drafts = st.fixed_dictionaries(
    {
        "title": st.sampled_from(["Divides by zero", "No tests", "Wrong name"]),
        "claim": st.sampled_from(["It fails.", "Nobody sees it.", "Ann says so."]),
        "severity": st.sampled_from(["blocker", "major", "minor", "nit"]),
    },
    optional={
        "file": st.sampled_from(["app.py", "a/app.py", "util.py", "none.py"]),
        "line": st.integers(1, 12),
        "end_line": st.integers(1, 12),
        "quote": st.sampled_from(["one / 0", "return  None", "not there at all"]),
        "suggestion": st.just("Mend it."),
    },
)
blank = st.sampled_from(["", " ", "\u200b\n"])
empty = st.tuples(drafts, st.sampled_from([{"title"}, {"claim"}, {"title", "claim"}]), blank).map(
    lambda drawn: {**drawn[0], **dict.fromkeys(drawn[1], drawn[2])}
)
found_by = st.dictionaries(st.sampled_from(NAMES), st.lists(drafts | empty, max_size=4), min_size=1)
words = st.sampled_from(["confirm", "refute", "unsure"])
verdicts_of = st.dictionaries(st.tuples(st.sampled_from(NAMES), st.integers(1, 6), st.booleans()), words)
models_of = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["one", "two"]))


def finding_ids(request: ModelRequest) -> list[str]:
    """Return the ids of the findings in a block's prompt, in order."""
    return re.findall(r"^\[(F\d+)\]", str(request.messages[-1]["content"]), re.MULTILINE)


class Reviewers:
    """Models that give generated answers; `merge` lists the pairs that they consider equal."""

    def __init__(
        self, findings: Mapping[str, Sequence[Any]], verdicts: Mapping[Any, str], *, merge: bool = False
    ) -> None:
        self.found, self.said, self.merge = findings, verdicts, merge
        self.silent: frozenset[tuple[str, int]] = frozenset()
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: ModelRequest) -> Any:
        """Answer a request."""
        prompt, name = str(request.messages[-1]["content"]), request.block.rpartition("-")[2]
        self.asked.append((request.block, prompt))
        if request.block.endswith("-merger"):
            pairs = {int(line[6:].partition(",")[0]) for line in prompt.splitlines() if line.startswith("[Pair ")}
            return {"pairs": [{"pair": number, "same": self.merge} for number in pairs]}
        if "-reviewer-" in request.block:
            return {"findings": list(self.found[name])}
        ids = [finding_id for finding_id in finding_ids(request) if (name, int(finding_id[1:])) not in self.silent]
        if "answers" in (request.output_schema or {})["properties"]:
            stand = [(finding_id, self.said.get((name, 1, True)) != "refute") for finding_id in ids]
            return {
                "answers": [{"finding": finding_id, "stands": stands, "reason": "-"} for finding_id, stands in stand]
            }
        turned = "refute or confirm" in prompt
        say = [(finding_id, self.said.get((name, int(finding_id[1:]), turned), "confirm")) for finding_id in ids]
        return {
            "verdicts": [{"finding": finding_id, "verdict": word, "reason": "See there."} for finding_id, word in say]
        }


def run_review(
    reviewers: Reviewers, *, names: Sequence[str], models: Mapping[str, str] | None = None, **options: Any
) -> Any:
    """Run a review of `CODE`."""
    people = [
        {"name": name, "model": FunctionModel(reviewers, name=(models or {}).get(name, "same"))} for name in names
    ]
    merger = FunctionModel(reviewers, name="merger")
    return review(name="x", reviewers=people, sources=CODE, model=merger, **options).run_sync(QUESTION, seed=1)


@given(found_by, verdicts_of, models_of)
def test_no_finding_is_lost_or_confirmed_by_its_author_alone(
    findings: dict[str, list[Any]], verdicts: dict[Any, str], models: dict[str, str]
) -> None:
    result = run_review(Reviewers(findings, verdicts, merge=len(verdicts) % 2 == 0), names=[*findings], models=models)
    raw = result.output
    assert isinstance(raw, ReviewRawOutput)
    assert ReviewRawOutput.model_validate(raw.to_wire()) == raw
    reported = Counter(
        (draft.agent_name, draft.title, draft.claim, draft.severity, draft.suggestion)
        for one in raw.findings
        for draft in one.raised
    )
    raised = [(name, draft) for name, all_ in findings.items() for draft in all_]
    said_something = [
        (name, draft) for name, draft in raised if not is_blank(draft["title"]) and not is_blank(draft["claim"])
    ]
    assert reported == Counter(
        (name, draft["title"], draft["claim"], draft["severity"], draft.get("suggestion"))
        for name, draft in said_something
    )
    assert Counter(raw.empty) + Counter(name for name, _ in said_something) == Counter(name for name, _ in raised)
    assert result.usage.calls <= 4 * len(findings) + 2
    for finding in raw.findings:
        confirming = {verdict.agent_name for verdict in finding.verdicts if verdict.verdict == "confirm"}
        assert not set(finding.raisers) & {verdict.agent_name for verdict in finding.verdicts}
        if finding.state == "confirmed":
            assert len(confirming | set(finding.raisers)) > max(1, len(findings) / 2)
            assert finding.place.found is not False
        assert finding.place.found is not None or not (finding.place.file or finding.place.line or finding.place.quote)
        assert (finding.place.problem is None) == (finding.place.found is not False)


@given(found_by, verdicts_of, models_of, st.randoms())
def test_order_of_reviewers_does_not_matter(
    findings: dict[str, list[Any]], verdicts: dict[Any, str], models: dict[str, str], random: Any
) -> None:
    names = [*findings]
    random.shuffle(names)
    one = run_review(
        Reviewers(findings, verdicts, merge=len(verdicts) % 2 == 0), names=[*findings], models=models
    ).output
    other = run_review(Reviewers(findings, verdicts, merge=len(verdicts) % 2 == 0), names=names, models=models).output
    assert one.findings == other.findings


@given(drafts, st.integers(1, 4), st.sampled_from(["one", "two"]), found_by)
def test_findings_raised_by_all_reviewers_are_merged(
    draft: dict[str, Any], count: int, other: str, further: dict[str, list[Any]]
) -> None:
    """The merged finding is confirmed without further examination.

    This depends neither on other findings nor on the reviewers' models.
    """
    names, common = NAMES[:count], {**draft, "suggestion": "As all of them say."}
    reviewers = Reviewers({name: [*further.get(name, ()), common] for name in names}, {})
    raw = run_review(reviewers, names=names, models={"ann": "one", **dict.fromkeys(names[1:], other)}).output
    common_findings = [
        one for one in raw.findings for raised_by in one.raised if raised_by.suggestion == common["suggestion"]
    ]
    assert len(common_findings) == count
    finding = common_findings[0]
    assert all(other_finding is finding for other_finding in common_findings)
    assert finding.raisers == sorted(names)
    assert not finding.verdicts
    assert (finding.state == "confirmed") == (count > 1 and finding.place.found is not False)
    assert finding.why.endswith("use the same model") == (count > 1 and other == "one")


STRENGTH = ["refuted", "disputed", "confirmed"]
STANDINGS = ("raised", "withdrawn", "confirm", "neither", "silent", "refute")
standings_of = st.lists(st.sampled_from(STANDINGS), min_size=1, max_size=9)


def decide_one(
    standings: Sequence[str], *, models: Sequence[str] = (), place: Place | None = None, earlier: bool = False
) -> Finding:
    """Decide on a finding based on each reviewer's vote."""
    names = [f"r{number}" for number in range(len(standings))]
    finding_fields = {"title": "T", "claim": "C", "severity": "major", "place": place or Place()}
    raised = [
        Raised(agent_name=name, **finding_fields)
        for name, word in zip(names, standings, strict=True)
        if word in ("raised", "withdrawn")
    ]
    raised += [Raised(agent_name="the earlier review", **finding_fields)] if earlier else []
    finding = Finding(id="F1", raised=raised, **finding_fields)
    verdicts = [
        Verdict.model_validate({"finding": "F1", "agent_name": name, "verdict": word, "reason": "-"})
        for name, word in zip(names, standings, strict=True)
        if word in ("confirm", "neither", "refute")
    ]
    defences = [
        Defence(finding="F1", agent_name=name, stands=False, reason="-")
        for name, word in zip(names, standings, strict=True)
        if word == "withdrawn"
    ]
    voices = dict(zip(names, models or names, strict=True))
    [finding] = decide([finding], verdicts, defences, voices)
    return finding


@given(standings_of, st.data())
def test_more_support_never_weakens_a_finding(standings: list[str], data: st.DataObject) -> None:
    """Changing any vote to a confirmation, or raising the finding again, never lowers the finding's state."""
    standings = ["raised", *standings]
    at = data.draw(st.integers(0, len(standings) - 1))
    better = data.draw(st.sampled_from(["raised", "confirm"] if "raised" in standings[:at] else ["raised"]))
    changed = [*standings[:at], better, *standings[at + 1 :]]
    assert STRENGTH.index(decide_one(changed).state) >= STRENGTH.index(decide_one(standings).state)


@given(standings_of, st.randoms(), st.data())
def test_reviewer_order_and_models_do_not_affect_the_state(
    standings: list[str], random: Any, data: st.DataObject
) -> None:
    standings = ["raised", *standings]
    models = data.draw(st.lists(st.sampled_from(["one", "two"]), min_size=len(standings), max_size=len(standings)))
    finding, other = decide_one(standings), decide_one(standings, models=models)
    assert other.state == finding.state
    assert other.why.removesuffix("; all supporters use the same model") == finding.why
    random.shuffle(standings)
    assert (decide_one(standings).state, decide_one(standings).why) == (finding.state, finding.why)


@given(standings_of)
def test_findings_in_unknown_locations_are_never_confirmed(standings: list[str]) -> None:
    """Findings that would otherwise be confirmed become disputed."""
    nowhere = decide_one(["raised", *standings], place=Place(file="a.py", line=9, found=False, problem="no line 9"))
    somewhere = decide_one(["raised", *standings])
    assert nowhere.state == ("disputed" if somewhere.state == "confirmed" else somewhere.state)


GONE = Place(file="app.py", quote="one / 0", found=False, problem="the quote is not in the material")


@given(standings_of, st.booleans())
def test_findings_from_an_earlier_review_stay_confirmed_until_resolved(standings: list[str], gone: bool) -> None:  # noqa: FBT001 - drawn
    """An earlier review never weakens a finding.

    A finding is resolved only if a majority is against it or its location is missing.
    """
    place = GONE if gone else Place()
    finding = decide_one(["raised", *standings], place=place, earlier=True)
    without = decide_one(["raised", *standings], place=place)
    against = standings.count("refute") + standings.count("withdrawn")
    has_support = without.state == "confirmed" or (gone and without.state == "disputed" and "place" in without.why)
    resolved = 2 * against > len(standings) + 1 or (gone and not has_support)
    assert finding.state == ("resolved" if resolved else "confirmed")
    assert without.state != "confirmed" or finding.state == "confirmed"


EARLIER_DRAFT = {"title": "Divides by zero", "claim": "It fails.", "severity": "blocker", "file": "app.py", "line": 9}


@pytest.mark.parametrize(
    ("quote", "word", "state"),
    [
        ("four = one / 0", "unsure", "confirmed"),
        ("four = one / 0", "refute", "resolved"),
        ("five = one / 0.0", "unsure", "resolved"),
        ("five = one / 0.0", "confirm", "confirmed"),
        (None, "unsure", "confirmed"),
    ],
)
def test_reviewers_examine_findings_confirmed_earlier(quote: str | None, word: str, state: str) -> None:
    verdicts = {(name, 1, turned): word for name in NAMES[:3] for turned in (False, True)}
    draft = {**EARLIER_DRAFT, "file": None if quote is None else "app.py", "line": None if quote is None else 9}
    reviewers = Reviewers(dict.fromkeys(NAMES[:3], ()), verdicts)
    earlier = [FindingDraft.model_validate({**draft, "quote": quote})]
    raw = run_review(reviewers, names=NAMES[:3], gate="no confirmed blocker", earlier=earlier).output
    [finding] = raw.findings
    assert (finding.state, len(finding.verdicts), finding.raisers) == (state, 3, ["the earlier review"])
    assert raw.gate.holds is (state == "resolved")
    assert finding.place.line == (4 if quote == "four = one / 0" else None)
    assert raw.unresolved == ([finding.draft] if state == "confirmed" else [])
    assert raw.answer == f"1 {state} (1 blocker)"


def test_repeated_findings_are_merged_with_earlier_ones() -> None:
    """The other reviewers examine the repeated finding, which stays confirmed even if all of them are unsure."""
    draft = {**EARLIER_DRAFT, "line": 4, "quote": "four = one / 0"}
    reviewers = Reviewers({"ann": [draft], "bea": [], "cid": []}, {(n, 1, t): "unsure" for n in NAMES for t in (0, 1)})
    [finding] = run_review(reviewers, names=NAMES[:3], earlier=[FindingDraft.model_validate(draft)]).output.findings
    assert (finding.state, finding.raisers) == ("confirmed", ["ann", "the earlier review"])
    assert {verdict.agent_name for verdict in finding.verdicts} == {"bea", "cid"}
    with pytest.raises(ConfigurationError, match="`earlier` must be a list of FindingDraft"):
        review(name="x", reviewers=[{"name": "a"}], earlier="F1")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="reserved for an earlier review"):
        review(name="x", reviewers=[{"name": "the earlier review"}])


@pytest.mark.parametrize(
    ("standings", "state"),
    [
        (["raised"] * 3, "confirmed"),  # an independent majority needs no examination
        (["raised", "confirm", "confirm"], "confirmed"),
        (["raised", "confirm", "refute"], "confirmed"),
        (["raised", "refute"], "disputed"),
        (["raised", "withdrawn", "refute"], "refuted"),
        (["withdrawn", "refute"], "refuted"),
        (["withdrawn", "confirm", "confirm"], "confirmed"),
        (["raised", "raised", "refute", "refute", "refute"], "refuted"),
        (["raised", "raised", "neither", "neither", "silent"], "disputed"),
        (["raised"], "disputed"),
    ],
)
def test_majority_of_reviewers_decides(standings: list[str], state: str) -> None:
    """A reviewer supports a finding by confirming it, or by raising and then defending it."""
    assert decide_one(standings).state == state


def test_documented_rules_match_the_code() -> None:
    table = "\n".join(f"| `{rule.state}` | {rule.condition} |" for rule in STATE_RULES)
    assert table in (Path(__file__).parents[3] / "docs" / "review.md").read_text()


@pytest.mark.parametrize(
    ("quote", "gate", "holds"),
    [
        ("not there at all", "no confirmed major", None),
        ("not there at all", "no major", None),
        ("not there at all", "at most 1 confirmed major", True),
        ("not there at all", "no blocker", True),
        ("one / 0", "no confirmed major", False),
    ],
)
def test_findings_in_unknown_locations_leave_a_gate_undecided(quote: str, gate: str, *, holds: bool | None) -> None:
    """The gate is undecided because the finding would make it fail if the location did exist."""
    draft = {"title": "T", "claim": "C", "severity": "major", "file": "app.py", "quote": quote}
    raw = run_review(Reviewers({name: [draft] for name in NAMES[:3]}, {}), names=NAMES[:3], gate=gate).output
    assert raw.gate.holds is holds
    assert holds is not None or raw.gate.why == "the location of F1 is not in the material"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["findings", "verdicts", "answers", "pairs", "finding", "verdict"]), inner)
    ),
    max_leaves=12,
)


@given(st.lists(ANYTHING, min_size=1, max_size=8))
def test_reviews_end_whatever_the_models_output(answers: list[Any]) -> None:
    outputs, fallback = iter(answers * 20), {"findings": [{"title": "T", "claim": "C", "severity": "nit"}]}

    def block(request: Any) -> Any:
        return fallback if not isinstance(request, FindingsRequest) and answers[0] is None else next(outputs)

    pattern = review(name="x", reviewers=[{"name": name, "block": block} for name in NAMES[:2]], merger=block)
    with suppress(OutputError):
        assert pattern.run_sync(QUESTION).output.stop_reason in ("examined", "nothing_found")


FLAW = {"title": "Divides by zero", "claim": "It fails.", "severity": "major"}
REFUTED = {("bea", 1, turned): "refute" for turned in (False, True)}


@given(found_by, verdicts_of, models_of, st.frozensets(st.tuples(st.sampled_from(NAMES), st.integers(1, 6))))
@example({"ann": [FLAW], "bea": []}, REFUTED, {}, frozenset({("ann", 1)}))
@example({"ann": [FLAW], "bea": []}, REFUTED, {}, frozenset({("bea", 1)}))
def test_silence_is_neither_confirmation_nor_refutation(
    findings: dict[str, list[Any]], verdicts: dict[Any, str], models: dict[str, str], silent: frozenset[tuple[str, int]]
) -> None:
    reviewers = Reviewers(findings, verdicts)
    reviewers.silent = silent
    raw = run_review(reviewers, names=sorted(findings), models=models).output
    assert raw.stop_reason in ("examined", "nothing_found")
    answers = [answer for finding in raw.findings for answer in (*finding.verdicts, *finding.defences)]
    assert not {(answer.agent_name, int(answer.finding[1:])) for answer in answers} & silent


def test_authors_of_findings_are_hidden() -> None:
    draft = {"title": "Ask bea", "claim": "I, ann, told bea so.", "severity": "major", "line": 1, "file": "app.py"}
    reviewers = Reviewers(
        {"ann": [draft], "bea": [], "cid": []}, {("bea", 1, False): "refute", ("bea", 1, True): "refute"}
    )
    run_review(reviewers, names=NAMES[:3])
    prompts = [text for block, text in reviewers.asked if "-examiner-" in block]
    assert len(prompts) == 5  # two for each of the two other reviewers, and one for the author
    assert not [text for text in prompts if re.search(r"\b(ann|bea)\b", text)]


def test_flipped_answers_count_neither_for_nor_against_a_finding() -> None:
    """A reviewer's verdict is flagged if it depends on the order in which the possible verdicts are offered."""
    draft = {"title": "T", "claim": "C", "severity": "major", "line": 1, "file": "app.py"}
    reviewers = Reviewers({"ann": [draft], "bea": []}, {("bea", 1, False): "confirm", ("bea", 1, True): "refute"})
    [finding] = run_review(reviewers, names=NAMES[:2]).output.findings
    assert [(verdict.verdict, verdict.flipped) for verdict in finding.verdicts] == [("neither", True)]
    assert finding.state == "disputed"


def test_merges_require_a_match_in_both_orders() -> None:
    """Merging takes two calls, however many pairs of findings there are."""
    drafts_by_name = {
        "ann": [{"title": "Zero", "claim": "C", "severity": "nit", "file": "app.py", "line": 3}],
        "bea": [{"title": "Division", "claim": "C", "severity": "major", "file": "app.py", "line": 4}],
    }
    reviewers = Reviewers(drafts_by_name, {}, merge=True)
    [finding] = run_review(reviewers, names=NAMES[:2]).output.findings
    assert (finding.severity, finding.title, finding.raisers) == ("major", "Division", ["ann", "bea"])
    first, second = [text for block, text in reviewers.asked if block.endswith("-merger")]
    assert first.index("Zero") > first.index("Division")
    assert second.index("Zero") < second.index("Division")
    answers = iter([True, False])

    def changing(_: object) -> Any:
        return {"pairs": [{"pair": 1, "same": next(answers)}]}

    assert len(run_review(Reviewers(drafts_by_name, {}), names=NAMES[:2], merger=changing).output.findings) == 2
    assert len(run_review(Reviewers(drafts_by_name, {}), names=NAMES[:2], merger=False).output.findings) == 2


@pytest.mark.parametrize(
    "gate", ["", "no blockers please", "confirmed blocker", "at most -1 nits", 3, "no confirmed bug"]
)
def test_invalid_gates_are_rejected(gate: Any) -> None:
    with pytest.raises(FlowDebateError, match='each "no" or "at most N", optionally "confirmed" or "disputed"'):
        review(name="x", reviewers=[{"name": "ann"}, {"name": "bea"}], gate=gate)


def test_gates_for_a_single_reviewer_are_rejected() -> None:
    """A single reviewer cannot confirm anything."""
    with pytest.raises(FlowDebateError, match="cannot require `confirmed` with a single reviewer"):
        review(name="x", reviewers=[{"name": "ann"}], gate="no confirmed blocker")


@pytest.mark.parametrize(
    ("location_fields", "place", "problem"),
    [
        ({"quote": "two = 2\nthree =  3"}, "app.py:2-3", None),
        ({"file": "b/app.py", "line": 9, "quote": "four = one / 0"}, "app.py:4", None),  # the quote takes precedence
        ({"file": "util.py", "line": 2}, "b/util.py:2", None),
        ({"file": "app.py", "line": 9}, "app.py:9", "app.py has no line 9"),
        ({"file": "app.py", "line": 3, "end_line": 2}, "app.py:2-3", None),
        ({"file": "none.py", "line": 1}, "none.py:1", "none.py is not in the material"),
        ({"line": 1}, ":1", "line 1 is cited without a file"),
        ({"file": "app.py", "quote": "not there at all"}, "app.py", "the quote is not in the material"),
        ({}, "", None),
    ],
)
def test_locations_are_looked_up_or_marked_as_missing(location_fields: Any, place: str, problem: str | None) -> None:
    """The quote is looked up first (word for word, except for whitespace), and then the file and line."""
    sources = tuple(Source.of(name, text) for name, text in CODE.items())
    place_found = locate(sources, **{"file": None, "line": None, "end_line": None, "quote": None, **location_fields})
    assert (place_found.text, place_found.problem) == (place, problem)
    assert place_found.found is (None if not location_fields else problem is None)


def test_interrupted_runs_keep_findings_and_leave_the_gate_undecided() -> None:
    """The gate is undecided because a finding that has not been examined might have made it fail."""
    draft = {"title": "T", "claim": "C", "severity": "blocker", "line": 1, "file": "app.py"}
    model = FunctionModel(Reviewers({"ann": [draft], "bea": []}, {}))
    people = [{"name": "ann"}, {"name": "bea"}]
    pattern = review(name="x", reviewers=people, sources=CODE, gate="no finding")
    result = pattern.run_sync(QUESTION, model=model, limits=Limits(calls=2))
    assert [finding.title for finding in result.raw.findings] == ["T"]
    assert result.raw.gate is not None
    assert result.raw.gate.holds is None


raised = st.builds(
    lambda name, title, line, length, file: Raised(
        agent_name=name,
        title=title,
        claim="It fails.",
        severity="minor",
        place=Place(file=file, line=line, end_line=line and line + length),
    ),
    st.sampled_from(NAMES),
    st.sampled_from(["One", "Two", "Three"]),
    st.none() | st.integers(1, 30),
    st.integers(0, 8),
    st.sampled_from(["a.py", "b.py", None]),
)


@given(st.lists(raised, max_size=24))
def test_findings_at_the_same_location_are_compared(findings: list[Raised]) -> None:
    """Two findings by different reviewers may be the same if they are close together or have no line number.

    Findings up to five lines apart are compared, starting with the nearest.
    """
    groups = group(findings)
    near = []
    for first, these in enumerate(groups):
        for second in range(first + 1, len(groups)):
            one, other = these[0].place, groups[second][0].place
            names = {draft.agent_name for draft in (*these, *groups[second])}
            apart = 0
            if one.line and other.line:
                ends = (one.end_line or one.line, other.end_line or other.line)
                apart = max(one.line, other.line) - min(ends)
            if one.file == other.file and len(names) > 1 and apart <= 5:
                near.append((max(apart, 0), first, second))
    expected = [(first, second) for _, first, second in sorted(near)]
    assert pairs_to_compare(groups) == (expected[:MAX_PAIRS], len(expected))


def test_thousands_of_findings_are_decided_in_seconds() -> None:
    """The review has 40 reviewers with 50 findings each, and every reviewer confirms all findings by the others."""
    names = [f"reviewer-{number}" for number in range(40)]
    findings = [
        Raised(
            agent_name=name, title=f"{name} {at}", claim="-", severity="nit", place=Place(file="a.py", line=at * 40 + 1)
        )
        for name in names
        for at in range(50)
    ]
    before = time.process_time()
    groups = group(findings)
    joined = join(groups, pairs_to_compare(groups)[0])
    verdicts = [
        Verdict(finding=finding.id, agent_name=name, verdict="confirm", reason="-", quote=None, quote_found=None)
        for finding in joined
        for name in names
    ]
    results = decide(joined, verdicts, [], dict.fromkeys(names, "a model"))
    # takes 0.6 s on an idle machine; before there was an index, it took minutes
    assert time.process_time() - before < 10.0
    assert {finding.state for finding in results} == {"confirmed"}


@pytest.mark.slow
@pytest.mark.anyio
async def test_thousands_of_findings_do_not_block_the_event_loop() -> None:
    names = [f"reviewer-{number}" for number in range(40)]

    def answer(request: ModelRequest) -> dict[str, Any]:
        fields = (request.output_schema or {}).get("properties", {})
        if "findings" not in fields:
            return {name: [] for name in ("pairs", "verdicts", "answers") if name in fields}
        block = request.block
        titles = [f"{block} {line}" for line in range(1, 2_000, 40)]
        return {"findings": [{"title": title, "claim": "-", "severity": "nit", "file": "a.py"} for title in titles]}

    with pytest.warns(FlowDebateWarning, match="40 reviewers"):
        panel = review(name="panel", reviewers=[{"name": name} for name in names], sources={"a.py": "x = 1\n" * 2_000})
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - before)

    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(tick())
        result = await panel.run(QUESTION, model=FunctionModel(answer), store=False)
        ticking.cancel()
    assert len(result.raw.findings) == 2_000
    assert max(gaps) < 1.0
