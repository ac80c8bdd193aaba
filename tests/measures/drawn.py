"""Strategies that draw arbitrary names and texts, used to test the invariants of measures."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ("names", "texts")

_signs = st.characters()
"""All Unicode characters, including lone surrogates."""

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
"""Arbitrary texts, some of which share words."""

names = st.lists(st.text(_signs, min_size=1, max_size=3), min_size=1, max_size=10, unique=True)
"""Names of one to ten agents."""
