"""`EachRequest`: the base of policies for single requests, where a call may be several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.models.wrapper import Wrapper

if TYPE_CHECKING:
    from flowdebate.models.retry import Retry

__all__ = ("EachRequest",)


class EachRequest(Wrapper):
    """A wrapper whose `request` goes once around each request of `inner`, not once around all of a call's.

    >>> from flowdebate.models import OpenAIModel, Retry
    >>> EachRequest(OpenAIModel("gemma3", retry=Retry(attempts=5))).retry.attempts
    5
    """

    @property
    def retry(self) -> Retry | None:
        """How `inner` repeats failed calls: whoever asks this model does so instead, around it."""
        return getattr(self.inner, "retry", None)
