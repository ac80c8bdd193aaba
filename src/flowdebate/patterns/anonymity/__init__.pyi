from .aliases import make_aliases as make_aliases
from .leaks import leak_report as leak_report
