from .judge import decide_all as decide_all
from .judge import is_right as is_right
from .judge import orders_of as orders_of
from .judge import shares_of as shares_of
