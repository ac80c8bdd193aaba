"""The laws of reviews, with reviewers who find, confirm and refute anything, and models that answer anything."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowdebate import FlowDebateError, Limits, review
from flowdebate._text import is_blank
from flowdebate.errors import OutputError
from flowdebate.patterns.review import FindingsAsked, ReviewRawOutput
from flowdebate.patterns.review.findings import locate
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


def asked_ids(request: ModelRequest) -> list[str]:
    """The findings that a block is shown, in order."""
    return re.findall(r"^\[(F\d+)\]", str(request.messages[-1]["content"]), re.MULTILINE)


class Reviewers:
    """Models that answer as it is drawn; `merge` says which pairs are the same."""

    def __init__(self, found: Mapping[str, Sequence[Any]], said: Mapping[Any, str], *, merge: bool = False) -> None:
        self.found, self.said, self.merge = found, said, merge
        self.silent: frozenset[tuple[str, int]] = frozenset()
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: ModelRequest) -> Any:
        """The answer to a request."""
        shown, name = str(request.messages[-1]["content"]), request.block.rpartition("-")[2]
        self.asked.append((request.block, shown))
        if request.block.endswith("-merger"):
            pairs = {int(line[6:].partition(",")[0]) for line in shown.splitlines() if line.startswith("[Pair ")}
            return {"pairs": [{"pair": number, "same": self.merge} for number in pairs]}
        if "-reviewer-" in request.block:
            return {"findings": list(self.found[name])}
        ids = [each for each in asked_ids(request) if (name, int(each[1:])) not in self.silent]
        if "answers" in (request.output_schema or {})["properties"]:
            stand = [(each, self.said.get((name, 1, True)) != "refute") for each in ids]
            return {"answers": [{"finding": each, "stands": stands, "reason": "-"} for each, stands in stand]}
        turned = "refute or confirm" in shown
        say = [(each, self.said.get((name, int(each[1:]), turned), "confirm")) for each in ids]
        return {"verdicts": [{"finding": each, "verdict": word, "reason": "See there."} for each, word in say]}


def held(reviewers: Reviewers, *, names: Sequence[str], models: Mapping[str, str] | None = None, **options: Any) -> Any:
    """The result of a review of `CODE`."""
    people = [
        {"name": name, "model": FunctionModel(reviewers, name=(models or {}).get(name, "same"))} for name in names
    ]
    merger = FunctionModel(reviewers, name="merger")
    return review(name="x", reviewers=people, sources=CODE, model=merger, **options).run_sync(QUESTION, seed=1)


@given(found_by, verdicts_of, models_of)
def test_no_finding_that_says_something_vanishes_and_none_is_confirmed_by_its_author_alone(
    found: dict[str, list[Any]], said: dict[Any, str], models: dict[str, str]
) -> None:
    """Whatever reviewers find, say of each other and merge; empty ones and calls are counted."""
    result = held(Reviewers(found, said, merge=len(said) % 2 == 0), names=[*found], models=models)
    raw = result.output
    assert isinstance(raw, ReviewRawOutput)
    assert ReviewRawOutput.model_validate(raw.to_wire()) == raw
    kept = Counter(
        (each.agent_name, each.title, each.claim, each.severity, each.suggestion)
        for one in raw.findings
        for each in one.raised
    )
    raised = [(name, each) for name, all_ in found.items() for each in all_]
    said_something = [
        (name, each) for name, each in raised if not is_blank(each["title"]) and not is_blank(each["claim"])
    ]
    assert kept == Counter(
        (name, each["title"], each["claim"], each["severity"], each.get("suggestion")) for name, each in said_something
    )
    assert Counter(raw.empty) + Counter(name for name, _ in said_something) == Counter(name for name, _ in raised)
    assert result.usage.calls <= 4 * len(found) + 2
    for finding in raw.findings:
        others = [each for each in finding.verdicts if each.verdict == "confirm"]
        assert not set(finding.raisers) & {each.agent_name for each in finding.verdicts}
        if finding.state == "confirmed":
            assert others or len({raw.reviewers[name] for name in finding.raisers}) > 1
        if len(found) == 1:
            assert finding.state != "confirmed"
        assert finding.place.found is not None or not (finding.place.file or finding.place.line or finding.place.quote)
        assert (finding.place.problem is None) == (finding.place.found is not False)


@given(found_by, verdicts_of, models_of, st.randoms())
def test_the_order_of_the_reviewers_changes_nothing(
    found: dict[str, list[Any]], said: dict[Any, str], models: dict[str, str], random: Any
) -> None:
    """Not one word of any finding."""
    names = [*found]
    random.shuffle(names)
    one = held(Reviewers(found, said, merge=len(said) % 2 == 0), names=[*found], models=models).output
    other = held(Reviewers(found, said, merge=len(said) % 2 == 0), names=names, models=models).output
    assert one.findings == other.findings


@given(drafts, st.integers(1, 4), st.sampled_from(["one", "two"]), found_by)
def test_what_all_of_them_find_is_one_finding(
    draft: dict[str, Any], count: int, other: str, further: dict[str, list[Any]]
) -> None:
    """Whatever else each finds; raised by all, and so examined by nobody; confirmed where they are of two models."""
    names, ours = NAMES[:count], {**draft, "suggestion": "As all of them say."}
    reviewers = Reviewers({name: [*further.get(name, ()), ours] for name in names}, {})
    raw = held(reviewers, names=names, models={"ann": "one", **dict.fromkeys(names[1:], other)}).output
    found = [one for one in raw.findings for each in one.raised if each.suggestion == ours["suggestion"]]
    assert len(found) == count
    finding = found[0]
    assert all(each is finding for each in found)
    assert finding.raisers == sorted(names)
    assert not finding.verdicts
    assert (finding.state == "confirmed") == (count > 1 and other == "two")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["findings", "verdicts", "answers", "pairs", "finding", "verdict"]), inner)
    ),
    max_leaves=12,
)


@given(st.lists(ANYTHING, min_size=1, max_size=8))
def test_every_review_ends_whatever_blocks_answer(answers: list[Any]) -> None:
    """With an output, or with an error that names the block."""
    given_, said = iter(answers * 20), {"findings": [{"title": "T", "claim": "C", "severity": "nit"}]}

    def block(asked: Any) -> Any:
        return said if not isinstance(asked, FindingsAsked) and answers[0] is None else next(given_)

    pattern = review(name="x", reviewers=[{"name": name, "block": block} for name in NAMES[:2]], merger=block)
    with suppress(OutputError):
        assert pattern.run_sync(QUESTION).output.stop_reason in ("examined", "nothing_found")


FLAW = {"title": "Divides by zero", "claim": "It fails.", "severity": "major"}
REFUTED = {("bea", 1, turned): "refute" for turned in (False, True)}


@given(found_by, verdicts_of, models_of, st.frozensets(st.tuples(st.sampled_from(NAMES), st.integers(1, 6))))
@example({"ann": [FLAW], "bea": []}, REFUTED, {}, frozenset({("ann", 1)}))
@example({"ann": [FLAW], "bea": []}, REFUTED, {}, frozenset({("bea", 1)}))
def test_every_review_ends_whatever_its_reviewers_are_silent_about(
    found: dict[str, list[Any]], said: dict[Any, str], models: dict[str, str], silent: frozenset[tuple[str, int]]
) -> None:
    """Who says nothing of a finding has neither confirmed nor refuted it, nor withdrawn it."""
    reviewers = Reviewers(found, said)
    reviewers.silent = silent
    raw = held(reviewers, names=sorted(found), models=models).output
    assert raw.stop_reason in ("examined", "nothing_found")
    answers = [each for finding in raw.findings for each in (*finding.verdicts, *finding.defences)]
    assert not {(each.agent_name, int(each.finding[1:])) for each in answers} & silent


def test_nobody_sees_whose_a_finding_is() -> None:
    """Neither in what is shown of it, nor where its author writes a name into it."""
    draft = {"title": "Ask bea", "claim": "I, ann, told bea so.", "severity": "major", "line": 1, "file": "app.py"}
    reviewers = Reviewers(
        {"ann": [draft], "bea": [], "cid": []}, {("bea", 1, False): "refute", ("bea", 1, True): "refute"}
    )
    held(reviewers, names=NAMES[:3])
    shown = [text for block, text in reviewers.asked if "-examiner-" in block]
    assert len(shown) == 5  # both others twice, and the author's answer
    assert not [text for text in shown if re.search(r"\b(ann|bea)\b", text)]


def test_an_answer_that_changes_with_the_order_of_the_words_counts_as_neither() -> None:
    """It is kept, and says so."""
    draft = {"title": "T", "claim": "C", "severity": "major", "line": 1, "file": "app.py"}
    reviewers = Reviewers({"ann": [draft], "bea": []}, {("bea", 1, False): "confirm", ("bea", 1, True): "refute"})
    [finding] = held(reviewers, names=NAMES[:2]).output.findings
    assert [(each.verdict, each.flipped) for each in finding.verdicts] == [("neither", True)]
    assert finding.state == "disputed"


def test_a_merger_must_find_a_pair_the_same_in_both_orders() -> None:
    """Else the two stay apart; it is asked twice, however many pairs there are."""
    found = {
        "ann": [{"title": "Zero", "claim": "C", "severity": "nit", "file": "app.py", "line": 3}],
        "bea": [{"title": "Division", "claim": "C", "severity": "major", "file": "app.py", "line": 4}],
    }
    reviewers = Reviewers(found, {}, merge=True)
    [finding] = held(reviewers, names=NAMES[:2]).output.findings
    assert (finding.severity, finding.title, finding.raisers) == ("major", "Division", ["ann", "bea"])
    first, second = [text for block, text in reviewers.asked if block.endswith("-merger")]
    assert first.index("Zero") > first.index("Division")
    assert second.index("Zero") < second.index("Division")
    once = iter([True, False])

    def changing(_: object) -> Any:
        return {"pairs": [{"pair": 1, "same": next(once)}]}

    assert len(held(Reviewers(found, {}), names=NAMES[:2], merger=changing).output.findings) == 2
    assert len(held(Reviewers(found, {}), names=NAMES[:2], merger=False).output.findings) == 2


@pytest.mark.parametrize(
    "gate", ["", "no blockers please", "confirmed blocker", "at most -1 nits", 3, "no confirmed bug"]
)
def test_a_gate_that_is_none_is_refused_with_what_is_allowed(gate: Any) -> None:
    """Before anything is paid for."""
    with pytest.raises(FlowDebateError, match='"no" or "at most N", then "confirmed" or "disputed"'):
        review(name="x", reviewers=[{"name": "ann"}, {"name": "bea"}], gate=gate)


def test_a_gate_that_one_reviewer_could_not_break_is_refused() -> None:
    """One alone confirms nothing."""
    with pytest.raises(FlowDebateError, match="one reviewer alone confirms nothing"):
        review(name="x", reviewers=[{"name": "ann"}], gate="no confirmed blocker")


@pytest.mark.parametrize(
    ("given", "place", "problem"),
    [
        ({"quote": "two = 2\nthree =  3"}, "app.py:2-3", None),
        ({"file": "b/app.py", "line": 9, "quote": "four = one / 0"}, "app.py:4", None),  # the quote counts
        ({"file": "util.py", "line": 2}, "b/util.py:2", None),
        ({"file": "app.py", "line": 9}, "app.py:9", "app.py has no line 9"),
        ({"file": "app.py", "line": 3, "end_line": 2}, "app.py:3-2", "app.py has no line 3"),
        ({"file": "none.py", "line": 1}, "none.py:1", "the material has no none.py"),
        ({"line": 1}, ":1", "line 1 of which file?"),
        ({"file": "app.py", "quote": "not there at all"}, "app.py", "the material does not have the quote"),
        ({}, "", None),
    ],
)
def test_a_place_is_looked_up_and_marked_where_there_is_none(given: Any, place: str, problem: str | None) -> None:
    """By its quote first, which is word for word but for blanks; then by file and line."""
    sources = tuple(Source.of(name, text) for name, text in CODE.items())
    found = locate(sources, **{"file": None, "line": None, "end_line": None, "quote": None, **given})
    assert (found.text, found.problem) == (place, problem)
    assert found.found is (None if not given else problem is None)


def test_a_run_that_ends_early_has_what_was_found_and_an_undecided_gate() -> None:
    """Also where what nobody has examined yet would be against it."""
    draft = {"title": "T", "claim": "C", "severity": "blocker", "line": 1, "file": "app.py"}
    model = FunctionModel(Reviewers({"ann": [draft], "bea": []}, {}))
    people = [{"name": "ann"}, {"name": "bea"}]
    pattern = review(name="x", reviewers=people, sources=CODE, gate="no finding")
    result = pattern.run_sync(QUESTION, model=model, limits=Limits(calls=2))
    assert [finding.title for finding in result.raw.findings] == ["T"]
    assert result.raw.gate.holds is None
