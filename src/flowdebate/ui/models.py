"""Functions and classes that find a plan's models by name, apply policies to them, and list them with prices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate._text import counted
from flowdebate.chassis.seats import Seats
from flowdebate.errors import ConfigurationError, FlowDebateError
from flowdebate.models.base import IMAGE_TOKENS, Model, Usage, estimate_tokens
from flowdebate.models.openai.endpoint import address_of
from flowdebate.models.providers import PROVIDERS
from flowdebate.models.resolve import (
    EACH,
    ModelResolver,
    ModelSpec,
    full_name,
    list_available_models,
    maker_of,
    vendor_of,
    with_maker,
)
from flowdebate.runs.limits import Price, Prices
from flowdebate.sources.source import omissions
from flowdebate.ui.options import PRICE, PlanOptions
from flowdebate.ui.text import models_text

if TYPE_CHECKING:
    from flowdebate.ui.plan import Plan


PlanT = TypeVar("PlanT", bound="Plan")


FORWARDED: ContextVar[bool] = ContextVar("forwarded", default=False)
"""True while handling a request that came through a proxy or tunnel, and may therefore come from another user."""


@dataclass(frozen=True)
class AllowedModels:
    """Models that a service allows its callers to use."""

    patterns: tuple[str, ...] = ()
    """Patterns for the names of allowed models, such as "openai/*"; if empty, only the configured models
    are allowed.
    """
    service_model: str | None = None
    """The service's own model."""
    providers: bool = False
    """True if requests that did not pass through a proxy may use any model from a configured provider."""

    @property
    def names(self) -> list[str]:
        """Names and name patterns of the allowed models."""
        default_names = [self.service_model] if self.service_model not in (None, EACH) else []
        models = () if self.patterns else list_available_models()
        every = [f"{name}/*" for name in dict.fromkeys(map(vendor_of, models)) if name in PROVIDERS]
        allowed = [*default_names, *(self.patterns or models), *(every if self._is_payer else ())]
        return list(dict.fromkeys(map(with_maker, allowed)))

    @property
    def _is_payer(self) -> bool:
        """True if the sender of the request also pays for it, as on a user's own server with no proxy in front."""
        return self.providers and not FORWARDED.get()

    def _hint(self, model: str) -> str:
        """Explain how to configure the service so that a rejected model is allowed."""
        provider = PROVIDERS.get(vendor_of(model))
        if provider is None:
            return "Name it as provider/model"
        if self._is_payer and provider.key_env is not None:
            return f"Set {provider.key_env} and start the server again to use its models"
        return f'Start the server with --allow-model "{vendor_of(model)}/*" to allow it'

    def default_models(self) -> list[str]:
        """Return each configured vendor's default model or, if that is not allowed, its first allowed model.

        The result is what "each" stands for. Only models allowed by name, rather than by a pattern, can replace a
        default. Vendors without a replacement are left out; if this leaves out all configured vendors, raises
        ConfigurationError.
        """
        names, installed = self.names, list_available_models()
        listed = {vendor_of(name): name for name in reversed(names) if not set(name) & {*"*?["}}
        allowed = [name if _matches(name, names) else listed.get(vendor_of(name)) for name in installed]
        if installed and not any(allowed):
            problem = f'cannot be "each": no provider of an allowed model is configured ({", ".join(names)})'
            raise ConfigurationError("options", "model", None, problem)
        return [name for name in allowed if name is not None]

    def check(self, options: PlanOptions, *more_models: str) -> None:
        """Raise ConfigurationError if the options or `more_models` include a model that is not allowed."""
        if options.base_url is not None and not self.patterns:
            return  # without name patterns, any model at the base URL is allowed
        at_address = options.base_url is not None  # model names at a base URL do not include a provider
        allowed = [*self.patterns] if at_address else self.names
        for name, models in {**options.reached("model"), "": more_models}.items():
            for model in models:
                spelled = model if at_address else full_name(model, "options", name or "model")
                if model != EACH and not _matches(spelled, allowed):
                    listed = ", ".join(allowed) or "none, because no model is set up"
                    place = name or "model"
                    for at, seat in enumerate(getattr(options, name) or () if name == options.ROSTER else ()):
                        place = f"{name}[{at}].model" if seat.model == model else place
                    problem = f"must be a model that this server allows: {listed}"
                    raise ConfigurationError("options", place, model, problem, hint=self._hint(spelled))


def _matches(model: str, names: Sequence[str]) -> bool:
    return any(fnmatchcase(model, name) for name in names)


class Models:
    """Model lookup by name; at a base URL, each name has a single model object, so its connections are shared."""

    def __init__(
        self, base_url: str | None, allowed: AllowedModels | None = None, *, without: Sequence[str] = ()
    ) -> None:
        self._base_url = base_url
        self._allowed = allowed
        self._without = without
        self._made: dict[str, Model | str] = {}

    def find(self) -> list[str]:
        """Find the models that "each" stands for, except those from excluded vendors."""
        if self._allowed is None:
            return list_available_models(without=self._without)
        excluded = set(map(maker_of, self._without))
        return [name for name in self._allowed.default_models() if maker_of(name) not in excluded]

    def missing(self, option: str, base_url_option: str, *, seats: Sequence[str] = ()) -> str:
        """Explain that the base URL requires a model name (for `seats`, if given), and list the available names.

        The server is queried only for users allowed to enter any URL; otherwise, callers could probe this machine's
        network.
        """
        from flowdebate.models.openai.endpoint import address_of
        from flowdebate.models.resolve import models_at

        base_url = self._base_url or ""
        names = models_at(base_url) if self._allowed is None else ()
        which = f" It has: {_few(names)}." if names else ""
        of = f", for {', '.join(seats)}" if seats else ""
        return (
            f"{option} is required with {base_url_option}{of}: "
            f"specify a model on the server at {address_of(base_url)}.{which}"
        )

    def __call__(self, spec: str, location: str, field: str) -> Model | str:
        """Return the model with this name; raise ConfigurationError for an unknown name."""
        from flowdebate.models.openai.model import OpenAIModel
        from flowdebate.models.resolve import check_model

        if self._base_url is None:
            check_model(spec, location=location, field=field)
            return spec  # keep the name: the run creates one model and shares it among its seats
        if spec == "local":
            raise ConfigurationError(
                location, field, spec, "cannot be local if a base URL is set: specify a model on that server"
            )
        if spec not in self._made:
            self._made[spec] = OpenAIModel(spec, base_url=self._base_url)
        return self._made[spec]


@dataclass(frozen=True, kw_only=True)
class Policies:
    """Policies for all models in a plan."""

    attempts: int | None = None
    """Maximum number of attempts per call; None for the model's default."""
    fallback: tuple[Model | str, ...] = ()
    record: str | None = None
    replay: str | None = None
    """Path of a recording to replay instead of calling models."""
    effort: Seats | None = None
    """Thinking effort for each seat's model."""


def with_policies(plan: PlanT, *, recording: bool = True) -> PlanT:
    """Return `plan` with its policies applied to every model, and with no policies left to apply.

    With `recording=False`, nothing is recorded; use this for runs that may be resumed, because an interrupted recording
    cannot be continued.
    """
    from flowdebate.models.wrapper import Thinking

    policies = plan.policies
    if policies == Policies():
        return plan

    def meant(intent: str) -> Model | str:
        return (plan.models or {}).get(intent, plan.first or f"intent/{intent}")

    if policies.replay is not None:
        make = _replay(policies.replay, meant("chat"))
    else:
        make = _apply(policies)
        if policies.record is not None and recording:
            make = _record(make, make(meant("chat")), policies.record)
    efforts = policies.effort or Seats()

    def with_effort(spec: Model | str, seat: str, intent: str) -> Model:
        effort: Any = _effort_of(efforts, seat, intent)
        return make(spec) if effort is None else Thinking(make(spec), effort)

    speakers = tuple(
        replace(speaker, model=with_effort(speaker.model or meant("chat"), speaker.name, "chat"))
        if speaker.model is not None or speaker.name in efforts.members
        else speaker
        for speaker in plan.speakers
    )
    models = {intent: with_effort(meant(intent), intent, intent) for intent in ("chat", "synthesize")}
    seats = {
        role: with_effort(plan.seats.get(role, meant("synthesize")), role, "synthesize")
        for role in {**plan.seats, **efforts.roles}
    }
    return replace(
        plan,
        models=models,
        seats=seats,
        speakers=speakers,
        policies=Policies(),
        apply=lambda model: with_effort(model, "chat", "chat"),
    )


def _effort_of(efforts: Seats, seat: str, intent: str) -> str | None:
    """Return the thinking effort of the model in a seat, or None if it is not set."""
    rest: Any = efforts.rest
    efforts_by_seat = {**(rest if isinstance(rest, Mapping) else {intent: rest}), **efforts.roles, **efforts.members}
    effort: str | None = efforts_by_seat.get(seat, efforts_by_seat.get(intent))
    return effort


def _apply(policies: Policies) -> Callable[[Model | str], Model]:
    """Create a function that adds retries and fallbacks to a model; a given name always yields the same object."""
    from flowdebate.models.call import Retry
    from flowdebate.models.resolve import resolve_model
    from flowdebate.models.wrapper import Fallback, Retrying

    made_models: dict[Model | str, Model] = {}

    def make(spec: Model | str) -> Model:
        if spec not in made_models:
            models = [resolve_model(spec_or_model) for spec_or_model in (spec, *policies.fallback)]
            if policies.attempts is not None:
                models = [Retrying(model, Retry(attempts=policies.attempts)) for model in models]
            made_models[spec] = models[0] if len(models) == 1 else Fallback(*models)
            made_models[made_models[spec]] = made_models[spec]  # prevents wrapping a model twice
        return made_models[spec]

    return make


_CURRENT_MODEL: ContextVar[Model] = ContextVar("asked")
"""Model that the shared recording model should call; a context variable, because concurrent calls use
different models.
"""


def _record(factory: Callable[[Model | str], Model], first: Model, path: str) -> Callable[[Model | str], Model]:
    """Create a function that makes models record their answers in a single file under the `first` model's name."""
    from flowdebate.models.call import answer
    from flowdebate.models.recording import RecordingModel
    from flowdebate.models.wrapper import Wrapper

    if TYPE_CHECKING:
        from flowdebate.models.base import ModelRequest, ModelResponse

    class CurrentModel(Wrapper):
        """Model that forwards each call to the intended model."""

        async def request(self, request: ModelRequest, /) -> ModelResponse:
            return await answer(_CURRENT_MODEL.get(), request)

    class Through(Wrapper):
        """Model whose calls go through the shared recording model."""

        async def request(self, request: ModelRequest, /) -> ModelResponse:
            before = _CURRENT_MODEL.set(self.inner)
            try:
                return await answer(recording, request)
            finally:
                _CURRENT_MODEL.reset(before)

    recording = RecordingModel(CurrentModel(first), path)
    through: dict[Model, Model] = {}

    def make(spec: Model | str) -> Model:
        model = factory(spec)
        return through.setdefault(model, Through(model))

    return make


def _replay(path: str, first: Model | str) -> Callable[[Model | str], Model]:
    """Create a function that makes models replay their answers from a single recording.

    The `first` model has the recording's name. The others keep their own names, because patterns check which model
    answered: for example, a review confirms findings reported by two models.
    """
    from flowdebate.models.recording import ReplayModel
    from flowdebate.models.wrapper import Wrapper

    if TYPE_CHECKING:
        from flowdebate.models.base import ModelRequest, ModelResponse

    class Seat(Wrapper):
        """Recording replayed under another model's name."""

        def __init__(self, title: str) -> None:
            super().__init__(replayed)
            self._title = title

        @property
        def name(self) -> str:
            return self._title

        async def request(self, request: ModelRequest, /) -> ModelResponse:
            return await self.ask(request)

    replayed = ReplayModel(path)
    seats: dict[str, Model] = {first if isinstance(first, str) else first.name: replayed}

    def make(spec: Model | str) -> Model:
        name = spec if isinstance(spec, str) else spec.name
        if name not in seats and not name.startswith("intent/"):
            seats[name] = Seat(name)
        return seats.get(name, replayed)

    return make


# Presentation in front ends


def models_line(plan: Plan, *, environment: str | None = None) -> str:
    """List the models for a run of `plan`, with seats if the models differ; return "" if a seat has no valid model.

    `environment` is the default model of a resumed run.

    >>> from flowdebate.patterns import PATTERNS
    >>> from flowdebate.ui.plan import make_plan
    >>> given = {"question": "Rent?", "debaters": ["Ann=Cap", "Ben=Free"], "model": ["local", "judge=openai/gpt-5"]}
    >>> models_line(make_plan(PATTERNS["debate"], {**given, "model": ["openai/gpt-5-mini", "judge=openai/gpt-5"]}))
    'Models: openai/gpt-5-mini (Ann, Ben, synthesizer); openai/gpt-5 (judge)'
    >>> models_line(make_plan(PATTERNS["debate"], {**given, "model": ["openai/gpt-5"]}))
    'Model: openai/gpt-5 everywhere; see “One model everywhere” on the page “Models” of the documentation'
    """
    policies = plan.policies
    if policies.replay is not None:
        return f"Model: none; answers come from the recording {policies.replay}"
    try:
        seats = seat_titles(plan, environment=environment)
    except FlowDebateError:  # the run itself reports the error before its first call
        return ""
    fallback = ", ".join(model if isinstance(model, str) else model.name for model in policies.fallback)
    after = f"; if it fails: {fallback}" if fallback else ""
    return f"{models_text(seats)}{after}"


def seat_titles(plan: Plan, *, environment: str | None = None) -> dict[str, str]:
    """Describe the model in each seat, keyed by speaker name or role; raise the same errors as a run's first call."""
    resolver = ModelResolver(plan.models, environment=environment)

    def intent_of(seat: str) -> str:
        return "synthesize" if seat in plan.options.roles else "chat"

    options, people = plan.options, getattr(plan.options, "humans", None) or ()
    chat = _title(plan, resolver, "intent/chat")
    members = {speaker.name: speaker.model for speaker in plan.speakers} or {f"{options.SPEAKER}s": None}
    seats = {
        name: chat if member_model is None else _title(plan, resolver, member_model)
        for name, member_model in members.items()
    }
    for role in options.roles:
        panel = getattr(options, "panel", None) if role == "judge" else None
        panel_titles = [_at_server(plan, panel_model) for panel_model in panel or ()]
        seats[role] = ", ".join(panel_titles) or _title(plan, resolver, plan.seats.get(role, "intent/synthesize"))
    effort_by_seat = {
        seat: plan.policies.effort and _effort_of(plan.policies.effort, seat, intent_of(seat)) for seat in seats
    }
    return {
        seat: f"{model}, effort {effort_by_seat[seat]}" if effort_by_seat[seat] else model
        for seat, model in seats.items()
        if seat not in people
    }


def _title(plan: Plan, resolver: ModelResolver, spec: ModelSpec) -> str:
    name = resolver.resolve(spec, (plan.first,)).name
    if name == "local":
        from flowdebate.models.local.gguf import local_model_title

        return f"local ({local_model_title()}, on this machine)"
    provider = PROVIDERS.get(name.partition("/")[0])
    if provider is not None and provider.key_env is None and plan.options.base_url is None:
        return f"{name} (a server on this machine, at {address_of(str(provider.address(name.partition('/')[0])))})"
    return _at_server(plan, name)


def _at_server(plan: Plan, name: str) -> str:
    address = plan.options.base_url
    return name if address is None else f"{name} at {address_of(address)}"


_MAX_NAMED = 8
"""Maximum number of sources, or of omitted files, listed on one line."""


def sources_lines(plan: Plan) -> list[str]:
    """Describe the sources sent with each call and those omitted; return no lines if there are no sources."""
    read = [source for source in plan.sources if source.left_out is None]
    if not read:
        return []
    tokens = [IMAGE_TOKENS if source.image else estimate_tokens(len(source.text)) for source in read]
    source_lines = [
        f"{source.name} ({counted(len(source.pages), 'page') + ', ' if source.pages else ''}"
        f"{'image, ' if source.image else ''}{count:,} tokens{', ' + source.masked if source.masked else ''})"
        for source, count in zip(read, tokens, strict=True)
    ]
    from flowdebate.chassis.material import SOURCE_TOKENS
    from flowdebate.sources.quotes import divide

    omitted = omissions(plan.sources)
    line = f"Sources: {_few(source_lines)}"
    if len(read) > 1:
        line += f"; together {sum(tokens):,} tokens"
    source_limit = plan.options.source_tokens
    how = "go to the model with each turn"
    if sum(tokens) > (source_limit or SOURCE_TOKENS):
        limit = f"{source_limit or SOURCE_TOKENS:,}"
        how = f"are more than a prompt can hold ({limit}): each turn gets the most relevant passages"
        if plan.info.load_page().divides_sources:
            parts = divide(tuple(read), (source_limit or SOURCE_TOKENS) * 4)
            how = f"are read in {counted(len(parts), 'part')}: each reviewer is asked about each part"
    lines = [f"{line}, estimated, which {how}", *([f"Left out: {_few(omitted)}"] if omitted else [])]
    return [*(f"Compared: {text}" for text in dict.fromkeys(source.commits for source in read) if text), *lines]


def _few(texts: Sequence[str]) -> str:
    more = len(texts) - _MAX_NAMED
    return ", ".join(texts[:_MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")


_FREE = Price(prompt=0, completion=0)


def prices_of(texts: Sequence[str]) -> Prices | None:
    """Parse the values of `--price`: one price for all models, or one per model; return None if not set.

    The local model is free.

    >>> from flowdebate.models.base import Usage
    >>> prices = prices_of(["0.25/2"])
    >>> prices("openai/gpt-5-mini", Usage(calls=1, prompt_tokens=4_000, completion_tokens=500))
    0.002
    """
    match = [match for text in texts if (match := PRICE.fullmatch(text)) is not None]
    table = {row["model"]: Price(prompt=float(row["prompt"]), completion=float(row["completion"])) for row in match}
    if not table:
        return None
    rest = table.pop(None, None)
    table |= {full: price for name, price in table.items() if (full := with_maker(str(name))) not in table}
    table = {"local": _FREE, **table}  # free unless the user sets a price
    if rest is None:
        return table

    def price(model: str, usage: Usage) -> float:
        return table.get(model, rest).of(usage)

    return price
