"""`Fallback`: asks the next of several models where one failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError, ModelError, add_note, told
from flowdebate.models.call import answer
from flowdebate.models.events import CallFellBack
from flowdebate.models.wrapper import Wrapper, inner_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import Model, ModelRequest, ModelResponse

__all__ = ("Fallback",)


class Fallback(Wrapper):
    """Ask `models` in order, the next one where one failed for good. Its name is the first model's.

    - `on`: predicate of errors after which the next model is asked; None for those that are the provider's fault. A
      missing key, or a test's script that does not fit, is the application's fault and is raised at once.

    Each model retries failed calls by itself before the next one is asked, unless an outer model retries the call as a
    whole. If all fail, the last error is raised, with the others as its notes.

    >>> Fallback("openai/gpt-5-mini", "anthropic/claude-sonnet-4-5", "local").name
    'openai/gpt-5-mini'
    """

    def __init__(self, *models: Model | str, on: Callable[[ModelError], bool] | None = None) -> None:
        if not models:
            raise ConfigurationError("Fallback", "models", models, "one model or more")
        if on is not None and not callable(on):
            raise ConfigurationError("Fallback", "on", on, "a function of the error, or None")
        super().__init__(models[0])
        self._models = (self.inner, *(inner_model(model, where="Fallback") for model in models[1:]))
        self._on = on

    def models(self) -> tuple[Model, ...]:
        """Return all models, in order."""
        return self._models

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return the answer of the first model that does not fail."""
        failed: list[str] = []
        for model, following in zip(self._models, (*self._models[1:], None), strict=True):
            try:
                return await answer(model, request)
            except Exception as error:
                if following is None or not isinstance(error, ModelError) or not self._takes(error):
                    for earlier in failed:
                        add_note(error, earlier)
                    raise
                failed.append(f"before that, {told(error)}")
                said = CallFellBack(
                    block=request.block,
                    model=model.name,
                    to=following.name,
                    error=type(error).__name__,
                    message=error.message,
                )
            request.attempts.tell(said)
        raise AssertionError  # the last model has answered or failed

    def _takes(self, error: ModelError) -> bool:
        return error.providers_fault if self._on is None else bool(self._on(error))
