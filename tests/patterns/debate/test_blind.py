"""Debates without names: who is read when, and what is left of the names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebateContributionEntry, DebateRawOutput
from flowdebate.patterns.debate.judging.views import BlindReading, blind_views

SIDES = ("buses are slow", "buses are fast", "buses are late", "trams")


def said(number: int, name: str, stance: str, text: str) -> DebateContributionEntry:
    """A contribution."""
    return DebateContributionEntry(round=number, agent_name=name, stance=stance, text=text)


ENTRIES = st.lists(
    st.builds(
        said,
        st.integers(1, 3),
        st.sampled_from(["mira", "jonas"]),
        st.sampled_from(SIDES),
        st.sampled_from(["As mira said.", "jonas is wrong.", "Nobody knows.", "Mira's figures, and Jonas's."]),
    ),
    max_size=8,
)


def raw_of(entries: list[DebateContributionEntry]) -> DebateRawOutput:
    """A debate in which this was said."""
    return DebateRawOutput(rounds=3, question="Which?", transcript=entries, verdict=None, seed=1)


@given(entries=ENTRIES)
def test_each_side_is_read_first_by_somebody(entries: list[DebateContributionEntry]) -> None:
    """In as many views as sides each of them has each place once; a debate with one side cannot be read blind."""
    views = blind_views(raw_of(entries))
    sides = {entry.stance for entry in entries}
    assert len(views) == (len(sides) if len(sides) > 1 else 0)
    for place in range(len(views)):
        assert {view.order[place] for view in views} == sides
    assert all(view.named(view.order[0]) == "Side A" for view in views)


@given(entries=ENTRIES.filter(lambda entries: len({entry.stance for entry in entries}) > 1), view=st.integers(0, 9))
def test_all_that_was_said_is_read_without_names(entries: list[DebateContributionEntry], view: int) -> None:
    """Each contribution once, round by round, by the side that made it."""
    reading = BlindReading.of(raw_of(entries), view=view, names=["mira", "jonas"])
    shown = [(each.title, turn.label) for each in reading.rounds for turn in each.turns]
    letters = {stance: label for label, stance in reading.sides}
    assert sorted(shown) == sorted((f"Round {entry.round}", letters[entry.stance]) for entry in entries)
    assert [each.title for each in reading.rounds] == sorted({f"Round {entry.round}" for entry in entries})
    texts = " ".join(turn.text for each in reading.rounds for turn in each.turns).lower()
    assert "mira" not in texts
    assert "jonas" not in texts


def test_a_mirrored_debate_is_read_as_well() -> None:
    """After the first one: the verdict is on both."""
    entries = [said(1, name, stance, f"{stance}.") for name, stance in (("mira", SIDES[0]), ("jonas", SIDES[1]))]
    raw = raw_of(entries).model_copy(update={"mirrored": raw_of(entries[::-1])})
    titles = [each.title for each in BlindReading.of(raw, view=0).rounds]
    assert titles == ["Round 1", "Round 1, speakers reversed"]
