"""`Retrying`: a model whose failed calls are made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.models.retry import Retry
from flowdebate.models.wrapper import Wrapper

if TYPE_CHECKING:
    from flowdebate.models.base import Model

__all__ = ("Retrying",)


class Retrying(Wrapper):
    """Repeats calls of `inner` as `retry` says (three requests at most, unless told otherwise).

    Put it around anything that should be repeated as a whole, such as models of your own. `OpenAIModel` repeats by
    itself (`retry=`); where several around each other would, the outermost alone does, so that attempts never
    multiply.

    >>> from flowdebate.testing import ScriptedModel
    >>> Retrying(ScriptedModel("Yes."), Retry(attempts=5)).retry.attempts
    5
    """

    def __init__(self, inner: Model | str, retry: Retry | None = None) -> None:
        super().__init__(inner)
        self.retry = Retry() if retry is None else retry
