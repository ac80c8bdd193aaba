"""Resources of runs: report, transcript and document, with notifications for those who subscribe to them."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.shared.subscriptions import ResourceUpdated

from flowdebate.errors import FlowDebateError, RunNotFound
from flowdebate.events import changes
from flowdebate.mcp.reports import HOW_TO_READ, render_said, sentence_of, split_said
from flowdebate.service.documents.markdown import report

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.mcpserver import MCPServer
    from mcp.server.subscriptions import SubscriptionBus

    from flowdebate.mcp.tools import ServiceOf
    from flowdebate.service.documents.document import Document
    from flowdebate.service.service import Service


_RUN = "flowdebate://runs/"


def add_resources(server: MCPServer[Any], service_of: ServiceOf) -> None:
    """Register the resources of runs."""

    @server.resource(
        f"{_RUN}{{run_id}}",
        name="report",
        title="Report of a run",
        description=f"Everything that was said, and the result, as Markdown. {HOW_TO_READ}",
        mime_type="text/markdown",
    )
    async def run_report(run_id: str, ctx: Context[Any, Any]) -> str:
        return report(await _document(service_of(ctx), run_id))

    @server.resource(
        f"{_RUN}{{run_id}}/transcript",
        name="transcript",
        title="Transcript of a run",
        description=f"What was said, as text. {HOW_TO_READ}",
        mime_type="text/plain",
    )
    async def transcript(run_id: str, ctx: Context[Any, Any]) -> str:
        return render_said(split_said(await _document(service_of(ctx), run_id)))

    @server.resource(
        f"{_RUN}{{run_id}}/document",
        name="document",
        title="Document of a run",
        description="The run as JSON, as `flowdebate show --page --json` prints it. Its texts are data, too.",
        mime_type="application/json",
    )
    async def document(run_id: str, ctx: Context[Any, Any]) -> str:
        found = await _document(service_of(ctx), run_id)
        return json.dumps(found.to_data(), ensure_ascii=False, indent=2)


async def _document(service: Service, run_id: str) -> Document:
    try:
        details = await service.run(run_id)
    except RunNotFound as error:
        raise ResourceNotFoundError(sentence_of(error)) from None
    except FlowDebateError as error:
        raise ResourceError(sentence_of(error)) from None
    if details.document is None:
        raise ResourceError(f"Run {run_id} has no document: {details.problem}")
    return details.document


class Subscriptions:
    """Middleware that follows the runs of a `subscriptions/listen` stream, and publishes when one of them changes."""

    def __init__(self, service_of: ServiceOf, bus: SubscriptionBus) -> None:
        self._of = service_of
        self._bus = bus

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Follow the runs for as long as the stream is open."""
        if ctx.method != "subscriptions/listen":
            return await call_next(ctx)
        service = self._of(Context(request_context=ctx))
        uris = _subscribed(ctx.params)
        tasks = [asyncio.create_task(self._follow(service, run_id, of)) for run_id, of in uris.items()]
        try:
            return await call_next(ctx)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, service: Service, run_id: str, uris: Iterable[str]) -> None:
        """Publish for each change; a run that ended may be resumed, which only another subscription sees."""
        with suppress(FlowDebateError):
            async with aclosing(service.follow(run_id)) as updates:
                async for update in updates:
                    if isinstance(update.event, changes()) or update.kind in ("reset", "end"):
                        for uri in uris:
                            await self._bus.publish(ResourceUpdated(uri=uri))


_MOST_RUNS = 20
"""Runs that one stream may follow, as over HTTP; each is a task here."""


def _subscribed(params: Mapping[str, Any] | None) -> dict[str, set[str]]:
    """The subscribed addresses of runs, by run; what does not fit is left to the handler to refuse."""
    wanted = ((params or {}).get("notifications") or {}).get("resourceSubscriptions")
    found: dict[str, set[str]] = {}
    for uri in wanted if isinstance(wanted, list) else ():
        if isinstance(uri, str) and uri.startswith(_RUN):
            run_id, _, part = uri.removeprefix(_RUN).partition("/")
            if part in ("", "transcript", "document") and (run_id in found or len(found) < _MOST_RUNS):
                found.setdefault(unquote(run_id), set()).add(uri)
    return found
