"""Completion of values in a shell: models, patterns, and the ids of stored runs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import typer  # noqa: TC002 - typer reads the annotation

from flowdebate.service.documents.text import in_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_NEWEST = 50
"""Maximum number of runs that are offered."""


def completer_of(metavar: str | None, values: Sequence[str]) -> Callable[..., object] | None:
    """What typer calls to complete an option with this metavar, or one that must be among `values`."""
    if values:
        return lambda incomplete: [value for value in values if value.startswith(incomplete)]
    return _COMPLETERS.get(metavar or "")


def _models(incomplete: str) -> list[str]:
    """The local model, and the providers with a slash; the model's own name is typed."""
    from flowdebate.models.resolve import PROVIDERS

    return [name for name in ("local", *(f"{provider}/" for provider in PROVIDERS)) if name.startswith(incomplete)]


def _patterns(incomplete: str) -> list[tuple[str, str]]:
    from flowdebate.patterns import PATTERNS

    return [(name, info.help.partition(". ")[0]) for name, info in PATTERNS.items() if name.startswith(incomplete)]


def _runs(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The newest runs of the store that the command line names, each with its question."""
    from flowdebate.errors import FlowDebateError
    from flowdebate.service.runs import list_runs, opened, short_id

    with suppress(FlowDebateError, OSError), opened(ctx.params.get("store")) as place:
        runs = asyncio.run(list_runs(place.store, limit=_NEWEST))
        ids = [(short_id(run.header.run_id), in_line(run.header.question)) for run in runs]
        return [(run_id, question) for run_id, question in ids if run_id.startswith(incomplete)]
    return []


_COMPLETERS: dict[str, Callable[..., object]] = {"SPEC": _models, "PATTERN": _patterns, "RUN": _runs}
"""By the metavar of what is completed."""
