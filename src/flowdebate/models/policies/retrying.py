"""`Retrying`: retries the failed calls of any model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.models.retry import Retry
from flowdebate.models.wrapper import Wrapper

if TYPE_CHECKING:
    from flowdebate.models.base import Model

__all__ = ("Retrying",)


class Retrying(Wrapper):
    """Retry failed calls of `inner` according to `retry` (by default at most three requests).

    Use it for whatever should be retried as a whole, such as models of your own. `OpenAIModel` retries by itself
    (`retry=`); of several nested retries only the outermost is active, so that attempts never multiply.

    >>> from flowdebate.testing import ScriptedModel
    >>> Retrying(ScriptedModel("Yes."), Retry(attempts=5)).retry.attempts
    5
    """

    def __init__(self, inner: Model | str, retry: Retry | None = None) -> None:
        super().__init__(inner)
        self.retry = Retry() if retry is None else retry
