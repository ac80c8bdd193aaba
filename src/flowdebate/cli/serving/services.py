"""The service behind a server command: one of the application, or one made of the command's options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from flowdebate._util.load import load_object
from flowdebate.service.plans.options import COMMAND, Option, Text, misuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.service.service import Service


App: TypeAlias = Annotated[
    Text | None,
    Option(
        panel="Model",
        metavar="MODULE:OBJECT",
        help="A flowdebate.service.Service of yours, with patterns, model, store and limits, or a function that "
        "makes one. Modules are also looked for in the current folder.",
    ),
]


def check_app(app: str | None, given: Mapping[str, Any]) -> None:
    """ConfigurationError where options are given that a service of the application has by itself."""
    left = [f"--{name.replace('_', '-')}" for name, value in given.items() if value not in (None, [])]
    if app is not None and left:
        raise misuse(left[0], given, f"{', '.join(left)} and --app do not go together: the Service has its own.")


def service_of(app: str | None, store: str | None, given: Mapping[str, Any], *, recover: bool) -> Service:
    """The Service that `app` names, or one of `given`: `model`, `max_calls`, `max_tokens`, `max_seconds` and `price`.

    ConfigurationError for a name that is none, and for invalid options.
    """
    from flowdebate.runs.limits import Limits
    from flowdebate.service.plans.models import prices_of
    from flowdebate.service.service import Service

    if app is not None:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
        return load_object(app, Service, where=COMMAND, field="--app")
    limits = Limits(
        calls=given["max_calls"],
        tokens=given["max_tokens"],
        seconds=given["max_seconds"],
        prices=prices_of(given["price"] or ()),
    )
    return Service(store=store, model=given["model"], limits=limits or None, recover=recover)
