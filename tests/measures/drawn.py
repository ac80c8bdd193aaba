"""What the laws of measures are tested with: names and texts of any kind."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ("names", "texts")

_signs = st.characters()
"""All of Unicode, halves of surrogate pairs too."""

texts = st.one_of(
    st.text(_signs, max_size=40),
    st.sampled_from(
        [
            "",
            " ",
            "\x00",
            "...",
            "!?",
            "\ud800",
            "the of and",
            "家賃に上限を",
            "ค่าเช่า",
            "سقف الإيجار",
            "👩‍👩‍👧",
            "\uff11\uff12",
        ]
    ),
    st.lists(st.sampled_from(["cap", "rents", "not", "should", "3%", "now", "but", "we"]), max_size=8).map(" ".join),
)
"""Of any kind, and some that have words in common."""

names = st.lists(st.text(_signs, min_size=1, max_size=3), min_size=1, max_size=10, unique=True)
"""One to ten agents."""
