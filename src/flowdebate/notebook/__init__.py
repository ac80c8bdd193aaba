"""Debates in notebooks: a run while it goes on, and a person's turn in a cell.

It needs the extra `notebook`: `pip install "flowdebate[notebook]"`. Results, handles and reports show themselves
without it. See docs/notebooks.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.notebook.human_turn import HumanTurn
    from flowdebate.notebook.shown import Shown, show

__all__ = ("HumanTurn", "Shown", "show")

_LAZY = {"HumanTurn": "human_turn", "Shown": "shown", "show": "shown"}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
