from .archive import Archive as Archive
from .resource import StateResource as StateResource
