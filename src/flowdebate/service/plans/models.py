"""Models of a plan: made by name, with policies around them, and as a front end shows them, with their prices."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from flowdebate.errors import ConfigurationError, FlowDebateError
from flowdebate.models.openai.endpoint import address_of
from flowdebate.models.resolve import PROVIDERS, ModelResolver, ModelSpec
from flowdebate.runs.limits import Price
from flowdebate.service.plans.options import PRICE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.models.base import Model
    from flowdebate.models.usage import Usage
    from flowdebate.runs.limits import Prices
    from flowdebate.service.plans.plan import Plan


PlanT = TypeVar("PlanT", bound="Plan")


class Models:
    """Models by name; one object for each name at a base URL, so that its connections are shared."""

    def __init__(self, base_url: str | None) -> None:
        self._base_url = base_url
        self._made: dict[str, Model | str] = {}

    def __call__(self, spec: str, where: str, field: str) -> Model | str:
        """The model; ConfigurationError for a name that means none."""
        from flowdebate.models.openai.model import OpenAIModel
        from flowdebate.models.resolve import check_model

        if self._base_url is None:
            check_model(spec, where=where, field=field)
            return spec  # still a name: the run makes one model of it for all who have it
        if spec == "local":
            raise ConfigurationError(
                where, field, spec, "the name of a model at the base URL: the local model has none"
            )
        if spec not in self._made:
            self._made[spec] = OpenAIModel(spec, base_url=self._base_url)
        return self._made[spec]


@dataclass(frozen=True, kw_only=True)
class Policies:
    """Policies around the models."""

    attempts: int | None = None
    """Maximum number of attempts for each call; None leaves it to the model."""
    fallback: tuple[Model | str, ...] = ()
    record: str | None = None
    replay: str | None = None
    """File that answers are read from, in place of asking."""


def with_policies(plan: PlanT, *, recording: bool = True) -> PlanT:
    """`plan` with its policies around every model, and with none left to apply.

    `recording=False` leaves out the recording: that of an interrupted run cannot be continued.
    """
    policies = plan.policies
    if policies == Policies():
        return plan

    def meant(intent: str) -> Model | str:
        return (plan.models or {}).get(intent, f"intent/{intent}")

    if policies.replay is not None:
        from flowdebate.models.recording import ReplayModel

        replayed = ReplayModel(policies.replay)
        make: Callable[[Model | str], Model] = lambda _: replayed  # noqa: E731 - one of three
    else:
        make = _apply(policies)
        if policies.record is not None and recording:
            make = _record(make, make(meant("chat")), policies.record)
    speakers = tuple(
        speaker if speaker.model is None else replace(speaker, model=make(speaker.model)) for speaker in plan.speakers
    )
    models = {intent: make(meant(intent)) for intent in ("chat", "synthesize")}
    return replace(plan, models=models, speakers=speakers, policies=Policies())


def _apply(policies: Policies) -> Callable[[Model | str], Model]:
    """A maker of models that are retried, and have fallbacks; the same one for the same name."""
    from flowdebate.models.resolve import resolve_model
    from flowdebate.models.retry import Retry
    from flowdebate.models.wrapper import Fallback, Retrying

    made: dict[Model | str, Model] = {}

    def make(spec: Model | str) -> Model:
        if spec not in made:
            models = [resolve_model(each) for each in (spec, *policies.fallback)]
            if policies.attempts is not None:
                models = [Retrying(each, Retry(attempts=policies.attempts)) for each in models]
            made[spec] = models[0] if len(models) == 1 else Fallback(*models)
            made[made[spec]] = made[spec]  # a model that was made already is not wrapped twice
        return made[spec]

    return make


_ASKED: ContextVar[Model] = ContextVar("asked")
"""Model of the call that is being recorded: one file has the calls of all models, in order, and calls overlap."""


def _record(made: Callable[[Model | str], Model], first: Model, path: str) -> Callable[[Model | str], Model]:
    """A maker of models that record all answers in one file, under the name of the `first` one."""
    from flowdebate.models.call import answer
    from flowdebate.models.recording import RecordingModel
    from flowdebate.models.wrapper import Wrapper

    if TYPE_CHECKING:
        from flowdebate.models.base import ModelRequest, ModelResponse

    class Asked(Wrapper):
        """The model that a call is for, whichever it is."""

        async def request(self, request: ModelRequest, /) -> ModelResponse:
            return await answer(_ASKED.get(), request)

    class Through(Wrapper):
        """A model whose answers go through the recording."""

        async def request(self, request: ModelRequest, /) -> ModelResponse:
            before = _ASKED.set(self.inner)
            try:
                return await answer(recording, request)
            finally:
                _ASKED.reset(before)

    recording = RecordingModel(Asked(first), path)
    through: dict[Model, Model] = {}

    def make(spec: Model | str) -> Model:
        model = made(spec)
        return through.setdefault(model, Through(model))

    return make


# As a front end shows them


def models_line(plan: Plan, *, environment: str | None = None) -> str:
    """The models that a run of `plan` will ask, by role where they differ; "" if none is set up.

    `environment` is the default model of a run that is resumed.

    >>> from flowdebate.patterns import PATTERNS
    >>> from flowdebate.service.plans.plan import make_plan
    >>> given = {"question": "Q?", "model": "openai/gpt-5-mini", "judge_model": "openai/gpt-5"}
    >>> models_line(make_plan(PATTERNS["debate"], given))
    'Models: openai/gpt-5-mini; moderator, judge, synthesizer: openai/gpt-5'
    """
    policies = plan.policies
    if policies.replay is not None:
        return f"Model: none is asked, the answers are those recorded in {policies.replay}"
    resolver = ModelResolver(plan.models, environment=environment)
    try:
        chat, judging = (_title(plan, resolver, f"intent/{intent}") for intent in ("chat", "synthesize"))
        others = [(each.name, _title(plan, resolver, each.model)) for each in plan.speakers if each.model is not None]
    except FlowDebateError:  # the run says so itself, before its first call
        return ""
    roles: dict[str, list[str]] = {chat: []}
    if judging != chat:
        roles[judging] = list(plan.options.JUDGED)
    for name, model in others:
        if model != chat:
            roles.setdefault(model, []).append(name)
    for key, role in plan.options.MODELS.items():
        given = getattr(plan.options, key)
        for spec in [given] if isinstance(given, str) else given or []:
            roles.setdefault(_at_server(plan, spec), []).append(role)
    text = "; ".join(f"{', '.join(dict.fromkeys(who))}: {model}" if who else model for model, who in roles.items())
    fallback = ", ".join(each if isinstance(each, str) else each.name for each in policies.fallback)
    after = f"; if it fails: {fallback}" if fallback else ""
    return f"{'Model' if len(roles) == 1 else 'Models'}: {text}{after}"


def _title(plan: Plan, resolver: ModelResolver, spec: ModelSpec) -> str:
    name = resolver.resolve(spec).name
    if name == "local":
        from flowdebate.models.local.gguf import local_model_title

        return f"local ({local_model_title()}, on this machine)"
    provider = PROVIDERS.get(name.partition("/")[0])
    if provider is not None and provider.key_env is None and plan.options.base_url is None:
        return f"{name} (a server on this machine, at {provider.base_url})"
    return _at_server(plan, name)


def _at_server(plan: Plan, name: str) -> str:
    address = plan.options.base_url
    return name if address is None else f"{name} at {address_of(address)}"


_FREE = Price(prompt=0, completion=0)


def prices_of(given: Sequence[str]) -> Prices | None:
    """The prices of `--price`: one for all models, or one for each; None without any. The local model is free.

    >>> from flowdebate.models.usage import Usage
    >>> prices = prices_of(["0.25/2"])
    >>> prices("openai/gpt-5-mini", Usage(calls=1, prompt_tokens=4_000, completion_tokens=500))
    0.002
    """
    found = [found for text in given if (found := PRICE.fullmatch(text)) is not None]
    table = {each["model"]: Price(prompt=float(each["prompt"]), completion=float(each["completion"])) for each in found}
    if not table:
        return None
    table = {"local": _FREE, **table}  # unless it was given a price of its own
    rest = table.pop(None, None)
    if rest is None:
        return table

    def price(model: str, usage: Usage) -> float:
        return table.get(model, rest).of(usage)

    return price
