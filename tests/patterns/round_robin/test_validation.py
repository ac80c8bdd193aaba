"""Options that `round_robin()` rejects, and options that cause a warning."""

from __future__ import annotations
