"""Debates in notebooks: a run while it goes on, and a person's turn in a cell.

It needs the extra `notebook`: `pip install "flowdebate[notebook]"`. Results, handles and reports show themselves
without it. See docs/notebooks.md.
"""

from flowdebate.notebook.human_turn import HumanTurn
from flowdebate.notebook.show import Shown, show

__all__ = ("HumanTurn", "Shown", "show")
