"""What `round_robin()` refuses, and what it warns of."""

from __future__ import annotations
