from .human_turn import HumanTurn as HumanTurn
from .shown import Shown as Shown
from .shown import show as show
