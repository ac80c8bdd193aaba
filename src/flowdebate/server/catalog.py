"""Endpoints of what there is: patterns, models, and whether the server is up."""

from __future__ import annotations

import os
from collections.abc import Mapping  # noqa: TC003 - FastAPI reads the module's names
from typing import Any, ClassVar, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it

from flowdebate import __version__
from flowdebate.blocks.outline import outline
from flowdebate.models.local.gguf import local_model_state
from flowdebate.models.resolve import PROVIDERS, environment_choice
from flowdebate.patterns import PATTERNS, PatternInfo
from flowdebate.server.front import API, Front, FrontOf
from flowdebate.server.problems import responses
from flowdebate.server.requests import BeginBody  # noqa: TC001 - FastAPI reads it
from flowdebate.service.plans.options import option_of
from flowdebate.web.forms.written import as_curl, as_python, as_toml

router: APIRouter = APIRouter(tags=["server"])


class _Shown(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class PatternDescription(_Shown):
    """A pattern that runs can be started with."""

    name: str
    registered: bool = Field(description="Whether the application registered it; such a pattern has no options.")
    subject: str = Field(description="What its question is: a question, a topic, a proposition, a task, or an input.")
    help: str | None = None
    outline: str | None = Field(None, description="The steps of a registered pattern.")
    roster: str | None = Field(None, description="The option that lists who speaks.")
    options: dict[str, Any] | None = Field(None, description="The JSON Schema of its options.")


class ProviderState(_Shown):
    """A provider of models."""

    name: str
    key_variable: str | None = Field(description="The environment variable with its key; null where none is needed.")
    ready: bool = Field(description="Whether its key is set, or none is needed.")


class ModelsState(_Shown):
    """Models that runs can ask."""

    default: str | None = Field(description="The model of runs that name none; null where none is set up.")
    providers: list[ProviderState] = Field(description="Name a model as `provider/model`.")
    local: bool = Field(description="Whether the model `local` is installed.")


class WrittenRequest(_Shown):
    """A request to begin a run, as text for other places."""

    toml: str | None = Field(description="As a plan file; null for a pattern that the application registered.")
    python: str = Field(description="As a program.")
    curl: str = Field(description="As a line for the shell.")


class Health(BaseModel):
    """A server that is up."""

    status: Literal["ok"] = "ok"
    version: str = __version__


@router.get("/health", responses=responses())
async def health() -> Health:
    """Whether the server is up. Needs no token."""
    return Health()


@router.get("/patterns", responses=responses())
async def patterns(front: FrontOf) -> list[PatternDescription]:
    """List the patterns that runs can be started with, and their options."""
    own = front.service.patterns
    registered = [
        PatternDescription(name=name, registered=True, subject="input", outline=str(outline(block)))
        for name, block in own.items()
    ]
    built_in = PATTERNS.values() if front.service.plans else ()
    return [*registered, *(_built_in(info, front) for info in built_in if info.name not in own)]


@router.post("/plans", responses=responses())
async def write_plan(body: BeginBody, request: Request) -> WrittenRequest:
    """Write a request to begin a run as a plan file, as Python and as curl. Nothing begins, and nothing is checked."""
    return written(body.model_dump(by_alias=True, exclude_unset=True), request)


def written(body: Mapping[str, Any], request: Request) -> WrittenRequest:
    """A request to begin a run, in all its forms."""
    url = f"{str(request.base_url).rstrip('/')}{API}/runs"
    return WrittenRequest(toml=as_toml(body), python=as_python(body), curl=as_curl(body, url))


@router.get("/models", responses=responses())
async def models(front: FrontOf) -> ModelsState:
    """List which models can be asked, and whether their keys are set. Keys themselves are never shown."""
    state, chosen = local_model_state(), environment_choice()
    providers = [
        ProviderState(
            name=name, key_variable=each.key_env, ready=each.key_env is None or bool(os.environ.get(each.key_env))
        )
        for name, each in PROVIDERS.items()
    ]
    default = front.service.model_name or (None if chosen is None else chosen[0])
    return ModelsState(
        default=default, providers=providers, local=state["engine"] and (state["packages"] or state["path"] is not None)
    )


def _built_in(info: PatternInfo, front: Front) -> PatternDescription:
    options = info.load_page().options
    schema = options.model_json_schema(by_alias=True)
    for name, field in options.model_fields.items():
        key = field.alias or name
        if name in options.WITHOUT or name == info.subject or not front.may_be_given(options, name):
            del schema["properties"][key]
        else:
            schema["properties"][key]["description"] = option_of(options, name).help
    return PatternDescription(
        name=info.name,
        registered=False,
        subject=info.subject,
        help=info.help,
        roster=options.model_fields[options.ROSTER].alias or options.ROSTER,
        options=schema,
    )
