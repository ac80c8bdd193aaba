from .aliases import leak_report as leak_report
from .aliases import make_aliases as make_aliases
