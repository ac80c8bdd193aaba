"""Models of a run as a front end shows them: which ones will be asked, for what, and at what price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.errors import FlowDebateError
from flowdebate.models.openai.endpoint import address_of
from flowdebate.models.resolve import ModelResolver, ModelSpec
from flowdebate.runs.limits import Price
from flowdebate.service.plans.options import PRICE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.models.usage import Usage
    from flowdebate.runs.limits import Prices
    from flowdebate.service.plans.plan import Plan


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
        chat, judging = (_named(plan, resolver, f"intent/{intent}") for intent in ("chat", "synthesize"))
        others = [(each.name, _named(plan, resolver, each.model)) for each in plan.speakers if each.model is not None]
    except FlowDebateError:  # the run says so itself, before its first call
        return ""
    roles: dict[str, list[str]] = {chat: []}
    if judging != chat:
        roles[judging] = ["moderator", "judge", "synthesizer"]
    for name, model in others:
        if model != chat:
            roles.setdefault(model, []).append(name)
    for key, role in (("panel", "panel of judges"), ("chair", "chair")):
        given = getattr(plan.options, key, None)
        for spec in [given] if isinstance(given, str) else given or []:
            roles.setdefault(_at_server(plan, spec), []).append(role)
    text = "; ".join(f"{', '.join(dict.fromkeys(who))}: {model}" if who else model for model, who in roles.items())
    after = f"; if it fails: {', '.join(map(_name, policies.fallback))}" if policies.fallback else ""
    return f"{'Model' if len(roles) == 1 else 'Models'}: {text}{after}"


def _named(plan: Plan, resolver: ModelResolver, spec: ModelSpec) -> str:
    name = resolver.resolve(spec).name
    if name == "local":
        from flowdebate.models.local.gguf import local_model_title

        return f"local ({local_model_title()}, on this machine)"
    return _at_server(plan, name)


def _at_server(plan: Plan, name: str) -> str:
    address = plan.options.base_url
    return name if address is None else f"{name} at {address_of(address)}"


def _name(spec: ModelSpec) -> str:
    return spec if isinstance(spec, str) else spec.name


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
    table = {"local": _FREE, **table}
    rest = table.pop(None, None)
    if rest is None:
        return table

    def price(model: str, usage: Usage) -> float:
        return table.get(model, rest).of(usage)

    return price
