"""Debates prepared for blind reading: the order of sides, and the removal of names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebateContributionEntry, DebateRawOutput
from flowdebate.patterns.debate.judging.views import BlindReading, blind_views

SIDES = ("buses are slow", "buses are fast", "buses are late", "trams")


def contribution(number: int, name: str, stance: str, text: str) -> DebateContributionEntry:
    """Create a contribution."""
    return DebateContributionEntry(round=number, agent_name=name, stance=stance, text=text)


ENTRIES = st.lists(
    st.builds(
        contribution,
        st.integers(1, 3),
        st.sampled_from(["mira", "jonas"]),
        st.sampled_from(SIDES),
        st.sampled_from(["As mira said.", "jonas is wrong.", "Nobody knows.", "Mira's figures, and Jonas's."]),
    ),
    max_size=8,
)


def raw_of(entries: list[DebateContributionEntry]) -> DebateRawOutput:
    """Create a debate's output with these entries."""
    return DebateRawOutput(rounds=3, question="Which?", transcript=entries, verdict=None, seed=1)


@given(entries=ENTRIES)
def test_each_side_is_first_in_one_view(entries: list[DebateContributionEntry]) -> None:
    """There are as many views as sides, and each side appears in each position once.

    A debate with one side has no blind views.
    """
    views = blind_views(raw_of(entries))
    sides = {entry.stance for entry in entries}
    assert len(views) == (len(sides) if len(sides) > 1 else 0)
    for place in range(len(views)):
        assert {view.order[place] for view in views} == sides
    assert all(view.named(view.order[0]) == "Side A" for view in views)


@given(entries=ENTRIES.filter(lambda entries: len({entry.stance for entry in entries}) > 1), view=st.integers(0, 9))
def test_contributions_are_shown_without_names(entries: list[DebateContributionEntry], view: int) -> None:
    reading = BlindReading.of(raw_of(entries), view=view, names=["mira", "jonas"])
    turns = [(round_.title, turn.label) for round_ in reading.rounds for turn in round_.turns]
    letters = {stance: label for label, stance in reading.sides}
    assert sorted(turns) == sorted((f"Round {entry.round}", letters[entry.stance]) for entry in entries)
    assert [round_.title for round_ in reading.rounds] == sorted({f"Round {entry.round}" for entry in entries})
    texts = " ".join(turn.text for round_ in reading.rounds for turn in round_.turns).lower()
    assert "mira" not in texts
    assert "jonas" not in texts


def test_mirrored_debates_are_included() -> None:
    """The verdict covers the debate and its mirror, so the mirror's rounds follow those of the first debate."""
    entries = [
        contribution(1, name, stance, f"{stance}.") for name, stance in (("mira", SIDES[0]), ("jonas", SIDES[1]))
    ]
    raw = raw_of(entries).model_copy(update={"mirrored": raw_of(entries[::-1])})
    titles = [round_.title for round_ in BlindReading.of(raw, view=0).rounds]
    assert titles == ["Round 1", "Round 1, speakers reversed"]
