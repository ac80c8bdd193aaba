"""Options that `round_robin()` rejects or warns about."""

from __future__ import annotations
