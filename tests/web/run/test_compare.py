"""Comparisons of two runs: which steps are equal, and which words differ."""

from __future__ import annotations

import time
from typing import Any, Literal

from hypothesis import assume, given
from hypothesis import strategies as st

from flowdebate.web.run.record import Call
from flowdebate.web.run.travel import Course, Pair, Same, changes, compare

WORDS = st.lists(st.sampled_from(["buses", "are", "slow", "\n", "\n\n", " ", "  never", "é", ""]), max_size=30)
TEXTS = st.one_of(st.text(max_size=60), WORDS.map(" ".join))


def make_call(place: str, text: str = "", **fields: Any) -> Call:
    """Create a call in a run."""
    facts: dict[str, Any] = {
        "number": 1, "who": place.title(), "party": None, "model": None, "attempts": 1, "failures": (), "seconds": None,
        "prompt_tokens": None, "completion_tokens": None, "starts": None, "origin": "asked", **fields,
    }  # fmt: skip
    return Call(place=place, text=text or f"{place} says so.", **facts)


def make_calls(*places: str, **changed: str) -> list[Call]:
    """Create numbered calls in a run, some of them with different text."""
    return [make_call(place, changed.get(place, ""), number=number) for number, place in enumerate(places, 1)]


def compare_runs(one: list[Call], other: list[Call], *, fork: Literal["one", "other"] | None) -> list[Pair | Same]:
    """Compare the steps of two runs."""
    return compare(Course(calls=one), Course(calls=other), fork=fork)


def summarize(rows: list[Pair | Same]) -> list[Any]:
    """Return the parts of a comparison: names and numbers of equal steps, or the paths of both steps."""
    return [
        (part.first, part.last)
        if isinstance(part, Same)
        else (part.one and part.one.call.place, part.other and part.other.call.place)
        for part in rows
    ]


@given(one=TEXTS, other=TEXTS)
def test_changes_reproduce_both_texts(one: str, other: str) -> None:
    """Without its insertions, the marked text is the first text; without its deletions, it is the second.

    Equal text is not marked.
    """
    pieces = changes(one, other)
    assert "".join(piece.text for piece in pieces if piece.kind != "ins") == one
    assert "".join(piece.text for piece in pieces if piece.kind != "del") == other
    assert all(piece.text for piece in pieces)
    assert (one == other) == all(piece.kind == "same" for piece in pieces)


def test_changes_are_whole_words() -> None:
    """The text between two changes is not marked."""
    pieces = [(piece.kind, piece.text) for piece in changes("It costs one million.", "It costs two millions.")]
    assert pieces == [("same", "It costs"), ("del", " one million."), ("ins", " two millions.")]


def test_long_text_is_compared_quickly() -> None:
    """Hostile text is marked as entirely replaced, since comparing it word by word would take minutes."""
    one, other = "a " * 50_000, "a b " * 25_000
    start = time.perf_counter()
    pieces = changes(one, other)
    assert [piece.kind for piece in pieces] == ["del", "ins"]
    assert time.perf_counter() - start < 20  # a word-by-word comparison would take minutes


def test_identical_beginnings_are_collapsed() -> None:
    rows = compare_runs(make_calls("a", "b", "c", "d"), make_calls("a", "b", "c", "d", c="Else."), fork=None)
    assert summarize(rows) == [(1, 2), ("c", "c"), (4, 4)]
    assert isinstance(rows[0], Same)
    assert rows[0].names == ("A", "B")
    assert not rows[0].reused


def test_steps_of_only_one_run_keep_their_position() -> None:
    """A step that occurs in only one run appears after the step that precedes it in that run."""
    rows = compare_runs(make_calls("a", "c", "e"), make_calls("b", "a", "d", "c"), fork=None)
    assert summarize(rows) == [(None, "b"), (1, 1), (None, "d"), (2, 2), ("e", None)]


PLACES = st.lists(st.sampled_from("abcdefg"), unique=True)


@given(one=PLACES, other=PLACES)
def test_no_step_is_lost(one: list[str], other: list[str]) -> None:
    """Each step of both runs is shown once, and the steps of the first run stay in order."""
    assume(set(one) & set(other))
    rows = compare_runs(make_calls(*one), make_calls(*other), fork=None)
    numbers: list[int] = []
    extra: list[str] = []
    for part in rows:
        if isinstance(part, Same):
            numbers += range(part.first, part.last + 1)
        elif part.one is not None:
            numbers.append(part.one.call.number)
        else:
            assert part.other is not None
            extra.append(part.other.call.place)
    assert sorted(numbers) == list(range(1, len(one) + 1))
    assert sorted(extra) == sorted(set(other) - set(one))


def test_runs_without_common_paths_are_shown_step_by_step() -> None:
    assert summarize(compare_runs(make_calls("a", "b", "c"), make_calls("d", "e"), fork=None)) == [
        ("a", "d"),
        ("b", "e"),
        ("c", None),
    ]


def test_fork_shows_the_origin_of_each_step() -> None:
    """A step of a fork is labeled as reused, changed by hand or asked again.

    The steps of its parent have no such label.
    """
    fork = [
        make_call("a", origin="reused"),
        make_call("b", "New.", number=2, origin="edited"),
        make_call("c", "Else.", number=3),
    ]
    rows = compare_runs(make_calls("a", "b", "c"), fork, fork="other")
    assert isinstance(rows[0], Same)
    assert rows[0].reused
    pairs = [part for part in rows if isinstance(part, Pair)]
    assert [part.other.label for part in pairs if part.other] == ["changed by hand", "asked again"]
    assert [part.one.label for part in pairs if part.one] == ["", ""]


def test_dissimilar_texts_are_shown_unchanged() -> None:
    """Two texts with little in common are only marked up if the second one was edited by hand."""
    one, other = [make_call("a", "Buses are slow.")], make_call("a", "Nothing of the kind, I think.")
    for origin, kinds in (("asked", {"same"}), ("edited", {"same", "ins"})):
        (row,) = compare_runs(one, [make_call("a", other.text, origin=origin)], fork="other")
        assert isinstance(row, Pair)
        assert row.other is not None
        assert {piece.kind for piece in row.other.pieces} <= kinds
        assert ("<ins>" in row.other.html) == (origin == "edited")


@given(one=TEXTS, other=TEXTS)
def test_comparison_keeps_all_words_of_both_sides(one: str, other: str) -> None:
    for part in compare_runs([make_call("a", one or "x")], [make_call("a", other or "x")], fork=None):
        if isinstance(part, Pair):
            for side, text in ((part.one, one or "x"), (part.other, other or "x")):
                assert side is not None
                assert "".join("".join(piece.text for piece in side.pieces).split()) == "".join(text.split())
