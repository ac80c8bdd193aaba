"""`Wrapper`: a model around other models, which is how every policy is made."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ConfigurationError
from flowdebate.models.call import answer
from flowdebate.models.resolve import resolve_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self

    from flowdebate.models.base import Model, ModelRequest, ModelResponse
    from flowdebate.models.retry import Retry

__all__ = (
    "PerRequestWrapper",
    "Wrapper",
)


class Wrapper:
    """A model around `inner`, to inherit from: `request` may do something before, after, or instead of `ask`.

    It goes by its inner model's name, and holds its connections. `inner` may be a model's name, but not an intent.

    >>> class Polite(Wrapper):
    ...     async def request(self, request):
    ...         response = await self.ask(request)
    ...         return response
    >>> Polite("ollama/gemma3").name
    'ollama/gemma3'
    """

    tells_attempts = True
    """The requests that are sent stand in `request.attempts`: those who send them put them there."""

    def __init__(self, inner: Model | str) -> None:
        self.inner = inner_model(inner, where=type(self).__name__)

    @property
    def name(self) -> str:
        """What errors, events and usage call it."""
        return self.inner.name

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer, by asking the inner model."""
        return await self.ask(request)

    async def ask(self, request: ModelRequest) -> ModelResponse:
        """A checked answer of the inner model, repeated as it says where nobody outside repeats the call already."""
        return await answer(self.inner, request)

    def models(self) -> tuple[Model, ...]:
        """The models that it may ask."""
        return (self.inner,)

    @asynccontextmanager
    async def open_connections(self) -> AsyncIterator[Self]:
        """Keep the connections of all its models until the block ends."""
        async with AsyncExitStack() as stack:
            for model in self.models():
                opened: Any = getattr(model, "open_connections", None)
                if opened is not None:
                    await stack.enter_async_context(opened())
            yield self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.models()))})"


def inner_model(spec: Model | str, *, where: str) -> Model:
    """The model that a wrapper is put around; ConfigurationError for what none can be meant by, and for an intent."""
    if spec is None or (isinstance(spec, str) and spec.startswith("intent/")):
        raise ConfigurationError(where, "model", spec, "a Model or the name of one: an intent is known to runs alone")
    return resolve_model(spec)


class PerRequestWrapper(Wrapper):
    """A wrapper whose `request` goes once around each request of `inner`, not once around all of a call's.

    >>> from flowdebate.models import OpenAIModel, Retry
    >>> PerRequestWrapper(OpenAIModel("gemma3", retry=Retry(attempts=5))).retry.attempts
    5
    """

    @property
    def retry(self) -> Retry | None:
        """How `inner` repeats failed calls: whoever asks this model does so instead, around it."""
        return getattr(self.inner, "retry", None)
