from .human_turn import HumanTurn as HumanTurn
from .shown import DisplayedRun as DisplayedRun
from .shown import show as show
