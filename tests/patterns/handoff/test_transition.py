"""Tests for `read_transition`, which finds the next speaker in text and leaves all other words unchanged."""

from __future__ import annotations

import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flowdebate.patterns.handoff.transition import Transition, read_transition
from flowdebate.prompts import AROUND, as_seen, name_among, tag_name
from flowdebate.testing.strategies import names
from tests.ids import case_id

PRO, CON, NEUTRAL = ROSTER = ["Proponent", "Opponent", "Neutral"]
AWKWARD = [
    "Anna",
    "Anna Maria",
    "C",
    "C++",
    "a|b",
    "(x",
    "Dr. No",
    "Straße",
    "Łukasz Żółć",
    "the Judge",
    "Bo, PhD",
    "大輔",
]
SAID = "Machines err."


@pytest.mark.parametrize(
    "marker",
    [
        "Transition to Opponent",
        "transition to opponent",
        "TRANSITION TO OPPONENT",
        "Transition  to\tOpponent",
        "Transition to Opponent.",
        "Transition to: Opponent",
        "Transition to the opponent!",
        'Transition to "Opponent".',
        "“Transition to Opponent.”",
        "**Transition to Opponent**",
        "**Transition to:** _Opponent_",
        "`Transition to Opponent`",
        "(Transition to Opponent)",
        "[Transition to Opponent].",
        "<Transition to Opponent>",
        "- Transition to Opponent",
        "> Transition to Opponent",
        "-> Transition to Opponent",
        "### Transition to Opponent",
        "3. Transition to Opponent",
        "Transition to Opponent  \r\n\n",
        "Transition to \uff2fpponent",
    ],
    ids=case_id,
)
@pytest.mark.parametrize("gap", ["\n", "\n\n", " ", "\r\n"], ids=repr)
def test_markers_can_be_decorated(gap: str, marker: str) -> None:
    """A marker may differ in case, be wrapped in quotes, brackets or Markdown, or end with a period."""
    if gap == " " and marker[0] in "-#>3":
        return  # bullets and numbers only occur at the beginning of a line
    assert read_transition(f"{SAID}{gap}{marker}", ROSTER) == Transition(text=SAID, name=CON)


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("written", [str, str.upper, str.lower, tag_name], ids=["as is", "upper", "lower", "as shown"])
def test_names_can_contain_any_characters(name: str, written: object) -> None:
    assert callable(written)
    assert read_transition(f"{SAID}\nTransition to {written(name)}.", AWKWARD) == Transition(text=SAID, name=name)


@pytest.mark.parametrize(
    ("text", "rest", "name"),
    [
        (f"{SAID}\nTransition to Opponent\n\n(I wait.)", f"{SAID}\n\n(I wait.)", CON),
        ("Transition to Opponent\nYes.", "Yes.", CON),
        ("Transition to Opponent\nTransition to Neutral", "Transition to Opponent", NEUTRAL),
        (f"{SAID}\nTransition to Neutral\nTransition to Bob", f"{SAID}\nTransition to Neutral", "Bob"),
        ("I give way: transition to neutral", "I give way:", NEUTRAL),
        ("Transition to Opponent", "", CON),
        (f"**{SAID} Transition to Opponent**", f"**{SAID}", CON),
        (f"{SAID}\nTransition to Bob the Builder.", SAID, "Bob the Builder"),
    ],
    ids=case_id,
)
def test_last_marker_counts_and_all_other_text_is_kept(text: str, rest: str, name: str) -> None:
    assert read_transition(text, ROSTER) == Transition(text=rest, name=name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Transition to",
        "Transition to \n",
        "transition to **",
        "We need a transition to neutral institutions.",
        "The transition to Opponent rule failed.",
        "We need a slow transition to renewable energy.",
        "Transition to Opponents",
        "A transition toOpponent",
        "I hand over to Opponent.",
        "retransition to Opponent and more",
        "Transition to Bob is what I want.\nBut not now.",
        f"{SAID} Transition to Opponent. Let us hear it.",
        f"{SAID} Transition to neutral ground.",
        f"{SAID} Transition to Bob.",
        f"Transition to {'x' * 100}",
    ],
    ids=case_id,
)
def test_prose_about_transitions_is_not_a_marker(text: str) -> None:
    transition = read_transition(text, ROSTER)
    assert transition == Transition(text=text, name=None) or text == "Transition to Opponents"


def test_longest_matching_name_wins() -> None:
    """A longer word that merely begins with a name does not match."""
    for written, name in [("Anna", "Anna"), ("Anna Maria", "Anna Maria"), ("Annabel", "Annabel"), ("C+", "C+")]:
        assert read_transition(f"{SAID}\nTransition to {written}", AWKWARD).name == name


TEXTS = st.text(st.characters(codec="utf-8"), max_size=60).map(str.rstrip)


@given(TEXTS, st.lists(names(), min_size=1, max_size=4, unique_by=as_seen), st.data())
def test_markers_after_any_text_are_parsed_and_removed(text: str, roster: list[str], data: st.DataObject) -> None:
    assume("transition" not in text.lower())
    name = data.draw(st.sampled_from(roster))
    assume(as_seen(name) and "\n" not in name)
    markers = [
        "Transition to {}",
        "\nTransition to: {}",
        "transition to {}.",
        "**Transition to {}**",
        "(Transition to {})",
    ]
    # use a plain marker if the name's own characters could be taken for decorations
    is_plain = as_seen(name).strip(AROUND + " ") == as_seen(name)
    marker = data.draw(st.sampled_from(markers if is_plain else markers[:1]))
    transition = read_transition(f"{text}\n{marker.replace('{}', name)}", roster)
    assert transition == Transition(text=text, name=name)


@given(TEXTS, st.lists(names(), min_size=1, max_size=4, unique_by=as_seen))
def test_names_missing_from_the_text_are_never_chosen(text: str, roster: list[str]) -> None:
    """The marker is followed by arbitrary text that contains no name from the roster, so no such name is returned."""
    assume(all(as_seen(name) not in as_seen(text) for name in roster))
    assert read_transition(f"Yes.\nTransition to {text}", roster).name not in roster


def test_names_can_end_with_a_closing_mark() -> None:
    """An asterisk at the end of a name must not be paired with an earlier asterisk in the text."""
    assert read_transition("*\nTransition to 0*", ["0*"]) == Transition(text="*", name="0*")


PIECES = st.sampled_from([*"abT \n.*_()[]\"'-", "Transition to ", "Opponent", "Bob"])


@given(st.lists(PIECES, max_size=30).map("".join))
def test_remaining_text_is_a_subsequence_of_the_original(text: str) -> None:
    transition = read_transition(text, ROSTER)
    remaining = iter(text)
    assert all(character in remaining for character in transition.text)
    if transition.name is None:
        assert transition.text == text


@pytest.mark.parametrize(
    "text",
    [
        "transition to x " * 12_000,
        "*" * 200_000,
        "-" * 200_000 + "Transition to Opponent",
        "Transition to " + " " * 200_000,
        "." * 200_000 + " Transition to x",
        "transition" + " " * 200_000,
        "Transition to Opponent" + "*" * 200_000 + "x",
    ],
    ids=lambda text: text[:20],
)
def test_long_answers_are_parsed_in_linear_time(text: str) -> None:
    """A parser that backtracks would need minutes to parse each of these texts."""
    assert len(read_transition(text, ROSTER).text) <= len(text)


def test_names_are_matched_as_models_write_them() -> None:
    """A name may be in any case, in quotes, or escaped as it is in the prompt. Part of a name never matches."""
    assert name_among("Bo⟦U+002C⟧ PhD", AWKWARD) == "Bo, PhD"
    assert name_among(" 'anna maria' ", AWKWARD) == "Anna Maria"
    assert name_among("dr. no.", AWKWARD) == "Dr. No"
    assert name_among("a", ["A", "a"]) == "a"
    for stranger in ("", "Ann", "Anna, Maria", *string.punctuation):
        assert name_among(stranger, AWKWARD) is None
