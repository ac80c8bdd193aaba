"""`flowdebate serve`: runs over HTTP, for programs and for a browser."""

from __future__ import annotations

import asyncio
import secrets
import webbrowser
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from flowdebate._util.validation import check_library
from flowdebate.cli import options as opt
from flowdebate.cli.serving.services import App, check_app, service_of
from flowdebate.cli.terminal.process import tell
from flowdebate.errors import BadFile
from flowdebate.service.plans.files import read_text
from flowdebate.service.plans.options import FilePath, Option, Text, misuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.service.service import Service


_PORT, _MOST = 8377, 65_535
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - addresses that are compared with
_SHORTEST = 16
"""Characters of a token."""


@opt.command("model", "max_calls", "max_tokens", "max_seconds", "price")
def serve(  # noqa: PLR0913 - the options of the command
    *,
    app: App = None,
    port: Annotated[int, Option(metavar="N", help="Port to listen on; 0 takes a free one.")] = _PORT,
    host: Annotated[
        Text | None,
        Option(metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1. Any other needs --token-file."),
    ] = None,
    allow_host: Annotated[
        list[Text] | None, Option(metavar="NAME", help="Host name that this server answers to; repeat for each.")
    ] = None,
    allow_base_url: Annotated[
        list[Text] | None,
        Option(metavar="URL", help="Base URL that the options of runs may name; repeat for each. Default: none."),
    ] = None,
    token_file: Annotated[
        FilePath | None,
        Option(metavar="FILE", help="File with the token that requests need. Default: a new one for each start."),
    ] = None,
    read_only: Annotated[bool, Option(help="Show runs, but begin, change and delete none.")] = False,
    openai: Annotated[
        bool,
        Option(help="Also answer as an OpenAI-compatible server at /v1, whose models are the patterns."),
    ] = False,
    ag_ui: Annotated[bool, Option(help="Also answer AG-UI clients, at /ag-ui/PATTERN.")] = False,
    open_: Annotated[bool, Option(flag="--open", help="Open the list of runs in a browser.")] = False,
    store: opt.StoreName = None,
    **given: object,
) -> None:
    """Serve runs over HTTP: begin, follow, answer and read them from programs or a browser.

    The address, with the token that it needs, is printed once. Limits are upper bounds of every run.
    """
    check_library("flowdebate serve", "fastapi", library="FastAPI", extra="server")
    check_library("flowdebate serve", "uvicorn", library="uvicorn", extra="server")
    if ag_ui:
        check_library("flowdebate serve --ag-ui", "ag_ui", library="ag-ui-protocol", extra="ag-ui")
    opt.check(0 <= port <= _MOST, "--port", port, f"an int from 0 to {_MOST}")
    address = host or _LOOPBACK[0]
    if address not in _LOOPBACK and token_file is None:
        raise misuse(
            "--token-file",
            None,
            f"--host {address} opens this server to other machines: whoever has its token can read and begin runs. "
            "Give it a token of its own with --token-file FILE.",
        )
    check_app(app, {**given, "store": store})
    server = _Server(
        host=address,
        port=port,
        token=secrets.token_urlsafe(32) if token_file is None else _token_in(token_file),
        token_file=token_file,
        allow_hosts=tuple(allow_host or ()),
        allow_base_urls=tuple(allow_base_url or ()),
        read_only=read_only,
        openai=openai,
        ag_ui=ag_ui,
        opens=open_,
    )
    asyncio.run(server.run(lambda: service_of(app, store, given, recover=not read_only)))


@dataclass(frozen=True, kw_only=True)
class _Server:
    """A server, as it was asked for."""

    host: str
    port: int
    token: str
    token_file: str | None
    allow_hosts: tuple[str, ...]
    allow_base_urls: tuple[str, ...]
    read_only: bool
    openai: bool
    ag_ui: bool
    opens: bool

    async def run(self, make: Callable[[], Service]) -> None:
        """Serve until a signal arrives."""
        from flowdebate.server import create_app
        from flowdebate.server.serve import serve as serve_app

        own = () if self.host in _ANYWHERE else (f"[{self.host}]" if ":" in self.host else self.host,)
        application = create_app(
            make(),
            token=self.token,
            allow_hosts=(*own, *self.allow_hosts),
            allow_base_urls=self.allow_base_urls,
            read_only=self.read_only,
            openai=self.openai,
            ag_ui=self.ag_ui,
        )
        await serve_app(application, host=self.host, port=self.port, started=self._started)

    def _started(self, address: str, _: object) -> None:
        url = f"{address}?token={self.token}"
        tell(f"Serving {url}" if self.token_file is None else f"Serving {address} with the token of {self.token_file}")
        if self.host not in _LOOPBACK:
            names = ", ".join(self.allow_hosts) or "no name but that of this machine: add --allow-host NAME"
            what = "read all runs" if self.read_only else "read all runs and begin others"
            tell(f"Open to other machines, unencrypted: whoever has the token can {what}. It answers to {names}")
        if self.opens:
            webbrowser.open(url)


def _token_in(path: str) -> str:
    """The token in a file; BadFile for what is none."""
    token = read_text(path, megabytes=1).strip()
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise BadFile(path, f"must hold one token of at least {_SHORTEST} ASCII letters, digits or signs")
    return token
