"""`Wrapper`: base class of models around other models, such as all policies."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ConfigurationError
from flowdebate.models.base import profile_of
from flowdebate.models.call import answer
from flowdebate.models.resolve import resolve_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self

    from flowdebate.models.base import Model, ModelRequest, ModelResponse
    from flowdebate.models.retry import Retry
    from flowdebate.prompts.template import Profile


class Wrapper:
    """Base class of a model around `inner`: override `request` to act before, after, or instead of `ask`.

    It has its inner model's name and connections. `inner` may be a model's name, but not an intent.

    >>> class Polite(Wrapper):
    ...     async def request(self, request):
    ...         response = await self.ask(request)
    ...         return response
    >>> Polite("ollama/gemma3").name
    'ollama/gemma3'
    """

    tells_attempts = True
    """Tells the call boundary that inner models record the attempts."""

    def __init__(self, inner: Model | str) -> None:
        self.inner: Model = inner_model(inner, where=type(self).__name__)

    @property
    def name(self) -> str:
        """Name in errors, events and usage: the inner model's."""
        return self.inner.name

    @property
    def profile(self) -> Profile:
        """Profile of the default prompts: the inner model's."""
        return profile_of(self.inner)

    @property
    def gives_logprobs(self) -> bool:
        """Whether the inner model may give log-probabilities."""
        return bool(getattr(self.inner, "gives_logprobs", True))

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer by asking the inner model."""
        return await self.ask(request)

    async def ask(self, request: ModelRequest) -> ModelResponse:
        """Return a validated answer of the inner model, with its retries unless an outer model retries already."""
        return await answer(self.inner, request)

    def models(self) -> tuple[Model, ...]:
        """Return the models that it may ask."""
        return (self.inner,)

    @asynccontextmanager
    async def open_connections(self) -> AsyncIterator[Self]:
        """Keep the connections of all its models open inside the `async with` block."""
        async with AsyncExitStack() as stack:
            for model in self.models():
                opened: Any = getattr(model, "open_connections", None)
                if opened is not None:
                    await stack.enter_async_context(opened())
            yield self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.models()))})"


def inner_model(spec: Model | str, *, where: str) -> Model:
    """Resolve a wrapper's inner model; ConfigurationError for an intent or any other value."""
    if spec is None or (isinstance(spec, str) and spec.startswith("intent/")):
        raise ConfigurationError(where, "model", spec, "a Model or the name of one: intents are resolved by runs only")
    return resolve_model(spec)


class PerRequestWrapper(Wrapper):
    """Wrapper whose `request` goes around each single request of `inner`, retries included.

    >>> from flowdebate.models import OpenAIModel, Retry
    >>> PerRequestWrapper(OpenAIModel("gemma3", retry=Retry(attempts=5))).retry.attempts
    5
    """

    @property
    def retry(self) -> Retry | None:
        """Retry policy of `inner`, which the caller applies around this wrapper."""
        return getattr(self.inner, "retry", None)
