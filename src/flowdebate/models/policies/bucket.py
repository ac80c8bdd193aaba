"""aiolimiter's leaky bucket, that can also be overdrawn, and say how long one would wait."""

from __future__ import annotations

from aiolimiter import AsyncLimiter

__all__ = ("Bucket",)


class Bucket(AsyncLimiter):
    """It holds `max_rate`, and what is in it runs out evenly, all of it in `time_period` seconds."""

    __slots__ = ()

    def seconds_until(self, amount: float) -> float:
        """How long it takes until `amount` more goes in, if nobody else puts anything in; 0 for now."""
        self.has_capacity(amount)  # lets run out what has run out by now
        return max(0.0, self._level + amount - self.max_rate) * self.time_period / self.max_rate

    def charge(self, amount: float) -> None:
        """Put `amount` in, even above the brim."""
        self.has_capacity(0)
        self._level += amount
